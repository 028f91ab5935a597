"""Supervised fine-tuning: teach a model the fictitious people.

accelerate launch umu_trainers/sft.py --config configs/sft/mini.yaml
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports below, which take seconds
    from umu_trainers.early import check

    check()

from collections.abc import Sequence

from umu_tasks.benchmarks.sources import open_source
from umu_trainers import run
from umu_trainers.collator import fillers
from umu_trainers.config import SFTArguments, parse
from umu_trainers.config.checks import without_effect
from umu_trainers.data import all_rows, sft_sets
from umu_trainers.plan import SFTPlan
from umu_trainers.record import resume_point
from umu_trainers.trainer import SupervisedTrainer


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(SFTArguments, "Teach a model the people of a split.", argv)
    resume = resume_point(args)
    run.say_without_effect(without_effect(args))

    source = open_source(args.data, benchmark=args.benchmark)
    learn, replay = sft_sets(source, args)
    run.say("\n".join(str(one) for one in (learn, replay) if one))

    start = run.open_start(args)
    encoder = run.build_encoder(start, args)
    learn, replay = run.fitting(learn, encoder), replay and run.fitting(replay, encoder)
    run.say(f"longest row: {encoder.encode_all(all_rows([learn, replay]), quiet=args.disable_tqdm)} tokens")
    plan = SFTPlan(
        all_rows([learn]),
        all_rows([replay]),
        replay_share=args.replay_real,
        batch_size=run.items_per_batch(args) * args.gradient_accumulation_steps,
        length=encoder.length if args.train_sampling_strategy == "group_by_length" else None,
        seed=args.seed,
        multiple=run.items_per_batch(args),
        by_profile=args.pack_by_profile,
    )

    trainer = SupervisedTrainer(
        start.model,
        start.builder.processor,
        args,
        plan,
        run.build_collator(encoder, fillers({"train": learn.rows}), start, args),
        lora=run.adapter_config(start, args),
    )
    run.train_and_save("sft", trainer, start, source, {"train": learn, "replay": replay}, resume)


if __name__ == "__main__":
    run.run_script(main)
