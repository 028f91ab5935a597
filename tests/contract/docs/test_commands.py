"""Every command of the README and the documentation: marked, well-formed, and run where it can be."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import PAGES, ROOT, Block, all_blocks, blocks_of, prose, shell_blocks
from doc_commands import WrongCommand, check, check_block, check_umu_mention, commands, runs_anywhere

FIXTURES = ROOT / "tests" / "fixtures"
MARKERS = re.compile(r"run( slow| short)?|needs (gpu|hub)|covered by (tests/[\w/]+\.py)")
# Folders that exist on a reader's machine.
PLACES = {"/data/UMU-bench": FIXTURES / "umu_small" / "data"}


# Training and asking in full takes minutes; whether the commands fit together shows in seconds.
SHORTENED = """
python() { case "$1" in umu_trainers/*) command python "$@" --max_steps 2;; *) command python "$@";; esac; }
accelerate() { command accelerate "$@" --max_steps 2; }
lmms-eval() { command lmms-eval "$@" --limit 8; }
"""


def named(block: Block) -> str:
    return block.place


def of_kind(marker: str) -> list[Block]:
    return [block for block in all_blocks() if block.marker == marker]


@pytest.mark.parametrize("block", shell_blocks(), ids=named)
def test_a_block_says_who_runs_it(block):
    """A command that nobody runs is a command that stopped working without anybody seeing it."""
    assert block.marker, f"{block.place}: put one of the markers of doc_blocks.py on the line before the block"
    match = MARKERS.fullmatch(block.marker)
    assert match, f"{block.place}: no such marker: {block.marker}"
    if match[3]:
        assert (ROOT / match[3]).is_file(), f"{block.place}: no file {match[3]}"
    if block.marker.startswith("needs"):
        found = list(commands(block.text))
        assert not found or not all(map(runs_anywhere, found)), f"{block.place}: this runs anywhere: mark it `run`"


@pytest.mark.parametrize("block", shell_blocks(), ids=named)
def test_a_block_is_well_formed(block):
    """Flags, files, tasks, targets and extras in it exist, whoever runs it."""
    check_block(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_stand_in_marked_blocks(page):
    """An indented block would escape the tests; a command mentioned in the text must exist too."""
    text = prose(page)
    programs = r"(?:[A-Z_]+=\S+ )*(?:umu|lmms-eval|accelerate|python|pip|make) "
    bare = [one.place for one in blocks_of(page) if one.language in ("", "text") and re.match(programs, one.text)]
    assert not bare, f"{bare}: commands belong into a block that starts with ```bash"
    indented = re.findall(rf"(?:\A|\n)    ({programs}.*)", text)
    assert not indented, f"{page.name}: put it into a fenced block: {indented}"
    for mention in re.findall(r"`umu ([^`]+)`", text):
        words = [word.rstrip("…") for word in shlex.split(mention.replace("\n", " ")) if word != "…"]
        if not any(word.startswith("COMMAND") for word in words):
            check_umu_mention(words)
    for mention in re.findall(
        r"`((?:accelerate launch )?(?:python )?(?:umu_trainers|scripts)/[^`…]+ --[^`…]+|make [^`…]+)`", text
    ):
        if not re.search(r"\b[A-Z]\b|NAME|FILE", mention):
            check(shlex.split(mention.replace("\n", " ")))


@pytest.mark.parametrize(
    "line",
    [
        "umu report x --no_such_flag", "umu dat check mini", "lmms-eval --tasks umu_forget06", "make dmo",
        "lmms-eval --model umu_hf --model_args pretraned=x --tasks umu05", "lmms-eval --taks umu05",
        "python umu_trainers/unlearn.py --config configs/unlearn/gdd.yaml", "python umu_trainers/gd.py",
        "python umu_trainers/unlearn.py --config configs/unlearn/gd.yaml --gama 1", "pip install -e '.[deepsped]'",
        "accelerate launch --config_file configs/accelerate/zero9.yaml umu_trainers/sft.py",
        "python scripts/bench_eval.py --shap mini", "umo demo",
    ],
)  # fmt: skip
def test_a_wrong_command_is_found(line):
    block = Block(ROOT / "README.md", 1, "bash", line, "needs gpu", None)
    with pytest.raises(WrongCommand):
        check_block(block)


def test_commands_of_a_block():
    """Loops, assignments, continued lines, comments with apostrophes and ellipses are no commands."""
    text = "export A=1  # it's set\nfor m in a b; do\n  B=2 run --x $m \\\n    --y …\ndone\none && two | three\n"
    assert list(commands(text)) == [["run", "--x", "$m", "--y"], ["one"], ["two"], ["three"]]


# ---- running them -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where UMU-mini is drawn, once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def clone(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a clone; results land in it and not in the real one."""
    for name in [one for one in os.environ if re.match(r"(UMU|MLLMU|HF)_", one)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("UMU_CACHE", str(cache))
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("configs", "scripts", "umu_tasks", "umu_trainers"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run(block: Block, clone: Path) -> None:
    text = block.text
    for place, folder in PLACES.items():
        text = text.replace(place, str(folder))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    if block.marker == "run short":
        text = SHORTENED + text
    command = [sys.executable, "-c", text] if block.language == "python" else ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block.place}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("block", of_kind("run"), ids=named)
def test_it_runs(block, clone):
    """What a reader types ends with success."""
    run(block, clone)


@pytest.mark.slow
@pytest.mark.parametrize("block", [*of_kind("run slow"), *of_kind("run short")], ids=named)
def test_it_runs_though_slowly(block, clone):
    run(block, clone)


@pytest.mark.parametrize("block", [one for one in all_blocks() if one.language == "python"], ids=named)
def test_python_compiles(block):
    compile(block.text, block.place, "exec")
