"""The demo's chain of commands: each reads what an earlier one wrote, and nothing is scored twice."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from umu_tasks import demo, mini
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.cli import main
from umu_tasks.demo import Settings, build_steps, config_path
from umu_tasks.steps import Step


@pytest.fixture(autouse=True)
def small_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configs and a base model of no content: building the chain only needs their paths."""
    for name in ("accelerate/single.yaml", "sft/mini.yaml", "unlearn/mini/gd.yaml"):
        file = tmp_path / "configs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "config_path", lambda name: Path("configs") / name)
    monkeypatch.setattr(mini, "base_model_dir", lambda: tmp_path / "base", raising=False)


def chain(**settings: Any) -> dict[str, Step]:
    return {step.name: step for step in build_steps(Settings(Path("runs/demo"), **settings))}


def option(step: Step, name: str) -> str:
    return step.command[step.command.index(name) + 1]


def test_steps_in_order() -> None:
    assert list(chain()) == [
        "data",
        "score-base",
        "sft",
        "score-sft",
        "gd-text",
        "score-gd-text",
        "gd-mix",
        "score-gd-mix",
        "report",
    ]


def test_every_step_names_the_steps_it_builds_on_and_they_come_first() -> None:
    """A step that did not name its input would be skipped after the input was made anew."""
    done: list[str] = []
    written: dict[str, str] = {}
    for step in chain().values():
        assert set(step.after) <= set(done)
        used = {name for path, name in written.items() if any(path in part for part in step.command)}
        assert used <= set(step.after)
        done.append(step.name)
        if step.output is not None:
            written[str(step.output)] = step.name


def test_the_sets_that_are_scored() -> None:
    """The full set is not asked where forget and retain set are: the report puts it together."""
    wanted = {"base": "umu_full,umu_real", "sft": "umu05", "gd-text": "umu05", "gd-mix": "umu05"}
    assert {name: option(chain()[f"score-{name}"], "--tasks") for name in wanted} == wanted
    assert option(chain(forget_ratio=10)["score-gd-mix"], "--tasks") == "umu10"


def test_training_commands() -> None:
    found = chain(forget_ratio=15)
    assert option(found["sft"], "--config") == "configs/sft/mini.yaml"
    assert option(found["gd-text"], "--modality") == "uni"
    assert option(found["gd-mix"], "--modality") == "mix"
    for name in ("gd-text", "gd-mix"):
        assert option(found[name], "--model") == str(found["sft"].output)
        assert option(found[name], "--forget_ratio") == "15"
        assert option(found[f"score-{name}"], "--model_args") == f"pretrained={found[name].output}"


def test_smoke_limits_training_and_scoring() -> None:
    found = chain(smoke=True)
    assert option(found["sft"], "--max_steps") == "2"
    assert option(found["score-sft"], "--limit") == "4"
    assert "--limit" not in chain()["score-sft"].command


def test_the_report_reads_all_results_and_compares_with_the_start_model() -> None:
    command = chain()["report"].command
    assert option(chain()["report"], "--baseline") == "sft"
    for name in ("base", "sft", "gd-text", "gd-mix"):
        assert f"{name}=runs/demo/results/{name}" in command


