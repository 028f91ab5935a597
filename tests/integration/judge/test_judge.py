"""`umu judge` against a real HTTP server, slow, failing, malformed, rate-limiting: nothing lost, nothing paid twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from umu_tasks.cli import main

_spec = spec_from_file_location("judge_conftest", Path(__file__).with_name("conftest.py"))
helpers = module_from_spec(_spec)
_spec.loader.exec_module(helpers)
grade, completion, record, write_samples = (
    helpers.grade, helpers.completion, helpers.record, helpers.write_samples
)  # fmt: skip

QUICK = ["--backoff", "0.01", "--timeout", "5"]


def judged(folder: Path) -> dict:
    (file,) = folder.rglob("*_factuality.json")
    return json.loads(file.read_text())


def test_scores_stand_beside_the_results(judge, environment, capsys):
    """Hand-worked: multimodal 8 and 4, unimodal 2 and 10."""
    scores = {"a": 8, "b": 4, "c": 2, "d": 10}
    write_samples(
        environment,
        [record(1, "a", "multimodal"), record(2, "b", "multimodal"), record(1, "c"), record(2, "d")],
    )
    judge.reply = lambda _, body, answer: grade(scores[answer])
    assert main(["judge", str(environment.parent), *QUICK, "--price", "0.15,0.60"]) == 0
    content = judged(environment)
    task = content["tasks"]["mllmu_forget05_gen"]
    assert (task["factuality_mul"]["value"], task["factuality_uni"]["value"]) == (6.0, 6.0)
    assert (task["judged"], task["unreadable"], task["not_judged"]) == (4, 0, 0)
    assert content["judge"] == {"model": "judge-1", "url": judge.url, "rubric_version": 1}
    assert content["answers"][1] == {
        "task": "mllmu_forget05_gen", "profile_id": "002", "key": "life", "modality": "multimodal", "score": 4.0,
        "reason": "as told",
    }  # fmt: skip
    printed = capsys.readouterr().out
    assert printed.startswith("4 answers, 0 need no request")
    assert "4 requests to judge-1" in printed
    assert "at these prices" in printed
    assert "mul 6.00 (4.00–8.00), uni 6.00 (2.00–10.00), 4 of 4 judged" in printed


def test_request_is_what_the_api_expects_and_the_key_goes_nowhere_else(judge, environment, capsys):
    write_samples(environment, [record(1, "a")])
    main(["judge", str(environment), *QUICK])
    (body,) = judge.bodies
    assert body["model"] == "judge-1"
    assert body["temperature"] == 0
    assert body["response_format"]["json_schema"]["strict"] is True
    assert judge.headers[0]["Authorization"] == "Bearer sk-secret-0815"
    printed = capsys.readouterr()
    files = [path.read_text() for path in environment.parents[1].rglob("*") if path.is_file()]
    assert not [text for text in (printed.out, printed.err, *files) if "sk-secret" in text]


def test_nothing_is_judged_twice(judge, environment):
    """Not in a second run, not in another folder, not where two people got the same texts."""
    same = {"question": "Who?", "gold": "A pilot."}
    write_samples(environment, [record(1, "a", **same), record(2, "a", **same), record(3, "b")])
    main(["judge", str(environment), *QUICK])
    assert sorted(judge.asked) == ["a", "b"]
    write_samples(environment.parent / "other", [record(3, "b"), record(4, "c")])
    assert main(["judge", str(environment.parent), *QUICK]) == 0
    assert sorted(judge.asked) == ["a", "b", "c"]
    assert judged(environment)["tasks"]["mllmu_forget05_gen"]["judged"] == 3


def test_newest_samples_of_a_task_count(judge, environment):
    write_samples(environment, [record(1, "old")], stamp="20260101_000000")
    write_samples(environment, [record(1, "new")], stamp="20260102_000000")
    write_samples(environment, [record(1, "cls")], task="mllmu_forget05_cls")
    main(["judge", str(environment), *QUICK])
    assert judge.asked == ["new"]


def test_empty_and_failed_answers_are_not_sent(judge, environment):
    """An empty answer is a 1 without asking; a failed one is no answer of the model's."""
    write_samples(environment, [record(1, ""), record(2, "[ERROR]", failed=1), record(3, "c"), record(4, "!!! ...")])
    main(["judge", str(environment), *QUICK])
    assert judge.asked == ["c"]
    task = judged(environment)["tasks"]["mllmu_forget05_gen"]
    assert task["factuality_uni"]["value"] == 3.0  # 1, 7 and 1: marks alone are empty here as in every other score
    assert (task["judged"], task["empty"], task["failed"], task["not_judged"]) == (3, 2, 1, 0)


