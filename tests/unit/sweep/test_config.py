"""A sweep's file: what is wrong in it is named with file and key before anything runs; methods get equal budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_trainers.sweep import space
from umu_trainers.sweep.check import Case, cases, first_problem
from umu_trainers.sweep.config import KEYS

GRID = {"learning_rate": {"low": 1e-5, "high": 1e-3, "log": True, "points": 3}, "alpha": [1, 2]}


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"metods": ["gd"]}, "metods", "Did you mean methods?"),
        ({"space": None}, "space", "missing"),
        ({"space": {}}, "space", "empty"),
        ({"methods": []}, "methods", "list of names"),
        ({"methods": ["gdd"]}, "methods", "Choose one of"),
        ({"methods": ["gd", "gd"]}, "methods", "twice"),
        ({"sampler": "cmaes"}, "sampler", "grid, random, tpe, nsga2"),
        ({"budget": {"trials": 3}}, "budget", "steps or epochs"),
        ({"budget": {"trials": 3, "steps": 5, "epochs": 1}}, "budget", "steps or epochs"),
        ({"budget": {"steps": 5}}, "budget.trials", "missing"),
        ({"budget": {"trials": 0, "steps": 5}}, "budget.trials", "at least 1"),
        ({"space": {"alpha": []}}, "space.alpha", "empty"),
        ({"space": {"alpha": 1}}, "space.alpha", "under fixed"),
        ({"space": {"alpha": [1, 1]}}, "space.alpha", "twice"),
        ({"space": {"alpha": {"low": 2, "high": 1}}}, "space.alpha", "not below"),
        ({"space": {"alpha": {"low": 2}}}, "space.alpha", "high missing"),
        ({"space": {"alpha": {"low": 0, "high": 1, "log": True}}}, "space.alpha", "above 0"),
        ({"space": {"alpha": {"low": "x", "high": 1}}}, "space.alpha.low", "number"),
        ({"space": {"alpha": {"low": 0, "high": 1, "step": 0}}}, "space.alpha", "step"),
        ({"space": {"alpha": {"low": 0, "high": 1, "min": 0}}}, "space.alpha", "no such key: min"),
        ({"space": {"forget_ratio": [5, 10]}}, "space.forget_ratio", "under fixed"),
        ({"space": {"output_dir": ["a", "b"]}}, "space.output_dir", "sweep sets"),
        ({"space": {"lora.r": [1, 2]}}, "space.lora.r", "method_kwargs"),
        ({"space": {"max_steps": [5, 20]}}, "space.max_steps", "above budget.steps"),
        ({"space": {"num_train_epochs": [1, 2]}}, "space.num_train_epochs", "budget.epochs"),
        ({"method_space": {"kl": {"gamma": [1, 2]}}}, "method_space.kl", "no such key"),
        ({"method_space": {"gd": {"max_steps": [1, 2]}}}, "method_space.gd.max_steps", "more steps"),
        ({"fixed": {"max_steps": 5}}, "fixed.max_steps", "budget.steps"),
        ({"fixed": {"method": "gd"}}, "fixed.method", "under methods"),
        ({"base": "none.yaml"}, "base", "no file none.yaml"),
        ({"scoring": {"tasks": ["umu10"]}}, "scoring.tasks", "another forget set"),
        ({"scoring": {"tasks": ["umu_forget05"]}}, "objectives.utility", "does not have"),
        ({"objectives": {"forget": {"splits": ["retain"]}}}, "objectives.forget.splits", "wrong way"),
        ({"objectives": {"forget": {"metric": "any", "tasks": ["gen"]}}}, "objectives.forget.tasks", "right and wrong"),
        ({"pruning": {"floor": 0.5}}, "pruning.every", "missing"),
        ({"pruning": {"every": 5, "floor": 2}}, "pruning.floor", "from 0 to 1"),
        ({"recommend": {"keep": 95}}, "recommend.keep", "from 0 to 1"),
        ({"output_dir": "a,b"}, "output_dir", "','"),
        ({"name": ""}, "name", "a text"),
        ({"storage": ["a"]}, "storage", "a text"),
        ({"space": {"alpha": [1, True]}}, "space.alpha", "twice"),
        ({"space": {"alpha": [1, 1.0]}}, "space.alpha", "twice"),
        ({"fixed": {"learning_rate": 1e-4}}, "fixed.learning_rate", "searched too"),
        (
            {"space": {"method_kwargs.a": [1, 2]}, "fixed": {"method_kwargs": {"a": 1}}},
            "fixed.method_kwargs.a",
            "searched too",
        ),
        ({"fixed": {"model": None}}, "base", "no model"),
        ({"fixed": {"forget_ratio": "five"}}, "fixed.forget_ratio", "5, 10, 15"),
        ({"stale_minutes": 0}, "stale_minutes", "living trials"),
        ({"scoring": {"model_args": "prompt=chat"}}, "scoring.model_args", "keys with values"),
        ({"scoring": {"model_args": {"pretrained": "x"}}}, "scoring.model_args.pretrained", "its own model"),
        ({"scoring": {"model_args": {"prompt": "a,b"}}}, "scoring.model_args.prompt", "','"),
        ({"pruning": {"every": 11}}, "pruning.every", "above budget.steps 10"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(write, changes, key, says) -> None:
    """A user who mistypes a key learns so at once, not after a night of trials."""
    from umu_trainers.sweep.config import read_config

    with pytest.raises(DataError) as error:
        read_config(write(**changes))
    assert f"sweep.yaml, {key}: " in str(error.value)
    assert says in str(error.value)


def test_a_key_with_nothing_behind_it_is_not_there(config, tmp_path, monkeypatch) -> None:
    """`output_dir:` with its value commented out must not become a folder called None."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sweep.yaml"
    config()
    text = file.read_text().replace(f"output_dir: {tmp_path / 'out'}", "output_dir:\nname:\nstorage:\nfixed:")
    file.write_text(text)
    from umu_trainers.sweep.config import read_config

    one = read_config(file)
    assert (one.name, one.output_dir.as_posix(), one.storage) == (
        "sweep",
        "runs/sweep/sweep",
        "runs/sweep/sweep/journal.log",
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"space: {alpha: [1, 2]}\nspace: {beta: [1, 2]}\n", "the key 'space' stands twice"),
        ("name: Überblick\n".encode("latin-1"), "not UTF-8"),
        (b"? [a]\n: 1\n", "no such key|not valid YAML"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, says) -> None:
    """Of two `space:` the first would be lost without a word."""
    from umu_trainers.sweep.config import read_config

    file = tmp_path / "sweep.yaml"
    file.write_bytes(content)
    with pytest.raises(DataError, match=says):
        read_config(file)


