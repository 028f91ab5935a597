"""The demo's step runner on small commands: what is skipped, what is done again, what is left when something fails."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from umu_tasks import steps
from umu_tasks.steps import Runner, Step, StepFailed, fingerprint, last_line, readable

WRITE = (
    "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.mkdir(parents=True); (p / 'result').write_text(sys.argv[2])"
)
COUNT = "import sys, pathlib; p = pathlib.Path(sys.argv[3]); p.write_text(p.read_text() + 'x' if p.exists() else 'x'); "


class Chain:
    """Two steps, the second of which uses the first; each leaves one mark in a file whenever it runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.input = root / "config.yaml"
        self.input.write_text("rate: 1")
        self.screen = io.StringIO()
        self.runner = Runner(root / "demo", {"COLOUR": "red"}, self.screen)

    def steps(self, word: str = "one") -> list[Step]:
        first, second = self.root / "demo" / "first", self.root / "demo" / "second"
        return [
            Step("first", "First", self._command(first, word, "first"), first, inputs=(self.input,)),
            Step("second", "Second", self._command(second, "two", "second"), second, after=("first",)),
        ]

    def _command(self, out: Path, word: str, mark: str) -> tuple[str, ...]:
        return (sys.executable, "-c", COUNT + WRITE, str(out), word, str(self.root / mark))

    def times(self) -> tuple[int, int]:
        """How often each step ran."""
        first, second = (self.root / mark for mark in ("first", "second"))
        return tuple(len(mark.read_text()) if mark.exists() else 0 for mark in (first, second))  # type: ignore[return-value]


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_finished_steps_are_skipped(chain: Chain) -> None:
    chain.runner.run(chain.steps())
    chain.runner.run(chain.steps())
    assert chain.times() == (1, 1)
    assert chain.screen.getvalue().count("skipped, the result is there and up to date") == 2


def test_a_changed_command_runs_again_and_so_does_what_builds_on_it(chain: Chain) -> None:
    chain.runner.run(chain.steps())
    chain.runner.run(chain.steps("other"))
    assert chain.times() == (2, 2)
    assert "done again: the command changed" in chain.screen.getvalue()
    assert "done again: the result of step first changed" in chain.screen.getvalue()


def test_a_changed_config_runs_again(chain: Chain) -> None:
    chain.runner.run(chain.steps())
    chain.input.write_text("rate: 2")
    chain.runner.run(chain.steps())
    assert chain.times() == (2, 2)
    assert f"done again: input {chain.input} changed" in chain.screen.getvalue()


def test_an_input_that_is_only_touched_does_not(chain: Chain) -> None:
    """A fresh checkout of the same config has a new date; nobody wants to train again for that."""
    chain.runner.run(chain.steps())
    os.utime(chain.input, (1, 1))
    chain.runner.run(chain.steps())
    assert chain.times() == (1, 1)


@pytest.mark.parametrize("damage", ["delete", "change"])
def test_a_damaged_result_is_made_again(chain: Chain, damage: str) -> None:
    chain.runner.run(chain.steps())
    result = chain.root / "demo" / "second" / "result"
    if damage == "delete":
        result.unlink()
    else:
        result.write_text("somebody else's")
    chain.runner.run(chain.steps())
    assert chain.times() == (1, 2)
    assert result.read_text() == "two"


def test_another_version_or_environment_makes_results_stale(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    chain.runner.run(chain.steps())
    monkeypatch.setattr(steps, "__version__", "99")
    chain.runner.run(chain.steps())
    assert chain.times() == (2, 2)
    Runner(chain.runner.root, {"COLOUR": "blue"}, chain.screen).run(chain.steps())
    assert chain.times() == (3, 3)


def test_changed_code_makes_results_stale(chain: Chain, tmp_path: Path) -> None:
    code = tmp_path / "package"
    code.mkdir()
    (code / "a.py").write_text("x = 1")
    (code / "_shared").write_text("max_new_tokens: 50")
    command = (sys.executable, "-c", "pass")
    step = Step("s", "S", command, code=(code,))
    chain.runner.run([step])
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "a.pyc").write_text("")
    chain.runner.run([step])
    assert "done again" not in chain.screen.getvalue()
    for file, text in (("a.py", "x = 2"), ("_shared", "max_new_tokens: 60")):  # task settings have no file ending
        (code / file).write_text(text)
        chain.runner.run([step])
    assert chain.screen.getvalue().count("done again: umu-bench's code (package) changed") == 2