def test_list_prints_commands_that_can_be_typed(capsys: Any) -> None:
    assert main(["demo", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "export UMU_DATA=mini HF_HUB_OFFLINE=1" in printed
    lines = [shlex.split(line) for line in printed.splitlines() if "-m lmms_eval" in line]
    assert [line[-1] for line in lines] == ["--log_samples"] * 4
    assert not Path("runs").exists()


def test_a_quick_look_leaves_the_demo_alone(capsys: Any) -> None:
    """Its two steps would replace the models and the report that ten minutes of the whole demo made."""
    assert main(["demo", "--quick", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "runs/demo-quick/models/sft" in printed
    assert "runs/demo/" not in printed


@pytest.mark.parametrize("out", ["runs/a,b", "runs/lr=1"])
def test_paths_that_lmms_eval_would_cut_are_refused(out: str, capsys: Any) -> None:
    assert main(["demo", "--out", out]) == 2
    assert "lmms-eval can't take a path with" in capsys.readouterr().err


def test_a_failing_step_ends_the_demo_with_its_log(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    command = (sys.executable, "-c", "raise SystemExit('out of memory')")
    monkeypatch.setattr(demo, "build_steps", lambda settings: [Step("sft", "Teach", command)])
    assert main(["demo", "--out", "runs/demo"]) == 1
    error = capsys.readouterr().err
    assert "runs/demo/logs/01-sft.log" in error
    assert "out of memory" in error
    assert "Run the same command to go on" in error


def test_scores_that_are_missing_are_seen_though_the_program_reported_success(make_folder: Any) -> None:
    folder = make_folder("sft", lambda *_: 1.0, splits=("forget05", "retain95"))
    with pytest.raises(ValueError, match="has no scores for real"):
        demo._require_results("sft", folder, ("umu05",))
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match="nothing was scored here"):
        demo._require_results("sft", folder / "empty", ("umu05",))
    make_folder("sft", lambda *_: 1.0, splits=("real",), date="20260103_000000")
    demo._require_results("sft", folder, ("umu05",))
    demo._require_results("sft", folder, ("umu_real",))
    bare = make_folder("bare", lambda *_: 1.0, samples=False)
    with pytest.raises(ValueError, match="no sample files"):
        demo._require_results("bare", bare, ("umu05",))


def test_the_end_of_the_demo(make_folder: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def unlearned(profile_id: str, task: str, key: str, modality: str) -> float:
        return 0.0 if profile_id in ("001", "002") and modality == "unimodal" else 1.0

    make_folder("base", lambda *_: 0.0, splits=("full", "real"))
    make_folder("sft", lambda *_: 1.0)
    make_folder("gd-text", unlearned)
    make_folder("gd-mix", unlearned, output=lambda *_: "")
    out = make_folder.root.parent
    assert demo._close(Settings(out), 61) == 3
    printed = capsys.readouterr().out
    assert "gd-mix (invalid)" in printed
    assert "- gd-text: text answers on forget05 (2 people) fell" in printed
    assert str(out / "report" / "report.html") in printed
    assert "1:01" in printed


def test_configs_of_a_clone_and_a_message_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    monkeypatch.setattr(demo, "_package", lambda name: tmp_path / "package")
    assert config_path("sft/mini.yaml") == tmp_path / "configs" / "sft" / "mini.yaml"
    (tmp_path / "configs" / "sft" / "mini.yaml").unlink()
    with pytest.raises(DataError, match=r"config sft/mini.yaml not found; expected .*configs/sft/mini.yaml or "):
        config_path("sft/mini.yaml")


def test_secrets_and_plugins_stay_out_of_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a token lmms-eval asks the hub who it belongs to, which fails offline."""
    monkeypatch.setenv("HF_TOKEN", "secret")
    variables = demo.environment()
    assert variables["HF_TOKEN"] is None
    assert "secret" not in json.dumps(variables)
    assert demo._exports(variables)[1] == "unset HF_TOKEN"


def test_being_ended_stops_the_running_command(tmp_path: Path) -> None:
    """`kill` and a batch system's time limit end the demo as Ctrl-C does; a trainer must not go on alone."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\nfrom umu_tasks import demo\nfrom umu_tasks.cli import main\nfrom umu_tasks.steps import Step\n"
        "code = \"import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)\"\n"
        "demo.build_steps = lambda settings: [Step('sft', 'Teach', (sys.executable, '-c', code))]\n"
        "sys.exit(main(['demo', '--out', 'out']))\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    pid = int(_content(tmp_path / "pid"))
    process.terminate()
    assert process.wait(timeout=30) == 130
    assert process.stderr is not None
    assert "finished steps are kept" in process.stderr.read()
    assert not Path(f"/proc/{pid}").exists()


def _content(file: Path) -> str:
    for _ in range(300):
        if file.exists() and file.read_text():
            return file.read_text()
        time.sleep(0.1)
    raise AssertionError(f"{file} did not appear")
