"""`umu` with quick stand-ins for the programs of a trial."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from umu_tasks.cli import main
from umu_tasks.report.canvas import Picture
from umu_trainers.sweep import command, report, trial, workers

trial.PYTHON = str(Path(__file__).parent / "python_stand_in")
trial.POLL_SECONDS = 0.02
workers.WAIT_SECONDS = 0.1
workers.UNNAMED_SECONDS = 2.0
command._check = lambda *_: None  # imports torch; its own tests are among the unit tests
if "STAND_IN_DRAWS" not in os.environ:  # drawing takes longer than all else here; one test looks at the picture
    report.draw = lambda *_: Picture({"light": b"", "dark": b""}, b"")

if __name__ == "__main__":
    sys.exit(main())
