"""Loading the model to train, choosing what of it is trained, and saying so."""

from __future__ import annotations

import copy
import importlib.util
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState
from torch import nn
from transformers import GenerationConfig
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled, unset_hf_deepspeed_config

from umu_tasks.backend.arguments import BackendArguments
from umu_tasks.backend.checkpoint import CheckpointError, load_checkpoint
from umu_tasks.backend.prompting import PromptBuilder, PromptStyle
from umu_trainers.merging import merge, replace_adapter

if TYPE_CHECKING:
    from peft import LoraConfig

# Last names under which the model families keep each part. A projector may lie inside the tower (Qwen2.5-VL's merger).
PARTS: dict[str, tuple[str, ...]] = {
    "language_model": ("language_model", "text_model"),
    "projector": ("multi_modal_projector", "connector", "merger"),
    "vision_tower": ("vision_tower", "visual", "vision_model"),
}
MINI = "mini"
ADAPTER_WEIGHT = ".lora_"  # in the name of every adapter weight
ADAPTER = "default"  # peft's name for the adapter that is trained and saved
STARTING_ADAPTER = "reference"  # beside it: the adapter that training started from, frozen
QUANTIZATIONS = ("4bit", "8bit")


@dataclass(frozen=True)
class Start:
    """Where training starts.

    Attributes:
        model: the base or target model; a `PeftModel` when it starts from an adapter that is trained on.
        builder: the prompt builder with its processor.
        checkpoint: absolute folder or hub id of the full weights.
        adapter: absolute folder of the adapter that is trained on, None without one.
    """

    model: Any
    builder: PromptBuilder
    checkpoint: str
    adapter: str | None


def load_start(
    spec: str,
    *,
    use_lora: bool,
    dtype: str = "float32",
    prompt: PromptStyle | None = None,
    attn_implementation: str | None = None,
    trust_remote_code: bool = False,
    quantization: str | None = None,
    option: str = "model",
) -> Start:
    """Load the model and processor that training starts from, with the checks that evaluation makes too.

    Args:
        spec: hub id, checkpoint folder, adapter folder, or ``mini``.
        use_lora: keep an adapter folder's adapter and train it on; False merges it into the weights.
        dtype: type the weights are held in.
        prompt: prompt style; None takes the model family's.
        quantization: hold the weights in fewer bits, one of `QUANTIZATIONS`.
        option: the setting that names the model, for messages.

    Raises:
        ValueError: no such folder, no weights in it, or a model that takes no images; says what to give instead.
    """
    arguments = BackendArguments(
        pretrained=resolve_checkpoint(spec),
        prompt=prompt,
        dtype=dtype,
        attn_implementation=attn_implementation,
        trust_remote_code=trust_remote_code,
    )
    try:
        fewer_bits = quantization_config(quantization, dtype) if quantization else None
        device = PartialState().device if fewer_bits else _loading_device()
        opened = load_checkpoint(arguments, device, quantization=fewer_bits)
    except CheckpointError as error:
        raise ValueError(f"--{option} {spec}: {error}") from error
    model, location = opened.model, opened.location
    model.generation_config = _generation_config(location.base, model.config)
    if location.adapter is not None:
        model = _train_on(model) if use_lora else _merged(model, spec)
    return Start(model, opened.builder, location.base, location.adapter if use_lora else None)


def quantization_config(quantization: str, dtype: str) -> Any:
    """Return transformers' config of a quantization; computing stays in `dtype`.

    Raises:
        ValueError: bitsandbytes is not installed, or ZeRO-3 would divide weights that cannot be divided.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ValueError(f"--quantization {quantization}: needs bitsandbytes. Install it: pip install bitsandbytes")
    if is_deepspeed_zero3_enabled():
        raise ValueError(f"--quantization {quantization}: not with ZeRO-3. Use zero2.yaml or ddp.yaml.")
    from transformers import BitsAndBytesConfig

    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, dtype),
    )


def _loading_device() -> torch.device:
    """Return the CPU, from which a trainer moves the model to where it trains; under ZeRO-3 that place at once.

    ZeRO-3 divides weights while they are loaded, and gathers them for a pass on the device their modules are on.
    """
    return PartialState().device if is_deepspeed_zero3_enabled() else torch.device("cpu")


def resolve_checkpoint(spec: str) -> str:
    """Return an absolute folder for a folder or ``mini``; anything else unchanged.

    Absolute, because an adapter's config records the path of its base and is opened from anywhere.
    """
    if spec == MINI:
        from umu_tasks.mini import base_model_dir

        return str(base_model_dir())
    path = Path(spec).expanduser()
    return str(path.resolve()) if path.is_dir() else spec


def _generation_config(checkpoint: str, config: Any) -> GenerationConfig:
    """Return the checkpoint's own generation config, to be saved unchanged; loading for evaluation replaces it."""
    try:
        return GenerationConfig.from_pretrained(checkpoint)
    except OSError:
        return GenerationConfig.from_model_config(config)