def test_a_failing_step_stops_the_chain_and_shows_where_to_look(chain: Chain) -> None:
    first, second = chain.steps()
    command = (sys.executable, "-c", "print('loading'); raise SystemExit('no weights in there')")
    broken = Step("broken", "Broken", command, after=("first",))
    with pytest.raises(StepFailed) as caught:
        chain.runner.run([first, broken, second])
    message = str(caught.value)
    assert "step broken ended with status 1" in message
    assert "no weights in there" in message
    assert "02-broken.log" in message
    assert chain.times() == (1, 0)
    assert (chain.root / "demo" / "logs" / "02-broken.log").read_text().startswith("$ ")
    chain.runner.run([first, second])
    assert chain.times() == (1, 1)


def test_success_without_a_result_is_a_failure(chain: Chain) -> None:
    """lmms-eval reports errors and ends with status 0."""

    def check() -> None:
        raise ValueError("no scores in there")

    step = Step("s", "S", (sys.executable, "-c", "print('all fine')"), check=check)
    for _ in range(2):
        with pytest.raises(StepFailed, match=r"reported success, but: no scores in there(?s:.*)all fine"):
            chain.runner.run([step])


def test_an_accepted_status_is_success(chain: Chain) -> None:
    step = Step("s", "S", (sys.executable, "-c", "raise SystemExit(3)"), accepted=frozenset({0, 3}))
    chain.runner.run([step])
    chain.runner.run([step])
    assert "skipped" in chain.screen.getvalue()


def test_half_made_results_are_removed_before_a_new_start(chain: Chain) -> None:
    out = chain.root / "demo" / "out"
    fail = (
        f"import pathlib; p = pathlib.Path({str(out)!r}); p.mkdir(); (p / 'half').write_text(''); raise SystemExit(1)"
    )
    with pytest.raises(StepFailed):
        chain.runner.run([Step("s", "S", (sys.executable, "-c", fail), out)])
    assert (out / "half").exists()
    chain.runner.run([Step("s", "S", (sys.executable, "-c", WRITE, str(out), "whole"), out)])
    assert [file.name for file in out.iterdir()] == ["result"]


def test_folders_of_somebody_else_are_not_removed(chain: Chain) -> None:
    """`--out` may be a folder that holds a user's own models under the same names."""
    precious = chain.root / "demo" / "first" / "weights"
    precious.parent.mkdir(parents=True)
    precious.write_text("a week of training")
    with pytest.raises(StepFailed, match="was not made by it"):
        chain.runner.run(chain.steps())
    assert precious.read_text() == "a week of training"


def test_variables_are_set_and_taken_out(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "token")
    out = chain.root / "demo" / "out"
    script = f"import os, pathlib; p = pathlib.Path({str(out)!r}); p.mkdir(); "
    script += "(p / 'x').write_text(os.environ['COLOUR'] + str('SECRET' in os.environ))"
    runner = Runner(chain.runner.root, {"COLOUR": "red", "SECRET": None}, chain.screen)
    runner.run([Step("s", "S", (sys.executable, "-c", script), out)])
    assert (out / "x").read_text() == "redFalse"


def test_a_program_that_is_not_there(chain: Chain) -> None:
    with pytest.raises(StepFailed, match="can't be started"):
        chain.runner.run([Step("s", "S", ("/no/such/program",))])


