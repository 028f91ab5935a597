"""`--model_args` as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from umu_tasks.backend.arguments import ArgumentError, BackendArguments, make_arguments, parse_arguments


def test_all_settings():
    text = "pretrained=/a b/c,peft=/x,prompt=chat,batch_size=8,device=cpu,dtype=float32,attn_implementation=eager"
    assert parse_arguments(text + ",trust_remote_code=True,share_images=False") == BackendArguments(
        "/a b/c",
        "/x",
        "chat",
        batch_size=8,
        share_images=False,
        device="cpu",
        dtype="float32",
        attn_implementation="eager",
        trust_remote_code=True,
    )


def test_batch_size_may_be_left_to_the_backend():
    assert parse_arguments("pretrained=x,batch_size=auto").batch_size is None
    assert parse_arguments("pretrained=x", {"batch_size": "auto"}).batch_size is None


@pytest.mark.parametrize("name", ["007", "1e5", "True", "a, b", "it's", "x=y", "v{1}"])
def test_folder_names_are_taken_as_they_are(name):
    """lmms-eval's own reader makes a number of 007 and cuts at commas and quotes."""
    assert parse_arguments(f"pretrained={name},batch_size=2").pretrained == name


def test_model_args_win_over_the_commands_flags():
    """lmms-eval always passes a batch size, 1 if the user gave none."""
    flags = {"batch_size": 1, "device": None}
    assert parse_arguments("pretrained=x,batch_size=4", flags).batch_size == 4
    assert parse_arguments("pretrained=x", {"batch_size": "16"}).batch_size == 16
    assert parse_arguments("pretrained=x", flags).device is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "pretrained is missing. Give a checkpoint: --model_args pretrained=DIR_OR_ID"),
        ("pretrained=", "pretrained is missing"),
        ("/some/folder", "expected name=value, found '/some/folder'"),
        ("pretrained=x,max_length=3", "umu_hf doesn't know max_length. It knows: pretrained, peft, prompt, batch_size"),
        ("pretrained=x,batch_size=many", "batch_size=many: expected a whole number of at least 1, or auto"),
        ("pretrained=x,batch_size=0", "batch_size=0: expected a whole number of at least 1"),
        ("pretrained=x,prompt=plain", "prompt=plain: choose one of published, chat"),
        ("pretrained=x,dtype=int8", "dtype=int8: choose one of float32, bfloat16, float16"),
        ("pretrained=x,trust_remote_code=1", "trust_remote_code=1: expected True or False"),
    ],
)
def test_mistakes_are_named_with_the_choices(text, message):
    with pytest.raises(ArgumentError) as error:
        parse_arguments(text)
    assert message in str(error.value)


def test_keyword_arguments_are_checked_alike():
    with pytest.raises(ArgumentError, match="doesn't know seed"):
        make_arguments({"pretrained": "x", "seed": 1})
    assert make_arguments({"pretrained": "x", "trust_remote_code": False}).batch_size == 1


def test_home_is_written_out():
    """transformers takes `~/model` for a hub id."""
    assert parse_arguments("pretrained=~/a model").pretrained == str(Path.home() / "a model")
