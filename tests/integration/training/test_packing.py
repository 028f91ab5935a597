"""A person's questions in one sequence, and image features kept: faster, and the same numbers."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from umu_tasks.benchmarks.sources import open_source
from umu_trainers import layout, objectives, sft, unlearn
from umu_trainers.adapter_switch import AdapterSwitch
from umu_trainers.collator import Collator
from umu_trainers.data import load_refusals, training_set
from umu_trainers.encoding import RowEncoder
from umu_trainers.image_features import cache_image_features
from umu_trainers.objectives import REFERENCE
from umu_trainers.outputs import run_pass
from umu_trainers.packing import make_packer

METHODS = objectives.available()
KWARGS = {"rmu": {"hidden_layer": 1}}


@pytest.fixture
def load(checkpoint):
    from transformers import LlavaForConditionalGeneration

    def build(attention="sdpa"):
        return LlavaForConditionalGeneration.from_pretrained(
            checkpoint, dtype=torch.float32, attn_implementation=attention
        ).eval()

    return build


def adapted(model):
    """LoRA whose update is not 0, or the reference would equal the model."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    targets = r".*language_model.*\.(q_proj|v_proj|up_proj|down_proj)"
    return get_peft_model(model, LoraConfig(r=4, target_modules=targets, init_lora_weights=False)).eval()


@pytest.fixture
def roles(data):
    """Role -> multimodal rows, people mixed, so that packed rows must be put back in order."""
    source = open_source(str(data))
    forget = training_set("forget", source.load("forget05"), ("mul",)).rows["mul"]
    retain = training_set("retain", source.load("retain95"), ("mul",)).rows["mul"]
    forget = forget[::2] + forget[1::2]
    refusals = load_refusals()
    return {
        "forget": forget,
        "retain": retain[: len(forget)],
        "refusal": [row.answered(refusals[number]) for number, row in enumerate(forget)],
    }


def collators(model, builder, scope="answer"):
    """One that packs, one that does not."""
    encoder = RowEncoder(builder, label_scope=scope)
    return Collator(encoder, {}, packer=make_packer(model, builder)), Collator(encoder, {})


class Step:
    """Loss and gradients of one step of a method with a collator."""

    def __init__(self, model, reference, method):
        self.model, self.reference = model, reference
        self.objective = objectives.find(
            method, gamma=None if method == "ga" else 0.5, method_kwargs=KWARGS.get(method)
        )

    def __call__(self, collator, roles):
        passes = []
        for name in self.objective.passes:
            batch = collator.rows_batch(roles[name.removesuffix(REFERENCE)])
            runner = self.reference if name.endswith(REFERENCE) else self.model
            with torch.set_grad_enabled(not name.endswith(REFERENCE)):
                passes.append(self._run(runner, batch))
        self.model.zero_grad()
        loss = self.objective(*passes)
        loss.backward()
        found = {name: one.grad.clone() for name, one in self.model.named_parameters() if one.grad is not None}
        return loss.detach(), found

    def _run(self, runner, batch):
        layer = self.objective.hidden_layer
        if runner is not None:
            return run_pass(runner, batch, hidden_layer=layer)
        with self.model.disable_adapter():
            return run_pass(self.model, batch, hidden_layer=layer)


def assert_same_step(found, expected):
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-6)
    assert found[1].keys() == expected[1].keys()
    assert any(bool(one.abs().max() > 1e-6) for one in expected[1].values())
    for name, gradient in expected[1].items():
        # Relative to the weight's largest entry: the order of the sums differs.
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-5, atol=1e-5 * gradient.abs().max().item() + 1e-9)


@pytest.mark.parametrize("use_lora", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("method", METHODS)
def test_packed_rows_give_the_loss_and_gradients_of_separate_ones(load, builder, roles, method, use_lora):
    """A step must not change with how its rows are laid out, or packed runs could not be compared with others."""
    model = load()
    if use_lora:
        model, reference = adapted(model), None
    else:
        reference = copy.deepcopy(model).requires_grad_(False)
        generator = torch.Generator().manual_seed(1)
        for weight in reference.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=generator)
    packing, plain = collators(model, builder)
    step = Step(model, reference, method)
    assert_same_step(step(packing, roles), step(plain, roles))


