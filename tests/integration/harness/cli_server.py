"""Runs lmms-eval's command many times: imports it once, reads its two thousand task files once, and forks for each run.

Each line of standard input is a job, ``{"argv": [...], "env": {...}, "cwd": "...", "log": FILE}``; the answer is a line
with the exit status. The forked process runs the command's own entry point and leaves through Python's normal exit, so
status and printed messages are those of the command.
"""

import json
import os
import sys
from pathlib import Path

import generation_spy
import lmms_eval.__main__  # noqa: F401
from lmms_eval.cli.dispatch import main
from lmms_eval.tasks import TaskManager

import umu_tasks.backend.umu_hf  # noqa: F401


def run(job: dict) -> None:
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.argv = ["lmms-eval", *job["argv"]]
    generation_spy.install()
    sys.exit(main())


read_folder = TaskManager._get_task_and_group
known = {}


def read_folder_once(self: TaskManager, folder: str) -> dict:
    """Remember lmms-eval's own folder; others are read in each run."""
    if folder != OWN_FOLDER:
        return read_folder(self, folder)
    if folder not in known:
        known[folder] = read_folder(self, folder)
    return known[folder]


OWN_FOLDER = f"{Path(sys.modules[TaskManager.__module__].__file__).parent}/"
TaskManager._get_task_and_group = read_folder_once
TaskManager()
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