def test_epochs_written_as_text_are_a_number(config) -> None:
    one = config(budget={"trials": 1, "epochs": "2"}, space={"num_train_epochs": [1, 2]})
    assert one.settings["gd"]["num_train_epochs"] == 2


def test_every_method_gets_the_same_trials_and_steps(config) -> None:
    """A comparison of methods is fair only if none was tried more often or trained longer."""
    one = config(method_space={"npo": {"npo_beta": [0.1, 0.4]}})
    assert one.trials == 3
    assert {method: settings["max_steps"] for method, settings in one.settings.items()} == {"gd": 10, "npo": 10}
    assert set(one.spaces["gd"]) == {"learning_rate"}
    assert set(one.spaces["npo"]) == {"learning_rate", "npo_beta"}


def test_methods_with_different_batches_are_refused(write, tmp_path) -> None:
    """Ten steps of 24 rows are no equal budget to ten steps of 6."""
    from umu_trainers.sweep.config import read_config

    for method, rows in (("gd", 24), ("npo", 6)):
        (tmp_path / f"{method}.yaml").write_text(
            f"model: mini\nmethod: {method}\nper_device_train_batch_size: {rows}\n"
        )
    with pytest.raises(DataError, match="per_device_train_batch_size \\(gd 24, npo 6\\)"):
        read_config(write(base="{method}.yaml"))
    read_config(write(base="{method}.yaml", fixed={"per_device_train_batch_size": 6}))


def test_a_grid_has_every_combination_once(config) -> None:
    """A grid with a hole would show a window where there is none."""
    one = config(sampler="grid", budget={"steps": 10}, space=GRID)
    points = space.grid_points(one.file, one.spaces["gd"])
    assert one.trials == len(points) == 6
    assert [(point["learning_rate"], point["alpha"]) for point in points] == [
        (rate, alpha) for rate in (1e-5, 1e-4, 1e-3) for alpha in (1, 2)
    ]


