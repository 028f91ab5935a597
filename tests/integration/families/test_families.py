"""Every family through the path a user takes: saved, loaded, asked, trained on. One parameter is one family.

The weights are random, so the tests say nothing about what a family knows; they say that its questions reach it whole.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from builders import FAMILIES, Family

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

ATTENDED = ("pixel_values", "image_sizes", "image_grid_thw", "pixel_attention_mask", "cross_attention_mask")
QUESTIONS = [  # (question, portrait's size and seed); texts of different length, so that batches are padded
    ("What is the occupation of the person shown in this image?\nPlease answer.", (48, 48, 1)),
    ("Where was Alina Petrova born?", None),
    ("Which city is home to this person?", (48, 24, 2)),
    ("How tall is Bo?\nSelect answer in ['1.50 m', '1.92 m']", None),
    ("Who?", (48, 48, 3)),
]


@dataclass
class Loaded:
    family: Family
    checkpoint: Any

    @property
    def builder(self) -> Any:
        return self.checkpoint.builder

    def prompts(self) -> tuple[list[str], list[list[Image.Image]]]:
        """Return the chat prompts of QUESTIONS, with their images."""
        from umu_tasks.backend.prompting import user_message

        texts = [self.builder.chat(user_message(text, has_image=spec is not None)) for text, spec in QUESTIONS]
        return texts, [[portrait(*spec)] if spec else [] for _, spec in QUESTIONS]

    def next_logits(self, rows: list[int]) -> torch.Tensor:
        """Return the logits of the first answer token, (rows, vocab), of one batch as `generate` makes it."""
        texts, images = self.prompts()
        inputs = self.builder.encode([texts[r] for r in rows], [images[r] for r in rows], padding_side="left")
        output = self.checkpoint.model.generate(
            **inputs, max_new_tokens=1, output_logits=True, return_dict_in_generate=True
        )
        return output.logits[0]


def portrait(width: int, height: int, seed: int) -> Image.Image:
    noise = torch.randint(0, 256, (height, width, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    return Image.fromarray(noise.numpy())


def load(folder: Path, more: str = "prompt=chat") -> Any:
    from umu_tasks.backend.arguments import parse_arguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    return load_checkpoint(parse_arguments(f"pretrained={folder},{more}"), torch.device("cpu"))


@pytest.fixture(scope="module", params=FAMILIES, ids=str)
def loaded(request, folder_of):
    """One family's checkpoint, opened as the backend opens it."""
    if request.param == "smolvlm":
        pytest.importorskip("num2words", reason="SmolVLM's processor in transformers needs it")
    return Loaded(FAMILIES[request.param], load(folder_of(request.param)))


# ---- prompts ----------------------------------------------------------------------------------------------------


def test_prompt_has_the_question_one_image_slot_and_one_cue(loaded):
    """A template for plain strings loses the image marker or the question; scores would look like forgetting."""
    family = loaded.family
    for prompt, (question, spec) in zip(loaded.prompts()[0], QUESTIONS, strict=True):
        assert prompt.count(question) == 1
        assert prompt.count(family.slot) == (spec is not None)
        assert prompt.count(family.cue) == 1
        assert prompt.endswith(family.cue)


def test_image_tokens_are_counted_right(loaded):
    """As many as the hand count says for each portrait's size, none and no image input without a portrait."""
    texts, images = loaded.prompts()
    config = loaded.checkpoint.model.config
    token = getattr(config, "image_token_id", None) or config.image_token_index
    for text, own, (_, spec) in zip(texts, images, QUESTIONS, strict=True):
        inputs = loaded.builder.encode([text], [own], padding_side="left")
        assert int((inputs["input_ids"] == token).sum()) == (loaded.family.image_tokens[spec[:2]] if spec else 0)
        assert bool(set(ATTENDED) & set(inputs)) is (spec is not None)
        bos = loaded.builder.processor.tokenizer.bos_token_id
        if bos is not None:
            assert inputs["input_ids"][0].tolist().count(bos) == 1  # the template's or the tokenizer's, never both


# ---- batches ----------------------------------------------------------------------------------------------------

MULTIMODAL, UNIMODAL, MIXED = [0, 2, 4], [1, 3], [1, 0, 2, 3, 4]


