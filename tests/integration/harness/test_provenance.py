"""A results file says what made it, and what its numbers are worth, whoever answered and whatever was saved."""

from __future__ import annotations

import json
import shutil

import pytest

TASKS = ("--tasks", "umu_forget05_cls,umu_real_gen", "--gen_kwargs", "max_new_tokens=6")
WITHOUT_SAMPLES = ("--output_path",)


@pytest.fixture(scope="module")
def two_runs(lmms_eval, tiny, tmp_path_factory):
    """The same weights in a folder `run_17`, with samples logged, and in a folder `llava-x`, without."""
    other = shutil.copytree(tiny, tmp_path_factory.mktemp("checkpoints") / "llava-x")
    return [
        lmms_eval("--model", "umu_hf", "--model_args", f"pretrained={folder},batch_size=4", *TASKS, saving=saving)
        for folder, saving in ((tiny, ("--output_path", "--log_samples")), (other, WITHOUT_SAMPLES))
    ]


def test_folder_name_changes_nothing(two_runs):
    """A family guessed from the folder's name, or a cache that goes by it, would."""
    one, other = (run.results()["umu"] for run in two_runs)
    assert one["provenance"]["weights_fingerprint"] == other["provenance"]["weights_fingerprint"]
    assert one["provenance"]["base"] != other["provenance"]["base"]
    assert one["tasks"] == other["tasks"]
    assert two_runs[0].results()["results"] == two_runs[1].results()["results"]


def test_block_is_complete_without_samples(two_runs):
    """`--log_samples` is about the samples files; intervals and validity don't hang on it."""
    run = two_runs[1]
    assert not list(run.output.rglob("*samples*"))
    block = run.results()["umu"]
    assert block["format"] == 1
    empty = sum(summary["counts"]["empty"] for summary in block["tasks"].values())  # random weights: marks alone
    assert block["validity"]["valid"] is (empty == 0)
    assert set(block["tasks"]) == {"umu_forget05_cls", "umu_real_gen"}
    for task, summary in block["tasks"].items():
        printed = run.results()["results"][task]
        assert summary["questions"] == run.results()["n-samples"][task]["effective"] > 0
        for metric, spread in summary["metrics"].items():
            assert printed[f"{metric},none"] == pytest.approx(spread["value"], abs=1e-12)
            assert printed[f"{metric}_stderr,none"] == spread["stderr"]
            assert spread["low"] <= spread["value"] <= spread["high"]


def test_provenance(two_runs, umu_small):
    """Enough to make the file again, or to see why one can't."""
    from umu_tasks.benchmarks.sources import open_source

    found = two_runs[0].results()["umu"]["provenance"]
    source = open_source(str(umu_small / "data"), benchmark="umu")
    assert found["backend"] == "umu_hf"
    assert found["data"]["umu"] == {
        "source": source.spec,
        "kind": "folder",
        "splits": {split: source.load(split).fingerprint for split in ("forget05", "real")},
    }
    assert (found["prompt_style"], found["dtype"], found["batch_size"], found["device"]) == (
        *("published", "float32"),
        *(4, "cpu"),
    )
    assert (found["adapter"], found["adapter_hash"], found["processes"], found["limit"]) == (None, None, 1, None)
    assert found["max_new_tokens"] == {"umu_forget05_cls": 6, "umu_real_gen": 6}
    assert found["decoding"] == {"umu_forget05_cls": "greedy", "umu_real_gen": "greedy"}
    assert set(found["rule_versions"]) >= {"default", "official", "strict"}
    assert found["seeds"] == {"random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234}
    assert set(found["versions"]) >= {"umu-bench", "lmms-eval", "torch", "transformers", "peft", "datasets"}
    json.dumps(found, allow_nan=False)


def test_naive_errors_are_not_shown(two_runs):
    """lmms-eval's formula would take the two questions of an instance, and all of a person's, for independent draws."""
    printed = two_runs[0].results()["results"]["umu_forget05_cls"]
    assert printed["acc_mul_stderr_clt,none"] == printed["acc_mul_stderr_clustered,none"] == "N/A"


def test_samples_hold_no_image_and_stay_small(two_runs):
    """A task of 500 people has 2,000 questions: a few MB. (The fixture's options are longer than most.)"""
    run = two_runs[0]
    for task in ("umu_forget05_cls", "umu_real_gen"):
        (file,) = run.output.rglob(f"*_samples_{task}.jsonl")
        lines = file.read_bytes().splitlines()
        assert sum(map(len, lines)) / len(lines) < 2000
        assert b"JFIF" not in file.read_bytes()
        for line in map(json.loads, lines):
            assert "input_media" not in line
            assert isinstance(line["record"], dict)


def provenance(model_args):
    from umu_tasks.backend.umu_hf import UmuHf

    return UmuHf.create_from_arg_string(f"{model_args},batch_size=3").provenance()


def test_adapter_is_told(tiny, adapter):
    """An adapter's own hash, beside its base's, however the two are named."""
    alone, given, found = (
        provenance(args)
        for args in (f"pretrained={tiny}", f"pretrained={tiny},peft={adapter}", f"pretrained={adapter}")
    )
    assert given == found
    assert (given["base"], given["adapter"], alone["adapter"]) == (str(tiny), str(adapter), None)
    assert given["weights_fingerprint"] == alone["weights_fingerprint"]
    assert len(given["adapter_hash"]) == 64


def test_trained_style_is_used_and_told(tiny, copy_of):
    """A model trained with the chat template is asked with it, without the user having to remember."""
    folder = copy_of(tiny)
    (folder / "training_record.json").write_text(json.dumps({"prompt_style": "chat", "settings": {}}))
    assert provenance(f"pretrained={folder}")["prompt_style"] == "chat"
    assert provenance(f"pretrained={folder},prompt=published")["prompt_style"] == "published"
