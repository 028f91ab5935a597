"""Scoring: outputs to verdicts, verdicts to metrics. Plain values in and out; nothing here knows lmms-eval or a model.

- `answers`: one function a rule; says whether an output answers its question. `nearest` finds the nearest option.
- `refusals`: which responses decline to answer. `texts`: what the strict rule takes for the same text, word or number.
- `rouge`, `bleu`: one output against one answer, for generation.
- `failures`: what backends write where no answer came.
- `fields`: which fact of a person a question asks for.
- `pairing`: brings the two modalities of a knowledge instance together, by key.
- `metrics`: the benchmark's numbers over those pairs.
- `bootstrap`: their standard errors and intervals, by resampling people.
- `counts`: of outputs that are no answers, or all the same.
- `summary`: all of that for the records of one leaf task.

A new way to match answers is one function in `answers.py`, entered in its table of rules, with its own test.
"""