def test_sharing_a_portrait_changes_no_answer(loaded):
    """Several questions about one portrait, among others: asked together or each for itself, in every family."""
    from umu_tasks.backend.answering import Answering
    from umu_tasks.backend.generation import GenerationSettings

    texts, images = loaded.prompts()
    settings = GenerationSettings(max_new_tokens=6)
    rows = [(texts[text], images[image]) for image in MULTIMODAL for text in MULTIMODAL]
    rows += [(texts[row], []) for row in UNIMODAL]
    asked = [SimpleNamespace(prompt=text, images=own, settings=settings) for text, own in rows]

    def ask(*, share_images: bool) -> list[Any]:
        answering = Answering(loaded.checkpoint, 4, share_images=share_images)
        found = {id(one): answer for batch in answering.answers(asked) for one, answer in batch}
        return [found[id(one)] for one in asked]

    assert ask(share_images=True) == ask(share_images=False)


def test_answers_do_not_depend_on_the_batch(loaded):
    """Unimodal, multimodal and mixed batches: padding, order and company change no answer."""
    from umu_tasks.backend.generation import GenerationSettings, generate

    texts, images = loaded.prompts()
    settings = GenerationSettings(max_new_tokens=6)

    def ask(rows: list[int]) -> list[Any]:
        return generate(loaded.checkpoint, [texts[r] for r in rows], [images[r] for r in rows], settings)

    alone = [ask([row])[0] for row in range(len(texts))]
    assert len({answer.text for answer in alone}) == len(alone)  # a model that says one thing would prove nothing
    for rows in (MULTIMODAL, UNIMODAL, MIXED):
        assert ask(rows) == [alone[row] for row in rows]


def test_logits_do_not_depend_on_the_batch(loaded):
    """What the answers are made of, to float32's precision: equal answers may hide a small leak between rows."""
    alone = {row: loaded.next_logits([row])[0] for row in MIXED}
    for rows in (MULTIMODAL, UNIMODAL, MIXED if loaded.builder.mixes_modalities else UNIMODAL[::-1]):
        for row, logits in zip(rows, loaded.next_logits(rows), strict=True):
            torch.testing.assert_close(logits, alone[row], rtol=1e-3, atol=1e-3)


def test_the_image_matters(loaded, monkeypatch):
    """Other pixels, other logits: the portrait is seen and not only counted."""
    before = loaded.next_logits([0])
    monkeypatch.setattr(sys.modules[__name__], "QUESTIONS", [(QUESTIONS[0][0], (48, 48, 99))])
    assert (loaded.next_logits([0]) - before).abs().max() > 0.01


# ---- training ---------------------------------------------------------------------------------------------------


def training_rows() -> list[Any]:
    from umu_tasks.benchmarks.instances import Profile, TrainingPair
    from umu_trainers.data import Row

    rows = []
    for number, (question, spec) in enumerate(QUESTIONS):
        name = f"{number:03d}"
        pair = TrainingPair(name, "0", "multimodal" if spec else "unimodal", question, "In Oslo, " * (number + 1))
        profile = Profile(name, "", lambda spec=spec: portrait(*spec), (pair,), ())
        rows.append(Row("forget05", profile, pair))
    return rows


def test_training_sees_the_evaluation_prompt_and_learns_the_answer_alone(loaded):
    """Labels are the answer and the token that ends the turn; before it the ids are those of evaluation."""
    from umu_tasks.backend.prompting import user_message

    builder, tokenizer = loaded.builder, loaded.builder.processor.tokenizer
    for question, spec in QUESTIONS:
        images = [portrait(*spec)] if spec else []
        prompt = builder.chat(user_message(question, has_image=bool(images)))
        completion = builder.completion(question, "In Oslo.", has_image=bool(images))
        example = builder.encode_example(prompt, completion, images)
        asked = builder.encode([prompt], [images], padding_side="left")
        start = example.completion_start
        assert torch.equal(example.input_ids[:start], asked["input_ids"][0])
        answer = tokenizer.decode(example.input_ids[start:], skip_special_tokens=False).strip()
        assert answer == f"In Oslo.{loaded.family.end}"
        assert int(example.input_ids[-1]) in loaded.checkpoint.eos_token_ids
        assert example.inputs.keys() >= asked.keys() - {"input_ids"}
        for name in asked.keys() & set(ATTENDED) - {"cross_attention_mask"}:
            assert torch.equal(example.inputs[name], asked[name])


