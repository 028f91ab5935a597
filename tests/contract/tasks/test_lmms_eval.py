"""What lmms-eval makes of our files: index, documents, conversations, both kinds of models."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"


@pytest.fixture(scope="module", autouse=True)
def _data():
    """The fixture's data, and no hub."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UMU_DATA", str(FIXTURE / "data"))
        yield


@pytest.fixture(scope="module")
def manager():
    """lmms-eval's index of our folder alone, quick to build."""
    from lmms_eval.tasks import TaskManager

    from umu_tasks.tasks.files import task_path

    return TaskManager(include_path=str(task_path()), include_defaults=False, model_name="umu_hf")


@pytest.fixture(scope="module")
def load(manager):
    """Load one leaf task, once."""
    known = {}

    def load(name, kind="chat"):
        if (name, kind) not in known:
            known[name, kind] = manager.load_task_or_group(name, kind)[name]
        return known[name, kind]

    return load


# ---- index ------------------------------------------------------------------------------------------------------


@pytest.fixture
def task_manager(monkeypatch, tmp_path):
    """lmms-eval's `TaskManager` with our hook put on it anew, indexing a folder of two tasks as its own."""
    from lmms_eval import tasks

    from umu_tasks import plugin

    own = tmp_path / "own"
    own.mkdir()
    (own / "a.yaml").write_text("task: somebody_elses\n")
    build_index = getattr(tasks.TaskManager.initialize_tasks, "__wrapped__", tasks.TaskManager.initialize_tasks)
    monkeypatch.setattr(tasks.TaskManager, "initialize_tasks", build_index)
    match_tasks = tasks.TaskManager.match_tasks
    monkeypatch.setattr(tasks.TaskManager, "match_tasks", getattr(match_tasks, "__wrapped__", match_tasks))
    monkeypatch.setattr(tasks, "__file__", str(own / "__init__.py"))
    plugin.add_tasks()
    return tasks.TaskManager, own


def test_every_task_manager_knows_our_tasks(task_manager):
    """Without include path, next to the tasks there were; once, however often the hook is asked to work."""
    from umu_tasks import plugin
    from umu_tasks.tasks.files import our_tasks, task_path

    TaskManager, _ = task_manager
    plugin.add_tasks()
    names = TaskManager().all_tasks
    assert {"somebody_elses", *our_tasks()} == set(names)
    assert TaskManager(include_path=str(task_path())).all_tasks == names
    assert TaskManager(include_defaults=False).all_tasks == []


def test_nobody_elses_task_is_replaced(task_manager, caplog):
    """A task of our name in lmms-eval or in the user's folder wins, and we say so by name."""
    TaskManager, own = task_manager
    (own / "b.yaml").write_text("task: umu_real_cls\n")
    mine = own.parent / "mine"
    mine.mkdir()
    (mine / "c.yaml").write_text("task: umu_full_gen\n")
    with caplog.at_level(logging.WARNING):
        index = TaskManager(include_path=str(mine)).task_index
    assert index["umu_real_cls"]["yaml_path"] == str(own / "b.yaml")
    assert index["umu_full_gen"]["yaml_path"] == str(mine / "c.yaml")
    assert f"task umu_real_cls of umu-bench is hidden by another task of that name: {own / 'b.yaml'}" in caplog.text
    assert "task umu_full_gen of umu-bench is hidden" in caplog.text
    assert len(caplog.records) == 2


def test_only_names_of_ours_are_checked(task_manager):
    """Other people's misspellings, wildcards and files stay lmms-eval's business."""
    from umu_tasks.tasks.abort import EvaluationAborted

    manager = task_manager[0]()
    assert manager.match_tasks(["somebody_els", "umu_real_c*", "umu_real", "umu.yaml"]) == [
        *("umu_real", "umu_real_cloze", "umu_real_cls"),
    ]
    with pytest.raises(EvaluationAborted, match="no task 'umu_rael'"):
        manager.match_tasks(["umu_real", "umu_rael"])


def test_data_that_are_not_there_are_told_before_a_model_is_loaded(task_manager, monkeypatch, tmp_path):
    """lmms-eval looks for the tasks first, then loads the model, which takes minutes, and only then opens the data."""
    from umu_tasks.tasks.abort import EvaluationAborted

    manager = task_manager[0]()
    monkeypatch.setenv("UMU_DATA", str(tmp_path / "nothing"))
    with pytest.raises(EvaluationAborted, match=r"UMU_DATA=.*nothing: no such folder"):
        manager.match_tasks(["umu05"])
    assert manager.match_tasks(["mllmu_real_cls"]) == ["mllmu_real_cls"]


