"""A run whose outputs are missing ends with status 1 and is saved whole: it can be looked at, not mistaken."""

from __future__ import annotations

import json

import pytest

TASK = "umu_real_cls"


@pytest.fixture
def scripted(lmms_eval, umu_small, tmp_path):
    """Run the fixture's outputs, the first `count` of real-people classification replaced."""

    def run(replacement, count, *argv, tasks=TASK, **kwargs):
        lines = [json.loads(line) for line in (umu_small / "outputs.jsonl").read_text("utf-8").splitlines()]
        chosen = [one for one in lines if (one["split"], one["task"]) == ("real_person", "classify")]
        for number, one in enumerate(chosen):
            one["output"] = replacement if number < count else one["output"] or "an answer"
        file = tmp_path / "outputs.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
        model = ("--model", "scripted", "--model_args", f"outputs={file}")
        return lmms_eval(*model, "--tasks", tasks, *argv, **kwargs)

    return run


def last_line(run):
    return run.log.rstrip().splitlines()[-1]


def test_valid_run(scripted):
    run = scripted("", 0)
    assert run.status == 0
    assert run.results()["umu"]["validity"] == {"valid": True, "reasons": []}


@pytest.mark.parametrize(
    ("output", "reason"),
    [("", "1 empty and 0 failed"), ("[LMMS_EVAL_REQUEST_FAILED after 5 retries] 429", "0 empty and 1 failed")],
)
def test_missing_output(scripted, output, reason):
    """Results and samples are whole, the table is printed, and the last line says why the status is 1."""
    run = scripted(output, 1)
    questions = len(run.samples(TASK))
    sentence = f"{TASK}: {reason} of {questions} outputs, where at most 1% may be"
    assert run.status == 1
    assert f"|{TASK}|none" in run.log
    assert run.results()["umu"]["validity"] == {"valid": False, "reasons": [sentence]}
    assert run.results()["umu"]["tasks"][TASK]["questions"] == questions
    assert last_line(run) == (
        f"umu-bench: the run is not valid, and its scores say nothing about forgetting: {sentence}. "
        f"The results are saved in {run.output}."
    )


def test_without_output_path(scripted):
    """A sweep that only reads the status must not go on with such a run."""
    run = scripted("", 1, saving=())
    assert run.status == 1
    assert f"|{TASK}|none" in run.log
    assert "No --output_path was given, so nothing was saved." in last_line(run)


def test_results_that_cannot_be_saved(scripted, tmp_path):
    """lmms-eval logs a full disk, a missing permission, a file in the way, and exits with success."""
    (tmp_path / "out").write_text("a file")
    run = scripted("", 0, "--output_path", str(tmp_path / "out"), saving=())
    assert run.status == 1
    assert f"umu-bench: The results could not be saved in {tmp_path / 'out'}." in last_line(run)


def test_backend_that_fails(lmms_eval, tmp_path):
    """Whatever a stock backend throws (here: its file is missing), lmms-eval would print it and exit with success."""
    run = lmms_eval("--model", "scripted", "--model_args", f"outputs={tmp_path / 'nothing'}", "--tasks", TASK)
    assert run.status == 1
    assert last_line(run).startswith("umu-bench: the evaluation failed: FileNotFoundError: ")
    assert "Traceback" in run.log
    assert not list(run.output.rglob("*.json*"))


def test_other_peoples_tasks_keep_their_results(scripted, tmp_path):
    """Beside a broken task of ours, theirs are scored and saved; alone, they get no block and no status of ours."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "rows.jsonl").write_text("".join(json.dumps(OTHER_ROW) + "\n" for _ in range(3)))
    (tmp_path / "theirs" / "theirs.py").write_text(OTHER_CODE)
    (tmp_path / "theirs" / "theirs.yaml").write_text(OTHER_TASK.format(folder=tmp_path / "theirs"))
    include = ("--include_path", str(tmp_path / "theirs"))
    run = scripted("", 1, *include, tasks=f"{TASK},theirs")
    assert run.status == 1
    assert run.results()["results"]["theirs"]["right,none"] == 1.0
    assert set(run.results()["umu"]["tasks"]) == {TASK}
    assert len(run.samples("theirs")) == 3
    alone = scripted("", 1, *include, tasks="theirs")
    assert alone.status == 0
    assert "umu" not in alone.results()


# A document with the names by which the scripted model finds an output.
OTHER_ROW = {
    **{"split": "real", "profile_id": "002", "task": "cls", "key": "occupation", "modality": "unimodal"},
    "gold": "Librarian",
}
OTHER_TASK = """
task: theirs
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/rows.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_visual: !function theirs.visual
doc_to_text: !function theirs.text
doc_to_target: gold
process_results: !function theirs.score
generation_kwargs: {{max_new_tokens: 2}}
metric_list: [{{metric: right, aggregation: mean, higher_is_better: true}}]
"""
OTHER_CODE = """
def visual(document): return []
def text(document): return "x"
def score(document, outputs): return {"right": float(outputs[0] == document["gold"])}
"""


def test_one_question_of_a_pair(scripted):
    """An odd limit leaves no instance whole; no score is not a low score."""
    run = scripted("", 0, "--limit", "1")
    assert run.status == 1
    assert "no knowledge instance was asked in both modalities" in last_line(run)


def test_examples_are_part_of_a_tasks_name(scripted):
    """lmms-eval's own examples would be drawn from the questions that are scored."""
    run = scripted("", 0, "--num_fewshot", "2")
    assert run.status == 1
    assert "umu-bench: --num_fewshot 2: our tasks have the number of examples in their names" in run.log
