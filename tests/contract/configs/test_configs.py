"""Every config file parses into the settings of its script and names what exists."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from umu_trainers.config import SFTArguments, UnlearnArguments, parse

CONFIGS = Path(__file__).parents[3] / "configs"
SCRIPTS = {"sft": SFTArguments, "unlearn": UnlearnArguments}
FILES = {kind: sorted((CONFIGS / kind).rglob("*.yaml")) for kind in ("sft", "unlearn", "accelerate")}


def test_there_are_configs():
    assert all(FILES.values())


@pytest.mark.parametrize(
    ("kind", "path"),
    [(kind, path) for kind in SCRIPTS for path in FILES[kind]],
    ids=lambda value: str(value.relative_to(CONFIGS)) if isinstance(value, Path) else value,
)
def test_config_parses_and_every_setting_arrives(kind, path, tmp_path):
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    # bf16 is left to the machine; a CPU is all a test can count on.
    args = parse(SCRIPTS[kind], "", ["--config", str(path), "--use_cpu", "true", "--bf16", "false"])
    for name, value in written.items():
        if name not in ("use_cpu", "bf16"):
            found = getattr(args, name)
            assert type(found)(value) == found, name
    assert args.output_dir.startswith("runs/")


@pytest.mark.parametrize("path", FILES["unlearn"], ids=lambda path: str(path.relative_to(CONFIGS)))
def test_a_config_is_named_after_its_method(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["method"] == path.stem


@pytest.mark.parametrize("path", FILES["accelerate"], ids=lambda path: path.stem)
def test_accelerate_config_loads(path):
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(path))
    assert config.num_processes >= 1
    assert config.mixed_precision == "no", "precision is a training setting"
