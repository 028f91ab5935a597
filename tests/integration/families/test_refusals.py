"""What can't be scored is refused by name, before weights are loaded, with what to do."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_weights(monkeypatch):
    """Loading 14 GB only to be refused is minutes lost: no test here may get that far."""

    def load(*args, **kwargs):
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("umu_tasks.backend.checkpoint._load_model", load)


def error_of(folder: Path, more: str = "") -> str:
    from umu_tasks.backend.arguments import parse_arguments
    from umu_tasks.backend.checkpoint import CheckpointError, load_checkpoint

    with pytest.raises(CheckpointError) as error:
        load_checkpoint(parse_arguments(f"pretrained={folder}{more}"), torch.device("cpu"))
    return str(error.value)


def save_config(folder: Path, config: object) -> Path:
    """A folder with a config and weights that nobody must read."""
    config.save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def test_paligemma(tmp_path):
    """It can't be asked half of the questions; a filled-in grey image would score something else."""
    from builders.others import build_paligemma

    model, processor = build_paligemma()
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    for more in ("", ",prompt=published", ",prompt=chat"):
        assert (message := error_of(tmp_path, more)).startswith(f"pretrained={tmp_path}: model type 'paligemma' needs")
    assert "an image with every prompt" in message
    assert "Choose a model that" in message
    with pytest.raises(ValueError, match="`images` are expected"):  # still true of this version of transformers
        processor(text=["Who is this?"])


@pytest.mark.parametrize("name", ["Blip2Config", "InstructBlipConfig", "BlipConfig", "Kosmos2Config"])
def test_models_that_run_on_pixels_only(tmp_path, name):
    """Told from the model's class, so a family nobody listed is refused too."""
    import transformers

    message = error_of(save_config(tmp_path, getattr(transformers, name)()))
    assert "needs an image with every prompt" in message
    assert "can't run without pixels" in message


def test_language_models_and_image_models(tmp_path):
    """A plain language model's folder, and a classifier's."""
    import transformers

    for name in ("LlamaConfig", "Qwen2Config", "CLIPConfig", "ViTConfig"):
        folder = tmp_path / name
        message = error_of(save_config(folder, getattr(transformers, name)()))
        assert "takes no images as far as transformers knows; umu_hf needs an image-text-to-text model" in message


def test_code_in_a_checkpoint_is_not_run_unless_asked(tmp_path):
    """A downloaded folder may hold Python; it runs only with trust_remote_code=True."""
    ran = tmp_path / "ran"
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    config = {"model_type": "own_vlm", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"")
    code = f"import pathlib\npathlib.Path({str(ran)!r}).touch()\nraise OSError('ran')\n"
    (folder / "configuration_own.py").write_text(code)
    assert "trust_remote_code" in error_of(folder)
    assert not ran.exists()
    error_of(folder, ",trust_remote_code=True")
    assert ran.exists()


# ---- processors that can't ask both kinds of question --------------------------------------------------------------


@pytest.fixture
def edited(folder_of: Callable[[str], Path], tmp_path: Path) -> Callable[[str, str], Path]:
    """Copy a family's checkpoint and give it another chat template."""

    def edit(name: str, template: str) -> Path:
        folder = Path(shutil.copytree(folder_of(name), tmp_path / name))
        (folder / "chat_template.jinja").write_text(template)
        return folder

    return edit


USER = "{% for message in messages %}USER: "
TEXTS = "{% for p in message['content'] if p['type'] == 'text' %}{{ p['text'] }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "found"),
    [
        (USER + TEXTS + "{% endfor %}", "a question with an image"),
        (USER + "{{ '<|image_pad|>' }}{% endfor %}", "leaves the question out of the prompt"),
        (USER + "<|image_pad|>" + TEXTS + "{% endfor %}", "a question without an image"),
    ],
    ids=["drops the image", "drops the question", "always shows an image"],
)
def test_template_that_loses_something(edited, template, found):
    """Found on one question of each kind, not after an hour of answers."""
    message = error_of(edited("qwen2_vl", template))
    assert found in message
    assert "question with" in message
    assert "prompt=" in message


def test_published_frame_on_another_family(folder_of):
    """The frame's `<image>` would be plain text there."""
    message = error_of(folder_of("qwen2_vl"), ",prompt=published")
    assert "this processor's image token is '<|image_pad|>'" in message
    assert message.endswith("Use prompt=chat.")


def test_batches_that_must_not_mix(folder_of):
    """Mllama: rows without an image would attend to the others' padding; such a batch is an error, not a score."""
    from builders.others import MLLAMA
    from PIL import Image

    from umu_tasks.backend.prompting import PromptBuilder

    builder = PromptBuilder(MLLAMA.build()[1], "chat")
    images = [[Image.new("RGB", (48, 48))], [], [Image.new("RGB", (48, 24))]]
    assert builder.groups(images) == [[0, 2], [1]]
    assert builder.groups([[], []]) == [[0, 1]]
    with pytest.raises(ValueError, match="rows with and without an image in one batch"):
        builder.encode(["<|image|>Who?", "Who?", "<|image|>Who?"], images, padding_side="left")


def test_images_are_processed_once_a_row(folder_of):
    """Training encodes prompt and answer; the portrait's pixels are the costly part and needed once."""
    from builders import FAMILIES
    from PIL import Image

    from umu_tasks.backend.prompting import PromptBuilder

    processor = FAMILIES["idefics3"].build()[1]
    calls = []
    inner = type(processor.image_processor).__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(processor.image_processor), "__call__", lambda *a, **k: calls.append(1) or inner(*a, **k))
        builder = PromptBuilder(processor, "chat")
        prompt = builder.training("Who?", has_image=True)
        builder.encode_example(prompt, builder.completion("Who?", "Bo.", has_image=True), [Image.new("RGB", (48, 24))])
        assert len(calls) == 1
        assert type(processor.image_processor).__name__ == "Idefics3ImageProcessor"  # as before
        builder.encode([prompt], [[Image.new("RGB", (48, 24))]], padding_side="left")
        assert len(calls) == 2
