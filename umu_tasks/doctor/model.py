"""Does a checkpoint open? Its config and processor, without its weights."""

from __future__ import annotations

from umu_tasks.doctor.finding import Finding


def check_model(pretrained: str, peft: str | None = None) -> Finding:
    """Return the family and prompt style of a checkpoint, or why it cannot be scored.

    Args:
        pretrained, peft: as in `--model_args` of `umu_hf`.
    """
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import CheckpointError, load_builder

    name = f"model {pretrained}"
    try:
        builder = load_builder(BackendArguments(pretrained, peft))
    except (CheckpointError, OSError) as error:
        return Finding("failed", name, " ".join(str(error).split()), "docs/models.md lists what is supported.")
    processor = type(builder.processor).__name__
    return Finding("ok", name, f"{processor}, prompt style {builder.style}, asked with and without an image")
