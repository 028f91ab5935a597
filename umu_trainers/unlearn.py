"""Unlearning: make a trained model forget the people of a forget set.

accelerate launch umu_trainers/unlearn.py --config configs/unlearn/gd.yaml --forget_ratio 10 --modality uni
"""

from __future__ import annotations

from collections.abc import Sequence

from umu_tasks.benchmarks.sources import open_source
from umu_trainers import run
from umu_trainers.collator import Collator, fillers
from umu_trainers.config import UnlearnArguments, parse
from umu_trainers.data import all_rows, unlearn_sets
from umu_trainers.plan import UnlearnPlan
from umu_trainers.record import resume_point
from umu_trainers.reference import make_reference
from umu_trainers.trainer import UnlearnTrainer


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(UnlearnArguments, "Make a model forget the people of a forget set.", argv)
    objective = args.objective()
    resume = resume_point(args)

    source = open_source(args.data)
    forget, retain = unlearn_sets(source, args)
    run.say("\n".join(str(one) for one in (forget, retain) if one))

    start = run.open_start(args)
    encoder = run.build_encoder(start, args)
    run.say(f"longest row: {encoder.encode_all(all_rows([forget, retain]), quiet=args.disable_tqdm)} tokens")
    rows = {"forget": forget.rows, "retain": retain.rows if retain else None}
    plan = UnlearnPlan(forget.rows, rows["retain"], seed=args.seed, multiple=run.items_per_batch(args))

    trainer = UnlearnTrainer(
        start.model,
        start.builder.processor,
        args,
        plan,
        Collator(encoder, fillers(rows), keep_empty=args.world_size > 1),
        lora=run.adapter_config(start, args),
        objective=objective,
        weights=args.weights,
        reference=make_reference(start.model, is_lora=args.use_lora) if objective.uses_reference else None,
        max_forget_loss=args.max_forget_loss,
    )
    run.train_and_save("unlearn", trainer, start, source, {"forget": forget, "retain": retain}, resume)


if __name__ == "__main__":
    run.run_script(main)
