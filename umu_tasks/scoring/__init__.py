"""Scoring: outputs to verdicts, verdicts to metrics. Plain values in and out; nothing here knows lmms-eval or a model.

- `answers`: one function a rule; says whether an output answers its question.
- `pairing`: brings the two modalities of a knowledge instance together, by key.
- `metrics`: the benchmark's numbers over those pairs.
- `rouge`: ROUGE-L of one output against one answer.

A new way to match answers is one function in `answers.py`, entered in its table of rules, with its own test.
"""
