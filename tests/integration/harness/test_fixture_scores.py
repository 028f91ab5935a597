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
    assert (run.status, "empty" in run.log) == (1, True), run.log  # too many empty outputs for a valid run
    return run


@pytest.fixture(scope="module")
def expected(umu_small):
    """The published evaluator's numbers."""
    return json.loads((umu_small / "expected.json").read_text())


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("rule", ["default", "official"])
def test_scores_equal_the_published_evaluators(scored, expected, split, task, rule):
    """A changed cut, strip, tie or gold would move one of these."""
    leaf = f"umu_{SPLITS[split]}_{TASKS[task]}"
    numbers = dict(expected["by_rule"][rule][split][task])
    count = numbers.pop("n")
    suffix = "_official" if rule == "official" and task != "generation" else ""
    found = scored.metrics(leaf)
    assert {name: found[name + suffix] for name in numbers} == pytest.approx(numbers, abs=1e-9)
    assert found["record"] == len(scored.samples(leaf)) == 2 * count


@pytest.mark.parametrize("split", SPLITS)
def test_text_measures_equal_the_published_evaluators(scored, expected, split):
    """ROUGE-1, ROUGE-2 and BLEU beside ROUGE-L: other packages, options or smoothing give other numbers."""
    published = expected["llava_main_modes"][split]["generation"]
    found = scored.metrics(f"umu_{SPLITS[split]}_gen")
    names = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rl": "ROUGE-L", "bleu": "BLEU"}
    for name, theirs in names.items():
        for side, modality in (("mul", "Image_Textual"), ("uni", "Pure_Text")):
            assert found[f"{name}_{side}"] == pytest.approx(published[f"Average {theirs} ({modality})"], abs=1e-9)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", ["classify", "cloze"])
def test_each_questions_official_verdict_is_the_published_one(scored, expected, split, task):
    """Two wrong verdicts may cancel out in a mean."""
    records = [sample["record"] for sample in scored.samples(f"umu_{SPLITS[split]}_{TASKS[task]}")]
    verdicts = {(one["profile_id"], one["key"], one["modality"]): one["correct"]["official"] for one in records}
    digits = expected["per_question"]["llava_main_modes"][split][task]
    for modality in ("unimodal", "multimodal"):
        order = [(profile, key, modality) for profile, key in expected["question_order"][split][task]]
        assert "".join(str(verdicts[question]) for question in order) == digits[modality]


def test_strict_rule_by_hand(scored):
    """What the published rules can't be asked for, from the fixture's outputs."""
    records = [sample["record"] for task in ("cls", "cloze") for sample in scored.samples(f"umu_forget05_{task}")]
    strict = {(r["task"], r["profile_id"], r["key"], r["modality"]): r["correct"]["strict"] for r in records}
    assert strict["cls", "001", "occupation", "unimodal"] == 1  # "Sound Engineer  "
    assert strict["cls", "001", "occupation", "multimodal"] == 0  # an empty output, though the first option is right
    for record in records:
        assert not (record["empty"] and record["correct"]["strict"])
        if record["task"] == "cls":
            assert not (record["refusal"] and record["correct"]["strict"])


def test_gap_and_flags(scored, expected):
    """What an answer was is counted over all questions; the gap is the two modalities' difference under each rule."""
    for leaf in ("umu_forget05_cls", "umu_real_cloze", "umu_retain95_gen"):
        found = scored.metrics(leaf)
        prefix, rules = ("rl", [""]) if leaf.endswith("gen") else ("acc", ["", "_official", "_strict"])
        for rule in rules:
            gap = found[f"{prefix}_mul{rule}"] - found[f"{prefix}_uni{rule}"]
            assert found[f"modality_gap{rule}"] == pytest.approx(gap, abs=1e-9)
        records = [sample["record"] for sample in scored.samples(leaf)]
        assert found["empty_rate"] == sum(one["empty"] for one in records) / len(records)
        assert found["refusal_rate"] == sum(one["refusal"] for one in records) / len(records)
        assert found["failed"] == 0
    assert scored.metrics("umu_retain95_gen")["empty_rate"] == 2 / 6  # nothing, and "::::"


def test_direction_follows_the_split(scored):
    """A forget set's accuracy is to fall, the others' to rise; a report reads it from here."""
    better = scored.results()["higher_is_better"]
    assert [better["umu_forget05_cls"][name] for name in ("acc_f", "acc_mul_official", "acc_any_strict")] == [False] * 3
    assert [better["umu_forget05_gen"][name] for name in ("rl_f", "rouge2_uni", "bleu_mul")] == [False] * 3
    assert [better["umu_retain95_cloze"][name] for name in ("acc_r", "acc_r_strict")] == [True] * 2
    assert [better["umu_real_gen"][name] for name in ("rl_r", "rouge1_mul")] == [True] * 2
    assert better["umu_real_cls"]["modality_gap"] is better["umu_real_cls"]["refusal_rate"] is None
    assert better["umu_real_cls"]["empty_rate"] is better["umu_real_cls"]["failed"] is False


