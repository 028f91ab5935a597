"""The scripted outputs of tests/fixtures/umu_small, scored through lmms-eval's command, give the known numbers."""

from __future__ import annotations

import json

import pytest

SPLITS = {"forget": "forget05", "retain": "retain95", "real_person": "real"}
TASKS = {"classify": "cls", "cloze": "cloze", "generation": "gen"}


@pytest.fixture(scope="module")
def scored(lmms_eval, umu_small):
    """All nine tasks of the 5 % suite in one run."""
    model_args = f"outputs={umu_small / 'outputs.jsonl'}"
    run = lmms_eval("--model", "scripted", "--model_args", model_args, "--tasks", "umu05")
    assert run.status == 0, run.log
    return run


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", TASKS)
def test_default_rule_gives_the_expected_numbers(scored, umu_small, split, task):
    """A changed cut, strip, tie or gold would move one of these."""
    expected = json.loads((umu_small / "expected.json").read_text())["by_rule"]["default"][split][task]
    found = scored.metrics(f"umu_{SPLITS[split]}_{TASKS[task]}")
    count = expected.pop("n")
    assert found == pytest.approx(expected, abs=1e-9)
    assert len(scored.samples(f"umu_{SPLITS[split]}_{TASKS[task]}")) == 2 * count


def test_direction_follows_the_split(scored):
    """A forget set's accuracy is to fall, the others' to rise; a report reads it from here."""
    better = scored.results()["higher_is_better"]
    assert set(better["umu_forget05_cls"].values()) == {False}
    assert set(better["umu_forget05_gen"].values()) == {False}
    assert set(better["umu_retain95_cloze"].values()) == {True}
    assert set(better["umu_real_gen"].values()) == {True}


def test_groups_carry_no_score_of_their_own(scored):
    """A mean over classification, cloze and ROUGE would be a number without meaning."""
    results = scored.results()["results"]
    for group in ("umu05", "umu_forget05", "umu_retain95", "umu_real"):
        assert not [name for name, value in results[group].items() if isinstance(value, float)]


def test_samples_say_what_was_asked_and_how_it_was_scored(scored, umu_small):
    """ID, task, key, modality, question, gold, raw and parsed answer, verdict; no image bytes."""
    outputs = [json.loads(line) for line in (umu_small / "outputs.jsonl").read_text().splitlines()]
    raw = {(o["split"], o["id"], o["task"], o["key"], o["modality"]): o["output"] for o in outputs}
    for sample in scored.samples("umu_forget05_cls"):
        record = sample["acc_f"]
        assert record.keys() == {
            *("profile_id", "task", "key", "modality", "split", "output", "parsed", "correct"),
        }
        assert record == sample["acc_mul"]
        key = ("forget", record["profile_id"], "classify", record["key"], record["modality"])
        assert sample.get("resps", sample["filtered_resps"]) == raw[key]
        assert record["output"] == raw[key].strip()
        assert record["parsed"] == raw[key].split("ASSISTANT:")[0].strip()
        assert "Select answer in [" in sample["input"]
        assert sample["target"]
        assert record["correct"] in (0, 1)
    for file in scored.output.rglob("*_samples_*.jsonl"):
        assert "PNG" not in file.read_text()
        assert file.stat().st_size < 80_000  # options of 200 characters
    gen = scored.samples("umu_real_gen")[0]["rl_r"]
    assert 0 <= gen["rouge_l"] <= 1


def test_limit_that_cuts_a_pair_leaves_it_out_and_says_so(lmms_eval, umu_small):
    """Three of the first four questions: one pair; the lone fourth question must not be paired with another fact."""
    run = lmms_eval(
        *("--model", "scripted", "--model_args", f"outputs={umu_small / 'outputs.jsonl'}"),
        *("--tasks", "umu_forget05_cls", "--limit", "3"),
    )
    assert run.status == 0, run.log
    assert "1 of 2 knowledge instances have an answer in one modality only" in run.log
    assert "ID 001, cls residence" in run.log
    first = [sample["acc_f"] for sample in run.samples("umu_forget05_cls")]
    assert [(one["key"], one["modality"]) for one in first] == [
        ("occupation", "unimodal"),
        ("occupation", "multimodal"),
        ("residence", "multimodal"),
    ]
    assert run.metrics("umu_forget05_cls")["acc_mul"] == 1.0


def test_limit_that_leaves_no_pair_scores_nan(lmms_eval, umu_small):
    """Never 0, which would read as perfect forgetting."""
    run = lmms_eval(
        *("--model", "scripted", "--model_args", f"outputs={umu_small / 'outputs.jsonl'}"),
        *("--tasks", "umu_forget05_cls", "--limit", "1"),
    )
    assert run.status == 0, run.log
    assert all(value != value for value in run.metrics("umu_forget05_cls").values())
    assert "the scores are NaN" in run.log
