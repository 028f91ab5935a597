"""`umu doctor`: what is wrong must be seen, and what is right must not be called wrong."""

from __future__ import annotations

import json
import socket

import pytest
from packaging.requirements import Requirement

from umu_tasks import cli
from umu_tasks.doctor.data import check_source
from umu_tasks.doctor.hub import check_hub, check_reach
from umu_tasks.doctor.libraries import check_libraries, check_plugin, requirements
from umu_tasks.doctor.machine import check_accelerator, check_disk


def states(findings):
    return {one.name: one.state for one in findings}


def test_the_installed_libraries_are_fine():
    """A doctor that finds this very environment ill would send people to reinstall for nothing."""
    findings = list(check_libraries())
    assert {one.name for one in findings} >= {"torch", "transformers", "lmms-eval", "filelock", "optuna"}
    assert all(one.state == "ok" for one in findings), [str(one) for one in findings if one.state != "ok"]
    assert check_plugin().state == "ok"


def test_what_the_package_needs_is_read_from_the_package():
    named = {one.name for one in requirements()}
    assert "torch" in named
    assert "pytest" not in named, "extras are not needed"


@pytest.mark.parametrize(
    ("have", "state", "text"),
    [
        ("3.20.0", "ok", "3.20.0"),
        ("4.0.1", "failed", "lmms-eval imports filelock._api"),
        (None, "failed", "not installed"),
    ],
)
def test_a_version_known_to_be_bad_is_named_with_reason_and_fix(have, state, text):
    (_, finding, *_) = check_libraries(lambda name: have, [Requirement("filelock<4")])
    assert finding.state == state
    assert text in finding.text
    assert ('pip install "filelock<4"' in finding.to_do) == (state == "failed")


def test_a_hub_that_does_not_answer_is_a_warning_with_what_to_do():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        finding = check_reach(f"http://127.0.0.1:{closed.getsockname()[1]}", offline=False)
    assert finding.state == "warning"
    assert "UMU_DATA=FOLDER" in finding.to_do


def test_offline_nothing_is_asked():
    assert check_reach("http://127.0.0.1:1", offline=True).state == "ok"


def test_a_token_is_never_shown(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    findings = list(check_hub())
    assert "there is one" in findings[1].text
    assert "verysecret" not in " ".join(map(str, findings))


def test_machine(tmp_path):
    assert check_accelerator().state in ("ok", "warning")
    assert "free under" in check_disk(tmp_path).text


@pytest.mark.parametrize(
    ("named", "state", "text"),
    [
        ("mini", "ok", "forget05, forget10"),
        ("/no/such/folder", "failed", "/no/such/folder"),
        (None, "warning", "not set"),
    ],
)
def test_data(monkeypatch, named, state, text):
    """A folder that the user named and that is not there fails; the hub not asked is a warning."""
    monkeypatch.delenv("UMU_DATA", raising=False)
    if named:
        monkeypatch.setenv("UMU_DATA", named)
    finding = check_source("umu", hub_answers=False)
    assert finding.state == state
    assert text in finding.text


def test_the_whole_as_json(monkeypatch, capsys, tmp_path):
    """Programs read it: nothing but JSON on stdout, and the status says the same."""
    monkeypatch.setenv("UMU_DATA", "mini")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert cli.main(["doctor", "--json", "--model", str(tmp_path / "nothing")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    failed = [one for one in found["findings"] if one["state"] == "failed"]
    assert [one["name"] for one in failed] == [f"model {tmp_path / 'nothing'}"]
    assert failed[0]["to_do"]


def test_the_packaged_model_opens(monkeypatch, capsys):
    from umu_tasks.mini import base_model_dir

    monkeypatch.setenv("UMU_DATA", "mini")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert cli.main(["doctor", "--model", str(base_model_dir())]) == 0
    assert "prompt style published" in capsys.readouterr().out


def test_an_adapter_alone_is_wrong_usage(capsys):
    assert cli.main(["doctor", "--peft", "x"]) == 2
    assert "--model" in capsys.readouterr().err