def test_a_split_that_is_not_there_is_told_before_a_model_is_loaded(task_manager, monkeypatch, tmp_path):
    """A company's data have no real people: the suite needs them, the forget set alone does not."""
    import shutil

    from umu_tasks.benchmarks.sources import open_source
    from umu_tasks.tasks.abort import EvaluationAborted

    manager = task_manager[0]()
    shutil.copytree(open_source("mini").folder, tmp_path / "people", ignore=shutil.ignore_patterns("*[Rr]eal*"))
    monkeypatch.setenv("UMU_DATA", str(tmp_path / "people"))
    assert manager.match_tasks(["umu_forget05", "umu_retain95_cls"])
    with pytest.raises(EvaluationAborted, match=r"no split 'real' here"):
        manager.match_tasks(["umu05"])


def test_a_suite_of_ones_own_needs_what_it_asks_for_only(task_manager, monkeypatch, tmp_path):
    """Which splits a suite asks about is said by its file, whichever file that is."""
    import shutil

    from umu_tasks.benchmarks.sources import open_source
    from umu_tasks.tasks.abort import EvaluationAborted

    TaskManager, own = task_manager
    shutil.copytree(open_source("mini").folder, tmp_path / "people", ignore=shutil.ignore_patterns("*[Rr]eal*"))
    monkeypatch.setenv("UMU_DATA", str(tmp_path / "people"))
    (own / "b.yaml").write_text("group: umu05\ntask: [umu_forget05, umu_retain95]\n")
    assert TaskManager().match_tasks(["umu05"]) == ["umu05"]
    (own / "c.yaml").write_text("group: people\ntask: [somebody_elses, umu05, umu_real_gen]\n")
    with pytest.raises(EvaluationAborted, match=r"no split 'real' here"):
        TaskManager().match_tasks(["peo*"])
    (own / "d.yaml").write_text("task: umu_real_gen\ntag: mine\n")  # of the user's, and it hides ours
    assert TaskManager().match_tasks(["people", "mine"]) == ["mine", "people"]


def test_a_benchmark_without_data_is_told_before_a_model_is_loaded(task_manager, monkeypatch):
    """One that is on no hub has none before its variable names a folder, and none in the package."""
    from umu_tasks.benchmarks import sources
    from umu_tasks.tasks.abort import EvaluationAborted

    manager = task_manager[0]()
    monkeypatch.delenv("UMU_DATA")
    assert manager.match_tasks(["umu05"]) == ["umu05"]  # on the hub, which is asked in its turn
    monkeypatch.setattr(sources.row_parser("umu"), "HUB_ID", None)
    with pytest.raises(EvaluationAborted, match=r"umu is on no hub\. Set UMU_DATA"):
        manager.match_tasks(["umu05"])


def test_a_folder_with_all_splits_is_enough_for_the_suites(task_manager, monkeypatch):
    """Splits that are part of another one (the Test_Set's 5, 10 and 15 %) have no files of their own."""
    from umu_tasks.tasks.abort import EvaluationAborted
    from umu_tasks.tasks.files import leaves_of

    monkeypatch.setenv("MLLMU_DATA", str(FIXTURE.parent / "mllmu_small" / "data"))
    names = ["umu05", "umu_full", "mllmu05", "mllmu05_0shot", "mllmu_test05"]
    manager = task_manager[0]()
    assert sorted(manager.match_tasks(names)) == sorted(names)
    with pytest.raises(EvaluationAborted, match=r"no split 'forget10' here"):
        manager.match_tasks(["mllmu_test10"])
    assert {leaf.split for leaf in leaves_of(["mllmu05"])} == {"forget05", "test05", "retain95", "real"}


def test_unsupported_lmms_eval_is_told_and_costs_nobody_their_models(monkeypatch, caplog):
    """lmms-eval drops the models of all plugins if one raises."""
    from lmms_eval.tasks import TaskManager

    from umu_tasks import plugin

    monkeypatch.delattr(TaskManager, "initialize_tasks")
    with caplog.at_level(logging.ERROR):
        models = plugin.register()
    assert {model.model_id for model in models} >= {"umu_hf"}
    assert "umu-bench can't add its tasks to lmms-eval 0." in caplog.text
    assert "it supports lmms-eval >= 0.7.3" in caplog.text
    assert '--include_path "$(umu tasks --path)"' in caplog.text


# ---- models -----------------------------------------------------------------------------------------------------


def test_backend_is_registered():
    from lmms_eval.models import get_model

    from umu_tasks.backend.umu_hf import UmuHf

    assert get_model("umu_hf") is UmuHf


def test_llava_is_ours_only_without_llava_next(monkeypatch, tmp_path):
    """With LLaVA-NeXT's package installed its users keep their model; a mere folder of that name is no package."""
    from umu_tasks import plugin

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "llava").mkdir()
    assert not plugin.has_llava_next()
    assert [model.model_id for model in plugin.manifests()] == ["umu_hf", "llava"]
    (tmp_path / "llava" / "__init__.py").touch()
    assert plugin.has_llava_next()
    assert [model.model_id for model in plugin.manifests()] == ["umu_hf"]