@pytest.mark.parametrize("scope", ["answer", "all_text"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_each_row_gets_its_own_log_probabilities(load, builder, roles, attention, scope):
    """With both kinds of attention code; `all_text` has labels in the shared part too, once for each row."""
    model = load(attention)
    packing, plain = collators(model, builder, scope)
    rows = roles["forget"]
    batch = packing.rows_batch(rows)
    people = len({row.person for row in rows})
    assert len(batch["packed"].sequences) == len(batch["inputs"]["pixel_values"]) == people < len(rows)
    found = run_pass(model, batch, hidden_layer=2)
    for row, logps, tokens in zip(rows, found.logps, found.answer_tokens, strict=True):
        alone = run_pass(model, plain.rows_batch([row]))
        torch.testing.assert_close(logps, alone.logps[0], rtol=1e-5, atol=1e-4)
        assert tokens == alone.answer_tokens[0]


def test_a_question_does_not_see_its_neighbour(load, builder, roles):
    """Another answer to one question must leave all others of the person as they were."""
    model = load()
    packing, _ = collators(model, builder)
    rows = roles["forget"]
    before = run_pass(model, packing.rows_batch(rows)).logps
    after = run_pass(model, packing.rows_batch([rows[0].answered("Something else entirely."), *rows[1:]])).logps
    assert abs(before[0] - after[0]) > 1
    torch.testing.assert_close(after[1:], before[1:], rtol=1e-5, atol=1e-4)


# ---- image features ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trained", ["language_model", "multi_modal_projector"])
def test_kept_image_features_change_neither_loss_nor_gradients(load, builder, roles, trained):
    """Also where the projector is trained: what is kept is what it reads."""
    plain, caching = load(), load()
    for model in (plain, caching):
        for name, one in model.named_parameters():
            one.requires_grad_(f".{trained}." in name)
    features = cache_image_features(caching, ["language_model"], 64)
    looked = []
    tower = caching.model.vision_tower
    tower.register_forward_pre_hook(lambda module, inputs: looked.append(len(features.kept)))
    _, collator = collators(plain, builder)
    expected = Step(plain, None, "gd")(collator, roles)
    for _ in range(2):
        assert_same_step(Step(caching, None, "gd")(collator, roles), expected)
    assert looked == [0, 2, 4, 4], "two forget people, then two retain people, then none new"


def test_the_tower_runs_once_an_image(load, builder, roles, monkeypatch):
    model = load()
    images = []
    inner = model.model.vision_tower.forward
    monkeypatch.setattr(
        model.model.vision_tower,
        "forward",
        lambda pixels, *a, **k: images.append(len(pixels)) or inner(pixels, *a, **k),
    )
    cache_image_features(model, ["language_model"], 64)
    collator = Collator(RowEncoder(builder), {})
    with torch.no_grad():
        for _ in range(2):
            run_pass(model, collator.rows_batch(roles["forget"]))
            run_pass(model, collator.rows_batch(roles["retain"][::-1]))
    assert sum(images) == 4


def test_room_for_features_is_kept_to(load, builder, roles):
    model = load()
    features = cache_image_features(model, ["language_model"], 1)
    features._room = 2000  # bytes: one image has 10 x 16 numbers of 4 bytes
    collator = Collator(RowEncoder(builder), {})
    expected = run_pass(load(), collator.rows_batch(roles["retain"])).logps
    for _ in range(2):
        torch.testing.assert_close(run_pass(model, collator.rows_batch(roles["retain"])).logps, expected)
    assert len(features.kept) * 640 <= 2000


# ---- whole runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_lora", [False, True], ids=["full", "lora"])
def test_a_run_with_packing_and_kept_features_ends_at_the_same_weights(flags, weights, record, tmp_path, use_lora):
    """All forget rows are in one batch and retain rows weigh nothing: only the order of sums differs.

    The fast LoRA run also computes activations again instead of keeping them.
    """
    settings = {
        "method": "kl", "use_lora": use_lora, "lora_r": 4, "lora_dropout": 0, "num_train_epochs": 3,
        "per_device_train_batch_size": 6, "gamma": 0.0,
    }  # fmt: skip
    for name, fast in (("run", False), ("fast", True)):
        unlearn.main(
            flags(
                **settings,
                pack_by_profile=fast,
                cache_image_features=fast,
                gradient_checkpointing=fast and use_lora,
                output_dir=tmp_path / name,
            )
        )
    expected, found = ([one.get("loss") for one in record(tmp_path / one)["result"]["log"]] for one in ("run", "fast"))
    assert found[:-1] == pytest.approx(expected[:-1], rel=1e-4)
    torch.testing.assert_close(weights(tmp_path / "fast"), weights(tmp_path / "run"), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"method": "gd"}, 1),
        ({"method": "kl"}, 2),
        ({"method": "kl", "modality": "uni", "retain_modality": "mix"}, 2),
        ({"method": "gd", "clip_multimodal": 1.0}, 2),
        ({"method": "dpo", "precompute_reference": True}, 1),
    ],
)
def test_all_that_runs_with_the_same_weights_is_one_pass(flags, monkeypatch, settings, passes):
    """A step of few questions takes as long as it has passes; and one left out or run twice would change the loss."""
    from transformers import LlavaForConditionalGeneration

    training = []
    forward = LlavaForConditionalGeneration.forward

    def counted(self, *args, **kwargs):
        training.append(kwargs["input_ids"].shape if step["runs"] else None)
        return forward(self, *args, **kwargs)

    step = {"runs": False}
    step_loss = unlearn.UnlearnTrainer.step_loss

    def noted(self, *args):
        step["runs"] = True
        try:
            return step_loss(self, *args)
        finally:
            step["runs"] = False

    monkeypatch.setattr(LlavaForConditionalGeneration, "forward", counted)
    monkeypatch.setattr(unlearn.UnlearnTrainer, "step_loss", noted)
    unlearn.main(flags(**settings, pack_by_profile=True, max_steps=2, per_device_train_batch_size=3))
    assert len([one for one in training if one is not None]) == 2 * passes


