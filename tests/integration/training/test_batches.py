"""What a batch supervises, and that rows with and without an image share a step without touching one another."""

from __future__ import annotations

import itertools

import pytest
import torch

from umu_tasks.benchmarks.sources import open_source
from umu_trainers.collator import Collator, fillers
from umu_trainers.data import training_set
from umu_trainers.encoding import RowEncoder
from umu_trainers.outputs import IGNORED, run_pass

IMAGE_TOKEN = 3


@pytest.fixture(scope="module")
def model(checkpoint):
    from transformers import LlavaForConditionalGeneration

    return LlavaForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32).eval()


@pytest.fixture
def collator(builder, rows):
    return Collator(RowEncoder(builder), fillers({"train": rows}))


@pytest.mark.parametrize("half", ["uni", "mul"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_exactly_the_answer_and_the_end_token_are_supervised(collator, builder, rows, half, batch_size):
    """Prompt, image and padding positions never count: unlearning them would be unlearning the question."""
    batch = collator.rows_batch(rows[half][:batch_size])
    tokenizer = builder.processor.tokenizer
    for index, row in enumerate(rows[half][:batch_size]):
        supervised = batch["labels"][index] != IGNORED
        answer = batch["labels"][index][supervised]
        assert tokenizer.decode(answer) == f" {row.pair.answer}</s>"
        places = (batch["keep"] + 1)[supervised]
        ids = batch["inputs"]["input_ids"][index]
        assert torch.equal(ids[places], answer)
        assert IMAGE_TOKEN not in answer
        length = int(batch["inputs"]["attention_mask"][index].sum())
        assert places.tolist() == list(range(length - len(answer), length))


@pytest.mark.parametrize("half", ["uni", "mul"])
def test_prompt_ids_equal_those_of_evaluation(collator, builder, rows, half):
    row = rows[half][0]
    tokens = collator.encoder.tokens(row)
    prompt = builder.training(row.pair.question, has_image=row.pair.has_image)
    images = [[row.profile.open_image()]] if row.pair.has_image else [[]]
    asked = builder.encode([prompt], images, padding_side="left")["input_ids"][0]
    assert torch.equal(tokens.inputs["input_ids"][: tokens.completion_start], asked)


def test_unimodal_rows_carry_no_image_and_no_marker(data, builder):
    """All splits that SFT and unlearning train on; the published converter attached the image to these rows too."""
    encoder = RowEncoder(builder)
    for split in ("full", "forget05", "retain95", "real"):
        rows = training_set("train", open_source(str(data)).load(split), ("uni", "mul")).rows
        for row in rows["uni"]:
            assert encoder.image_inputs(row) == {}
            assert IMAGE_TOKEN not in encoder.tokens(row).inputs["input_ids"]
        for row in rows["mul"]:
            assert int((encoder.tokens(row).inputs["input_ids"] == IMAGE_TOKEN).sum()) == 9


ORDERS = [("mul", "uni"), ("uni", "mul"), ("uni", "uni"), ("mul", "mul"), ("uni", "uni", "mul")]


@pytest.mark.parametrize("order", ORDERS)
def test_a_row_in_a_mixed_batch_equals_the_row_alone(collator, model, rows, order):
    chosen = [rows[half][index] for index, half in enumerate(order)]
    batch = collator([{f"train_{row.half}": row} for row in chosen])
    with torch.no_grad():
        for half in ("uni", "mul"):
            together = run_pass(model, batch[f"train_{half}"])
            own = [row for row in chosen if row.half == half]
            assert int(batch["counts"][half]["rows"]) == len(own)
            for index, row in enumerate(own):
                alone = run_pass(model, collator.rows_batch([row]))
                torch.testing.assert_close(together.logps[index], alone.logps[0], rtol=1e-5, atol=1e-5)


def test_a_pass_without_rows_counts_for_nothing(collator, rows):
    batch = collator([{"train_uni": rows["uni"][0]}])
    assert "pixel_values" in batch["train_mul"]["inputs"], "the stand-in keeps all processes in step"
    assert {name: int(one) for name, one in batch["counts"]["mul"].items()} == {"rows": 0, "tokens": 0}
    alone = Collator(collator.encoder, collator.fillers, keep_empty=False)([{"train_uni": rows["uni"][0]}])
    assert "train_mul" not in alone, "one process alone wastes no pass on it"
    assert alone["counts"].keys() == {"uni", "mul"}


def test_answer_columns_give_the_logits_of_the_whole_forward(collator, model, rows):
    """The language head runs on answer columns only; the published way runs it everywhere."""
    batch = collator.rows_batch(rows["mul"][:3])
    with torch.no_grad():
        whole = model(**batch["inputs"]).logits[:, batch["keep"]]
        torch.testing.assert_close(run_pass(model, batch).logits, whole)


def test_portraits_are_prepared_once_a_person_within_the_bound(builder, rows, monkeypatch):
    opened = []
    encoder = RowEncoder(builder, cache_mb=1)
    real = builder.encode_example
    monkeypatch.setattr(builder, "encode_example", lambda *args: opened.append(args[0]) or real(*args))
    for _ in range(3):
        for row in rows["mul"] + rows["uni"]:
            encoder.tokens(row), encoder.image_inputs(row)
    assert len(opened) == len(rows["mul"]) + len(rows["uni"]), "each row is tokenised once"
    tight = RowEncoder(builder, cache_mb=0)
    for row, again in itertools.product(rows["mul"], range(2)):
        torch.testing.assert_close(tight.image_inputs(row), encoder.image_inputs(row))
        assert again < 2
    assert len(tight._images) == 1


def test_too_long_a_row_is_named_with_its_length(builder, rows):
    row = rows["mul"][0]
    length = RowEncoder(builder).length(row)
    named = rf"forget05, row ID {row.profile.profile_id}, multimodal pair .*: {length} tokens"
    with pytest.raises(ValueError, match=named):
        RowEncoder(builder, max_length=length - 1).encode_all([row], quiet=True)
    assert RowEncoder(builder, max_length=length).encode_all([row], quiet=True) == length
