"""The trainers: TRL's `SFTTrainer` with our batches, passes and losses."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import is_peft_model
from datasets import Dataset
from torch import Tensor
from torch.utils.data import Sampler, SequentialSampler
from transformers import set_seed
from transformers.trainer import TRAINING_ARGS_NAME
from trl import SFTTrainer

from umu_trainers.adapter_switch import AdapterSwitch
from umu_trainers.collator import Batch, Collator, half_of
from umu_trainers.config import CommonArguments, Half
from umu_trainers.guards import ForgetBound, check_finite, check_weights, was_stopped
from umu_trainers.model import save_adapter
from umu_trainers.objectives import REFERENCE, Objective
from umu_trainers.outputs import Outputs, concatenate, run_joint, run_pass
from umu_trainers.plan import EpochPlan
from umu_trainers.reference import Reference
from umu_trainers.scoring import SampleScorer
from umu_trainers.stored import STORED, StoredReference, stored_outputs

Totals = dict[str, Tensor]
Parts = dict[str, Tensor]
"""Name -> (2,): a value times its weight, and that weight; their sums, one over the other, are logged."""


class PassTrainer(SFTTrainer):
    """Runs the passes of our batches and scales their losses to the whole step.

    A step's loss does not depend on how its rows are split over micro-batches and processes: `share` gives each piece
    its part of the total count.

    Args:
        model, processor: what is trained.
        args: the settings.
        plan: the rows of each step.
        collator: makes batches of the plan's items.
        lora: adapter config for a model that is not a `PeftModel` yet; None for full training.
    """

    scorer: SampleScorer | None = None
    _switch: AdapterSwitch | None = None
    # compute_loss normalizes over the whole accumulated batch itself.
    loss_is_scaled_for_ga = True

    def __init__(
        self, model: Any, processor: Any, args: CommonArguments, plan: EpochPlan, collator: Collator, lora: Any = None
    ) -> None:
        self.logged: Parts = defaultdict(lambda: torch.zeros(2, device=self.args.device))
        set_seed(args.seed)  # older TRL makes the adapter before anything has set it
        super().__init__(
            model=model,
            args=args,
            data_collator=collator,
            # TRL looks at a data set to choose its own preparation; ours has none, and the rows come from the plan.
            train_dataset=Dataset.from_dict({"row": [row.name for row in collator.fillers.values()]}),
            processing_class=processor,
            peft_config=lora,
        )
        self.train_dataset = plan
        # transformers before 5.19 asks this instead of loss_is_scaled_for_ga; Qwen's and Gemma's models say no.
        self.model_accepts_loss_kwargs = True
        self._require_whole_weights()
        self._finish_gradients_once()

    def _require_whole_weights(self) -> None:
        """Raise a ValueError if what this run trains could not be saved: better now than after the last step."""
        plugin = getattr(self.accelerator.state, "deepspeed_plugin", None)
        if plugin is None or plugin.zero_stage != 3 or is_peft_model(self.model):
            return
        if not plugin.deepspeed_config["zero_optimization"].get("stage3_gather_16bit_weights_on_model_save"):
            raise ValueError(
                "ZeRO-3 with use_lora: false: the weights could not be saved as one model. Set zero3_save_16bit_model: "
                "true in the accelerate config, as configs/accelerate/zero3.yaml does."
            )

    def _finish_gradients_once(self) -> None:
        """Under ZeRO-3, let a weight's gradient be whole when DeepSpeed is told of it, also after several passes.

        With reentrant checkpointing, which TRL sets there for adapters, each pass has a backward of its own, and
        DeepSpeed stops at the second gradient of a weight. It needed that until 0.19.3.
        """
        plugin = getattr(self.accelerator.state, "deepspeed_plugin", None)
        if plugin is None or plugin.zero_stage != 3 or not self.args.gradient_checkpointing:
            return
        for name in ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):  # the old name, and the new
            if hasattr(self.args, name):
                setattr(self.args, name, {**(getattr(self.args, name) or {}), "use_reentrant": False})

    # ---- data ------------------------------------------------------------------------------------------------------

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        """The plan itself shuffles."""
        return SequentialSampler(train_dataset or self.train_dataset)

    def get_batch_samples(
        self, epoch_iterator: Any, num_batches: int, device: torch.device
    ) -> tuple[list[Batch], Totals | None]:
        """Return the micro-batches of a step and its counts; none once the run is over.

        A run that is taken up at its very last step, or after a guard ended it, would take one step more otherwise.
        """
        if self.state.global_step >= self.state.max_steps or was_stopped(self.state):
            return [], None
        batches: list[Batch]
        batches, totals = super().get_batch_samples(epoch_iterator, num_batches, device)
        return batches, totals

    def _get_num_items_in_batch(self, batch_samples: list[Batch], device: torch.device) -> Totals:
        """Return the counts of a whole step, over its micro-batches and processes: `rows_uni`, `tokens_uni` …

        Stand-ins of passes for which no process has a row are taken out of the micro-batches.
        """
        names = [f"{kind}_{half}" for half in self.args.halves for kind in ("rows", "tokens")]
        counts = [
            sum((batch["counts"][half][kind] for batch in batch_samples), start=torch.tensor(0))
            for half in self.args.halves
            for kind in ("rows", "tokens")
        ]
        present = [batch.pop("present") for batch in batch_samples]  # each (passes,)
        own = torch.cat([torch.stack(counts).to(device), *(one.to(device) for one in present)])
        everywhere = self.accelerator.gather(own).view(-1, len(own)).sum(dim=0)
        if self.args.world_size > 1 and self._may_leave_out_passes:
            shown = everywhere[len(names) :].view(len(batch_samples), -1).tolist()
            for batch, rows in zip(batch_samples, shown, strict=True):
                for name, count in zip(self.data_collator.fillers, rows, strict=True):
                    if not count:
                        batch.pop(name, None)
        return dict(zip(names, everywhere[: len(names)], strict=True))

    @property
    def _may_leave_out_passes(self) -> bool:
        """DDP wants every trained weight in every step, and only image passes reach projector and tower."""
        return self.args.train == ["language_model"] and self.args.lora_target_modules is None

    # ---- loss ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def step_loss(self, model: Any, batch: Batch, totals: Totals) -> tuple[Tensor, Parts]:
        """Return this micro-batch's part of the step's loss (), and what to log of it."""

    @property
    def is_joint(self) -> bool:
        """Whether what a step runs with the same weights is one pass."""
        return self.data_collator.packer is not None

    def run(self, model: Any, batches: Sequence[Batch], **settings: Any) -> Iterator[Outputs]:
        """Yield the outputs on each batch: of one pass over all packed rows, otherwise each run when asked for."""
        if self.is_joint and batches:
            yield from run_joint(model, batches, **settings)
            return
        for batch in batches:
            yield run_pass(model, batch, **settings)

    def halves_of(self, batch: Batch) -> list[Half]:
        """Return the halves that this micro-batch has passes for, unimodal first."""
        named = set(map(half_of, batch.keys() - {"counts"}))
        return [half for half in self.args.halves if half in named]

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Return the micro-batch's loss (), to be summed over micro-batches and averaged over processes.

        Raises:
            TrainingStopped: the loss is not finite.
        """
        with self._without_double_casts():
            loss, parts = self.step_loss(model, inputs, num_items_in_batch)
        # All processes stop at the same step, before its update.
        losses = self.accelerator.gather(loss.detach().float().reshape(1))
        if not bool(torch.isfinite(losses).all()):
            values = {name: float(value / weight) for name, (value, weight) in parts.items() if weight}
            worst = losses[~torch.isfinite(losses)][0].item()
            check_finite(worst, values, step=self.state.global_step + 1, output_dir=self.args.output_dir)
        for name, value in parts.items():
            self.logged[name] += value.detach()
        if not loss.requires_grad:  # text rows alone, and only what sees images is trained
            loss = loss + 0.0 * next(one for one in model.parameters() if one.requires_grad).sum()
        return loss

    def _without_double_casts(self) -> AbstractContextManager[None]:
        """Under autocast PEFT would turn an adapter's inputs to float32 first, only for autocast to turn them back.

        Not with gradient checkpointing, which runs layers again outside of this context.
        """
        lean = self.accelerator.native_amp and not self.args.gradient_checkpointing
        if not (lean and is_peft_model(self.model)):
            return nullcontext()
        if self._switch is None:
            self._switch = AdapterSwitch(self.model)
        return self._switch.without_input_casts()

    def share(self, count: Tensor, total: Tensor) -> Tensor:
        """Return the weight () of a piece with `count` of the step's `total` rows or tokens."""
        # Gradients are averaged over processes; the sum is wanted.
        return self.accelerator.num_processes * count / total.clamp(min=1)

    # ---- logging and saving ----------------------------------------------------------------------------------------

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the parts of the loss, averaged over those steps since the last log that had them."""
        if self.logged:
            own = torch.stack(list(self.logged.values())).unsqueeze(0)  # (1, parts, 2)
            sums = self.accelerator.gather(own).sum(dim=0).tolist()
            logs.update(
                {name: value / weight for name, (value, weight) in zip(self.logged, sums, strict=True) if weight}
            )
            self.logged.clear()
        super().log(logs, start_time)

    def log_alone(self, logs: dict[str, float]) -> None:
        """Log figures that are not of the loss; its parts wait for their own entry."""
        super().log(logs)

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted: our batches hold several passes, and the estimate ignores the vision tower."""
        return 0

    def create_model_card(self, *args: Any, **settings: Any) -> None:
        """Write none: TRL's calls any model a text pipeline. An adapter gets ours, with its weights."""

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """Save model and processor. The settings lie in the record as text, not as a pickle beside the weights."""
        folder = Path(output_dir or self.args.output_dir)
        if is_peft_model(self.model):
            if self.args.should_save:
                save_adapter(self.model, folder, state_dict)
                self.processing_class.save_pretrained(folder)
            return
        super()._save(output_dir, state_dict)
        (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load a checkpoint's weights when resuming.

        Whole models go through `from_pretrained`: transformers renames weights when it saves some families (LLaVA among
        them), and its trainer reads the file without renaming them back, so that nothing would be loaded.
        """
        target = model or self.model
        if self.is_fsdp_enabled or is_peft_model(target):
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        saved = type(target).from_pretrained(resume_from_checkpoint, dtype=target.dtype)
        target.load_state_dict(saved.state_dict())

    def check_weights(self) -> None:
        """Raise `TrainingStopped` on all processes if a trained weight is not finite on any."""

        def largest(number: int) -> int:
            return int(self.accelerator.gather(torch.tensor([number], device=self.args.device)).max())

        check_weights(self.model, step=self.state.global_step, output_dir=self.args.output_dir, largest=largest)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.check_weights()
        super()._save_checkpoint(model, trial)


class SupervisedTrainer(PassTrainer):
    """SFT: the negative log-likelihood per answer token over all rows of a step, whichever half they are of."""

    _name = "SFT"

    def step_loss(self, model: Any, batch: Batch, totals: Totals) -> tuple[Tensor, Parts]:
        loss = torch.zeros((), device=self.args.device)
        parts = {}
        everything = torch.stack([totals[f"tokens_{half}"] for half in self.args.halves]).sum()
        halves = self.halves_of(batch)
        for half, outputs in zip(halves, self.run(model, [batch[f"train_{half}"] for half in halves]), strict=True):
            tokens = batch["counts"][half]["tokens"]
            nll = -outputs.logps.sum() / outputs.answer_tokens.sum()  # ()
            loss = loss + self.share(tokens, everything) * nll
            parts[f"nll/train_{half}"] = weighted(nll, self.share(tokens, totals[f"tokens_{half}"]))
        return loss, parts


class UnlearnTrainer(PassTrainer):
    """Unlearning: `alpha * multimodal + beta * unimodal` of an objective over the passes it names.

    Args:
        objective: the method's loss function.
        weights: half -> weight of its loss (alpha, beta).
        reference: for objectives that compare with the model before unlearning.
        stored: gives the reference's log-probabilities instead, computed once.
        scorer: scores a sample of questions while training.
        max_forget_loss: training ends once the mean negative log-likelihood of a step's forget rows is above it.
    """

    _name = "Unlearning"
    # Only the graph of one half is held at a time. DDP, ZeRO and FSDP would exchange gradients once a half.
    backward_by_half = False

    def __init__(
        self,
        *args: Any,
        objective: Objective,
        weights: dict[Half, float],
        reference: Reference | None = None,
        stored: StoredReference | None = None,
        max_forget_loss: float | None = None,
        scorer: SampleScorer | None = None,
        **kwargs: Any,
    ) -> None:
        self.objective = objective
        self.weights = weights
        self.reference = reference
        super().__init__(*args, **kwargs)
        alone = self.args.world_size == 1 and not (self.is_deepspeed_enabled or self.is_fsdp_enabled)
        self.backward_by_half = alone and not self.is_joint and self.args.clip_multimodal is None
        self.bound = ForgetBound(max_forget_loss, self.accelerator) if max_forget_loss is not None else None
        if self.bound is not None:
            self.add_callback(self.bound)
        self.scorer = scorer
        if scorer is not None:
            scorer.trainer = self
            self.add_callback(scorer)
        if stored is not None:
            stored.trainer = self
            self.add_callback(stored)
        elif reference is not None:
            reference.prepare(self.accelerator)

    def step_loss(self, model: Any, batch: Batch, totals: Totals) -> tuple[Tensor, Parts]:
        losses: dict[Half, Tensor] = {}
        parts: Parts = {}
        all_rows = torch.stack([totals[f"rows_{half}"] for half in self.args.halves]).sum()
        halves = self.halves_of(batch)
        # Gradients of one half that are clipped alone need a graph of their own.
        at_once = halves if self.is_joint and self.args.clip_multimodal is None else []
        found = self._passes(model, batch, at_once)
        for half in halves:
            passes = found.pop(half) if half in found else self._passes(model, batch, [half])[half]
            value = self.objective(*(passes.get(name) for name in self.objective.passes))  # ()
            if self.objective.hidden_layer is not None and self.args.world_size > 1:
                value = value + 0.0 * sum(one.logps.sum() for one in passes.values())  # the layers above take part
            rows = batch["counts"][half]["rows"]
            share = self.share(rows, totals[f"rows_{half}"])
            if self.bound is not None and "forget" in passes:
                self.bound.add(passes["forget"].nll, self.share(rows, all_rows))
            losses[half] = self.weights[half] * share * value
            parts[f"loss/{half}"] = weighted(value, share)
            for name, outputs in passes.items():
                if not name.endswith(REFERENCE):
                    parts[f"nll/{name}_{half}"] = weighted(outputs.nll, share)
            if self.backward_by_half and half != halves[-1]:
                if losses[half].requires_grad:  # text rows do not reach a projector, if that alone is trained
                    with torch.autocast(self.args.device.type, enabled=False):
                        self.accelerator.backward(losses[half])
                losses[half] = losses[half].detach()
                del passes, value, outputs
        if self.args.clip_multimodal is not None and "mul" in losses:  # alone too, where the halves are uneven
            self._clip_alone(losses["mul"], self.args.clip_multimodal)
            losses["mul"] = losses["mul"].detach()
        return torch.stack(list(losses.values())).sum(), parts

    def _clip_alone(self, loss: Tensor, norm: float) -> None:
        """Compute the gradient of one part of the loss and clip it before the rest is added."""
        with torch.autocast(self.args.device.type, enabled=False):
            self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), norm)

    def _passes(self, model: Any, batch: Batch, halves: Sequence[Half]) -> dict[Half, dict[str, Outputs]]:
        """Run what the objective names and the batch has, reference passes first, so that the last one has gradient.

        Returns:
            half -> pass -> outputs; under its own half also where a retain pass holds rows of both.
        """
        parts: dict[tuple[Half, str], list[Outputs]] = defaultdict(list)
        for is_reference in (True, False):
            names = [name for name in self.objective.passes if name.endswith(REFERENCE) == is_reference]
            wanted = [
                ((half, name), one) for half in halves for name in names for one in self._batches(batch, name, half)
            ]
            stored = [one for one in wanted if is_reference and STORED in one[1]]
            for key, one in stored:
                parts[key].append(stored_outputs(one[STORED], one["labels"], self.args.nll_average))
            asked = [] if stored else wanted
            with self.reference(model) if is_reference and self.reference and asked else nullcontext(model) as runner:
                settings = {"hidden_layer": self.objective.hidden_layer, "average": self.args.nll_average}
                outputs = self.run(runner, [one for _, one in asked], **settings)
                for (key, _), own in zip(asked, outputs, strict=True):
                    parts[key].append(own)
        found: dict[Half, dict[str, Outputs]] = {half: {} for half in halves}
        for (half, name), several in parts.items():
            found[half][name] = concatenate(several)
        return found

    def _batches(self, batch: Batch, name: str, half: Half) -> list[Batch]:
        """Return what a pass of the objective runs on: rows of its half, or retain rows of both beside one half."""
        role = name.removesuffix(REFERENCE)
        halves = self.args.retain_halves if role == "retain" and len(self.args.halves) == 1 else (half,)
        return [batch[f"{role}_{one}"] for one in halves if f"{role}_{one}" in batch]


def weighted(value: Tensor, weight: Tensor) -> Tensor:
    """Return (2,): the value times its weight, and the weight."""
    return torch.stack([value.detach() * weight, weight.to(value.dtype)])
