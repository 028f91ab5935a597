"""Several rows in one sequence: who sees whom, at which position, and whose labels are where."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from umu_trainers.encoding import Tokens
from umu_trainers.outputs import IGNORED
from umu_trainers.packing import MULTIPLE, Packer, block_mask, pack, packed_batch

IMAGE = 3


def tokens(ids, supervised):
    """A row of these ids whose tokens from place `supervised` on count."""
    ids = torch.tensor(ids)
    labels = ids.clone()
    labels[:supervised] = IGNORED
    return Tokens({"input_ids": ids}, supervised, labels)


FIRST = tokens([1, IMAGE, IMAGE, 10, 11, 12], 5)  # 1 label
SECOND = tokens([1, IMAGE, IMAGE, 20, 21, 22, 23], 5)  # 2 labels


def test_hand_worked_sequence():
    packed = pack([FIRST, SECOND], 3)
    assert packed.inputs["input_ids"].tolist() == [1, IMAGE, IMAGE, 10, 11, 12, 20, 21, 22, 23]
    assert packed.positions.tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6]
    assert packed.questions.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert [one.tolist() for one in packed.columns] == [[4], [7, 8]]
    assert [one.tolist() for one in packed.labels] == [[12], [22, 23]]


def test_labels_before_the_border_are_each_rows_own():
    """`label_scope: all_text`: the first token of each question is predicted by the image's last one."""
    packed = pack([tokens([1, IMAGE, 10, 11], 1), tokens([1, IMAGE, 20], 2)], 2)
    assert [one.tolist() for one in packed.columns] == [[0, 1, 2], [1]]
    assert [one.tolist() for one in packed.labels] == [[IMAGE, 10, 11], [20]]


def test_hand_worked_mask():
    """Rows: who attends. Two questions of one token each behind one shared token, then one of padding."""
    seen = block_mask(torch.tensor([[0, 1, 2, -1]]))
    assert seen.shape == (1, 1, 4, 4)
    assert seen[0, 0].int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 0, 1],
    ]


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=12))
def test_nobody_sees_ahead_or_into_another_question_and_everybody_sees_something(questions):
    seen = block_mask(torch.tensor([questions]))[0, 0]
    for asks in range(len(questions)):
        assert seen[asks, asks]
        for told in range(len(questions)):
            allowed = told <= asks and questions[told] in (0, questions[asks])
            assert bool(seen[asks, told]) == allowed


def test_batch_of_two_sequences():
    """Kept columns are those of any sequence; `places` picks each row's own out of all."""
    batch = packed_batch([pack([FIRST, SECOND], 3), pack([FIRST], 3)], 0, is_added=False)
    assert batch["keep"].tolist() == [4, 7, 8]
    assert batch["places"].tolist() == [[0, 0], [1, 2], [3, 0]]
    assert batch["labels"].tolist() == [[12, IGNORED], [22, 23], [12, IGNORED]]
    ids = batch["inputs"]["input_ids"]
    assert ids.shape[1] % MULTIPLE == 0
    assert ids[1].tolist() == [1, IMAGE, IMAGE, 10, 11, 12, *[0] * (ids.shape[1] - 6)]
    assert batch["inputs"]["attention_mask"].shape == (2, 1, ids.shape[1], ids.shape[1])


def test_an_added_mask_says_the_same():
    packed = [pack([FIRST, SECOND], 3)]
    seen, added = (packed_batch(packed, 0, is_added=way)["inputs"]["attention_mask"] for way in (False, True))
    assert torch.equal(seen, added == 0)
    assert bool((added[~seen] < -1e8).all())


def test_rows_come_out_in_their_own_order(make_rows):
    """Two people's rows mixed: labels must stand where the objective expects the row."""
    rows = make_rows(4, "mul")  # two to a person
    order = [rows[0], rows[2], rows[1]]
    encoded = [tokens([1, IMAGE, 10 + number, 20 + number], 3) for number in range(3)]
    packer = Packer(IMAGE, 0, "sdpa")
    groups = packer.groups(order, encoded)
    assert groups == [[0, 2], [1]]
    assert packer.batch(encoded, groups)["labels"].tolist() == [[20], [21], [22]]


def test_rows_that_begin_otherwise_are_not_packed_together(make_rows):
    """The text before the image is part of what is shared."""
    rows = make_rows(2, "mul")
    encoded = [tokens([1, IMAGE, 10], 2), tokens([5, IMAGE, 10], 2)]
    assert Packer(IMAGE, 0, "sdpa").groups(rows, encoded) == [[0], [1]]
