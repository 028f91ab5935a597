"""The wheel and the sdist: what a user gets who installs the package and has no clone."""

from __future__ import annotations

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
NEEDED = (
    "umu_tasks/tasks/umu/_cls",
    "umu_tasks/mini/base/model.safetensors",
    "umu_tasks/report/templates/",
    "umu_tasks/build/default_templates.yaml",
    "umu_trainers/refusals.txt",
)
CONFIGS = {str(file.relative_to(ROOT)) for file in (ROOT / "configs").rglob("*.yaml")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel made from the sdist, as an index would get both; built without network in this environment."""
    folder = tmp_path_factory.mktemp("dist")
    hook = "from setuptools import build_meta; print(build_meta.build_sdist({!r}))"
    source = tmp_path_factory.mktemp("source") / "clone"
    listed = ["/usr/bin/env", "git", "ls-files", "-co", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True)
    for name in tracked.stdout.decode().splitlines():
        if (ROOT / name).is_file():
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
    libraries = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"]
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(libraries)  # noqa: S202 - made a moment ago
    (folder / "bin" / "umu").write_text(
        f"#!{folder}/bin/python\nimport sys\nfrom umu_tasks.cli import main\nsys.exit(main())\n", encoding="utf-8"
    )
    (folder / "bin" / "umu").chmod(0o755)
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
    assert CONFIGS
    assert packed >= CONFIGS
    assert names >= {f"umu_trainers/{name}" for name in CONFIGS}
    for needed in NEEDED:
        assert any(name.startswith(needed) for name in names), needed
        assert any(name.startswith(needed) for name in packed), needed
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
    doctor = run(installed, tmp_path, "umu", "doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    shown = run(installed, tmp_path, "python", "-m", "umu_trainers.unlearn", "--config", "configs/unlearn/nix.yaml")
    assert "no such file" in shown.stderr
    taken = run(installed, tmp_path, "python", "-m", "umu_trainers.unlearn", "--config", "configs/unlearn/mini/gd.yaml")
    assert "runs/mini/sft" in taken.stderr, "the packaged config was read, and its model is not there yet"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_without_a_clone(installed, tmp_path):
    done = run(installed, tmp_path, "umu", "demo", "--quick", "--out", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "demo" / "report" / "report.html").is_file()