def _train_on(model: Any) -> Any:
    """Let the weights of a loaded adapter be trained."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(ADAPTER_WEIGHT in name)
        if parameter.requires_grad and is_deepspeed_zero3_enabled():
            parameter.data = parameter.data.to(model.dtype)  # weights of two types cannot be gathered together
    for config in model.peft_config.values():
        config.inference_mode = False
    return model


def _merged(model: Any, spec: str) -> Any:
    if is_deepspeed_zero3_enabled():
        raise ValueError(
            f"--model {spec}: an adapter cannot be merged into weights that ZeRO-3 divides between processes. Merge it "
            "first (merge_adapter: true where it was trained), or train on with LoRA."
        )
    return merge(model, PartialState().device)


def keep_starting_adapter(model: Any) -> None:
    """Put a frozen copy of a `PeftModel`'s adapter beside it, as `STARTING_ADAPTER`."""
    model.add_adapter(STARTING_ADAPTER, copy.deepcopy(model.peft_config[ADAPTER]))
    named = dict(model.named_parameters())
    for name, parameter in named.items():
        if ADAPTER_WEIGHT in name and f".{ADAPTER}" in name:
            kept = named[name.replace(f".{ADAPTER}", f".{STARTING_ADAPTER}")]
            kept.data = parameter.detach().clone()
            kept.requires_grad_(False)


def save_adapter(model: Any, folder: Path, state_dict: dict[str, Any] | None = None) -> None:
    """Write the trained adapter of a `PeftModel`, whole, with a card that says no more than is known.

    Args:
        state_dict: gathered weights, where processes hold parts of them.

    Raises:
        RuntimeError: a tensor of it would be written empty.
    """
    from peft import get_peft_model_state_dict

    weights = get_peft_model_state_dict(model, state_dict=state_dict, adapter_name=ADAPTER)
    empty = [name for name, one in weights.items() if not one.numel()]
    if empty or not weights:
        raise RuntimeError(f"{folder}: {len(empty)} of {len(weights)} adapter tensors are empty; nothing was written.")
    model.save_pretrained(folder, state_dict=state_dict, selected_adapters=[ADAPTER])
    (folder / "README.md").write_text(_CARD.format(base=model.peft_config[ADAPTER].base_model_name_or_path))


def merge_saved_adapter(folder: Path, args: Any) -> None:
    """Turn a saved adapter's folder into a whole model's, on one process.

    From the files: in training the base may be divided between processes, or held in fewer bits.
    """
    unset_hf_deepspeed_config()
    merged = load_start(
        str(folder),
        use_lora=False,
        dtype=args.weights_dtype,
        prompt=args.prompt,
        trust_remote_code=args.trust_remote_code,
    ).model
    replace_adapter(folder, merged)


_CARD = """# Adapter

LoRA weights on `{base}`, written by umu-bench. `training_record.json` beside them (once training has ended) says what
they were trained on and how. They have not been evaluated yet:

    lmms-eval --model umu_hf --model_args pretrained=THIS_FOLDER --tasks umu05
"""


# ---- parts ---------------------------------------------------------------------------------------------------------


def find_parts(model: nn.Module) -> dict[str, str]:
    """Return module name -> part for the outermost modules of each part, full names; the output head counts as
    language.

    Raises:
        ValueError: a model with a part that has none of the known names.
    """
    found: dict[str, str] = {}
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        inside = part_of(name, found)
        for part, names in PARTS.items():
            if last in names and inside != part and not (inside == "vision_tower" and part == "language_model"):
                found[name] = part
        if module is model.get_output_embeddings():  # type: ignore[operator]
            found[name] = "language_model"
    missing = [part for part in PARTS if part not in found.values()]
    if missing:
        raise ValueError(f"{type(model).__name__}: no module found for {', '.join(missing)}. Add its name to PARTS.")
    return found


def part_of(name: str, parts: dict[str, str]) -> str | None:
    """Return the part that a module or parameter belongs to, by the innermost enclosing module of `parts`."""
    owners = [prefix for prefix in parts if name == prefix or name.startswith(f"{prefix}.")]
    return parts[max(owners, key=len)] if owners else None


def train_parts(model: nn.Module, train: Collection[str]) -> None:
    """Let the parameters of the chosen parts be trained, all of them, and freeze the rest."""
    parts = find_parts(model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part_of(name, parts) in train)


