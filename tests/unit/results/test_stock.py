"""What is known of the weights behind a backend that isn't ours."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from umu_tasks.results.stock import CHANGED, NO_WEIGHTS, StockModel, by_content, split_arguments


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize("name", ["pretrained", "model", "model_version"])
def test_local_checkpoint(checkpoint, name):
    """Backends call it differently."""
    found = StockModel.note("qwen2_5_vl", f"max_pixels=1,{name}={checkpoint}").provenance()
    assert len(found["weights_fingerprint"]) == 64
    assert found["base"] == str(checkpoint)
    assert "weights_note" not in found


def test_api(tmp_path):
    """No weights here: no fingerprint, and the file says why."""
    found = StockModel.note("openai", "model_version=gpt-4o,base_url=http://127.0.0.1:1/v1").provenance()
    assert (found["weights_fingerprint"], found["base"], found["weights_note"]) == (None, "gpt-4o", NO_WEIGHTS)


def test_weights_replaced_during_the_run(checkpoint):
    """The fingerprint is taken at the end; of other weights it would be a lie."""
    noted = StockModel.note("vllm", {"model": str(checkpoint)})
    save_file({"a": torch.zeros(2)}, checkpoint / "model.safetensors")
    found = noted.provenance()
    assert (found["weights_fingerprint"], found["weights_note"]) == (None, CHANGED)


def test_cache_key_follows_the_content(checkpoint, tmp_path_factory):
    """lmms-eval's cache goes by the arguments: same weights elsewhere are a hit, other weights there are none."""
    copy = tmp_path_factory.mktemp("copy")
    for file in checkpoint.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    here, there = by_content(f"pretrained={checkpoint},dtype=auto"), by_content(f"pretrained={copy},dtype=auto")
    assert here == there
    assert here["dtype"] == "auto"
    save_file({"a": torch.zeros(2)}, checkpoint / "model.safetensors")
    assert by_content(f"pretrained={checkpoint},dtype=auto") != there


def test_arguments_with_commas():
    assert split_arguments("pretrained=/a,b/c, dtype=auto,") == {"pretrained": "/a,b/c", "dtype": "auto"}
    assert split_arguments({"n": 1}) == {"n": "1"}
    assert split_arguments(None) == {}
