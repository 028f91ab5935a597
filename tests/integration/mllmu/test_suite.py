"""`mllmu05` on UMU-mini through lmms-eval's command."""

from __future__ import annotations

import csv
import json

import pytest

from umu_tasks.cli import main
from umu_tasks.scoring.unpaired import RULE_VERSIONS

SPLITS = ("forget05", "test05", "retain95", "real")


def model(folder):
    return ("--model", "scripted_mllmu", "--model_args", f"log={folder / 'asked.jsonl'}")


@pytest.fixture(scope="module")
def runs(lmms_eval, tmp_path_factory):
    """The whole suite once, and one of its tasks once more at the same time."""
    folders = [tmp_path_factory.mktemp(name) for name in ("suite", "again")]
    tasks = ("mllmu05", "mllmu_real_cloze")
    started = [lmms_eval(one, *model(one), "--tasks", task) for one, task in zip(folders, tasks, strict=True)]
    done = [one.finish() for one in started]
    for one in done:
        assert one.status == 0, one.log
    return done


@pytest.fixture(scope="module")
def run(runs):
    return runs[0]


@pytest.fixture(scope="module")
def asked(run):
    lines = (run.output.parent / "asked.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def metric(run, task, name):
    return run.results()["results"][task][f"{name},none"]


def test_scores_are_those_of_the_script(run):
    """It knows the people to keep, and the people to forget in text alone; of the Test_Set it knows nothing."""
    for task in ("cls", "cloze"):
        for split, mul, uni in (("forget05", 0, 1), ("test05", 0, 0), ("retain95", 1, 1), ("real", 1, 1)):
            name = f"mllmu_{split}_{task}"
            assert metric(run, name, "acc_mul") == mul
            assert metric(run, name, "acc_uni") == uni
            assert metric(run, name, "acc_uni_strict") == uni
            assert metric(run, name, "acc_any") == max(mul, uni)
            assert metric(run, name, "acc_all") == min(mul, uni)
            assert metric(run, name, "modality_gap") == mul - uni
    assert metric(run, "mllmu_retain95_gen", "rl_mul") == 1
    assert metric(run, "mllmu_retain95_gen", "bleu_mul") == pytest.approx(1)
    assert metric(run, "mllmu_test05_gen", "rl_f") == 0


def test_block_says_what_was_drawn_and_how_sure_the_numbers_are(run):
    """Provenance, validity and intervals as for UMU-Bench; people of the examples and portraits besides."""
    block = run.results()["umu"]
    assert block["provenance"]["rule_versions"]["mllmu"] == RULE_VERSIONS["mllmu"]
    assert block["validity"] == {"valid": True, "reasons": []}
    assert set(block["tasks"]) == {f"mllmu_{split}_{task}" for split in SPLITS for task in ("cls", "cloze", "gen")}
    data = block["provenance"]["data"]["mllmu"]
    assert (data["source"], set(data["splits"])) == ("mini", set(SPLITS))
    assert len(set(data["splits"].values())) == 4
    summary = block["tasks"]["mllmu_test05_cls"]
    assert (len(summary["examples"]), summary["seed"]) == (1, 0)
    assert set(summary["portraits"].values()) <= {0, 1, 2}
    assert summary["unpaired"] == summary["people"] == 2
    assert block["tasks"]["mllmu_retain95_cloze"]["metrics"]["acc_mul"]["n"] == 2 * (57 - 2)
    assert block["tasks"]["mllmu_real_cls"]["examples"] == []  # zero-shot, as published


def test_people_of_the_examples_are_asked_and_never_scored(asked):
    for line in asked:
        document = line["document"]
        examples = (len(line["turns"]) - 1) // 2
        assert line["limit"] == 50
        assert document["profile_id"] not in document["examples"]
        expected = {"cls": 0 if document["split"] == "real" else 1, "cloze": 2, "gen": 0}[document["task"]]
        assert len(document["examples"]) == expected
        a_person = 3 if (document["task"], document["modality"]) == ("cls", "unimodal") else 2
        assert examples == expected * a_person


def test_text_questions_show_no_image_and_image_questions_one_a_turn(asked):
    for line in asked:
        for role, *parts in line["turns"]:
            images = [part for part in parts if isinstance(part, list)]
            shown = role == "user" and line["document"]["modality"] == "multimodal"
            assert len(images) == (1 if shown else 0)


def test_test_set_shows_another_pose_in_other_words(asked):
    by_split = {}
    for line in asked:
        document = line["document"]
        if document["task"] == "gen" and document["modality"] == "multimodal":
            _, image, text = line["turns"][-1]
            by_split.setdefault(document["split"], {})[document["profile_id"], document["key"]] = (image, text)
    assert by_split["test05"].keys() == by_split["forget05"].keys()
    for question, (_, text) in by_split["test05"].items():
        assert text != by_split["forget05"][question][1]
    posed, usual = ([image for image, _ in by_split[split].values()] for split in ("test05", "forget05"))
    assert sorted(posed) != sorted(usual)


def test_second_run_writes_the_same_samples(runs):
    """Same seed, byte-equal per-sample file."""
    first, second = (one.samples_file("mllmu_real_cloze").read_bytes() for one in runs)
    assert first == second


@pytest.mark.slow
def test_another_seed_and_the_zero_shot_suite(run, lmms_eval, tmp_path):
    tasks = "mllmu05_0shot,mllmu_retain95_cloze"
    other = lmms_eval(tmp_path, *model(tmp_path), "--tasks", tasks, MLLMU_SEED="7").finish()
    assert other.status == 0, other.log
    first, second = (one.samples("mllmu_retain95_cloze")[0]["record"] for one in (run, other))
    assert second["seed"] == 7
    assert first["examples"] != second["examples"]
    zero = other.samples("mllmu_forget05_cloze_0shot")
    assert {one["record"]["profile_id"] for one in zero} == {"030", "047", "056"}
    assert {len(one["record"]["examples"]) for one in zero} == {0}


@pytest.mark.slow
def test_predict_only(lmms_eval, tmp_path, capsys):
    """Answers alone: their file says what wrote them, and neither the report nor the judge takes them for scores."""
    done = lmms_eval(tmp_path, *model(tmp_path), "--tasks", "mllmu_real_gen", "--predict_only").finish()
    assert done.status == 0, done.log
    block = done.results()["umu"]
    assert block["validity"]["reasons"] == ["nothing was scored, since --predict_only was given: mllmu_real_gen"]
    assert block["provenance"]["rule_versions"]["mllmu"] == RULE_VERSIONS["mllmu"]
    assert set(block["provenance"]["data"]["mllmu"]["splits"]) == {"real"}
    assert main(["report", str(done.output), "--out", str(tmp_path / "report")]) == 2
    assert main(["judge", str(done.output), "--url", "http://localhost:9", "--model", "m"]) == 2
    assert "Evaluate again, without --predict_only" in capsys.readouterr().err


@pytest.mark.slow
def test_umu_data_is_a_schema_error(lmms_eval, tmp_path):
    """UMU-Bench's folder under MLLMU_DATA ends the run with a reason, not with an empty table."""
    from umu_tasks.mini.build import build_mini

    build_mini(tmp_path / "umu", 8, 2)
    done = lmms_eval(tmp_path, *model(tmp_path), "--tasks", "mllmu_real_gen", data=str(tmp_path / "umu")).finish()
    assert done.status == 1
    assert "This looks like UMU-Bench" in done.log


@pytest.mark.slow
def test_mini_base_model_under_a_system_instruction(lmms_eval, tmp_path):
    """The real backend: several images a prompt, and the prompting baseline's instruction in the provenance."""
    from umu_tasks.mini import base_model_dir

    arguments = f"pretrained={base_model_dir()},batch_size=8,system_prompt=mllmu_prompting05"
    tasks = "mllmu_forget05_cls,mllmu_real_cloze_0shot"
    done = lmms_eval(tmp_path, "--model", "umu_hf", "--model_args", arguments, "--tasks", tasks).finish()
    assert done.status == 0, done.log
    block = done.results()["umu"]
    assert "Elias Sutherland" in block["provenance"]["system_prompt"]
    assert block["tasks"]["mllmu_forget05_cls"]["questions"] == 10
    assert block["tasks"]["mllmu_real_cloze_0shot"]["questions"] == 80


def test_report_reads_the_suite(run, tmp_path):
    """The report's numbers are the suite's; questions without a partner and the missing judge are named."""
    assert main(["report", f"scripted={run.output}", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "### Test set (test05)" in text
    assert "asked one way" in text
    assert "| forget05 | scripted (start model) | not judged |" in text
    with (tmp_path / "scores.csv").open(newline="") as lines:
        rows = {(row["split"], row["task"], row["metric"], row["rule"]): row for row in csv.DictReader(lines)}
    for split in SPLITS:
        for name in ("acc_mul", "acc_uni", "acc_any"):
            expected = metric(run, f"mllmu_{split}_cls", name)
            assert float(rows[split, "cls", name, "default"]["value"]) == expected
    assert not any(split == "full" for split, *_ in rows)
