"""Rows and portraits that differ in what a batch of one family takes for granted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))

DATA = Path(__file__).parents[2] / "fixtures" / "umu_small" / "data"

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def portrait(width: int, height: int) -> Image.Image:
    generator = torch.Generator().manual_seed(width * height)
    return Image.fromarray(torch.randint(0, 256, (height, width, 3), generator=generator, dtype=torch.uint8).numpy())


def load(folder: Path) -> Any:
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    return load_checkpoint(BackendArguments(str(folder), prompt="chat"), torch.device("cpu"))


def answers(checkpoint: Any, images: list[Image.Image | None], batch_size: int, *, share_images: bool) -> list[Any]:
    """Return the answers to a few questions of different length about each image."""
    from umu_tasks.backend.answering import Answering
    from umu_tasks.backend.generation import GenerationSettings

    asked = [
        SimpleNamespace(
            prompt=checkpoint.builder.training(text, has_image=image is not None),
            images=[] if image is None else [image],
            settings=GenerationSettings(5),
        )
        for image in images
        for text in ("Who?", "Where does this person live?")
    ]
    answering = Answering(checkpoint, batch_size, share_images=share_images)
    found = {id(one): answer for batch in answering.answers(asked) for one, answer in batch}
    return [found[id(one)] for one in asked]


def test_portraits_of_one_length_and_other_views(folder_of):
    """LLaVA-NeXT: two portraits cut into other numbers of views that come to as many tokens; once a crash."""
    checkpoint = load(folder_of("llava_next"))
    views = [[48, 48], [24, 72]]  # of 24 pixels, 3 x 3 patches: four of them, or three
    checkpoint.model.config.image_grid_pinpoints = views
    checkpoint.builder.processor.image_processor.image_grid_pinpoints = views
    pair = [portrait(32, 48), portrait(72, 24)]  # 6 rows of 4 patches and a line end, 3 rows of 9
    prompt = checkpoint.builder.training("Who?", has_image=True)
    one, other = (checkpoint.builder.encode([prompt], [[image]], padding_side="left") for image in pair)
    assert one["input_ids"].shape == other["input_ids"].shape
    assert one["pixel_values"].shape != other["pixel_values"].shape
    alone = answers(checkpoint, pair, 1, share_images=False)
    assert answers(checkpoint, pair, 4, share_images=True) == alone


def test_a_processor_that_makes_tensors_by_itself(tmp_path):
    """Pixtral's: rows of other length than their neighbours', with portraits of one size and of several."""
    from builders.llava import build_pixtral

    model, processor = build_pixtral()
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    checkpoint = load(tmp_path)
    images = [portrait(48, 48), portrait(48, 24), None]
    alone = answers(checkpoint, images, 1, share_images=False)
    assert answers(checkpoint, images, 4, share_images=False) == alone
    assert answers(checkpoint, images, 4, share_images=True) == alone


def test_begin_token_is_each_row_s_own_matter(folder_of):
    """A prompt that brings its begin token, beside one that does not: each has one, as when it is encoded alone."""
    builder = load(folder_of("llava")).builder
    image = portrait(48, 48)
    prompts = [f"{start}USER: {mark}Who?" for mark in ("<image>\n", "") for start in ("<s>", "", "<s>")]
    images = [[image] if "<image>" in prompt else [] for prompt in prompts]
    together = builder.encode(prompts, images, padding_side="right")
    assert len(together["pixel_values"]) == 3
    for row, prompt in enumerate(prompts):
        alone = builder.encode([prompt], [images[row]], padding_side="right")["input_ids"][0]
        assert together["input_ids"][row, : len(alone)].tolist() == alone.tolist()
        begin = builder.processor.tokenizer.bos_token_id
        assert together["input_ids"][row].tolist().count(begin) == 1


def test_a_tower_of_one_sequence_keeps_no_image_features():
    """Pixtral's features of a batch have no row an image; kept, they once ended a run at its first step."""
    from builders.llava import build_pixtral

    from umu_trainers.image_features import cache_image_features

    model, _ = build_pixtral()
    with pytest.raises(ValueError, match=r"--cache_image_features: a pixtral vision tower is not supported.*Leave it"):
        cache_image_features(model, ["language_model"], 1)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("window", [40, 4096])
def test_packed_rows_keep_to_the_window_of_their_decoder(folder_of, attention, window):
    """LLaVA-NeXT on Mistral: a mask of our own once took the place of the window's."""
    from transformers import LlavaNextForConditionalGeneration

    from umu_tasks.benchmarks.sources import open_source
    from umu_trainers.collator import Collator
    from umu_trainers.data import training_set
    from umu_trainers.encoding import RowEncoder
    from umu_trainers.outputs import run_pass
    from umu_trainers.packing import make_packer

    folder = folder_of("llava_next")
    model = LlavaNextForConditionalGeneration.from_pretrained(folder, attn_implementation=attention).float().eval()
    model.model.language_model.config.sliding_window = window
    assert model.config.get_text_config() is model.model.language_model.config
    encoder = RowEncoder(load(folder).builder)
    rows = training_set("forget", open_source(str(DATA)).load("forget05"), ("mul",)).rows["mul"]
    assert 40 < min(map(encoder.length, rows)) < 4096
    packed = Collator(encoder, {}, packer=make_packer(model, encoder.builder)).rows_batch(rows)
    with torch.no_grad():
        alone = torch.cat([run_pass(model, Collator(encoder, {}).rows_batch([row])).logps for row in rows])
        torch.testing.assert_close(run_pass(model, packed).logps, alone, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("window", [40, 4096])
def test_shared_portraits_keep_to_the_window_of_their_decoder(folder_of, window, caplog):
    """Past a window the prefix would be cut: such questions bring their own image, and it is said."""
    checkpoint = load(folder_of("llava_next"))
    checkpoint.model.config.get_text_config().sliding_window = window
    images = [portrait(64, 64), portrait(48, 64)]
    plain = answers(checkpoint, images, 1, share_images=False)
    assert answers(checkpoint, images, 4, share_images=True) == plain
    assert (f"the decoder sees {window} at a time" in caplog.text) is (window == 40)
