"""`umu prompts SOURCE --model DIR`: the exact prompts of training and evaluation; fails where they differ."""

from __future__ import annotations

import argparse
import json
import sys


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``prompts`` to the ``umu`` commands."""
    parser = commands.add_parser(
        "prompts",
        help="show the exact prompts of training and evaluation, and check that they are the same",
        description="Show text and token ids of one person's questions as the trainer and the evaluator send them to a "
        "checkpoint: of each task and of the training pairs, with and without the portrait. Exits with 1 if the two "
        "differ. Loads the checkpoint's processor, not its weights.",
    )
    parser.add_argument("source", metavar="SOURCE", help="data: hub id, folder, or `mini`")
    parser.add_argument(
        "--model", metavar="DIR", required=True, help="checkpoint or adapter: folder, hub id, or `mini`"
    )
    parser.add_argument("--peft", metavar="DIR", help="adapter on top of --model: folder or hub id")
    parser.add_argument(
        "--prompt",
        choices=("published", "chat"),
        help="prompt style (default: the one the checkpoint was trained with, else the model family's)",
    )
    parser.add_argument(
        "--split", default="forget05", metavar="S", help="split to take a person of (default: forget05)"
    )
    parser.add_argument("--id", metavar="ID", help="the person (default: the split's first with such a question)")
    parser.add_argument("--benchmark", default="umu", help="the benchmark whose data they are (default: umu)")
    parser.add_argument(
        "--trust_remote_code", action="store_true", help="run Python code that comes with the checkpoint"
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object, token ids in full")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare, print, and return 0, 1 if trainer and evaluator differ, 2 if the checkpoint can't be opened."""
    from umu_tasks.backend.checkpoint import CheckpointError

    try:
        return _run(arguments)
    except CheckpointError as error:
        print(f"umu: {error}", file=sys.stderr)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    from umu_tasks.backend.arguments import BackendArguments
    from umu_tasks.backend.checkpoint import load_builder
    from umu_tasks.benchmarks.sources import open_source
    from umu_trainers.model import resolve_checkpoint
    from umu_trainers.prompts.compare import compare_prompts
    from umu_trainers.prompts.show import as_json, render

    source = open_source(arguments.source, benchmark=arguments.benchmark)
    split = source.require(arguments.split)
    builder = load_builder(
        BackendArguments(
            pretrained=resolve_checkpoint(arguments.model),
            peft=arguments.peft,
            prompt=arguments.prompt,
            trust_remote_code=arguments.trust_remote_code,
        )
    )
    comparisons = compare_prompts(source, split, builder, benchmark=arguments.benchmark, profile_id=arguments.id)
    if arguments.json:
        report = as_json(comparisons, source=source.spec, model=arguments.model, style=builder.style)
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        tokenizer = builder.processor.tokenizer
        print(render(comparisons, tokenizer.convert_ids_to_tokens, style=builder.style))
    return 1 if any(one.problem for one in comparisons) else 0