def test_unreadable_replies_are_counted_and_not_asked_again(judge, environment, capsys):
    """The published evaluator drops them from the mean without a word."""
    write_samples(environment, [record(1, "a"), record(2, "b")])
    judge.reply = lambda _, body, answer: grade(9) if answer == "a" else "What a nice answer!"
    assert main(["judge", str(environment), *QUICK]) == 0
    task = judged(environment)["tasks"]["mllmu_forget05_gen"]
    assert (task["factuality_uni"]["value"], task["judged"], task["unreadable"]) == (9.0, 1, 1)
    assert "1 unreadable" in capsys.readouterr().out
    main(["judge", str(environment), *QUICK])
    assert len(judge.asked) == 2


@pytest.mark.parametrize(
    "trouble",
    [
        (500, {}, b"oops"),
        (503, {}, b"busy"),
        (200, {}, b"<html>a proxy's page</html>"),
        (200, {}, b'{"choices": []}'),
        (200, {"Content-Length": "500"}, b'{"choices": [{"mess'),  # cut off
        None,  # hangs up
    ],
    ids=["500", "503", "page", "no-choice", "cut-off", "hangs-up"],
)
def test_trouble_that_passes_loses_nothing(judge, environment, trouble):
    """Every first request fails; each answer is judged in the end, and kept once."""
    write_samples(environment, [record(i, f"answer {i}") for i in range(6)])
    judge.reply = lambda j, body, answer: trouble if j.times_asked(answer) == 1 else grade(6)
    assert main(["judge", str(environment), *QUICK]) == 0
    assert judged(environment)["tasks"]["mllmu_forget05_gen"]["judged"] == 6
    assert len(judge.asked) == 12
    (cache,) = Path(os.environ["UMU_CACHE"]).rglob("*.jsonl")
    assert len(cache.read_text().splitlines()) == 6


def test_slow_judge_is_asked_again_after_the_timeout(judge, environment):
    write_samples(environment, [record(1, "a")])

    def slow_at_first(j, body, answer):
        if len(j.asked) == 1:
            time.sleep(1.0)
        return grade(6)

    judge.reply = slow_at_first
    assert main(["judge", str(environment), "--backoff", "0.01", "--timeout", "0.2"]) == 0
    assert judge.asked == ["a", "a"]


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_rate_limit_is_kept_by_all_threads(judge, environment, how):
    """Told to come back later, no thread asks before; the number of requests under way stays bounded."""
    write_samples(environment, [record(i, f"answer {i}") for i in range(12)])
    limited: list[float] = []

    def limit_once(j, body, answer):
        if len(j.asked) == 1:
            limited.append(time.monotonic())
            return 429, {"Retry-After": "1" if how == "seconds" else _http_date(2)}, b"slow down"
        time.sleep(0.1)  # the others are under way when the first one is told
        return grade(6)

    judge.reply = limit_once
    assert main(["judge", str(environment), *QUICK, "--concurrency", "3"]) == 0
    assert judged(environment)["tasks"]["mllmu_forget05_gen"]["judged"] == 12
    assert not [one for one in judge.times if 0.15 < one - limited[0] < 0.9]
    assert len([one for one in judge.times if one - limited[0] >= 0.9]) >= 9


def _http_date(seconds: float) -> str:
    from email.utils import formatdate

    return formatdate(time.time() + seconds, usegmt=True)


