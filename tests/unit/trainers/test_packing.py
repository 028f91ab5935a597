"""Several rows in one sequence: who sees whom, at which position, and whose labels are where."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from umu_trainers import layout
from umu_trainers.encoding import Tokens
from umu_trainers.layout import MULTIPLE, block_mask, join, lay_out
from umu_trainers.outputs import IGNORED
from umu_trainers.packing import Packer, pack

IMAGE = 3


def tokens(ids, supervised):
    """A row of these ids whose tokens from place `supervised` on count."""
    ids = torch.tensor(ids)
    labels = ids.clone()
    labels[:supervised] = IGNORED
    return Tokens({"input_ids": ids}, supervised, labels)


FIRST = tokens([1, IMAGE, IMAGE, 10, 11, 12], 5)  # 1 label
SECOND = tokens([1, IMAGE, IMAGE, 20, 21, 22, 23], 5)  # 2 labels
TEXT = tokens([1, 30, 31], 2)  # 1 label


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
    """Rows: who attends. Two questions of one token each behind one shared token, another sequence, then padding."""
    seen = block_mask(torch.tensor([[0, 0, 0, 1, -1]]), torch.tensor([[0, 1, 2, 0, -1]]))
    assert seen.shape == (1, 1, 5, 5)
    assert seen[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 3)), min_size=1, max_size=12))
def test_nobody_sees_ahead_or_into_another_question_and_everybody_sees_something(tokens):
    owners, questions = zip(*tokens, strict=True)
    seen = block_mask(torch.tensor([owners]), torch.tensor([questions]))[0, 0]
    for asks in range(len(tokens)):
        assert seen[asks, asks]
        for told in range(len(tokens)):
            allowed = told <= asks and owners[told] == owners[asks] and questions[told] in (0, questions[asks])
            assert bool(seen[asks, told]) == allowed


@given(st.lists(st.integers(1, 30), min_size=1, max_size=10), st.integers(1, 40))
def test_lines_hold_every_token_once_in_order(lengths, room):
    """Images are told to their tokens by order, so sequences must not change places."""
    starts, width = lay_out(lengths, room)
    assert width % MULTIPLE == 0
    assert width - MULTIPLE < max(room, *lengths)
    taken = [set(range(start, start + length)) for start, length in zip(starts, lengths, strict=True)]
    assert len(set().union(*taken)) == sum(lengths)
    assert starts == sorted(starts)
    assert all(start // width == (start + length - 1) // width for start, length in zip(starts, lengths, strict=True))


PACKER = Packer(IMAGE, 0, "sdpa")


def test_two_batches_in_one_line():
    """Kept columns are those of both batches; `places` picks each row's own out of all."""
    images, texts = PACKER.batch([FIRST, SECOND], [[0, 1]]), PACKER.batch([TEXT], [[0]])
    joint = join([images, texts])
    assert joint.inputs["input_ids"].tolist() == [
        [1, IMAGE, IMAGE, 10, 11, 12, 20, 21, 22, 23, 1, 30, 31, 0, 0, 0],
    ]
    assert joint.inputs["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 0, 1, 2, 0, 0, 0]]
    assert joint.inputs["attention_mask"].shape == (1, 1, 16, 16)
    assert not joint.inputs["attention_mask"][0, 0, 10:13, :10].any(), "the text row sees none of the images' sequence"
    assert joint.keep.tolist() == [4, 7, 8, 11]
    assert [one.tolist() for one in joint.places] == [[[0, 0], [1, 2]], [[3]]]
    assert images["labels"].tolist() == [[12, IGNORED], [22, 23]]
    assert joint.image_keys is None


def test_lines_share_their_kept_columns(monkeypatch):
    """The model gives the logits of the same columns in every line."""
    monkeypatch.setitem(layout.LINE, "sdpa", 10)
    joint = join([PACKER.batch([FIRST, SECOND, FIRST], [[0, 1], [2]])])
    assert joint.inputs["input_ids"].shape == (2, 16)
    assert joint.inputs["input_ids"][1].tolist() == [1, IMAGE, IMAGE, 10, 11, 12, *[0] * 10]
    assert joint.keep.tolist() == [4, 7, 8]
    assert joint.places[0].tolist() == [[0, 0], [1, 2], [3, 0]]


def test_an_added_mask_says_the_same():
    seen, added = (
        join([Packer(IMAGE, 0, way).batch([FIRST, SECOND], [[0, 1]])]).inputs["attention_mask"] for way in layout.LINE
    )
    assert torch.equal(seen, added == 0)
    assert bool((added[~seen] < -1e8).all())


def test_a_window_is_counted_in_places_of_the_own_row():
    """Mistral's: the second question stands far behind the image in the sequence, but not in its row."""
    seen = join([Packer(IMAGE, 0, "sdpa", window=3).batch([FIRST, SECOND], [[0, 1]])]).inputs["attention_mask"][0, 0]
    assert [place for place in range(10) if seen[6, place]] == [1, 2, 6], "places 1, 2 and 3 of its row"
    assert [place for place in range(10) if seen[9, place]] == [7, 8, 9]
    assert bool(seen.diagonal().all())


def test_rows_come_out_in_their_own_order(make_rows):
    """Two people's rows mixed: labels must stand where the objective expects the row."""
    rows = make_rows(4, "mul")  # two to a person
    order = [rows[0], rows[2], rows[1]]
    encoded = [tokens([1, IMAGE, 10 + number, 20 + number], 3) for number in range(3)]
    groups = PACKER.groups(order, encoded)
    assert groups == [[0, 2], [1]]
    batch = PACKER.batch(encoded, groups)
    assert batch["labels"].tolist() == [[20], [21], [22]]
    joint = join([batch])
    predicting = joint.inputs["input_ids"][0, joint.keep[joint.places[0].squeeze(1)]]
    assert predicting.tolist() == [10, 11, 12]


def test_rows_that_begin_otherwise_are_not_packed_together(make_rows):
    """The text before the image is part of what is shared."""
    rows = make_rows(2, "mul")
    encoded = [tokens([1, IMAGE, 10], 2), tokens([5, IMAGE, 10], 2)]
    assert PACKER.groups(rows, encoded) == [[0], [1]]


def test_rows_without_image_share_nothing(make_rows):
    rows = make_rows(2, "uni")
    assert PACKER.groups(rows, [TEXT, TEXT]) == [[0], [1]]
    assert PACKER.shared(TEXT) == 0
