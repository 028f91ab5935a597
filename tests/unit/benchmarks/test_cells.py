"""Cells that hold structures as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umu_tasks.benchmarks.cells import parse_cell
from umu_tasks.benchmarks.errors import DataError

WHERE = {"file": "forget_5/train.parquet", "row_id": "017", "column": "Cloze"}
texts = st.text(st.characters(exclude_categories=["Cs"]))
structures = st.recursive(
    texts | st.integers() | st.none() | st.booleans(),
    lambda inner: st.dictionaries(texts, inner, max_size=4) | st.lists(inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(texts, structures, max_size=4))
def test_json_and_literal_text_of_a_structure_read_the_same(structure):
    """Otherwise the two kinds of copies of one data set would give different questions."""
    literal = parse_cell(repr(structure), **WHERE)
    assert literal == structure
    assert parse_cell(json.dumps(structure), **WHERE) == literal
    assert parse_cell(json.dumps(structure, ensure_ascii=False), **WHERE) == literal


@pytest.mark.parametrize("cell", ["", "  ", None, float("nan"), 3])
def test_empty_cell(cell):
    with pytest.raises(DataError, match=r"train\.parquet, row ID 017, column Cloze: empty cell"):
        parse_cell(cell, **WHERE)


@pytest.mark.parametrize(
    "cell",
    ["{'a': ", "{'a': b}", "__import__('os').getcwd()", "{'a': 1 + x}", "[" * 100_000, "{'a': '\x00'}", "{[]: 1}"],
)
def test_cell_that_does_not_parse_names_row_column_and_its_beginning(cell):
    """Nothing in a cell is ever run, and a cell that is no literal is an error that can be found in the file."""
    with pytest.raises(DataError) as caught:
        parse_cell(cell, **WHERE)
    message = str(caught.value)
    assert message.startswith("forget_5/train.parquet, row ID 017, column Cloze: neither JSON nor a Python literal")
    assert f"the cell starts {repr(cell)[:5]}" in message
    assert "object at 0x" not in message
    assert len(message) < 500


def test_structures_pass_through():
    cell = {"question": {}}
    assert parse_cell(cell, **WHERE) is cell


@pytest.mark.parametrize("cell", ['{"a": {"0": 1, "0": 2}}', "{'a': {'0': 1, '0': 2}}"], ids=["json", "literal"])
def test_a_repeated_key_is_refused(cell):
    """The second entry would silently take the place of the first, and a question would be gone."""
    with pytest.raises(DataError, match=r"row ID 017, column Cloze: the key '0' stands twice"):
        parse_cell(cell, file="f.parquet", row_id="017", column="Cloze")
