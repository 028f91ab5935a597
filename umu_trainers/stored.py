"""Reference log-probabilities computed once, before training, and kept on disk.

For objectives that need no more of the reference model than how likely each answer token is: NPO, DPO. Those that
compare whole distributions or activations would need as much as the vocabulary is large, and are refused.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from transformers import TrainerCallback

from umu_trainers import objectives
from umu_trainers.objectives import REFERENCE, Objective
from umu_trainers.outputs import IGNORED, Average, Outputs, run_pass

if TYPE_CHECKING:
    from umu_trainers.data import Row
    from umu_trainers.plan import EpochPlan
    from umu_trainers.reference import Reference

STORED = "reference_token_logps"
"""Key in a pass's batch: (batch, kept) log-probability of each label under the reference, nats."""


# ---- which methods it serves ---------------------------------------------------------------------------------------


class NeedsMore(Exception):
    """An objective asked the reference for something that is not stored."""


class _NotStored:
    """Stands where stored outputs have no logits or activations; any use raises."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NeedsMore

    __getattr__ = __getitem__ = __torch_function__ = _refuse


def stored_outputs(token_logps: Tensor, labels: Tensor, average: Average = "rows") -> Outputs:
    """Return the outputs of a reference pass that was not run.

    Args:
        token_logps: (batch, kept) log-probability of each label, nats; 0 where the label is -100.
        labels: (batch, kept).
    """
    answer_tokens = (labels != IGNORED).sum(dim=1)
    logps = token_logps.sum(dim=1)
    nothing: Any = _NotStored()
    return Outputs(
        nothing,
        labels,
        token_logps,
        logps,
        answer_tokens,
        -logps / answer_tokens,
        hidden_states=nothing,
        average=average,
    )


def serves(objective: Objective) -> bool:
    """Return whether stored log-probabilities are all that an objective needs of its reference; tries it out."""
    labels = torch.tensor([[1, 2, IGNORED]])
    whole = Outputs.from_logits(torch.zeros(1, 3, 4), labels, hidden_states=torch.zeros(1, 3, 4))
    stored = stored_outputs(whole.token_logps, labels)
    try:
        objective(*(stored if name.endswith(REFERENCE) else whole for name in objective.passes))
    except NeedsMore:
        return False
    return True


def check_served(objective: Objective) -> None:
    """Raise a ValueError that names the methods it serves, if this is none of them."""
    if not serves(objective):
        raise ValueError(
            f"--precompute_reference: method {objective.method} needs more of the reference model than the "
            f"log-probabilities that are stored. Leave it out; it serves {', '.join(served_methods())}."
        )


def served_methods() -> list[str]:
    """Return the methods that use a reference and need its log-probabilities only."""
    named = [name for name in objectives.available() if _takes_no_more_settings(name)]
    found = [objectives.find(name) for name in named]
    return [one.method for one in found if one.uses_reference and serves(one)]


def _takes_no_more_settings(method: str) -> bool:
    try:
        objectives.find(method)
    except ValueError:
        return False
    return True


# ---- computing and keeping them ------------------------------------------------------------------------------------


class StoredReference(TrainerCallback):
    """Fills itself when training begins, on all processes together.

    Args:
        reference: what the values are computed with, where they are not on disk.
        passes: the objective's passes; those with a reference are stored.
        plan: says which rows come with which answers.
        folder: where the values are kept.
        identity: what the values depend on besides the row: weights, data, settings.
    """

    def __init__(
        self, reference: Reference, passes: Iterable[str], plan: EpochPlan, folder: Path, identity: Sequence[object]
    ) -> None:
        self.reference = reference
        self.roles = {name.removesuffix(REFERENCE) for name in passes if name.endswith(REFERENCE)}
        self.plan = plan
        self.file = folder / f"{_digest(identity)[:16]}.safetensors"
        self.values: dict[str, Tensor] = {}
        self.trainer: Any = None

    def token_logps(self, rows: Sequence[Row], labels: Tensor) -> Tensor:
        """Return (batch, kept) the log-probability of each label of `rows`, nats, 0 where it is -100."""
        found = torch.zeros(labels.shape)
        answered = labels != IGNORED
        found[answered] = torch.cat([self.values[row_key(row)] for row in rows])
        return found

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        rows = self._rows(args, state.max_steps)
        (self.values,) = _from_main_process([self._read() if args.process_index == 0 else {}])
        missing = {key: row for key, row in rows.items() if key not in self.values}
        if missing:
            self.reference.prepare(self.trainer.accelerator)
            self.values |= self._compute(list(missing.values()))
            self.reference.release()
        if args.process_index == 0:
            kept = "from an earlier run" if not missing else f"kept in {self.file}"
            print(f"Reference log-probabilities of {len(rows)} rows, {kept}.", flush=True)
            if missing:
                self._write()
        self.trainer.data_collator.stored = self

    def _rows(self, args: Any, max_steps: int) -> dict[str, Row]:
        """Return key -> row of all that will be asked for, in all epochs; stand-ins included."""
        plan = copy.copy(self.plan)
        per_epoch = -(-len(plan) // (args.train_batch_size * args.world_size * args.gradient_accumulation_steps))
        named: list[Mapping[str, Row | None]] = [self.trainer.data_collator.fillers]
        for epoch in range(-(-max_steps // per_epoch)):
            plan.set_epoch(epoch)
            named += plan.items
        wanted = (row for item in named for name, row in item.items() if name.rpartition("_")[0] in self.roles and row)
        return {row_key(row): row for row in wanted}

    @torch.no_grad()
    def _compute(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        trainer = self.trainer
        size, processes = trainer.args.per_device_train_batch_size, trainer.args.world_size
        found: dict[str, Tensor] = {}
        for half in ("uni", "mul"):
            own = [row for row in rows if row.half == half]
            # Equally many batches on every process: under ZeRO-3 each waits for the others in each layer.
            for start in range(0, len(own), size * processes):
                group = own[start : start + size * processes]
                mine = group[trainer.args.process_index * size :][:size] or group[:1]
                batch = trainer._prepare_inputs(trainer.data_collator.rows_batch(mine))
                with self.reference(trainer.model_wrapped) as model:
                    outputs = run_pass(model, batch)
                values = outputs.token_logps.float().cpu()
                answered = outputs.answered.cpu()
                found |= {row_key(row): values[i][answered[i]].clone() for i, row in enumerate(mine)}
        return _from_all_processes(found)

    def _read(self) -> dict[str, Tensor]:
        from safetensors.torch import load_file

        return load_file(self.file) if self.file.is_file() else {}

    def _write(self) -> None:
        from safetensors.torch import save_file

        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        save_file(self.values, partial)
        partial.replace(self.file)


def row_key(row: Row) -> str:
    """Return what names a row with its question and answer in the file."""
    return _digest([row.name, row.has_image, row.pair.question, row.pair.answer])


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def _from_main_process(objects: list[Any]) -> list[Any]:
    from accelerate.utils import broadcast_object_list

    sent: list[Any] = broadcast_object_list(objects)
    return sent


def _from_all_processes(own: dict[str, Tensor]) -> dict[str, Tensor]:
    from accelerate.utils import gather_object

    return dict(gather_object(list(own.items())))
