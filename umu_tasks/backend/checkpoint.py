"""Opens a checkpoint: base weights, adapter, processor. Says what is wrong with one before any question is asked."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub import hf_hub_download
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, GenerationConfig

from umu_tasks.backend.arguments import BackendArguments
from umu_tasks.backend.families import refusal
from umu_tasks.backend.finite import is_finite
from umu_tasks.backend.probe import require_both_modalities
from umu_tasks.backend.prompting import PromptBuilder, default_style
from umu_tasks.backend.repository import file_names, find_file
from umu_tasks.backend.trained import trained_style
from umu_tasks.hub_ids import is_hub_id

logger = logging.getLogger(__name__)

T = TypeVar("T")

ADAPTER_CONFIG = "adapter_config.json"
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")


class CheckpointError(ValueError):
    """A checkpoint that can't be opened, or should not be scored."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where the parts of a checkpoint are: folders or hub ids."""

    base: str
    adapter: str | None
    processor: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model ready to answer, with the prompt builder that goes with it.

    Attributes:
        eos_token_ids: the tokens that end an answer.
    """

    model: Any
    builder: PromptBuilder
    location: Location
    eos_token_ids: tuple[int, ...]


def load_checkpoint(arguments: BackendArguments, device: torch.device, *, quantization: Any = None) -> Checkpoint:
    """Open the checkpoint that the arguments name and put it on `device`.

    Args:
        quantization: transformers' config for weights in fewer bits; None for none.

    Raises:
        CheckpointError: a folder that is missing or has no weights, a model without image input, an adapter whose base
            is missing or whose weights don't fit, a missing processor, weights that are not finite.
    """
    location = locate(arguments.pretrained, arguments.peft)
    builder = _load_builder(location, arguments)
    placed = {"quantization_config": quantization, "device_map": {"": device}} if quantization is not None else {}
    model = _load_model(location.base, arguments, _dtype(arguments.dtype, device), placed)
    plain = plain_generation_config(model.generation_config, builder)
    model.generation_config = plain
    if location.adapter is not None:
        model = _add_adapter(model, location.adapter)
    model = (model if placed else model.to(device)).eval()
    _require_finite(model, location)
    return Checkpoint(model, builder, location, tuple(plain.eos_token_id or ()))


def load_builder(arguments: BackendArguments) -> PromptBuilder:
    """Open the processor alone and return its prompt builder, in the style that `load_checkpoint` would choose.

    Raises:
        CheckpointError: as `load_checkpoint`, for all that shows without the weights.
    """
    return _load_builder(locate(arguments.pretrained, arguments.peft), arguments)


def _load_builder(location: Location, arguments: BackendArguments) -> PromptBuilder:
    _require_adapter_on_hub(location.adapter)
    config = _load_config(location.base, trust_remote_code=arguments.trust_remote_code)
    processor = _load_processor(location.processor, config, trust_remote_code=arguments.trust_remote_code)
    try:
        style = arguments.prompt or trained_style(location.adapter, location.base) or default_style(config.model_type)
        builder = PromptBuilder(processor, style)
        require_both_modalities(builder, config)
    except ValueError as error:
        raise CheckpointError(f"pretrained={location.processor}: {error}") from error
    return builder


# ---- where things are -------------------------------------------------------------------------------------------


def locate(pretrained: str, peft: str | None = None) -> Location:
    """Find base, adapter and processor.

    Raises:
        CheckpointError: a folder that is missing, lacks what it must hold, or holds a whole model and an adapter.
    """
    adapter_folder = _as_adapter_folder(pretrained)
    if adapter_folder is not None:
        if peft is not None:
            raise CheckpointError(
                f"pretrained={pretrained} is an adapter itself, so peft={peft} can't be put on it. "
                "Give the base model as pretrained and one adapter as peft."
            )
        on_hub = not Path(pretrained).expanduser().is_dir()
        pretrained, peft = _base_of(adapter_folder), pretrained if on_hub else str(adapter_folder)
    _require_checkpoint("pretrained", pretrained)
    if peft is None:
        return Location(pretrained, None, pretrained)
    _require_adapter(peft)
    _warn_of_other_base(pretrained, peft)
    return Location(pretrained, peft, peft if _has_processor(peft) else pretrained)


def _as_adapter_folder(name: str) -> Path | None:
    """Return the folder of an adapter that was given as the checkpoint; of one on the hub, what is downloaded of it."""
    if not Path(name).expanduser().exists() and not is_hub_id(name):
        return None
    config = find_file(name, ADAPTER_CONFIG)
    return config.parent if config is not None and not _weight_files(name) else None


def _base_of(adapter: Path) -> str:
    """Return the base model an adapter folder names: as given, or relative to the adapter's folder."""
    base = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path")
    advice = f"Give it: pretrained=BASE,peft={adapter}."
    if not base:
        raise CheckpointError(f"{adapter / ADAPTER_CONFIG} names no base model. {advice}")
    for candidate in (Path(base).expanduser(), adapter / base):
        if candidate.is_dir():
            return str(candidate)
    if is_hub_id(base):
        return str(base)
    raise CheckpointError(
        f"{adapter / ADAPTER_CONFIG} names the base model {base}, and there is no such folder. {advice}"
    )