@pytest.mark.parametrize("method", ["gd", "npo"])
def test_several_lines_give_the_same_losses_as_one(flags, record, tmp_path, monkeypatch, method):
    """Rows that do not fit into one line go into the next, with their images."""
    losses = []
    for name, room in (("one", 4096), ("several", 40)):
        monkeypatch.setitem(layout.LINE, "sdpa", room)
        unlearn.main(flags(method=method, pack_by_profile=True, max_steps=3, output_dir=tmp_path / name))
        losses.append([one["loss"] for one in record(tmp_path / name)["result"]["log"] if "loss" in one])
    assert len(losses[0]) == 3
    assert losses[1] == pytest.approx(losses[0], rel=1e-5, abs=1e-5)


def test_leaving_out_double_casts_changes_no_number(flags, record, weights, tmp_path, monkeypatch):
    """bf16 to float32 and back is the same number: the weights must be equal to the last digit."""
    settings = {"method": "npo", "use_lora": True, "lora_r": 4, "lora_dropout": 0, "bf16": True, "max_steps": 3}
    entered = []
    inner = AdapterSwitch.without_input_casts
    monkeypatch.setattr(AdapterSwitch, "without_input_casts", lambda self: entered.append(1) or inner(self))
    unlearn.main(flags(**settings, gradient_checkpointing=False))
    assert len(entered) == 3
    monkeypatch.setattr(unlearn.UnlearnTrainer, "_without_double_casts", lambda self: nullcontext())
    unlearn.main(flags(**settings, gradient_checkpointing=False, output_dir=tmp_path / "twice"))
    torch.testing.assert_close(weights(tmp_path / "run"), weights(tmp_path / "twice"), rtol=0, atol=0)


