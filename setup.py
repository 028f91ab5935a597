"""Everything is in pyproject.toml, but for one thing: `configs/` goes into the wheel, as `umu_trainers/configs`.

There the `umu` command and the training scripts find it where the package is installed without the project's folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


class BuildWithConfigs(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "umu_trainers" / "configs"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(HERE / "configs", target)


setup(cmdclass={"build_py": BuildWithConfigs})