def test_groups_carry_no_score_of_their_own(scored):
    """A mean over classification, cloze and ROUGE would be a number without meaning."""
    results = scored.results()["results"]
    for group in ("umu05", "umu_forget05", "umu_retain95", "umu_real"):
        assert not [name for name, value in results[group].items() if isinstance(value, float)]


def test_samples_say_what_was_asked_and_how_it_was_scored(scored, umu_small):
    """ID, task, key, field, modality, question, gold, raw and parsed answer, each rule's verdict; no image bytes."""
    outputs = [json.loads(line) for line in (umu_small / "outputs.jsonl").read_text().splitlines()]
    raw = {(o["split"], o["id"], o["task"], o["key"], o["modality"]): o["output"] for o in outputs}
    for sample in scored.samples("umu_forget05_cls"):
        record = sample["record"]
        assert record.keys() == {
            *("profile_id", "task", "key", "field", "modality", "split", "question", "gold", "output", "parsed"),
            *("correct", "refusal", "empty", "failed"),
        }
        for suffix, rule in (("", "default"), ("_official", "official"), ("_strict", "strict")):
            for name in ("acc_mul", "acc_uni", "acc_any", "acc_all", "acc_f"):
                assert type(sample[name + suffix]) is float
                assert sample[name + suffix] == record["correct"][rule]
        key = ("forget", record["profile_id"], "classify", record["key"], record["modality"])
        assert sample.get("resps", sample["filtered_resps"]) == raw[key]
        assert record["output"] == raw[key].strip()
        assert record["parsed"] == raw[key].split("ASSISTANT:")[0].strip()
        assert record["question"] in sample["input"]
        assert "Select answer in [" in sample["input"]
        assert sample["target"] == record["gold"]
    for file in scored.output.rglob("*_samples_*.jsonl"):
        assert "PNG" not in file.read_text()
        assert file.stat().st_size < 80_000  # options of 200 characters
    sample = scored.samples("umu_real_gen")[0]
    assert sample["rl_r"] == sample["record"]["rouge_l"]
    assert sample["bleu_uni"] == sample["record"]["bleu"]


def test_samples_hold_all_that_the_scores_are_made_of(scored):
    """The scores can be computed again from the samples alone, with other tools, and told apart by field."""
    from umu_tasks.scoring.summary import summarize

    for split in SPLITS.values():
        for task in TASKS.values():
            leaf = f"umu_{split}_{task}"
            summary = summarize([sample["record"] for sample in scored.samples(leaf)])
            found = scored.metrics(leaf)
            assert {name: metric["value"] for name, metric in summary["metrics"].items()} == {
                name: found[name] for name in summary["metrics"]
            }
    assert summary["fields"].keys() == {"overview"}


def test_printed_table_shows_what_a_reader_looks_for_first(scored):
    """Two dozen rows for each of nine tasks would bury the headline; the file has them all."""
    table = [
        line.split("|") for line in scored.log.splitlines() if line.startswith("| ") and "umu_forget05_cls" in line
    ]
    assert [line[4].strip() for line in table] == [
        *("acc_all", "acc_any", "acc_f", "acc_mul", "acc_uni", "empty_rate", "failed", "modality_gap", "refusal_rate"),
    ]
    assert "the results file also has the scores under the _official and _strict rules" in scored.log
    assert len(scored.metrics("umu_forget05_cls")) == 3 * 6 + 3 + 1


def test_limit_that_cuts_a_pair_leaves_it_out_and_says_so(lmms_eval, umu_small):
    """Three of the first four questions: one pair; the lone fourth question must not be paired with another fact."""
    run = lmms_eval(
        *("--model", "scripted", "--model_args", f"outputs={umu_small / 'outputs.jsonl'}"),
        *("--tasks", "umu_forget05_cls", "--limit", "3"),
    )
    assert "1 of 2 knowledge instances have an answer in one modality only" in run.log
    assert "ID 001, cls residence" in run.log
    assert run.log.count("have an answer in one modality only") == 1
    first = [sample["record"] for sample in run.samples("umu_forget05_cls")]
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
    found = run.metrics("umu_forget05_cls")
    assert all(found[name] != found[name] for name in found if name.startswith(("acc_", "modality_gap")))
    assert "the scores are NaN" in run.log
