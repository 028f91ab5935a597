"""Every config file parses into the settings of its script and names what exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from umu_trainers import objectives
from umu_trainers.config import SFTArguments, UnlearnArguments, parse

CONFIGS = Path(__file__).parents[3] / "configs"
SCRIPTS = {"sft": SFTArguments, "unlearn": UnlearnArguments}
FILES = {kind: sorted((CONFIGS / kind).rglob("*.yaml")) for kind in ("sft", "unlearn", "accelerate", "models")}
METHODS = objectives.available()
# bf16 is left to the machine; a CPU is all a test can count on.
ON_CPU = ["--use_cpu", "true", "--bf16", "false"]


def settings_of(*paths: Path) -> dict[str, Any]:
    return {name: value for path in paths for name, value in yaml.safe_load(path.read_text(encoding="utf-8")).items()}


def parsed(kind: str, *paths: Path, flags: tuple[str, ...] = ()) -> Any:
    return parse(SCRIPTS[kind], "", ["--config", *map(str, paths), *ON_CPU, *flags])


def short(value: Any) -> Any:
    return str(value.relative_to(CONFIGS)) if isinstance(value, Path) else value


def require_all(args: Any, written: dict[str, Any]) -> None:
    for name, value in written.items():
        if name in ("use_cpu", "bf16"):
            continue
        found = getattr(args, name)
        if name == "output_dir":
            assert re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(value)), found)
        else:
            assert type(found)(value) == found, name
    assert args.output_dir.startswith("runs/")
    assert "{" not in args.output_dir


def test_there_are_configs():
    assert all(FILES.values())


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind in SCRIPTS for path in FILES[kind]], ids=short)
def test_config_parses_and_every_setting_arrives(kind, path):
    require_all(parsed(kind, path), settings_of(path))


@pytest.mark.parametrize("model", FILES["models"], ids=short)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_settings_for_every_model(method, model):
    """`--config configs/unlearn/METHOD.yaml configs/models/MODEL.yaml`: the method's settings on the other model."""
    files = CONFIGS / "unlearn" / f"{method}.yaml", model
    args = parsed("unlearn", *files, flags=("--modality", "uni", "--forget_ratio", "10"))
    require_all(args, settings_of(*files))
    assert (args.method, args.model) == (method, settings_of(model)["model"])
    assert args.output_dir == f"runs/{model.stem}/{method}-uni-10"


@pytest.mark.parametrize("folder", ["", "mini"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_config(method, folder):
    assert (CONFIGS / "unlearn" / folder / f"{method}.yaml").is_file()


@pytest.mark.parametrize("path", FILES["unlearn"], ids=short)
def test_a_config_is_named_after_its_method(path):
    assert settings_of(path)["method"] == path.stem


@pytest.mark.parametrize("path", [path for path in FILES["unlearn"] if "published" in path.parts], ids=short)
def test_a_published_preset_says_where_its_numbers_come_from(path):
    """Whoever compares with a published row must see which settings are the script's and which are not."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if re.match(r"(learning_rate|num_train_epochs|label_scope|lora_r|npo_beta|reference_model):", line):
            assert re.search(r"# (published|as UMU-Bench)", line), line


def test_published_presets_turn_on_what_the_scripts_do():
    read = {path.relative_to(CONFIGS / "unlearn" / "published"): parsed("unlearn", path) for path in FILES["unlearn"]
            if "published" in path.parts}  # fmt: skip
    assert {str(name) for name in read} == {
        *(f"umu/{method}.yaml" for method in ("ga", "gd", "kl", "po", "npo")),
        *(f"mllmu/{method}.yaml" for method in ("ga", "gd", "kl", "npo")),
    }
    for args in read.values():
        assert (args.label_scope, args.nll_average, args.dtype) == ("published", "tokens", "float16")
        assert {"q_proj", "v_proj"} <= set(args.lora_target_modules)
        if args.method in ("kl", "npo"):
            assert args.method_kwargs["published_form"]
            assert args.reference_model
    assert read[Path("umu/gd.yaml")].retain_subset
    assert read[Path("mllmu/gd.yaml")].phases == "sequential"
    assert read[Path("mllmu/kl.yaml")].method_kwargs["retain_nll"] == 1.0
    assert read[Path("umu/npo.yaml")].clip_multimodal == 1.0


def test_starting_points_differ_in_their_rows():
    halves = {path.stem: parsed("sft", path).halves for path in FILES["sft"]}
    assert halves["mm-qa-only"] == halves["image-on-um-qa"] == ("mul",)
    assert halves["llava-1.5-7b"] == halves["mini"] == ("uni", "mul")
    retain_only = parsed("sft", CONFIGS / "sft/llava-1.5-7b.yaml", CONFIGS / "sft/retain-only.yaml")
    assert (retain_only.split, retain_only.output_dir) == ("retain95", "runs/llava-1.5-7b/retain95")
    assert retain_only.learning_rate == parsed("sft", CONFIGS / "sft/llava-1.5-7b.yaml").learning_rate


def test_flags_win_over_files_and_later_files_over_earlier(tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("alpha: 2.0\nbeta: 2.0\ngamma: 2.0\n", encoding="utf-8")
    second.write_text("beta: 3.0\ngamma: 3.0\n", encoding="utf-8")
    for files in (["--config", str(first), str(second)], ["--config", str(first), f"--config={second}"]):
        args = parse(UnlearnArguments, "", [*files, "--gamma", "4", *ON_CPU])
        assert (args.alpha, args.beta, args.gamma) == (2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat: 1e-5\n", "no such setting: learning_rat"),
        ("- gd\n", r"`name: value` are expected, found \['gd'"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(tmp_path, text, message):
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        parse(UnlearnArguments, "", ["--config", str(file)])


@pytest.mark.parametrize("path", FILES["accelerate"], ids=lambda path: path.stem)
def test_accelerate_config_loads(path):
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(path))
    assert config.num_processes >= 1
    assert config.mixed_precision == "no", "precision is a training setting"
