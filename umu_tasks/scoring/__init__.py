"""Scoring: outputs to verdicts, verdicts to metrics. Plain values in and out; nothing here knows lmms-eval or a model.

- `answers`: one function a rule; says whether an output answers its question. `nearest` finds the nearest option.
- `rouge`, `bleu`: one output against one answer, for generation.
- `failures`: what backends write where no answer came.
- `fields`: which fact of a person a question asks for.
- `pairing`: brings the two modalities of a knowledge instance together, by key.
- `metrics`: the benchmark's numbers over those pairs.
- `bootstrap`: their standard errors and intervals, by resampling people.
- `summary`: all of that for the records of one leaf task.

A new way to match answers is one function in `answers.py`, entered in its table of rules, with its own test.
"""
