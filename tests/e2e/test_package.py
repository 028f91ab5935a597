"""The wheel and the sdist: what a user gets who installs the package and has no clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIGS = {str(file.relative_to(ROOT)) for file in (ROOT / "configs").rglob("*.yaml")}


def project_files():
    """What the repository holds, or will hold with the next commit."""
    listed = ["/usr/bin/env", "git", "ls-files", "-co", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in found if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel made from the sdist, as an index would get both; built without network in this environment."""
    folder = tmp_path_factory.mktemp("dist")
    hook = "from setuptools import build_meta; print(build_meta.build_sdist({!r}))"
    source = tmp_path_factory.mktemp("source") / "clone"
    for name in project_files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([sys.executable, "-c", hook.format(str(folder))], cwd=source, check=True, capture_output=True)
    (sdist,) = folder.glob("*.tar.gz")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, sdist],
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """An empty virtual environment with the wheel; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder, "install", "-q", "--no-deps", "--no-index", built[1]],
        check=True,
        capture_output=True,
    )
    libraries = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"]
    # A plain line of a .pth file is a folder to import from; the clone's own .pth there is not read again.
    Path(libraries, "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return folder


def run(installed, folder, *command, **variables):
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "HF_HUB_OFFLINE": "1",
        "UMU_DATA": "mini",
        "PATH": f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}",
        **variables,
    }
    return subprocess.run(
        [str(installed / "bin" / command[0]), *map(str, command[1:])],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_sdist_and_wheel_hold_everything(built):
    sdist, wheel = built
    with tarfile.open(sdist) as file:
        packed = {name.partition("/")[2] for name in file.getnames()}
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    ours = {name for name in project_files() if name.startswith(("umu_tasks/", "umu_trainers/"))}
    assert len(ours - {name for name in ours if name.endswith(".py")}) > 100, "task files, templates, the base model …"
    assert CONFIGS
    assert not (ours | CONFIGS) - packed
    assert not (ours | {f"umu_trainers/{name}" for name in CONFIGS}) - names
    assert not [name for name in names if name.startswith(("tests", "scripts"))]


@pytest.mark.slow
def test_the_package_alone(installed, tmp_path):
    """Not the clone: nothing of it may be needed, or users without one get errors that nobody here sees."""
    where = run(installed, tmp_path, "python", "-c", "import umu_tasks, umu_trainers; print(umu_tasks.__file__)")
    assert str(installed) in where.stdout, where.stderr
    version = run(installed, tmp_path, "umu", "--version")
    assert version.stdout.startswith("umu-bench "), version.stderr
    tasks = run(installed, tmp_path, "umu", "tasks")
    assert tasks.returncode == 0, tasks.stderr
    assert "umu_forget05_cls" in tasks.stdout
    doctor = run(installed, tmp_path, "umu", "doctor", "--model", "mini")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert "registered: umu_hf" in doctor.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_lmms_eval_finds_tasks_and_model_by_name(installed, tmp_path):
    """Two lines to type after `pip install`: the tasks and `umu_hf` come with the package, no path is given."""
    base = run(installed, tmp_path, "python", "-c", "from umu_tasks.mini import base_model_dir as d; print(d())")
    done = run(
        installed, tmp_path, "python", "-m", "lmms_eval", "--model", "umu_hf",
        "--model_args", f"pretrained={base.stdout.strip()}", "--tasks", "umu_forget05", "--limit", "2",
        "--batch_size", "8", "--output_path", "results", "--log_samples",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (results,) = (tmp_path / "results").rglob("*_results.json")
    assert {"umu_forget05_cls", "umu_forget05_cloze", "umu_forget05_gen"} <= json.loads(results.read_text())[
        "results"
    ].keys()


def launch(installed, folder, module, *options):
    command = ("python", "-m", "accelerate.commands.launch", "--quiet", "--cpu", "-m", module, *options)
    return run(installed, folder, *command)


@pytest.mark.slow
def test_training_scripts_are_modules_and_find_the_packaged_configs(installed, tmp_path):
    """Without a clone there is neither `umu_trainers/unlearn.py` nor `configs/` to name."""
    shown = launch(installed, tmp_path, "umu_trainers.sft", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "--learning_rate" in shown.stdout
    shown = launch(installed, tmp_path, "umu_trainers.unlearn", "--config", "configs/unlearn/nix.yaml")
    assert shown.returncode == 1
    assert "error: --config configs/unlearn/nix.yaml: no such file. In that folder: dpo.yaml, " in shown.stderr
    assert "Traceback" not in shown.stderr
    taken = launch(installed, tmp_path, "umu_trainers.unlearn", "--config", "configs/unlearn/mini/gd.yaml")
    assert taken.returncode == 1
    assert "runs/mini/sft" in taken.stderr, "the packaged config was read, and its model is not there yet"
    swept = run(installed, tmp_path, "umu", "sweep", "configs/sweep/mini.yaml", "--dry_run")
    assert swept.returncode == 0, swept.stderr
    assert "gd: learning_rate, gamma" in swept.stdout, "so were the sweep's and those it builds on"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_without_a_clone(installed, tmp_path):
    done = run(installed, tmp_path, "umu", "demo", "--quick", "--out", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "demo" / "report" / "report.html").is_file()
