"""Lists of whom to forget."""

import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.build.forget_lists import read_forget_lists
from umu_tasks.build.problems import Problems

IDS = ["001", "002", "003", "#4", "a5"]


@pytest.fixture
def lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(*specs, ids=IDS, **files):
        for name, text in files.items():
            (tmp_path / f"{name}.txt").write_bytes(text.encode())
        problems = Problems()
        found = read_forget_lists(specs, ids, 0, problems)
        return found, [str(error) for error in problems.errors], problems.warnings

    return read


def test_a_list_alone_fills_forget05(lists):
    found, errors, warnings = lists("a.txt", a="\ufeff# who left\n001\r\n\n #4 \n")
    assert (found, errors, warnings) == ({"forget05": {"001", "#4"}}, [], [])


def test_several_lists(lists):
    found, _, warnings = lists("Forget_10=b.txt", "forget05=a.txt", a="001\n", b="001\n002\n")
    assert found == {"forget05": {"001"}, "forget10": {"001", "002"}}
    assert warnings == []
    _, _, warnings = lists("forget10=b.txt", "a.txt", a="003\n", b="001\n")
    assert "forget05 is not within forget10 (ID 003)" in warnings[0]


def test_random_sets_are_nested(lists):
    ids = [str(number) for number in range(40)]
    found, _, _ = lists("random", ids=ids)
    assert {name: len(chosen) for name, chosen in found.items()} == {"forget05": 2, "forget10": 4, "forget15": 6}
    assert found["forget05"] < found["forget10"] < found["forget15"]


def test_unknown_ids_say_where_and_what_was_meant(lists):
    _, errors, warnings = lists("a.txt", a="1\nA5\n001\n001\nxyz\n")
    assert errors == [
        "a.txt, line 1: nobody in the table has the ID '1'. Did you mean '001'?",
        "a.txt, line 2: nobody in the table has the ID 'A5'. Did you mean 'a5'?",
        "a.txt, line 5: nobody in the table has the ID 'xyz'. Correct it, or take it out.",
    ]
    assert warnings == ["a.txt, line 4: ID 001 stands in line 3 already; it counts once."]


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["forget07=a.txt"], "'forget07' names no forget set. Write forget05=FILE"),
        (["retain95=a.txt"], "'retain95' names no forget set"),
        (["none.txt"], "none.txt: cannot be read"),
        (["a.txt", "forget_5=a.txt"], "a second list for forget05"),
        (["b.txt"], "b.txt: no IDs. Expected one a line"),
        (["c.txt"], "forget05 holds all 5 people, so nobody is left for the retain set"),
    ],
)
def test_lists_that_cannot_be_used(lists, specs, message):
    with pytest.raises(DataError, match=message):
        lists(*specs, a="001\n", b="# nobody\n", c="\n".join(IDS))