def test_requests_run_at_once_but_no_more_than_asked_for(judge, environment):
    write_samples(environment, [record(i, f"answer {i}") for i in range(12)])

    def slowly(j, body, answer):
        time.sleep(0.1)
        return grade(6)

    judge.reply = slowly
    assert main(["judge", str(environment), *QUICK, "--concurrency", "4"]) == 0
    assert 2 <= judge.most_at_once <= 4


def test_answers_the_judge_keeps_failing_on_are_told_and_asked_next_time(judge, environment, capsys):
    """One poisonous answer must not cost the others; the exit status says that the run is not complete."""
    write_samples(environment, [record(1, "bad"), record(2, "good")])
    judge.reply = lambda j, body, answer: (500, {}, b"oops") if answer == "bad" else grade(6)
    assert main(["judge", str(environment), *QUICK, "--retries", "2"]) == 1
    assert judge.times_asked("bad") == 3
    assert judged(environment)["tasks"]["mllmu_forget05_gen"]["not_judged"] == 1
    assert "1 texts not judged (status 500: oops)" in capsys.readouterr().err
    judge.reply = lambda j, body, answer: grade(6)
    assert main(["judge", str(environment), *QUICK]) == 0
    assert judge.times_asked("good") == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_answer_that_the_judge_refuses_does_not_cost_the_others(judge, environment, capsys, status):
    """A content filter, or an answer too long for the judge: refused in every run, it must not stop the rest."""
    write_samples(environment, [record(1, "bad"), *(record(i, f"answer {i}") for i in range(2, 8))])
    refusal = status, {}, b'{"error": {"code": "content_filter"}}'
    judge.reply = lambda j, body, answer: refusal if answer == "bad" else grade(6)
    assert main(["judge", str(environment), *QUICK, "--concurrency", "1"]) == 1
    assert judge.times_asked("bad") == 1
    task = judged(environment)["tasks"]["mllmu_forget05_gen"]
    assert (task["judged"], task["not_judged"]) == (6, 1)
    assert f"1 texts not judged (status {status}: " in capsys.readouterr().err


def test_judge_that_refuses_everything_is_not_asked_for_every_answer(judge, environment):
    """Some endpoints say 400 to an unknown model."""
    write_samples(environment, [record(i, f"answer {i}") for i in range(40)])
    judge.reply = lambda j, body, answer: (400, {}, b"no such model")
    assert main(["judge", str(environment), *QUICK, "--concurrency", "2"]) == 1
    assert len(judge.asked) < 10


def test_judge_that_is_down_is_not_asked_for_every_answer(judge, environment):
    write_samples(environment, [record(i, f"answer {i}") for i in range(40)])
    judge.reply = lambda j, body, answer: (503, {}, b"down")
    assert main(["judge", str(environment), *QUICK, "--retries", "0", "--concurrency", "2"]) == 1
    assert len(judge.asked) < 10
    assert judged(environment)["tasks"]["mllmu_forget05_gen"]["not_judged"] == 40


def test_wrong_key_ends_at_once_without_showing_it(judge, environment, capsys):
    """Some endpoints repeat the key in what they say about it."""
    write_samples(environment, [record(i, f"answer {i}") for i in range(40)])
    judge.reply = lambda j, body, answer: (401, {}, b"Incorrect API key provided: sk-secret-0815.")
    assert main(["judge", str(environment), *QUICK, "--concurrency", "2"]) == 2
    said = capsys.readouterr().err
    assert "the judge refuses: status 401: Incorrect API key provided: ***." in said
    assert "UMU_JUDGE_API_KEY" in said
    assert "sk-secret" not in said
    assert len(judge.asked) <= 4


def test_redirect_is_not_followed_with_the_key(judge, environment, capsys):
    """The key would go to whatever address the endpoint names."""
    write_samples(environment, [record(1, "a")])
    judge.reply = lambda j, body, answer: (302, {"Location": f"{judge.url}/chat/completions"}, b"")
    assert main(["judge", str(environment), *QUICK]) == 2
    assert judge.asked == ["a"]
    assert "status 302" in capsys.readouterr().err