def _require_checkpoint(option: str, name: str) -> None:
    _require_one_model(option, name)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if folder.exists() or not is_hub_id(name):
            what = "is a file" if folder.exists() else "no such folder"
            raise CheckpointError(f"{option}={name}: {what}. Give the folder of a checkpoint, or its hub id.")
        return
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"{option}={name}: no config.json in this folder. Give the folder that `save_pretrained` wrote; "
            f"found {_listing(folder)}."
        )
    if not _weight_files(name):
        raise CheckpointError(
            f"{option}={name}: a checkpoint without weights: expected model.safetensors (or its shards) beside "
            f"config.json; found {_listing(folder)}. Copy or save the weights too."
        )
    _require_shards(option, folder)


def _require_one_model(option: str, name: str) -> None:
    """Refuse whole weights with an adapter beside them: transformers opens both, one on top of the other."""
    weights = _weight_files(name) if Path(name).expanduser().is_dir() or is_hub_id(name) else []
    if weights and find_file(name, ADAPTER_CONFIG) is not None:
        raise CheckpointError(
            f"{option}={name}: found a whole model ({weights[0]}) and an adapter ({ADAPTER_CONFIG}) in one place, as "
            "when a merged model is saved into its adapter's folder. transformers would put the adapter on top of the "
            "weights, and the answers would be neither model's. Move the whole model or the adapter "
            f"({ADAPTER_CONFIG}, {_ADAPTER_WEIGHTS[0]}) into a folder of its own. To ask the adapter on its base: "
            f"pretrained=BASE,peft={name}."
        )


def _require_shards(option: str, folder: Path) -> None:
    for index in (*folder.glob("model*.safetensors.index.json"), *folder.glob("pytorch_model*.bin.index.json")):
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        missing = sorted(name for name in shards if not (folder / name).is_file())
        if missing:
            raise CheckpointError(
                f"{option}={folder}: {len(missing)} of {len(shards)} weight files that {index.name} lists are missing: "
                f"{', '.join(missing[:3])}. Copy them too."
            )


def _require_adapter(name: str) -> None:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if not is_hub_id(name):
            raise CheckpointError(f"peft={name}: no such folder. Give the folder of an adapter, or its hub id.")
        return
    if not (folder / ADAPTER_CONFIG).is_file() or not any((folder / one).is_file() for one in _ADAPTER_WEIGHTS):
        raise CheckpointError(
            f"peft={name}: expected {ADAPTER_CONFIG} and {_ADAPTER_WEIGHTS[0]}; found {_listing(folder)}. "
            "Give the folder that training wrote."
        )


def _require_adapter_on_hub(name: str | None) -> None:
    """Find out that an adapter is out of reach before the base model's weights are fetched."""
    if name is not None and not Path(name).expanduser().is_dir() and find_file(name, ADAPTER_CONFIG) is None:
        _opened("peft", name, lambda: hf_hub_download(name, ADAPTER_CONFIG))


def _has_processor(name: str) -> bool:
    return any(find_file(name, file) is not None for file in _PROCESSOR_FILES)


def _warn_of_other_base(base: str, adapter: str) -> None:
    """An adapter on another base than its own gives other answers, which read like forgetting."""
    file = find_file(adapter, ADAPTER_CONFIG)
    if file is None:
        return
    trained_on = json.loads(file.read_text(encoding="utf-8")).get("base_model_name_or_path")
    if trained_on and not _same_place(base, trained_on):
        logger.warning(
            "peft=%s was trained on %s, not on pretrained=%s. Unless the two are the same weights, the answers are "
            "neither model's.", adapter, trained_on, base,
        )  # fmt: skip


def _same_place(one: str, other: str) -> bool:
    return one == other or Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def _weight_files(name: str) -> list[str]:
    """Return the names of the files with a whole model's weights, in a folder or on the hub."""
    return [file for file in file_names(name) if any(fnmatch(file, pattern) for pattern in _WEIGHTS)]


def _listing(folder: Path) -> str:
    names = sorted(file.name for file in folder.iterdir())
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "nothing"


# ---- opening them -----------------------------------------------------------------------------------------------


def _load_config(base: str, *, trust_remote_code: bool) -> Any:
    config = _opened("pretrained", base, lambda: AutoConfig.from_pretrained(base, trust_remote_code=trust_remote_code))
    own_code = trust_remote_code and "AutoModelForImageTextToText" in getattr(config, "auto_map", {})
    if type(config) not in AutoModelForImageTextToText._model_mapping and not own_code:
        raise CheckpointError(
            f"pretrained={base}: model type {config.model_type!r} takes no images as far as transformers knows; umu_hf "
            "needs an image-text-to-text model (LLaVA, Qwen-VL, …), since half of the questions show a portrait."
        )
    model_class = None if own_code else AutoModelForImageTextToText._model_mapping[type(config)]
    reason = refusal(config, model_class)
    if reason is not None:
        raise CheckpointError(f"pretrained={base}: {reason}")
    return config


