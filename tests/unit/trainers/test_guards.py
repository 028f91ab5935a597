from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from umu_trainers.guards import ForgetBound, TrainingStopped, check_finite, check_weights, last_checkpoint


def make_checkpoint(folder, step, *, complete=True):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    if complete:
        (path / "trainer_state.json").write_text("{}")
    return str(path)


def test_newest_complete_checkpoint_by_number(tmp_path):
    """A run killed while saving leaves a folder that resuming must not take."""
    make_checkpoint(tmp_path, 9)
    newest = make_checkpoint(tmp_path, 10)
    make_checkpoint(tmp_path, 11, complete=False)
    (tmp_path / "checkpoint-old").mkdir()
    assert last_checkpoint(str(tmp_path)) == newest
    assert last_checkpoint(str(tmp_path / "none")) is None


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_loss_names_step_parts_and_checkpoint(tmp_path, loss):
    checkpoint = make_checkpoint(tmp_path, 10)
    with pytest.raises(TrainingStopped) as stop:
        check_finite(loss, {"nll/forget_mul": loss, "nll/forget_uni": 3.5}, step=12, output_dir=str(tmp_path))
    message = str(stop.value)
    for part in ("step 12", f"nll/forget_mul {loss:.4g}", "nll/forget_uni 3.5", f"good checkpoint is {checkpoint}"):
        assert part in message


def test_finite_loss_passes(tmp_path):
    check_finite(-1e30, {}, step=1, output_dir=str(tmp_path))


def test_broken_weights_are_named(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[1].bias[0] = float("nan")
    with pytest.raises(TrainingStopped, match=r"step 3: 1 weights are not finite, the first is 1\.bias.*No checkpoint"):
        check_weights(model, step=3, output_dir=str(tmp_path))
    model[1].bias.requires_grad_(False)
    check_weights(model, step=3, output_dir=str(tmp_path))


class OneProcess:
    def gather(self, tensor):
        return tensor


@pytest.mark.parametrize(("bound", "stops"), [(4.9, True), (5.1, False)])
def test_forget_bound_counts_forget_rows_only(bound, stops):
    """Between two sequential phases a step with accumulation holds retain rows, whose weight would halve the mean."""
    guard = ForgetBound(bound, OneProcess())
    control = SimpleNamespace(should_training_stop=False)
    state = SimpleNamespace(global_step=1, log_history=[], is_world_process_zero=False)
    for nll, weight in ((4.0, 0.25), (6.0, 0.25)):  # the other half of the step are retain rows
        guard.add(torch.tensor(nll), torch.tensor(weight))
    guard.on_step_end(None, state, control)
    assert control.should_training_stop == stops
