"""`umu tasks`."""

from __future__ import annotations

from umu_tasks import cli
from umu_tasks.tasks import command, files


def test_list_and_path(capsys):
    """Names, metrics and the folder for `--include-path`; status 0 without a clash."""
    assert cli.main(["tasks"]) == 0
    shown = capsys.readouterr()
    assert f"Include path: {files.task_path()}" in shown.out
    assert "umu_retain85_cloze" in shown.out
    assert shown.err == ""
    assert cli.main(["tasks", "--path"]) == 0
    assert capsys.readouterr().out == f"{files.task_path()}\n"


def test_clash_is_an_error(capsys, monkeypatch):
    """A task of lmms-eval with one of our names wins over ours: say which, and fail."""
    monkeypatch.setattr(command, "builtin_clashes", lambda names: {"umu_real": "/there/real.yaml"})
    assert cli.main(["tasks"]) == 1
    assert "umu: task umu_real of umu-bench is hidden by another task of that name: /there/real.yaml" in (
        capsys.readouterr().err
    )
