"""What can't be scored ends the command with a named cause and a status other than 0, and leaves no result behind.

lmms-eval itself prints an error and exits with success; a sweep would go on as if the run had happened.
"""

from __future__ import annotations

import json
import shutil

import pytest

TASK = ("--tasks", "umu_forget05_cls", "--gen_kwargs", "max_new_tokens=2")


def message(run):
    """Return the last line printed, after checking that the run failed and wrote nothing."""
    assert run.status == 1, run.log
    assert not list(run.output.rglob("*.json*"))
    assert "Postprocessing" not in run.log
    return next(line for line in reversed(run.log.splitlines()) if line.startswith("umu-bench: "))


def ask(lmms_eval, model_args, **kwargs):
    return message(lmms_eval("--model", "umu_hf", "--model_args", model_args, *TASK, **kwargs))


# ---- checkpoints ------------------------------------------------------------------------------------------------


def test_missing_folder(lmms_eval, tmp_path):
    found = ask(lmms_eval, f"pretrained={tmp_path / 'nowhere'}")
    assert found == (
        f"umu-bench: pretrained={tmp_path / 'nowhere'}: no such folder. Give the folder of a checkpoint, or its hub id."
    )


def test_folder_without_weights(lmms_eval, tiny, copy_of):
    folder = copy_of(tiny)
    (folder / "model.safetensors").unlink()
    found = ask(lmms_eval, f"pretrained={folder}")
    assert f"pretrained={folder}: a checkpoint without weights: expected model.safetensors" in found


def test_text_only_model(lmms_eval, tiny, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=300, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "llama")
    found = ask(lmms_eval, f"pretrained={tmp_path / 'llama'}")
    assert "model type 'llama' takes no images" in found
    assert "image-text-to-text" in found


def test_unknown_argument(lmms_eval, tiny):
    found = ask(lmms_eval, f"pretrained={tiny},conv_template=vicuna_v1")
    assert "umu_hf doesn't know conv_template. It knows: pretrained, peft, prompt, batch_size" in found


def test_adapter_whose_base_is_missing(lmms_eval, adapter, copy_of):
    folder = copy_of(adapter)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "/moved/away/base"
    (folder / "adapter_config.json").write_text(json.dumps(config))
    found = ask(lmms_eval, f"pretrained={folder}")
    assert "names the base model /moved/away/base, and there is no such folder" in found
    assert f"Give it: pretrained=BASE,peft={folder}" in found


def test_diverged_weights(lmms_eval, tiny, copy_of):
    """A model whose training ended in NaN answers rubbish, which would read as perfect forgetting."""
    from safetensors.torch import load_file, save_file

    folder = copy_of(tiny)
    tensors = load_file(folder / "model.safetensors")
    tensors[min(tensors)].fill_(float("nan"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert "holds NaN or infinity" in ask(lmms_eval, f"pretrained={folder}")


# ---- data -------------------------------------------------------------------------------------------------------


def test_missing_data_folder(lmms_eval, umu_small, tmp_path):
    model_args = f"outputs={umu_small / 'outputs.jsonl'}"
    run = lmms_eval("--model", "scripted", "--model_args", model_args, *TASK, data=tmp_path / "nothing")
    assert f"UMU_DATA={tmp_path / 'nothing'}: no such folder" in message(run)


def test_missing_split(lmms_eval, umu_small):
    run = lmms_eval(
        *("--model", "scripted", "--model_args", f"outputs={umu_small / 'outputs.jsonl'}", "--tasks", "umu_forget10")
    )
    assert "forget10" in message(run)
    assert "Choose one of: forget05, retain95, real, full" in message(run)


def test_misspelt_task(lmms_eval, tiny):
    """There is no forget set of 7 %."""
    found = message(lmms_eval("--model", "umu_hf", "--model_args", f"pretrained={tiny}", "--tasks", "umu_forget07"))
    assert found.startswith(
        "umu-bench: no task 'umu_forget07'. Groups: umu05, umu10, umu15, umu_forget05, umu_forget10"
    )


@pytest.fixture
def corrupt_portrait(umu_small, tmp_path):
    """The fixture with bytes that are no image for person 002."""
    import pyarrow.parquet as pq

    folder = tmp_path / "data"
    shutil.copytree(umu_small / "data", folder)
    (file,) = (folder / "forget_5").glob("*.parquet")
    table = pq.read_table(file)
    rows = table.to_pylist()
    for row in rows:
        if row["ID"] == "002":
            row["image"]["bytes"] = b"no image"
    pq.write_table(type(table).from_pylist(rows, schema=table.schema), file)
    return folder


def test_error_while_generating_is_no_empty_answer(lmms_eval, tiny, corrupt_portrait):
    """Found when the portrait is needed: the run ends, and does not score an empty string."""
    found = ask(lmms_eval, f"pretrained={tiny},batch_size=4", data=corrupt_portrait)
    assert "002" in found
    assert "image" in found
