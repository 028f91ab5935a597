"""Unlearning: make a trained model forget the people of a forget set.

accelerate launch umu_trainers/unlearn.py --config configs/unlearn/gd.yaml --forget_ratio 10 --modality uni
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports below, which take seconds
    from umu_trainers.early import check

    check()

from collections.abc import Sequence

from umu_tasks.benchmarks.sources import open_source
from umu_trainers import run
from umu_trainers.collator import fillers
from umu_trainers.config import UnlearnArguments, parse
from umu_trainers.config.unlearn_checks import without_effect
from umu_trainers.data import TrainingSet, all_rows, load_refusals, rows_by_role, unlearn_sets
from umu_trainers.encoding import RowEncoder
from umu_trainers.model import Start
from umu_trainers.plan import EpochPlan, SequentialPlan, UnlearnPlan
from umu_trainers.record import resume_point
from umu_trainers.reference import make_reference
from umu_trainers.scoring import SampleScorer
from umu_trainers.trainer import UnlearnTrainer


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(UnlearnArguments, "Make a model forget the people of a forget set.", argv)
    resume = resume_point(args)
    run.say_without_effect(without_effect(args))

    source = open_source(args.data, benchmark=args.benchmark)
    forget, retain = unlearn_sets(source, args)
    run.say("\n".join(str(one) for one in (forget, retain) if one))
    questions = run.questions_to_score(source, args)

    start = run.open_start(args)
    encoder = run.build_encoder(start, args)
    forget, retain = run.fitting(forget, encoder), retain and run.fitting(retain, encoder)
    trainer = build_trainer(args, start, encoder, forget, retain, run.sample_scorer(questions, args, start))
    run.train_and_save("unlearn", trainer, start, source, {"forget": forget, "retain": retain}, resume)


def build_trainer(
    args: UnlearnArguments,
    start: Start,
    encoder: RowEncoder,
    forget: TrainingSet,
    retain: TrainingSet | None,
    scorer: SampleScorer | None = None,
) -> UnlearnTrainer:
    """Return the trainer of a method: its rows, its plan, its reference."""
    objective = args.objective()
    run.check_hidden_layer(start, objective)
    refusals = load_refusals() if "refusal" in objective.roles else []
    stand_ins = fillers(rows_by_role(objective.roles, forget, retain, refusals))
    needed = [*all_rows([forget, retain]), *stand_ins.values()]
    run.say(f"longest row: {encoder.encode_all(needed, quiet=args.disable_tqdm)} tokens")
    plan = make_plan(args, forget, retain, refusals)
    reference = make_reference(start, args) if objective.uses_reference else None
    return UnlearnTrainer(
        start.model,
        start.builder.processor,
        args,
        plan,
        run.build_collator(encoder, stand_ins, start, args),
        lora=run.adapter_config(start, args),
        objective=objective,
        weights=args.weights,
        reference=reference,
        stored=run.stored_reference(reference, objective, plan, args, [forget, retain]),
        max_forget_loss=args.max_forget_loss,
        scorer=scorer,
    )


def make_plan(
    args: UnlearnArguments, forget: TrainingSet, retain: TrainingSet | None, refusals: Sequence[str]
) -> EpochPlan:
    """Return which rows each step uses."""
    multiple = run.items_per_batch(args)
    if args.phases == "sequential" and retain is not None:
        return SequentialPlan(
            forget.rows, retain.rows, seed=args.seed, multiple=multiple, by_profile=args.pack_by_profile
        )
    own = retain.rows if retain is not None else None
    return UnlearnPlan(
        forget.rows, own, refusals=refusals, seed=args.seed, multiple=multiple, by_profile=args.pack_by_profile
    )


if __name__ == "__main__":
    run.run_script(main)
