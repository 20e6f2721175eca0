"""Batches of an endless stream are the same for the same number, in whatever order and process they are made."""

from __future__ import annotations

from random import Random

import torch

from pastalang.training.batch import IGNORED, Batch
from pastalang.training.forward import logits_of, loss_of
from pastalang.training.mini.lessons import DrawLesson
from pastalang.training.mini.model import fresh_model
from pastalang.training.mini.sources import as_text, made_up
from pastalang.training.mini.tokenizer import train_tokenizer
from pastalang.training.stream import RowStream, make_lines

LISTINGS = tuple(made_up(60, seed=0))
DRAW = DrawLesson(train_tokenizer(map(as_text, LISTINGS), size=700), LISTINGS)


def same(one: Batch, other: Batch) -> bool:
    assert one.visible is not None
    assert other.visible is not None
    pairs = ((one.tokens, other.tokens), (one.labels, other.labels), (one.visible, other.visible))
    return all(torch.equal(left, right) for left, right in pairs) and one.origins == other.origins


def test_a_batch_depends_on_its_number_alone() -> None:
    straight = RowStream(DRAW, rows=2, length=640, seed=1, batches=2)
    batches = [straight(number) for number in range(4)]
    resumed = RowStream(DRAW, rows=2, length=640, seed=1, batches=2, ahead=True)
    try:
        assert same(resumed(3), batches[3])
        assert same(resumed(0), batches[0])
    finally:
        resumed.close()
    assert not same(batches[0], batches[2])
    assert not same(batches[0], RowStream(DRAW, rows=2, length=640, seed=2, batches=2)(0))


def test_lines_are_nearly_full_and_rows_stay_whole() -> None:
    lines = make_lines(DRAW, 6, 640, "seed")
    for line in lines:
        assert 0 < sum(map(len, line)) <= 640
    assert sum(len(row) for line in lines for row in line) > 0.8 * 6 * 640
    assert {row.mode.value for line in lines for row in line} == {"strict", "lockstep", "sequential"}


def test_the_loss_is_that_of_all_logits_though_only_labelled_places_get_some() -> None:
    batch = RowStream(DRAW, rows=2, length=640, seed=1, batches=2)(0)
    model = fresh_model(700, end=0, seed=0, hidden=32, layers=2, heads=2).double()
    logits, labels = logits_of(model, batch), batch.labels
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    assert torch.allclose(loss_of(model, batch).double(), expected, atol=1e-6)
    where = labels != IGNORED
    assert torch.allclose(logits_of(model, batch, where=where), logits[where], atol=1e-12)
    assert logits_of(model, batch).shape == (2, 640, 700), "the head sees every place again"


def test_a_seed_draws_the_same_rows() -> None:
    one, other = (DRAW(Random(5)) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.origin == other.origin
    assert (one.tokens == other.tokens).all()