def test_interrupting_keeps_finished_steps_and_stops_the_running_command(tmp_path: Path) -> None:
    """Ctrl-C in the fourth minute of training: scored models stay scored, no trainer goes on in the background."""
    script = tmp_path / "chain.py"
    script.write_text(
        f"""
import signal, sys
from pathlib import Path
from umu_tasks.steps import Runner, Step
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite run in the background hands down that it is ignored
root = Path({str(tmp_path)!r})
child = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
child += f"open({str(tmp_path / "pids")!r}, 'w').write(str(p.pid)); time.sleep(60)"
quick = Step("quick", "Quick", (sys.executable, "-c", "pass"))
slow = Step("slow", "Slow", (sys.executable, "-c", child))
try:
    Runner(root / "demo").run([quick, slow])
except KeyboardInterrupt:
    sys.exit(130)
"""
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    grandchild = int(_wait_for(tmp_path / "pids"))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    _wait_until_gone(grandchild)
    stamps = tmp_path / "demo" / ".steps"
    assert (stamps / "quick.json").exists()
    assert not (stamps / "slow.json").exists()


def test_verbose_shows_what_commands_say_and_keeps_it(tmp_path: Path) -> None:
    """Somebody who looks for a fault wants to see it happen; the log is there all the same."""
    screen = io.StringIO()
    code = "import time; print('first', flush=True); time.sleep(0.5); print('läst')"
    for verbose in (True, False):
        root = tmp_path / str(verbose)
        Runner(root, screen=screen, verbose=verbose).run([Step("talk", "Talk", (sys.executable, "-c", code))])
        assert "first\nläst\n" in (root / "logs" / "01-talk.log").read_text(encoding="utf-8")
    assert screen.getvalue().count("\nfirst\n") == 1
    assert screen.getvalue().count("läst\n\n      talk: done") == 1


def test_two_runs_do_not_share_a_folder(chain: Chain) -> None:
    chain.runner.root.mkdir()
    with steps._only_one(chain.runner.root / ".lock"), pytest.raises(StepFailed, match="another run"):
        chain.runner.run(chain.steps())
    chain.runner.run(chain.steps())
    assert chain.times() == (1, 1)


def test_a_command_that_outlived_its_run_keeps_the_folder(tmp_path: Path, chain: Chain) -> None:
    """After `kill -9` of the demo its trainer goes on; a second trainer must not write into the same folder."""
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script = tmp_path / "chain.py"
    script.write_text(
        f"import sys\nfrom pathlib import Path\nfrom umu_tasks.steps import Runner, Step\n"
        f"Runner(Path({str(chain.runner.root)!r})).run([Step('slow', 'Slow', (sys.executable, '-c', {code!r}))])"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL)
    orphan = int(_wait_for(tmp_path / "pid"))
    process.kill()
    process.wait()
    with pytest.raises(StepFailed, match="a command that one left behind"):
        chain.runner.run(chain.steps())
    os.kill(orphan, signal.SIGKILL)
    _wait_until_gone(orphan)
    chain.runner.run(chain.steps())
    assert chain.times() == (1, 1)


def test_progress_bars_are_shown_by_their_last_state(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"start\n\r 10%|#   |\r\x1b[32m 60%|######  |\x1b[0m\r")
    assert last_line(log) == "60%|######  |"
    log.write_bytes(b"")
    assert last_line(log) == ""


def test_a_terminal_sees_one_line_that_moves(chain: Chain) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    command = (sys.executable, "-c", "import time; print('step 7 of 9', flush=True); time.sleep(1)")
    Runner(chain.runner.root, screen=screen).run([Step("s", "S", command)])
    assert "\r\x1b[2K" in screen.getvalue()
    assert "0:00  step 7 of 9" in screen.getvalue()
    assert screen.getvalue().count("\n") < 8


def test_commands_can_be_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert readable([f"{tmp_path}/.venv/bin/python", "-m", "x", "a b"]) == ".venv/bin/python -m x 'a b'"


def test_fingerprint_sees_content_and_names_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = fingerprint(tmp_path)
    os.utime(tmp_path / "a", (1, 1))
    assert fingerprint(tmp_path) == before
    (tmp_path / "a").rename(tmp_path / "b")
    assert fingerprint(tmp_path) != before
    assert fingerprint(tmp_path / "missing") == fingerprint(tmp_path / "missing too")


def _wait_for(file: Path) -> str:
    for _ in range(200):
        if file.exists() and file.read_text():
            return file.read_text()
        time.sleep(0.1)
    raise AssertionError(f"{file} did not appear")


def _wait_until_gone(pid: int) -> None:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":  # ended; whoever adopted it has not collected it yet
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} goes on")