def test_stored_reference_and_sft_take_packed_rows(flags, record, tmp_path):
    fast = {"pack_by_profile": True, "cache_image_features": True, "max_steps": 2}
    unlearn.main(flags(**fast, method="npo", precompute_reference=True))
    assert record(tmp_path / "run")["result"]["log"][0]["loss/mul"] > 0
    sft.main(flags(**fast, output_dir=tmp_path / "sft"))
    assert record(tmp_path / "sft")["settings"]["pack_by_profile"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pack_by_profile": True, "label_scope": "published"}, "--pack_by_profile with label_scope published"),
        ({"pack_by_profile": True, "method": "kl", "method_kwargs": '{"published_form": true}'}, "padded batch"),
        ({"pack_by_profile": True, "attn_implementation": "flex_attention"}, "sdpa and eager"),
        ({"cache_image_features": True, "train": "vision_tower"}, "the vision tower is trained"),
        ({"cache_image_features": True, "use_lora": True, "lora_target_modules": "q_proj"}, "lora_target_modules"),
    ],
)
def test_what_cannot_be_packed_or_kept_says_so_at_the_start(flags, changes, message):
    with pytest.raises(ValueError, match=message):
        unlearn.main(flags(**{"method": "gd", **changes}))


def test_kept_features_are_refused_where_processes_wait_for_each_other_in_the_tower(load, monkeypatch):
    """One process would know an image and leave the tower out; the others would hang in it."""
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ValueError, match="ZeRO-3 or FSDP"):
        cache_image_features(load(), ["language_model"], 1)


def test_rows_are_grouped_in_one_way_only(flags):
    with pytest.raises(ValueError, match="grouped by person or by length"):
        sft.main(flags(pack_by_profile=True, train_sampling_strategy="group_by_length"))


def test_other_families_are_told_to_leave_it_off(builder):
    """Qwen2-VL's image positions have two dimensions: a packed row would silently be another one."""
    from types import SimpleNamespace

    from transformers import Qwen2VLConfig

    model = SimpleNamespace(config=Qwen2VLConfig())
    with pytest.raises(ValueError, match=r"'qwen2_vl' can't be packed.*Leave it off"):
        make_packer(model, builder)
    with pytest.raises(ValueError, match=r"'qwen2_vl' is not supported.*Leave it off"):
        cache_image_features(model, ["language_model"], 1)


def test_backward_by_half_changes_no_gradient(flags, weights, tmp_path, monkeypatch):
    """One process lets go of one modality's graph before it runs the other; several wait for the sum."""
    for name in ("run", "whole"):
        unlearn.main(flags(method="gd", max_steps=1, output_dir=tmp_path / name, gradient_accumulation_steps=2,
                           per_device_train_batch_size=3, optim="sgd", learning_rate=0.1))  # fmt: skip
        monkeypatch.setattr(unlearn.UnlearnTrainer, "backward_by_half", property(lambda _: False, lambda *_: None))
    torch.testing.assert_close(weights(tmp_path / "whole"), weights(tmp_path / "run"), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_speed_script_measures_both_ways(tmp_path):
    """On a CPU and UMU-mini's shape, which shows that it runs and counts, not how fast a GPU is."""
    script = Path(__file__).parents[3] / "scripts" / "bench_train.py"
    options = ["--device", "cpu", "--methods", "npo", "--checkpointing", "on", "--steps", "1", "--json", "b.json"]
    done = subprocess.run([sys.executable, script, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))["lines"]
    assert 0 < line["ours"]["tokens"] < line["published"]["tokens"]
    assert min(line["ours"]["seconds"], line["published"]["seconds"], line["floor"]) > 0
    assert "| npo | on |" in done.stdout