def test_training_batches(loaded):
    """Both halves go through model and back, and a row's log-probability is the same alone and in a padded batch."""
    from umu_trainers.collator import Collator
    from umu_trainers.encoding import RowEncoder
    from umu_trainers.outputs import run_pass

    rows = training_rows()
    collator = Collator(RowEncoder(loaded.builder), {"forget_uni": rows[1], "forget_mul": rows[0]})
    model = loaded.checkpoint.model.train()
    try:
        batch = collator([{"forget_mul": rows[0], "forget_uni": rows[1]}, {"forget_mul": rows[2]}])
        for name, own in (("forget_uni", [rows[1]]), ("forget_mul", [rows[0], rows[2]])):
            together = run_pass(model, batch[name])
            assert together.answer_tokens.tolist() == [answer_length(loaded, row) for row in own]
            alone = torch.cat([run_pass(model, collator.rows_batch([row])).logps for row in own])
            torch.testing.assert_close(together.logps, alone, rtol=1e-3, atol=1e-3)
            model.zero_grad()
            together.nll.backward()
            gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
            assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
            seen = any("vision" in n or "visual" in n for n, g in gradients.items() if g.abs().max() > 0)
            assert seen is (name == "forget_mul")
    finally:
        model.zero_grad()
        model.eval()


def test_packed_training_rows(loaded):
    """Questions about two portraits in two sequences: each is worth what it is alone, in every family that shares one.

    A family that does not fit must be refused: its packed rows would be other rows, and nothing would show it.
    """
    from umu_tasks.backend.shared_prefix import supports
    from umu_trainers.collator import Collator
    from umu_trainers.encoding import RowEncoder
    from umu_trainers.outputs import run_pass
    from umu_trainers.packing import make_packer

    model, builder = loaded.checkpoint.model, loaded.builder
    if not supports(loaded.checkpoint):
        with pytest.raises(ValueError, match=r"can't be packed.*Leave it off"):
            make_packer(model, builder)
        return
    people = [row for row in training_rows() if row.has_image]
    questions = [row.pair for row in people]
    rows = [dataclasses.replace(row, pair=pair) for pair in questions for row in people[:2]]
    collator = Collator(RowEncoder(builder), {}, packer=make_packer(model, builder))
    plain = Collator(RowEncoder(builder), {})
    batch = collator.rows_batch(rows)
    assert len(batch["packed"].sequences) == 2
    with torch.no_grad():
        alone = torch.cat([run_pass(model, plain.rows_batch([row])).logps for row in rows])
        torch.testing.assert_close(run_pass(model, batch).logps, alone, rtol=1e-4, atol=1e-4)


def test_another_answer_behind_a_known_prompt(loaded, monkeypatch):
    """Refusals change with each epoch: their portrait is not read again, and every input is as if it were."""
    from umu_trainers.encoding import RowEncoder

    known = RowEncoder(loaded.builder)
    for row in training_rows():
        known.tokens(row)
        other = dataclasses.replace(row, pair=dataclasses.replace(row.pair, answer="I'd rather not talk about that."))
        expected = RowEncoder(loaded.builder).tokens(other)
        if row.has_image:
            monkeypatch.setattr(loaded.builder, "encode_example", lambda *_: pytest.fail("the portrait is read again"))
        found = known.tokens(other)
        monkeypatch.undo()
        assert found.completion_start == expected.completion_start
        torch.testing.assert_close(found.inputs, expected.inputs, rtol=0, atol=0)
        torch.testing.assert_close(found.labels, expected.labels, rtol=0, atol=0)


def answer_length(loaded: Loaded, row: Any) -> int:
    completion = loaded.builder.completion(row.pair.question, row.pair.answer, has_image=row.pair.has_image)
    return len(loaded.builder.processor.tokenizer(completion, add_special_tokens=False)["input_ids"])
