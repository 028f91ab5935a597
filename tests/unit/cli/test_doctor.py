"""`umu doctor`: what is wrong must be seen, and what is right must not be called wrong."""

from __future__ import annotations

import json
import socket
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from umu_tasks import cli
from umu_tasks.doctor import machine
from umu_tasks.doctor.command import examine
from umu_tasks.doctor.data import check_source
from umu_tasks.doctor.deadline import within
from umu_tasks.doctor.hub import check_hub, check_reach
from umu_tasks.doctor.libraries import OPTIONAL, REASONS, check_fit, check_libraries, check_plugin, requirements
from umu_tasks.doctor.machine import check_accelerator, check_disk, check_memory

ROOT = Path(__file__).parents[3]


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


def test_what_it_says_of_versions_is_what_the_project_declares():
    """A reason for a library that is not needed is never shown; another bound than the package's would mislead."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {one.name: one for one in map(Requirement, project["dependencies"])}
    optional = {one.name: one for names in project["optional-dependencies"].values() for one in map(Requirement, names)}
    assert REASONS.keys() <= declared.keys() | optional.keys()
    assert [one for one in OPTIONAL if one.startswith("deepspeed")] == project["optional-dependencies"]["deepspeed"]
    (_, finding, *_) = check_libraries(lambda name: "5.5.4", [declared["transformers"]])
    assert finding.state == "failed"
    assert "accumulated gradients are too small" in finding.text


def test_a_hub_that_does_not_answer_is_a_warning_with_what_to_do():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        finding = check_reach(f"http://127.0.0.1:{closed.getsockname()[1]}", offline=False)
    assert finding.state == "warning"
    assert "UMU_DATA=FOLDER" in finding.to_do


def test_a_hub_that_never_answers_is_not_waited_for():
    """A firewall that drops packets would otherwise hold the command for minutes."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        finding = check_reach(f"http://127.0.0.1:{silent.getsockname()[1]}", offline=False, seconds=0.3)
    assert time.monotonic() - started < 3
    assert finding.state == "warning"
    with pytest.raises(TimeoutError, match="no answer within"):
        within(lambda: time.sleep(2), 0.1)


def test_an_error_as_an_answer_is_an_answer_and_an_address_must_be_one():
    class Refusing(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_error(403)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert check_reach(f"http://127.0.0.1:{server.server_port}", offline=False).state == "ok"
    assert "HF_ENDPOINT must start with" in check_reach("file:///etc/passwd", offline=False).text


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
    assert "GiB of memory free" in check_memory().text


@pytest.mark.parametrize(
    ("built_for", "hidden", "text"),
    [
        ("12.4", None, "The driver 550.54.15 is there, and PyTorch is built for CUDA 12.4"),
        (None, None, "built without CUDA"),
        ("12.4", "", "Unset it"),
    ],
)
def test_a_gpu_that_is_not_used_is_noticed(monkeypatch, tmp_path, built_for, hidden, text):
    """Somebody with a GPU would wait for days for what takes hours."""
    driver = tmp_path / "version"
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n")
    monkeypatch.setattr(machine, "NVIDIA_DRIVER", driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    finding = machine._without_gpu(built_for)
    assert finding.state == "warning"
    assert text in finding.to_do


def test_gpus_are_named_with_what_is_free(monkeypatch, tmp_path):
    """Somebody else's job on the GPU is the usual reason for running out of memory."""
    import torch

    driver = tmp_path / "version"
    driver.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (x@y)\n")
    monkeypatch.setattr(machine, "NVIDIA_DRIVER", driver)
    for name, value in {
        "is_available": True,
        "device_count": 1,
        "get_device_name": "H200",
        "is_bf16_supported": True,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (10 * machine.GIB, 140 * machine.GIB))
    finding = check_accelerator()
    assert finding.state == "ok"
    assert finding.text.startswith("H200 (10 of 140 GiB free); driver 570.86.10, CUDA ")
    assert finding.text.endswith(", bfloat16")

    def broken(number):
        raise RuntimeError("CUDA error: out of memory\nmore lines")

    monkeypatch.setattr(torch.cuda, "mem_get_info", broken)
    assert check_accelerator().state == "failed"


def test_libraries_that_do_not_fit_each_other():
    """A torchvision of another torch imports well and fails at the first portrait."""
    have = {"torchvision": "0.21.0", "torch": "2.7.0"}
    found = check_fit(have.get, lambda name: [Requirement("torch==2.6.0"), Requirement("absent>1")])
    assert found.state == "warning"
    assert "torchvision 0.21.0 needs torch==2.6.0, found 2.7.0" in found.text
    assert check_fit().state == "ok"


def test_an_optional_library_that_is_too_old_is_a_warning():
    findings = states(check_libraries({"deepspeed": "0.10.0"}.get, []))
    assert findings["deepspeed"] == "warning"
    assert findings["vllm"] == "ok"


def test_a_missing_library_hides_nothing_else(monkeypatch):
    """The first thing that is missing must not be all one is told."""

    def broken():
        raise ImportError("No module named 'lmms_eval'")

    monkeypatch.setattr("umu_tasks.doctor.libraries.check_plugin", broken)
    findings = states(examine())
    assert findings["lmms-eval plugin"] == "failed"
    assert {"GPU", "disk", "hub", "umu data"} <= findings.keys()


@pytest.mark.parametrize(
    ("named", "state", "text"),
    [
        ("mini", "ok", "forget05 (3 people), forget10 (6 people)"),
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
    assert "llava, LlavaProcessor, prompt style published" in capsys.readouterr().out


def test_an_adapter_alone_is_wrong_usage(capsys):
    assert cli.main(["doctor", "--peft", "x"]) == 2
    assert "--model" in capsys.readouterr().err
