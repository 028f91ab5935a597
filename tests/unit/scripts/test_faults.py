"""`scripts/faults.py`: the one line of a failed run that says why."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "faults.py"
# What two processes and their launcher write when the second one fails, shortened.
FAILED = """\
W1130 05:18:26.527000 29106 site-packages/torch/utils/cpp_extension.py:183] No CUDA runtime is found
site-packages/torch/distributed/c10d_logger.py:83: FutureWarning: `all_gather_into_tensor` is deprecated.
  return func(*args, **kwargs)
[rank0]: Traceback (most recent call last):
[rank0]:   File "umu_trainers/run.py", line 185, in run_script
[rank0]:     main()
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:14220.
[rank1]: Traceback (most recent call last):
[rank1]:   File "umu_trainers/run.py", line 150, in train_and_save
[rank1]:     trainer.train(resume_from_checkpoint=resume)
[rank1]:              ^^^^^^
[rank1]: torch.utils.checkpoint.CheckpointError: Recomputed values have different metadata than in the forward pass.
[rank1]: tensor at position 3:
[rank1]: saved metadata: {'shape': torch.Size([0])}
W1130 05:19:39.421000 29004 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 29106 SIGTERM
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
scripts/apart.py FAILED
------------------------------------------------------------
  traceback : Signal 15 (SIGTERM) received by PID 29106
============================================================
"""


@pytest.fixture(scope="module")
def faults():
    spec = importlib.util.spec_from_file_location("faults", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_process_that_failed_is_named_with_its_whole_message(faults):
    """The message of a failed recomputation has several lines; the other process only lost its partner."""
    assert faults.fault(FAILED) == (
        "[rank 1] torch.utils.checkpoint.CheckpointError: Recomputed values have different metadata than in the "
        "forward pass.\ntensor at position 3:\nsaved metadata: {'shape': torch.Size([0])}"
    )


def test_what_an_exception_came_from_stands_before_it(faults):
    """`training failed` alone would say nothing."""
    text = (
        "Traceback (most recent call last):\n  File a\nValueError: no such layer\n\nThe above exception was the direct "
        "cause of the following exception:\n\nTraceback (most recent call last):\n  File b\nRuntimeError: training "
        "failed: no such layer\n"
    )
    assert faults.fault(text) == "ValueError: no such layer\nRuntimeError: training failed: no such layer"


def test_both_processes_lost_their_partner(faults):
    """Better a consequence than nothing."""
    only = "\n".join(line for line in FAILED.splitlines() if not line.startswith("[rank1]"))
    assert "Connection closed by peer" in faults.fault(only)


def test_a_message_of_ours_wins(faults):
    assert faults.fault(f"error: --method ag: no such method.\n{FAILED}") == "error: --method ag: no such method."


def test_a_killed_process(faults):
    """Out of memory, the system kills without a traceback."""
    text = "\n".join(line for line in FAILED.splitlines() if not line.startswith("[rank"))
    assert "SIGKILL" in faults.fault(text.replace("Signal 15 (SIGTERM)", "Signal 9 (SIGKILL)"))


@pytest.mark.parametrize("text", ["", "=" * 60, "what remains\n" + "=" * 60])
def test_never_a_ruler(faults, text):
    assert "===" not in faults.fault(text)
