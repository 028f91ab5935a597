"""A run that was killed goes on where it stopped, and no other model's answers ever stand in for its own."""

from __future__ import annotations

import json
import signal
from itertools import chain

import pytest

SUITE = ("--tasks", "umu05", "--gen_kwargs", "max_new_tokens=8")
BATCH = 4


def model(model_args):
    return "--model", "umu_hf", "--model_args", f"{model_args},batch_size={BATCH}"


def numbers(run):
    """Return the results and the printed table."""
    results = run.results()
    return results["results"], results["umu"]["tasks"], [line for line in run.log.splitlines() if "|none  |" in line]


@pytest.fixture(scope="module")
def uninterrupted(spied, tiny):
    return spied(*model(f"pretrained={tiny}"), *SUITE)


def test_killed_in_the_third_of_nine_tasks(spied, tiny, tmp_path, uninterrupted):
    """Finished questions are not asked again, and the table is that of a run nobody killed.

    All nine tasks' questions go to the model in one list, by person and not by task, so a kill after two ninths of it
    is one in the third task. The argument `cache` and the command's `--use_cache` are two names of one thing.
    """
    whole, all_batches = uninterrupted
    assert len(whole.results()["umu"]["tasks"]) == 9
    kill_at = len(all_batches) * 2 // 9 + 2
    folder = tmp_path / "kept"
    killed, before = spied(*model(f"pretrained={tiny},cache={folder}"), *SUITE, kill_at=kill_at)
    assert killed.status == -signal.SIGKILL
    assert not list(killed.output.rglob("*_results.json"))
    resumed, after = spied(*model(f"pretrained={tiny}"), *SUITE, "--use_cache", str(folder))

    assert len(before) == kill_at  # the last of them was asked and never answered
    kept = sum(map(len, before[:-1]))
    assert sorted(chain(*before[:-1], *after)) == sorted(chain(*all_batches))
    assert f"found {kept} answers in the cache" in resumed.log
    assert resumed.status == whole.status
    assert numbers(resumed) == numbers(whole)


@pytest.fixture(scope="module")
def task(umu_small):
    """A task as lmms-eval builds it."""
    from lmms_eval.tasks import TaskManager

    from umu_tasks.tasks.files import task_path

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UMU_DATA", str(umu_small / "data"))
        manager = TaskManager(include_path=str(task_path()), include_defaults=False)
        (loaded,) = manager.load_task_or_group("umu_real_cls", "chat").values()
        yield loaded


@pytest.fixture
def count_asked(task, monkeypatch, tmp_path):
    """Answer the task's questions with a cache; return how many the model was really asked."""
    from lmms_eval.api.instance import Instance

    from umu_tasks.backend import umu_hf
    from umu_tasks.backend.answering import Answering

    asked, answers = [], Answering.answers

    def spy(self, questions):
        for batch in answers(self, questions):
            asked.extend(batch)
            yield batch

    monkeypatch.setattr(Answering, "answers", spy)

    def count(model_args, **settings):
        backend = umu_hf.UmuHf.create_from_arg_string(f"{model_args},cache={tmp_path / 'kept'},batch_size=4")
        backend.task_dict = {"umu_real_cls": task.dataset}
        kwargs = {"max_new_tokens": 4, **settings}
        requests = [
            Instance(
                request_type="generate_until",
                arguments=(document["prompt"], task.doc_to_messages, kwargs, number, "umu_real_cls", "test"),
                idx=0,
                metadata={"task": "umu_real_cls", "doc_id": number, "repeats": 1},
            )
            for number, document in enumerate(task.eval_docs)
        ]
        before = len(asked)
        answers = backend.generate_until(requests)
        assert len(answers) == len(requests)
        return len(asked) - before

    return count


def test_key_is_the_weights_and_not_their_place(count_asked, tiny, adapter, copy_of):
    """Same weights elsewhere: all is known. Other weights there, an adapter, another style: nothing is."""
    from safetensors.torch import load_file, save_file

    everything = count_asked(f"pretrained={tiny}")
    moved = copy_of(tiny, "llava-moved")
    assert everything > 0
    assert count_asked(f"pretrained={moved}") == 0
    tensors = load_file(moved / "model.safetensors")
    tensors[min(tensors)] += 0.001
    save_file(tensors, moved / "model.safetensors", metadata={"format": "pt"})
    assert count_asked(f"pretrained={moved}") == everything
    assert count_asked(f"pretrained={tiny},peft={adapter}") == everything
    assert count_asked(f"pretrained={adapter}") == 0
    assert count_asked(f"pretrained={tiny},prompt=chat") == everything
    assert count_asked(f"pretrained={tiny}", max_new_tokens=5) == everything


def test_sampled_answers_are_asked_again(count_asked, tiny):
    """Two runs that sample are two draws."""
    sampling = {"temperature": 0.7, "do_sample": True}
    assert count_asked(f"pretrained={tiny}", **sampling) == count_asked(f"pretrained={tiny}", **sampling) > 0


def test_folder_that_cannot_be_written(spied, tiny, tmp_path):
    """Told before the first question, not after the last."""
    (tmp_path / "file").write_text("")
    run, batches = spied(*model(f"pretrained={tiny},cache={tmp_path / 'file'}"), *SUITE)
    assert (run.status, batches) == (1, [])
    assert f"umu-bench: cache={tmp_path / 'file'}: answers can't be kept there" in run.log


def test_stock_backend_keeps_lmms_evals_cache_by_content(tiny, copy_of, task):
    """lmms-eval's own key holds the checkpoint's path and no portrait; ours holds the content of both."""
    from umu_tasks.results.hooks import _keyed_by_content

    create = _keyed_by_content(lambda **kwargs: kwargs)

    def key(place, tasks):
        return create("/kept", model="qwen2_5_vl", model_args=f"pretrained={place}", task_dict=tasks)["model_args"]

    ours = {"a group": {"umu_real_cls": task}}
    assert key(tiny, ours) == key(copy_of(tiny), ours)
    assert len(key(tiny, ours)["pretrained"]) == 64
    assert set(json.loads(key(tiny, ours)["data"])["umu"]["splits"]) == {"real"}
    assert key(tiny, {}) == f"pretrained={tiny}"  # other people's tasks keep the keys they have
