"""The judge's verdicts on disk: paid for once, kept through a kill."""

from __future__ import annotations

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.judge.cache import VerdictCache, verdict_key
from umu_tasks.judge.rubric import Verdict


def open_cache(folder, model="judge-1", url="http://host/v1"):
    return VerdictCache(model, url, folder)


def test_verdicts_outlive_the_process(tmp_path):
    with open_cache(tmp_path) as cache:
        cache.put("a", Verdict(7.0, "Höhe fehlt", "{…}"))
        cache.put("b", Verdict(None, "", "no idea"))
    with open_cache(tmp_path) as cache:
        assert cache.get("a") == Verdict(7.0, "Höhe fehlt", "{…}")
        assert cache.get("b") == Verdict(None, "", "no idea")
        assert cache.get("c") is None


def test_line_cut_off_by_a_kill_costs_that_line_only(tmp_path):
    """The half line must neither stop the next run nor swallow the verdict written after it."""
    with open_cache(tmp_path) as cache:
        cache.put("a", Verdict(7.0, "", ""))
        file = cache.file
    with file.open("ab") as half:
        half.write(b'{"key": "b", "score": 3')
    with open_cache(tmp_path) as cache:
        assert cache.get("b") is None
        cache.put("c", Verdict(1.0, "", ""))
    with open_cache(tmp_path) as cache:
        assert [cache.get(key) and cache.get(key).score for key in "abc"] == [7.0, None, 1.0]


def test_two_processes_do_not_judge_with_one_file(tmp_path):
    """Both would pay for the same answers."""
    with open_cache(tmp_path), pytest.raises(DataError, match="another `umu judge` is using it"):
        open_cache(tmp_path).__enter__()


def test_another_model_or_host_is_another_judge(tmp_path):
    files = {open_cache(tmp_path, *judge).file for judge in (("m", "http://a"), ("n", "http://a"), ("m", "http://b"))}
    assert len(files) == 3
    assert open_cache(tmp_path, "org/m:free", "http://a/").file.parent == tmp_path


def test_key_is_of_the_texts():
    """Texts that only run together alike are different ones."""
    assert verdict_key("q", "g", "o") == verdict_key("q", "g", "o")
    assert verdict_key("q", "g", "o") != verdict_key("q", "go", "")
