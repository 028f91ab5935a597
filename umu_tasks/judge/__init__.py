"""Factuality of generated answers, 1 to 10, by a judge model behind an OpenAI-compatible endpoint: `umu judge`.

- `rubric`: what the judge is asked, and how its answer is read.
- `client`: one question to the judge, with retries; knows HTTP and nothing else.
- `cache`: what was judged already, on disk; nothing is paid for twice.
- `answers`: the generated answers in a result folder.
- `judging`: all of them, some at once, and what came of it.
- `scores`: means and intervals, and the file beside the results.
- `command`: `umu judge`.
"""
