"""A task's `generation_kwargs`, stop strings, and numbers that are none."""

from __future__ import annotations

import logging

import pytest
import torch
from transformers import GenerationConfig

from umu_tasks.backend.generation import GenerationError, GenerationSettings, NumberCheck, StopStrings, cut

BASE = GenerationConfig(eos_token_id=[2, 7], pad_token_id=0, bos_token_id=1)


def test_our_tasks_decode_greedily():
    settings = GenerationSettings.from_task(
        {"max_new_tokens": 50, "do_sample": False, "temperature": 0.0, "until": ["ASSISTANT:"]}
    )
    assert settings == GenerationSettings(50, ("ASSISTANT:",), 0.0)
    config = settings.config(BASE)
    assert (config.do_sample, config.max_new_tokens, config.num_beams) == (False, 50, 1)
    assert (config.eos_token_id, config.pad_token_id) == ([2, 7], 0)


@pytest.mark.parametrize(
    ("kwargs", "temperature"),
    [
        ({}, 0.0),
        ({"do_sample": True}, 1.0),
        ({"temperature": 0.7, "do_sample": False}, 0.7),
        ({"temperature": None}, 0.0),
    ],
)
def test_temperature_decides_about_sampling(kwargs, temperature):
    """`--gen_kwargs temperature=0.7` must not be silently overruled by the task's do_sample: false."""
    settings = GenerationSettings.from_task(kwargs)
    assert settings.temperature == temperature
    assert settings.config(BASE).do_sample is (temperature > 0)


def test_a_single_stop_string_and_an_empty_one():
    """Cutting at an empty string would be an error, or cut everything."""
    assert GenerationSettings.from_task({"until": "\n"}).until == ("\n",)
    assert GenerationSettings.from_task({"until": ["", "x"]}).until == ("x",)


def test_foreign_settings_are_logged(caplog):
    with caplog.at_level(logging.INFO):
        GenerationSettings.from_task({"image_aspect_ratio": "original", "top_p": 1.0})
    assert "ignores the generation setting 'image_aspect_ratio'" in caplog.text


def test_cut():
    assert cut("Baker\nUSER: more ASSISTANT: x", ("ASSISTANT:",)) == "Baker\nUSER: more "
    assert cut("a b c d", ("c", "b")) == "a "
    assert cut("abc", ()) == "abc"


class Letters:
    """A tokenizer of one letter a token; all that stop strings need of one."""

    def batch_decode(self, rows, skip_special_tokens):
        return ["".join(chr(token) for token in row) for row in rows.tolist()]


def test_stop_strings_look_at_the_answer_only():
    """A prompt that ends `ASSISTANT:` must not stop its own answer."""
    stop = StopStrings(Letters(), ("ST:",), prompt_length=3)
    rows = torch.tensor([[ord(c) for c in "ST:abcdefST:"], [ord(c) for c in "ST:abcdefgST"]])
    assert stop(rows[:, :4], None).tolist() == [False, False]
    assert stop(rows, None).tolist() == [True, False]


def test_logits_that_are_no_numbers_are_an_error():
    """Greedy decoding turns NaN into token 0, and that into an empty answer that would score as forgotten."""
    check = NumberCheck()
    check(torch.zeros(1, 1, dtype=torch.long), torch.tensor([[0.0, float("-inf")]]))  # ruled out, not broken
    check.require_numbers()
    check(torch.zeros(1, 1, dtype=torch.long), torch.tensor([[float("nan"), 0.0]]))
    check(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 2))
    with pytest.raises(GenerationError, match="logits are not finite"):
        check.require_numbers()