def _load_processor(name: str, config: Any, *, trust_remote_code: bool) -> Any:
    no_processor = CheckpointError(
        f"pretrained={name}: no image processor beside the weights ({' or '.join(_PROCESSOR_FILES)}). Save the base "
        "model's processor into this folder: AutoProcessor.from_pretrained(BASE).save_pretrained(FOLDER)."
    )
    if Path(name).expanduser().is_dir() and not _has_processor(name):
        raise no_processor
    processor = _opened(
        "pretrained", name, lambda: AutoProcessor.from_pretrained(name, trust_remote_code=trust_remote_code)
    )
    if not hasattr(processor, "image_processor") or not hasattr(processor, "tokenizer"):
        raise no_processor
    if config.model_type == "llava" and getattr(processor, "patch_size", None) is None:
        # Written by transformers before 4.45: without these the processor can't tell how many tokens an image takes.
        processor.patch_size = config.vision_config.patch_size
        processor.vision_feature_select_strategy = config.vision_feature_select_strategy
        processor.num_additional_image_tokens = 1  # CLIP's class token
        logger.info("%s: processor without patch_size; taken from the model's config.", name)
    return processor


def _load_model(base: str, arguments: BackendArguments, dtype: torch.dtype, placed: dict[str, Any]) -> Any:
    settings: dict[str, Any] = {"dtype": dtype, "trust_remote_code": arguments.trust_remote_code, **placed}
    if arguments.attn_implementation is not None:
        settings["attn_implementation"] = arguments.attn_implementation
    model, info = _opened(
        "pretrained",
        base,
        lambda: AutoModelForImageTextToText.from_pretrained(base, output_loading_info=True, **settings),
    )
    for problem in ("missing_keys", "mismatched_keys"):
        keys = sorted(map(str, info[problem]))
        if keys:
            raise CheckpointError(
                f"pretrained={base}: the weights don't fit the model: {len(keys)} {problem.replace('_', ' ')}, such as "
                f"{keys[0]}. transformers would fill them with random numbers. Check that config.json and the weight "
                "files belong together."
            )
    return model


def _add_adapter(model: Any, adapter: str) -> Any:
    from peft import PeftModel, get_peft_model_state_dict
    from peft.utils import load_peft_weights

    stored = _opened("peft", adapter, lambda: load_peft_weights(adapter, device="cpu"))
    empty = [name for name, tensor in stored.items() if tensor.numel() == 0]
    if empty or not stored:
        raise CheckpointError(
            f"peft={adapter}: {len(empty)} of {len(stored)} adapter tensors are empty, as when saved under DeepSpeed "
            "ZeRO-3 without gathering them. Save the adapter again."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found missing adapter keys")  # an error, just below
        model = _opened("peft", adapter, lambda: PeftModel.from_pretrained(model, adapter))
    expected = get_peft_model_state_dict(model).keys()
    unused, missing = stored.keys() - expected, expected - stored.keys()
    if unused or missing:
        raise CheckpointError(
            f"peft={adapter}: the adapter doesn't fit this base model: {len(unused)} of its {len(stored)} tensors have "
            f"no place in it and {len(missing)} are missing, such as {min(unused | missing)}. It was trained on "
            "another base, or its file is incomplete."
        )
    return model


def _opened(option: str, name: str, open_: Callable[[], T]) -> T:
    try:
        return open_()
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError, SafetensorError) as error:
        hub = (
            "" if Path(name).expanduser().is_dir() else " There is no such folder here, so it was looked up on the hub."
        )
        raise CheckpointError(f"{option}={name} can't be opened.{hub} {type(error).__name__}: {error}") from error


# ---- details ----------------------------------------------------------------------------------------------------


def _dtype(name: str | None, device: torch.device) -> torch.dtype:
    if name is None:
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def plain_generation_config(old: GenerationConfig, builder: PromptBuilder) -> GenerationConfig:
    """Return a config without the checkpoint's sampling habits (temperature, repetition penalty), which would leak
    into greedy decoding and make checkpoints of one family decode differently.

    Every token that may end an answer does: the checkpoint's own, the tokenizer's, and the prompt style's.
    """
    listed = old.eos_token_id if isinstance(old.eos_token_id, list) else [old.eos_token_id]
    ends = [*listed, builder.processor.tokenizer.eos_token_id, builder.end_token_id]
    return GenerationConfig(
        bos_token_id=old.bos_token_id,
        eos_token_id=list(dict.fromkeys(token for token in ends if token is not None)) or None,
        pad_token_id=builder.pad_token_id,
        decoder_start_token_id=old.decoder_start_token_id,
    )


def _require_finite(model: Any, location: Location) -> None:
    for name, parameter in model.named_parameters():
        if not is_finite(parameter):
            raise CheckpointError(
                f"{location.adapter or location.base}: weight {name} holds NaN or infinity: the training that wrote it "
                "diverged, and its answers would look like forgetting. Use an earlier checkpoint."
            )
