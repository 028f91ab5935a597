"""The `umu` command as a whole: completion, exit status, output for programs."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from umu_tasks import cli

DOCS = Path(__file__).parents[3] / "docs" / "command.md"


def script(capsys, shell):
    assert cli.main(["completion", shell]) == 0
    return capsys.readouterr().out


def complete(capsys, tmp_path, *words):
    """What bash offers for the last word."""
    file = tmp_path / "umu.bash"
    file.write_text(script(capsys, "bash"), encoding="utf-8")
    line = " ".join(f"'{word}'" for word in words)
    asked = (
        f"source {file}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; COMP_LINE='{' '.join(words)}'; "
        "COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; _shtab_umu; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [(("umu", "da"), "data"), (("umu", "data", "ch"), "check"), (("umu", "demo", "--qu"), "--quick")],
)
def test_bash_completes_commands_and_options(capsys, tmp_path, words, expected):
    assert expected in complete(capsys, tmp_path, *words)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_files_where_files_are_meant(capsys, tmp_path):
    (tmp_path / "results").mkdir()
    assert "results" in " ".join(complete(capsys, tmp_path, "umu", "report", "resu"))


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script(capsys, shell):
    assert "doctor" in script(capsys, shell)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["tasks", "--path"], 0),
        (["data", "check", "/no/such/folder"], 1),
        (["report", "/no/such/folder", "--out", "/no/such/report"], 2),
    ],
)
def test_exit_status(arguments, status, capsys):
    """The statuses that scripts rely on; `docs/command.md` has the table."""
    assert cli.main(arguments) == status
    shown = capsys.readouterr()
    assert not status or "/no/such/folder" in shown.out + shown.err


def test_wrong_usage_is_two():
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", "--no-such-option"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "x", "--out", "y", "--bseline", "x"], "umu report: error: no such option: --bseline. Did you mean"),
        (["data", "check", "mini", "--jsn"], "umu data check: error: no such option: --jsn. Did you mean --json?"),
        (["--json", "tasks"], "umu: error: no such option: --json. Options stand after their command."),
    ],
)
def test_a_wrong_option_is_told_by_its_command(arguments, message, capsys):
    """`umu: error: unrecognized arguments` under the usage of `umu` alone says neither where nor what to do."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["sweep", "x.yaml", "--dry-run"], "dry_run", True),
        (["judge", "x", "--dry_run"], "dry_run", True),
        (["demo", "--forget-ratio=10"], "forget_ratio", 10),
        (["report", "x", "--out", "y", "--zero_shot"], "zero_shot", True),
    ],
)
def test_options_are_found_with_dashes_and_underscores(arguments, name, value):
    """The training scripts' options have underscores, other programs' dashes: nobody remembers which."""
    assert getattr(cli.build_parser().parse_args(arguments), name) == value


def test_an_interrupt_is_130(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("umu_tasks.tasks.command.run", interrupted)
    assert cli.main(["tasks"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error():
    """`umu tasks | head` must print no complaint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "umu_tasks.cli", "tasks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == ""
    process.stderr.close()


def speak(arguments):
    """What a command runs that uses a talkative library."""
    logging.getLogger("some_library").warning("the library's words")
    warnings.warn("this will change one day", FutureWarning, stacklevel=1)
    logging.getLogger("umu_tasks.anything").warning("our words")
    print(f"hub bars off: {os.environ.get('HF_HUB_DISABLE_PROGRESS_BARS')}")
    return 1


@pytest.mark.filterwarnings("always")
def test_libraries_are_quiet_and_their_words_are_in_a_file(monkeypatch, capsys, tmp_path):
    """A line that matters must not drown; and where something went wrong, the rest can be read."""
    monkeypatch.setenv("UMU_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    monkeypatch.setattr("umu_tasks.tasks.command.run", speak)
    assert cli.main(["tasks"]) == 1
    shown = capsys.readouterr()
    log = tmp_path / "logs" / "umu-tasks.log"
    assert shown.err == f"our words\numu: what the libraries said is in {log}; --verbose shows it\n"
    assert shown.out == "hub bars off: 1\n"
    kept = log.read_text()
    assert "the library's words" in kept
    assert "this will change one day" in kept
    assert "HF_HUB_DISABLE_PROGRESS_BARS" not in os.environ

    assert cli.main(["tasks", "-v"]) == 1
    shown = capsys.readouterr()
    assert "the library's words" in shown.err
    assert "this will change one day" in shown.err
    assert shown.out == "hub bars off: None\n"


def test_a_cache_folder_that_cannot_be_written_stops_no_command(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UMU_CACHE", str(tmp_path / "file"))
    assert cli.main(["tasks", "--path"]) == 0


def test_tasks_for_programs(capsys):
    assert cli.main(["tasks", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "umu_forget05_cls" in found["tasks"]
    assert found["groups"]["umu05"] == ["umu_forget05", "umu_retain95", "umu_real"]
    assert {"metric": "acc_mul", "higher_is_better": False} in found["tasks"]["umu_forget05_cls"]
    assert Path(found["include_path"]).is_dir()


def test_every_command_is_in_the_docs():
    """A command nobody can read about is not there for a newcomer."""
    text = DOCS.read_text(encoding="utf-8")
    parser = cli.build_parser()
    (commands,) = (one for one in parser._actions if hasattr(one, "choices") and isinstance(one.choices, dict))
    assert len(commands.choices) > 5
    for name in commands.choices:
        assert f"`umu {name}" in text
    for status in (0, 1, 2, 3, 130, 141):
        assert f"| {status} |" in text
