"""`scripts/check_versions.py`: which versions it takes, and what it makes of pip's and pytest's results."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_versions.py"
RESULTS = """<testsuites><testsuite>
<testcase name="test_good"/>
<testcase name="test_left_out"><skipped message="no GPU"/></testcase>
<testcase name="test_bad[gd]"><failure message="TypeError: unexpected keyword&#10;more">trace</failure></testcase>
<testcase name="test_broken"><error message="ImportError: no name">trace</error></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("check_versions", SCRIPT)
    module = sys.modules["check_versions"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lowest_versions_are_those_of_the_bounds(script):
    """Also with an upper bound beside; what is linked, or has no lower bound, is not pinned."""
    named = map(Requirement, ["trl<2,>=1.1", "huggingface_hub>=1.3", "filelock<4", "torch>=2.6"])
    assert script.lowest(named) == {"trl": "1.1", "huggingface-hub": "1.3"}


def test_the_project_s_own_bounds_are_read(script):
    assert {"transformers", "trl", "peft", "accelerate", "datasets"} <= script.lowest(script.declared()).keys()


@pytest.mark.parametrize("text", ["transformers", "transformers>=5", "trl==1,<2", "=="])
def test_set_takes_one_version(script, text):
    assert script.pin("Huggingface_Hub==1.3.0") == ("huggingface-hub", "1.3.0")
    with pytest.raises(argparse.ArgumentTypeError, match="NAME==VERSION, such as"):
        script.pin(text)


def test_results_are_counted_and_failures_named(script, tmp_path):
    """An error in a fixture is a failure too; a skipped test passed nothing."""
    file = tmp_path / "results.xml"
    file.write_text(RESULTS)
    text, failed = script.counts(file)
    assert text == "1 passed, 2 failed, 1 skipped"
    assert failed == ["test_bad[gd]: TypeError: unexpected keyword", "test_broken: ImportError: no name"]


def test_links_can_be_taken_away_without_harm(script, tmp_path):
    """pip may replace a linked library in the environment: the one that it was linked from must stay whole."""
    script.link(["packaging"], tmp_path)
    linked, own = tmp_path / "packaging/version.py", Path(sys.modules["packaging.version"].__file__)
    assert not linked.is_symlink()
    assert not linked.parent.is_symlink()
    assert linked.read_bytes() == own.read_bytes()
    linked.unlink()
    assert own.is_file()


@pytest.fixture
def checked(script, monkeypatch, tmp_path, capsys):
    """Run `main` with no environment made and no test run; results as RESULTS says, or none."""

    def run(*argv, results=RESULTS, refused=None):
        def environment(folder, pins):
            if refused:
                raise subprocess.CalledProcessError(1, "pip", stderr=refused)
            pinned.update(pins)
            return Path(sys.executable)

        def run_tests(python, tests, log):
            log.write_text("ERROR: file or directory not found")
            if results:
                log.with_suffix(".xml").write_text(results)
            return log.with_suffix(".xml")

        pinned = {}
        monkeypatch.setattr(script, "environment", environment)
        monkeypatch.setattr(script, "run_tests", run_tests)
        status = script.main([*argv, "--keep", str(tmp_path)])
        return status, capsys.readouterr().out, pinned

    return run


def test_one_line_a_combination_and_the_failures_below(checked):
    status, out, pinned = checked("lowest", "--set", "trl==1.3.0")
    assert status == 1
    assert out.startswith("lowest: transformers ")
    assert ": 1 passed, 2 failed, 1 skipped (" in out.splitlines()[0]
    assert "    test_broken: ImportError: no name" in out.splitlines()
    assert pinned["trl"] == "1.3.0"
    assert "transformers" in pinned


def test_status_says_whether_all_passed(checked):
    good = '<testsuites><testsuite><testcase name="a"/></testsuite></testsuites>'
    assert checked("newest", results=good)[0] == 0
    assert checked("newest", results="<testsuites/>")[0] == 1, "no test ran"
    assert checked("newest", results=None)[0] == 1


def test_what_can_t_be_installed_is_said_in_pip_s_words(checked):
    status, out, _ = checked("lowest", refused="ERROR: trl 1.0.0 depends on datasets>=4.7.0\n")
    assert status == 1
    assert out == "lowest: can't be installed\nERROR: trl 1.0.0 depends on datasets>=4.7.0\n"


@pytest.mark.parametrize("argv", [["oldest"], ["here", "--set", "trl==1.0"], ["lowest", "--set", "trl>1"]])
def test_wrong_usage(script, argv, capsys):
    with pytest.raises(SystemExit) as stopped:
        script.main(argv)
    assert stopped.value.code == 2
    assert argv[-1] in capsys.readouterr().err or "here" in argv
