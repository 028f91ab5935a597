"""Several processes share the questions and give the numbers of one."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.slow

LAUNCH = [sys.executable, "-m", "accelerate.commands.launch"]
TWO = [*LAUNCH, "--multi_gpu", "--num_processes", "2", "--main_process_port", "0", "-m", "lmms_eval"]
# 12, 4 and 8 questions and a limit that is odd: the two processes get different numbers of them, and lmms-eval pads.
COMMAND = (
    "--tasks",
    "umu_forget05_cls,umu_real_gen,umu_real_cloze",
    "--limit",
    "7",
    "--gen_kwargs",
    "max_new_tokens=8",
)


def by_question(samples):
    """Return the records by question; fails if one was asked twice."""
    records = [sample["record"] for sample in samples]
    found = {tuple(record[n] for n in ("profile_id", "key", "modality")): record for record in records}
    assert len(found) == len(records)
    return found


def test_two_processes_give_the_numbers_of_one(lmms_eval, tiny, tmp_path):
    """One results file, every question once, the same table to the last digit; and one finds what two have kept."""
    model = ("--model", "umu_hf", "--model_args", f"pretrained={tiny},batch_size=2,cache={tmp_path / 'kept'}")
    two = lmms_eval.in_new_process(TWO, *model, *COMMAND, ACCELERATE_USE_CPU="true")
    one = lmms_eval(*model[:-1], f"pretrained={tiny},batch_size=2", *COMMAND)
    assert two.finished, two.log
    assert two.status == one.status
    assert two.results()["results"] == one.results()["results"]
    assert two.results()["umu"]["tasks"] == one.results()["umu"]["tasks"]
    assert two.results()["umu"]["provenance"]["processes"] == 2
    for task in one.results()["umu"]["tasks"]:
        assert by_question(two.samples(task)) == by_question(one.samples(task))
    again = lmms_eval(*model, *COMMAND)
    assert "umu_hf: asked 0 questions" in again.log
    assert again.results()["umu"]["tasks"] == one.results()["umu"]["tasks"]