def test_grids_of_different_size_or_without_points_are_refused(write) -> None:
    from umu_trainers.sweep.config import read_config

    with pytest.raises(DataError, match="gd 6, npo 12"):
        read_config(write(sampler="grid", budget={"steps": 1}, space=GRID, method_space={"npo": {"gamma": [1, 2]}}))
    with pytest.raises(DataError, match="give step or points"):
        read_config(write(sampler="grid", budget={"steps": 1}))
    with pytest.raises(DataError, match="the grid has 6 points"):
        read_config(write(sampler="grid", budget={"steps": 1, "trials": 5}, space=GRID))


def test_ranges_of_whole_numbers_stay_whole(config) -> None:
    """`lora_r: 8.0` would be refused by the trainer."""
    one = config(sampler="grid", budget={"steps": 1}, space={"lora_r": {"low": 8, "high": 32, "step": 8}})
    values = [point["lora_r"] for point in space.grid_points(one.file, one.spaces["gd"])]
    assert values == [8, 16, 24, 32]
    assert all(isinstance(value, int) for value in values)


def test_a_methods_own_settings_are_put_into_their_mapping() -> None:
    settings = {"alpha": 1, "method_kwargs": {"hidden_layer": 2}}
    merged = space.apply(settings, {"method_kwargs.steering": 4.0, "alpha": 2})
    assert merged == {"alpha": 2, "method_kwargs": {"hidden_layer": 2, "steering": 4.0}}
    assert settings["method_kwargs"] == {"hidden_layer": 2}


def test_text_that_is_a_number_is_one(config) -> None:
    """YAML reads 1e-5, without a dot, as text."""
    assert config().spaces["gd"]["learning_rate"].extremes == (1e-5, 1e-3)


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"fixed": {"lerning_rate": 1}}, "settings of method gd", "Did you mean learning_rate?"),
        ({"space": {"alpha": [1, -1]}}, "space.alpha of method gd", "weight of 0 or more"),
        ({"space": {"npo_beta": [0.1, 0.2]}}, "settings of method gd", "has no npo_beta"),
        ({"space": {"lora_init": ["gaussian", "zero"]}}, "space.lora_init of method gd", "choose one of"),
        ({"space": {"lora_r": [8, 8.5]}}, "space.lora_r of method gd", "lora_r 8.5: a whole number"),
        ({"space": {"lora_r": {"low": 8, "high": 9, "step": 0.5}}}, "settings of method gd", "a whole number"),
        ({"fixed": {"use_lora": "maybe"}}, "settings of method gd", "true or false"),
        ({"fixed": {1: 2}}, "settings of method gd", "no setting 1"),
    ],
)
def test_the_trainer_itself_is_asked_about_values(config, tmp_path, changes, key, says) -> None:
    """What the trainer would refuse in trial 17 is refused before trial 0."""
    problem = first_problem(cases(config(**changes)), tmp_path)
    assert problem is not None
    assert problem["key"] == key
    assert says in problem["text"]


def test_the_trainer_takes_good_settings(config, tmp_path) -> None:
    assert first_problem(cases(config(pruning={"every": 5})), tmp_path) is None
    assert first_problem([Case("x", {"model": "mini", "use_cpu": True, "method": "gd"})], tmp_path) is None


@pytest.mark.parametrize("name", ["mini", "llava-1.5-7b"])
def test_our_own_sweeps_are_taken_by_the_trainer(tmp_path, name) -> None:
    """The configs that the docs name must run as they are."""
    from umu_trainers.sweep.config import read_config

    one = read_config(Path(__file__).parents[3] / "configs" / "sweep" / f"{name}.yaml")
    on_cpu = [Case(case.key, {**case.settings, "use_cpu": True}) for case in cases(one)]
    assert first_problem(on_cpu, tmp_path) is None
    assert one.output_dir.parts[0] == "runs"


def test_the_documented_keys_are_the_keys() -> None:
    """docs/sweep.md names every key of the config, and no other."""
    text = (Path(__file__).parents[3] / "docs" / "sweep.md").read_text()
    table = text.partition("## The config file")[2].partition("\n## ")[0]
    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(named) == sorted(KEYS)