# ---- documents --------------------------------------------------------------------------------------------------


def test_document_holds_all_that_scoring_needs_and_no_image(load):
    first = load("umu_forget05_cls").eval_docs[0]
    assert {name: first[name] for name in ("profile_id", "task", "key", "modality", "split")} == {
        "profile_id": "001", "task": "cls", "key": "occupation", "modality": "unimodal", "split": "forget05"
    }  # fmt: skip
    assert first["field"] == "occupation"
    assert first["options"][first["option_letters"].index(first["gold_letter"])] == first["gold"]
    assert first["published_prompt"] == f"USER:\n{first['prompt']}\nASSISTANT:"
    json.dumps(first)


@pytest.mark.parametrize("name", ["umu_full_cls", "umu_real_cloze", "umu_retain95_gen"])
def test_pairs_stand_together_and_every_process_gets_both_modalities(load, name):
    """lmms-eval gives process r of n every n-th question."""
    documents = list(load(name).eval_docs)
    for first, second in zip(documents[::2], documents[1::2], strict=True):
        assert (first["profile_id"], first["key"]) == (second["profile_id"], second["key"])
        assert {first["modality"], second["modality"]} == {"unimodal", "multimodal"}
    ids = [document["profile_id"] for document in documents]
    assert ids == sorted(ids)
    for processes in (2, 4):
        shares = [documents[rank::processes] for rank in range(processes)]
        if min(map(len, shares)) >= 4:
            assert all(len({document["modality"] for document in share}) == 2 for share in shares)


def test_conversation_shows_the_portrait_or_nothing(load):
    """A unimodal question carries no image entry at all, not an empty one; a multimodal one exactly one, first."""
    task = load("umu_real_gen")
    for document in task.eval_docs:
        (turn,) = task.doc_to_messages(document)
        kinds = [part["type"] for part in turn["content"]]
        assert kinds == (["text"] if document["modality"] == "unimodal" else ["image", "text"])
        assert turn["content"][-1]["text"] == document["prompt"]
        assert document["question"] in document["prompt"]


def test_simple_models_get_the_same_text_and_images(load):
    """The instruction is in both forms; a description set in a task of one's own reaches the text form."""
    chat, simple = load("umu_real_cloze"), load("umu_real_cloze", "simple")
    for document in simple.eval_docs:
        (turn,) = chat.doc_to_messages(document)
        assert simple.doc_to_text(document) == turn["content"][-1]["text"]
        assert "Please **ONLY** provide the correct answer" in simple.doc_to_text(document)
        assert len(simple.doc_to_visual(document)) == (document["modality"] == "multimodal")


def test_portrait_is_the_persons(load):
    """The image comes from the row of the same split and ID; IDs start again in the real people's split."""
    from umu_tasks.benchmarks.sources import open_source

    for name, split in (("umu_forget05_cls", "forget05"), ("umu_real_cls", "real")):
        task = load(name)
        document = next(one for one in task.eval_docs if one["modality"] == "multimodal")
        (image,) = task.doc_to_visual(document)
        stored = open_source(str(FIXTURE / "data")).load(split).by_id(document["profile_id"]).open_image()
        assert image.tobytes() == stored.tobytes()


def test_bad_data_passes_lmms_evals_retries_with_its_message(manager, monkeypatch, tmp_path):
    """lmms-eval would try five times and then report a RetryError."""
    from umu_tasks.tasks.abort import EvaluationAborted

    monkeypatch.setenv("UMU_DATA", str(tmp_path / "gone"))
    with pytest.raises(EvaluationAborted, match=rf"umu-bench: UMU_DATA={tmp_path / 'gone'}: no such folder"):
        manager.load_task_or_group("umu_real_cls", "chat")


def test_bug_in_scoring_ends_the_program(load):
    """An exception there would be retried and then swallowed by the command."""
    from umu_tasks.tasks.abort import EvaluationAborted

    task = load("umu_real_cls")
    with pytest.raises(EvaluationAborted, match="score_answer failed: KeyError"):
        task.process_results({"profile_id": "001"}, ["x"])


def test_five_hundred_people_make_a_samples_file_of_a_few_megabytes():
    """Each question's record stands in it once, next to two dozen plain numbers."""
    from umu_tasks.tasks.records import score

    document = {
        "profile_id": "0001", "task": "cls", "key": "occupation", "field": "occupation", "modality": "multimodal",
        "split": "full", "question": "What is the occupation of the person in the image?",
        "options": ["Teacher", "Pilot"], "option_letters": ["A", "B"], "gold": "Pilot", "gold_letter": "B",
        "official_gold": "Pilot",
    }  # fmt: skip
    line = len(json.dumps(score(document, ["The person is a sound engineer, as far as I can tell from it"]))) + 400
    assert line * 500 * 2 * 2 < 5_000_000
