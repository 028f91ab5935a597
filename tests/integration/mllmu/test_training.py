"""The trainers on MLLMU-Bench's data: which pairs of which people."""

from __future__ import annotations

from pathlib import Path

import pytest

from umu_tasks.benchmarks.sources import open_source
from umu_trainers.config import SFTArguments, UnlearnArguments, parse
from umu_trainers.data import sft_sets, unlearn_sets

DATA = Path(__file__).parents[2] / "fixtures" / "mllmu_small" / "data"
ON_CPU = ["--use_cpu", "true", "--bf16", "false", "--model", "mini", "--benchmark", "mllmu", "--modality", "mul"]


def arguments(kind, *flags):
    return parse(kind, "", [*ON_CPU, *flags])


def answers(training):
    return [row.pair.answer for row in training.rows["mul"]]


def test_forget_and_retain_sets_get_the_pairs_of_ft_data():
    """Their own rows hold one pair each; trained on that alone, most of what was taught would stay."""
    source = open_source(str(DATA), benchmark="mllmu")
    forget, retain = unlearn_sets(source, arguments(UnlearnArguments, "--method", "gd", "--forget_ratio", "5"))
    assert answers(forget) == ["Baker", "Ada Crane.", "Judge", "Bo Reed.", "Poet", "Cy Holm."]
    assert len(retain) == 6


@pytest.mark.parametrize("split", ["full", "ft_Data"])
def test_fine_tuning_on_everybody(split):
    source = open_source(str(DATA), benchmark="mllmu")
    learn, replay = sft_sets(source, arguments(SFTArguments, "--split", split, "--replay_real", "0.5"))
    assert len(learn) == 12
    assert len(replay) == 3  # real people 001 to 003 keep their own pair, not that of the invented people of these IDs
    assert answers(replay) == ["Gus Pike is a Baker.", "Hal Wren is a Judge.", "Ivy Dale is a Poet."]


def test_separate_training_layout():
    source = open_source(str(DATA / "baseline_train_split"), benchmark="mllmu")
    forget, retain = unlearn_sets(source, arguments(UnlearnArguments, "--method", "ga", "--forget_ratio", "5"))
    assert (len(forget), retain) == (6, None)


@pytest.mark.parametrize(
    ("kind", "flags", "message"),
    [
        (SFTArguments, ["--split", "nobody"], "--split nobody: MLLMU-Bench has forget05"),
        (SFTArguments, ["--benchmark", "tofu"], "--benchmark tofu: choose one of mllmu, umu"),
    ],
)
def test_what_cannot_be_is_said_before_a_model_loads(kind, flags, message):
    with pytest.raises(ValueError, match=message):
        arguments(kind, *flags)
