"""Does a checkpoint open? Its config and processor, without its weights."""

from __future__ import annotations

from pathlib import Path

from umu_tasks.doctor.finding import Finding


def check_model(pretrained: str, peft: str | None = None, *, hub_answers: bool = True) -> Finding:
    """Return the family and prompt style of a checkpoint, or why it cannot be scored.

    Args:
        pretrained, peft: as in `--model_args` of `umu_hf`; `mini` is the packaged base model.
        hub_answers: False: a checkpoint on the hub is not asked for, which would try again for minutes.
    """
    from transformers import AutoConfig

    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import CheckpointError, load_builder, locate
    from umu_tasks.mini import base_model_dir

    name = f"model {pretrained}"
    if pretrained == "mini":
        pretrained = str(base_model_dir())
    far = [one for one in (pretrained, peft) if one and not Path(one).expanduser().exists()]
    if far and not hub_answers:
        text = f"{far[0]}: no such folder here, and the hub does not answer"
        return Finding("failed", name, text, "Give a folder; HF_HUB_OFFLINE=1 uses what was downloaded before.")
    try:
        builder = load_builder(BackendArguments(pretrained, peft))
        family = AutoConfig.from_pretrained(locate(pretrained, peft).base).model_type
    except (CheckpointError, OSError) as error:
        return Finding("failed", name, " ".join(str(error).split()), "docs/models.md lists what is supported.")
    processor = type(builder.processor).__name__
    text = f"{family}, {processor}, prompt style {builder.style}; takes questions with and without an image"
    return Finding("ok", name, text)
