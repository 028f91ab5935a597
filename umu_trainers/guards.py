"""What stops a run before it ruins its results: non-finite numbers, and a bound on the forget loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from umu_tasks.backend.finite import is_finite

CHECKPOINT = "checkpoint-"
STOPPED = "stopped"  # in the entry of the log that says why training ended early
STATE_FILE = "trainer_state.json"  # the last file of a checkpoint, so that one without it is incomplete


class TrainingStopped(RuntimeError):
    """Training cannot go on; the message names the step, the cause and the last good checkpoint."""


def check_finite(loss: float, parts: Mapping[str, float], *, step: int, output_dir: str) -> None:
    """Raise `TrainingStopped` if a step's loss is not a finite number.

    Args:
        parts: name -> value of what the loss is made of, for the message.
        step: the optimizer step that is being computed, from 1.
    """
    if math.isfinite(loss):
        return
    listed = ", ".join(f"{name} {value:.4g}" for name, value in parts.items())
    raise TrainingStopped(
        f"step {step}: the loss is {loss} ({listed}). {_last_good(output_dir)} Lower learning_rate or max_grad_norm, "
        "train fewer steps, or set max_forget_loss."
    )


def check_weights(model: nn.Module, *, step: int, output_dir: str, largest: Callable[[int], int] = int) -> None:
    """Raise `TrainingStopped` if a trained weight is not finite, so that such a model is never saved.

    Args:
        largest: returns the largest of the numbers that all processes give it. Each may hold another part of the
            weights, and all must stop.
    """
    trained = [(name, _local(one)) for name, one in model.named_parameters() if one.requires_grad]
    broken = [name for name, one in trained if not is_finite(one)]
    if count := largest(len(broken)):
        first = f"the first is {broken[0]}" if broken else "held by another process"
        raise TrainingStopped(
            f"step {step}: {count} weights are not finite, {first}. Nothing was saved at this "
            f"step. {_last_good(output_dir)} Lower learning_rate or max_grad_norm."
        )


def _local(parameter: Any) -> Tensor:
    """Return what this process holds of a parameter: under ZeRO-3 and FSDP2 a part of it."""
    part = getattr(parameter, "ds_tensor", parameter)
    return part.to_local() if hasattr(part, "to_local") else part


class ForgetBound(TrainerCallback):
    """Ends training once the forget answers are unlikely enough; the model of that step is the result.

    Args:
        bound: nats per answer token, averaged over a step's forget rows of both halves.
        accelerator: gathers the processes' parts, so that all stop at the same step.
    """

    def __init__(self, bound: float, accelerator: Any) -> None:
        self.bound = bound
        self.accelerator = accelerator
        self.stopped_at: int | None = None
        self._parts: list[Tensor] = []  # (2,) each: a mean times its weight, and the weight

    def add(self, nll: Tensor, weight: Tensor) -> None:
        """Add a micro-batch's mean () and its weight (), in whatever unit is common to the step's."""
        self._parts.append(torch.stack([nll.detach() * weight, weight.to(nll.dtype)]))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._parts:  # a step of retain rows alone, on all processes
            return
        own = torch.stack(self._parts).sum(dim=0, keepdim=True)  # (1, 2)
        self._parts.clear()
        # Over the weights of forget rows alone: between two sequential phases a step holds retain rows too.
        value, weight = self.accelerator.gather(own).sum(dim=0).tolist()
        loss = value / weight if weight else 0.0
        if loss > self.bound:
            control.should_training_stop = True
            self.stopped_at = state.global_step
            note_stop(state, f"the forget loss {loss:.4g} is above max_forget_loss {self.bound:.4g}")
            if state.is_world_process_zero:
                print(
                    f"step {state.global_step}: the forget loss {loss:.4g} is above max_forget_loss {self.bound:.4g}; "
                    "training ends here and this model is saved."
                )


def note_stop(state: Any, reason: str) -> None:
    """Write into the trainer's log, which its checkpoints keep, that a guard ended the run at this step."""
    state.log_history.append({"step": state.global_step, STOPPED: reason})


def was_stopped(state: Any) -> bool:
    """Return whether a guard has ended the run whose state this is; resumed, it must not go on."""
    return any(STOPPED in one for one in state.log_history)


def last_checkpoint(output_dir: str) -> str | None:
    """Return the newest complete checkpoint folder, or None. A run killed while saving leaves an incomplete one."""
    steps = {}
    for path in Path(output_dir).glob(f"{CHECKPOINT}*"):
        number = path.name.removeprefix(CHECKPOINT)
        if number.isdigit() and is_complete(path):
            steps[int(number)] = path
    return str(steps[max(steps)]) if steps else None


def is_complete(checkpoint: Path) -> bool:
    """Return whether a checkpoint folder was written to its end."""
    state = checkpoint / STATE_FILE
    return state.is_file() and state.stat().st_size > 0


def _last_good(output_dir: str) -> str:
    checkpoint = last_checkpoint(output_dir)
    return f"The last good checkpoint is {checkpoint}." if checkpoint else "No checkpoint was saved yet (save_steps)."
