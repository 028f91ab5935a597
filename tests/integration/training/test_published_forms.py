"""The published presets give the values of the published formulas, restated here as they stand in the scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from torch.nn import functional as F

from umu_trainers import objectives
from umu_trainers.collator import Collator, fillers
from umu_trainers.encoding import RowEncoder
from umu_trainers.outputs import IGNORED, run_pass

PRESETS = Path(__file__).parents[3] / "configs" / "unlearn" / "published"
IMAGE_TOKEN = 3
BETA = 0.4


@pytest.fixture(scope="module")
def models(checkpoint):
    """The model and a reference that differs from it."""
    from transformers import LlavaForConditionalGeneration

    model, reference = (
        LlavaForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32).eval() for _ in range(2)
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    return model, reference


@pytest.fixture
def batches(builder, rows):
    """Half -> a forget and a retain batch of rows of different length, with the published label scope."""
    collator = Collator(RowEncoder(builder, label_scope="published"), fillers({"forget": rows}))
    return {half: (collator.rows_batch(own[:3]), collator.rows_batch(own[3:6])) for half, own in rows.items()}


def published(model, batch):
    """Loss and logits as the scripts get them: the model's own loss, only padding masked."""
    inputs = batch["inputs"]
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, IGNORED)
    found = model(**inputs, labels=labels)
    return found.loss, found.logits


def published_kl(current, reference):
    p, q = torch.softmax(current, dim=-1), torch.softmax(reference, dim=-1)
    return -(p * torch.log(q + 1e-12)).sum(-1).mean()


def expected(method, models, forget, retain, extra=0.0):
    model, reference = models
    loss, _ = published(model, forget)
    retain_loss, retain_logits = published(model, retain)
    if method == "ga":
        return -loss
    if method == "gd":
        return -loss + retain_loss
    if method == "po":
        return loss + retain_loss
    if method == "kl":
        return -loss + published_kl(retain_logits, published(reference, retain)[1]) + extra * retain_loss
    return -F.logsigmoid(BETA * (loss - published(reference, forget)[0])) * 2 / BETA


def ours(preset, models, forget, retain):
    written = yaml.safe_load((PRESETS / preset).read_text(encoding="utf-8"))
    kwargs = {**written.get("method_kwargs", {}), **({"npo_beta": BETA} if "npo_beta" in written else {})}
    objective = objectives.find(written["method"], gamma=written.get("gamma"), method_kwargs=kwargs)
    by_role = {"forget": forget, "refusal": forget, "retain": retain}
    return objective(
        *(
            run_pass(
                models[name.endswith(objectives.REFERENCE)],
                by_role[name.removesuffix(objectives.REFERENCE)],
                average=written["nll_average"],
            )
            for name in objective.passes
        )
    )


@pytest.mark.parametrize("half", ["uni", "mul"])
@pytest.mark.parametrize("preset", sorted(str(path.relative_to(PRESETS)) for path in PRESETS.rglob("*.yaml")))
def test_value_equals_the_published_formula(preset, half, models, batches):
    forget, retain = batches[half]
    extra = 1.0 if preset == "mllmu/kl.yaml" else 0.0
    with torch.no_grad():
        found = ours(preset, models, forget, retain)
        wanted = expected(Path(preset).stem, models, forget, retain, extra)
    assert found.item() == pytest.approx(wanted.item(), abs=1e-5)


def test_published_kl_is_neither_zero_nor_flat_where_the_models_agree(models, batches):
    """What the sound form mends: the published term moves a model that has nothing to mend."""
    model = models[0]
    retain = run_pass(model, batches["uni"][1])
    from umu_trainers.objectives.kl import cross_entropy

    value = cross_entropy(retain.logits, retain.logits.detach())
    (gradient,) = torch.autograd.grad(value, retain.logits)
    assert value.item() > 1
    assert gradient.abs().max().item() > 1e-6


@pytest.mark.parametrize("half", ["uni", "mul"])
def test_label_scopes(builder, rows, half):
    """answer < all_text < published; the image counts in `published` alone, where the script has it too."""
    supervised = {}
    for scope in ("answer", "all_text", "published"):
        collator = Collator(RowEncoder(builder, label_scope=scope), fillers({"forget": rows}))
        batch = collator.rows_batch(rows[half][:3])
        ids = batch["inputs"]["input_ids"]
        for row, labels in enumerate(batch["labels"]):
            places = batch["keep"][labels != IGNORED] + 1
            assert torch.equal(ids[row, places], labels[labels != IGNORED])
            assert bool((batch["inputs"]["attention_mask"][row, places] == 1).all()), "padding never counts"
        supervised[scope] = batch["labels"][batch["labels"] != IGNORED]
        images = int((supervised[scope] == IMAGE_TOKEN).sum())
        assert images == (27 if scope == "published" and half == "mul" else 0)
    texts = {scope: builder.processor.tokenizer.decode(ids) for scope, ids in supervised.items()}
    assert "USER" not in texts["answer"]
    assert texts["all_text"].count("USER") == texts["published"].count("USER") == 3
    lengths = [len(supervised[scope]) for scope in ("answer", "all_text", "published")]
    assert lengths[0] < lengths[1] <= lengths[2]
    whole = int(batch["inputs"]["attention_mask"].sum()) - 3
    assert lengths[2] == whole, "every token but the first of each row"