@pytest.mark.parametrize("unknown", ["response_format", "max_tokens", "temperature"])
def test_parameter_that_the_endpoint_does_not_know_is_left_out(judge, environment, unknown):
    write_samples(environment, [record(1, "a"), record(2, "b")])

    def picky(j, body, answer):
        if unknown in body:
            return 400, {}, json.dumps({"error": {"message": f"Unsupported parameter: '{unknown}'"}}).encode()
        return "Score: 5"

    judge.reply = picky
    assert main(["judge", str(environment), *QUICK, "--concurrency", "1"]) == 0
    assert len(judge.asked) == 3  # the first one twice
    assert ("max_completion_tokens" in judge.bodies[-1]) == (unknown == "max_tokens")


def test_no_judge_is_said_clearly(environment, monkeypatch, capsys):
    write_samples(environment, [record(1, "a")])
    monkeypatch.delenv("UMU_JUDGE_URL")
    monkeypatch.delenv("UMU_JUDGE_MODEL")
    assert main(["judge", str(environment)]) == 1
    assert capsys.readouterr().err.startswith("not judged: no judge is set. Set UMU_JUDGE_URL")
    assert not list(environment.rglob("*_factuality.json"))


def test_half_a_judge_is_an_error(environment, monkeypatch, capsys):
    write_samples(environment, [record(1, "a")])
    monkeypatch.delenv("UMU_JUDGE_MODEL")
    assert main(["judge", str(environment)]) == 2
    assert "UMU_JUDGE_URL is set and UMU_JUDGE_MODEL is not" in capsys.readouterr().err


def test_folder_without_generation_samples(environment, capsys):
    write_samples(environment, [record(1, "a")], task="umu_real_cls")
    assert main(["judge", str(environment)]) == 2
    assert "no samples of a generation task here" in capsys.readouterr().err


def test_estimate_comes_first_and_dry_run_asks_nothing(judge, environment, capsys):
    write_samples(environment, [record(i, "word " * 40 + str(i)) for i in range(10)])
    assert main(["judge", str(environment), "--dry-run", "--price", "1,2"]) == 0
    assert judge.asked == []
    printed = capsys.readouterr().out
    requests, inward, outward, cost = _numbers(printed)
    assert (requests, outward) == (10, 500)
    assert 3000 < inward < 6000  # ten times about 1,500 characters, four a token
    assert cost == pytest.approx((inward + 2 * outward) / 1e6, abs=0.006)


def test_dry_run_needs_no_judge(environment, capsys, monkeypatch):
    """What it will cost is asked before there is an account."""
    write_samples(environment, [record(i, "word " * 40 + str(i)) for i in range(10)])
    for name in ("UMU_JUDGE_URL", "UMU_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert main(["judge", str(environment), "--dry-run"]) == 0
    assert "10 requests to a judge (none is set): about" in capsys.readouterr().out
    assert main(["judge", str(environment)]) == 1


def _numbers(printed: str) -> tuple[int, int, int, float]:
    import re

    match = re.search(r"(\d+) requests .*about ([\d,]+) input and ([\d,]+) output tokens, about ([\d.]+) at", printed)
    assert match
    return int(match[1]), *(int(one.replace(",", "")) for one in match.groups()[1:3]), float(match[4])  # type: ignore[return-value]


def test_killed_run_goes_on_where_it_stopped(judge, environment):
    """SIGKILL in the middle: what was judged is on disk, and is not asked again."""
    write_samples(environment, [record(i, f"answer {i}") for i in range(20)])

    def slowly(j, body, answer):
        time.sleep(0.05)
        return grade(6)

    judge.reply = slowly
    command = [sys.executable, "-m", "umu_tasks.cli", "judge", str(environment), *QUICK, "--concurrency", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while len(judge.asked) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    before = list(judge.asked)
    assert 8 <= len(before) < 20
    assert main(["judge", str(environment), *QUICK]) == 0
    assert judged(environment)["tasks"]["mllmu_forget05_gen"]["judged"] == 20
    twice = {answer for answer in before if judge.times_asked(answer) > 1}
    assert len(twice) <= 2  # those under way when it was killed