def lora_targets(model: nn.Module, train: Collection[str], modules: Collection[str] | None = None) -> list[str]:
    """Return the full names of the linear layers in the chosen parts, the output head left out.

    Args:
        modules: last names to keep (``q_proj`` …); None keeps all.

    Raises:
        ValueError: a last name that no layer of these parts has.
    """
    parts = find_parts(model)
    head = model.get_output_embeddings()  # type: ignore[operator]
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head and part_of(name, parts) in train
    ]
    present = {name.rpartition(".")[2] for name in names}
    unknown = set(modules or ()) - present
    if unknown:
        raise ValueError(
            f"--lora_modules {' '.join(sorted(unknown))}: no such linear layer in {', '.join(train)}. "
            f"Choose from: {', '.join(sorted(present))}."
        )
    return [name for name in names if modules is None or name.rpartition(".")[2] in modules]


def suffix_targets(model: nn.Module, suffixes: Collection[str]) -> list[str]:
    """Return the full names of all linear layers whose last name is one of these, in whatever part they are.

    Raises:
        ValueError: a name that no linear layer has.
    """
    head = model.get_output_embeddings()  # type: ignore[operator]
    names = [name for name, one in model.named_modules() if isinstance(one, nn.Linear) and one is not head]
    present = {name.rpartition(".")[2] for name in names}
    if unknown := set(suffixes) - present:
        raise ValueError(
            f"--lora_target_modules {' '.join(sorted(unknown))}: no such linear layer. Choose from: "
            f"{', '.join(sorted(present))}."
        )
    return [name for name in names if name.rpartition(".")[2] in suffixes]


def lora_config(model: nn.Module, train: Collection[str], settings: Any) -> LoraConfig:
    """Return the adapter config of the settings `lora_*`.

    The targets go in as one pattern of full names. A list would be stored as suffixes such as ``q_proj``, which match
    the vision tower's layers as well.
    """
    from peft import LoraConfig

    if settings.lora_target_modules is not None:
        targets = suffix_targets(model, settings.lora_target_modules)
    else:
        targets = lora_targets(model, train, settings.lora_modules)
    return LoraConfig(
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        init_lora_weights="gaussian" if settings.lora_init == "gaussian" else True,
        use_dora=settings.use_dora,
        target_modules=name_pattern(targets),
        task_type="CAUSAL_LM",
    )


def name_pattern(names: Collection[str]) -> str:
    """Return a regular expression that matches exactly these module names, layer numbers apart.

    >>> name_pattern(["model.layers.0.q_proj", "model.layers.1.q_proj"])
    'model\\\\.layers\\\\.\\\\d+\\\\.q_proj'
    """
    shapes = {re.sub(r"\.\d+(?=\.|$)", ".#", name) for name in names}
    return "|".join(re.escape(shape).replace(r"\#", r"\d+") for shape in sorted(shapes))


# ---- what is trained -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """What of a model is trained.

    Attributes:
        modules: full names of the modules whose own parameters are trained; the adapted layers under LoRA.
        parameters, total: numbers of parameters.
    """

    modules: tuple[str, ...]
    parameters: int
    total: int
    is_lora: bool

    def __str__(self) -> str:
        shapes = sorted({re.sub(r"\.\d+(?=\.|$)", ".*", name) for name in self.modules})
        kind = "LoRA adapters on" if self.is_lora else "all weights of"
        share = self.parameters / self.total
        lines = "".join(f"\n  {shape}" for shape in shapes)
        return (
            f"Trained: {kind} {len(self.modules)} modules, {self.parameters:,} of {self.total:,} parameters "
            f"({share:.2%}):{lines}"
        )


def describe_trained(model: nn.Module) -> Trained:
    """Return what is trained, read off the model itself (`requires_grad`)."""
    # Under ZeRO-3 a parameter is an empty shard that knows its own size.
    sizes = {name: getattr(one, "ds_numel", one.numel()) for name, one in model.named_parameters()}
    trained = [name for name, one in model.named_parameters() if one.requires_grad]
    is_lora = any(ADAPTER_WEIGHT in name for name in trained)
    modules = dict.fromkeys(_module_name(name) for name in trained)
    return Trained(tuple(modules), sum(sizes[name] for name in trained), sum(sizes.values()), is_lora)


def _module_name(parameter: str) -> str:
    owner = parameter.rpartition(".")[0]
    return owner.partition(ADAPTER_WEIGHT)[0].removeprefix("base_model.model.")


def check_trained(model: Any, train: Collection[str]) -> Iterator[str]:
    """Yield the names of trained modules that lie outside the chosen parts; there must be none."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    parts = find_parts(base)
    for name in describe_trained(model).modules:
        if part_of(name, parts) not in train:
            yield name
