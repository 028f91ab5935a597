"""A run that can't be trusted ends with status 1, after all that it wanted to print."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
from umu_tasks.results.exit_status import fail_at_exit, watch_exit
watch_exit(); watch_exit()
import atexit
atexit.register(print, "other handlers ran")
{fail}
print("the table")
"""


def run(fail: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SCRIPT.format(fail=fail)], capture_output=True, text=True, check=False)


def test_good_run_exits_with_success():
    done = run("")
    assert (done.returncode, done.stderr) == (0, "")


def test_bad_run():
    """Nothing is cut short: the table is out, and loggers of other packages have finished."""
    done = run("fail_at_exit('no good')")
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["the table", "other handlers ran"]
    assert done.stderr == "umu-bench: no good\n"
