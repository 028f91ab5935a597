"""What UMU-Bench's task files call; `umu_tasks.tasks.paired` has the functions."""

from __future__ import annotations

from umu_tasks.tasks.paired import PairedHooks
from umu_tasks.tasks.umu import prompts

BENCHMARK = "umu"
_hooks = PairedHooks(BENCHMARK, prompts.user_text, prompts.published_prompt)

build_documents = _hooks.build_documents
text = _hooks.text
images = _hooks.images
messages = _hooks.messages
target = _hooks.target
score_answer = _hooks.score_answer
