"""UMU-mini: invented people with drawn portraits in UMU-Bench's layout, and a small base model that can learn them."""

from __future__ import annotations

from pathlib import Path

# Counts up whenever the same seed gives other people, portraits or files: caches are keyed by it.
GENERATOR_VERSION = 1


def base_model_dir() -> Path:
    """Return the folder of the packaged base model: fp16 weights, config, processor, tokenizer.

    Raises:
        FileNotFoundError: the package was installed without its model files.
    """
    folder = Path(__file__).parent / "base"
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(
            f"{folder}: the base model's model.safetensors is missing. Install umu-bench again from a complete "
            "checkout, or make the file with scripts/train_mini_base.py."
        )
    return folder
