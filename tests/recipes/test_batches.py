"""A batch of an endless stream depends on its number alone, not on the order or the process that makes it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch

from pastalang import Mode
from pastalang.training.batches import Batch, collate, logits_of
from pastalang.training.recording import IGNORED, Recorder, TrainingRow
from pastalang.training.trainer import Processes
from recipes.pasta_mini.batches import RowStream, guided, make_lines, with_one_prompt
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import draw_form, lessons_about
from recipes.pasta_mini.lessons import DrawRows
from recipes.pasta_mini.listings import as_text, made_up
from recipes.pasta_mini.tokenizer import train_tokenizer
from tests.oracle.toy_models import toy_model

LISTINGS = tuple(made_up(60, seed=0))
TOKENIZER = train_tokenizer(map(as_text, LISTINGS), size=900)
DRAW = DrawRows(TOKENIZER, LISTINGS)


def same(one: Batch, other: Batch) -> bool:
    assert one.visible is not None
    assert other.visible is not None
    pairs = ((one.tokens, other.tokens), (one.labels, other.labels), (one.visible, other.visible))
    return all(torch.equal(left, right) for left, right in pairs) and one.origins == other.origins


@pytest.mark.long
def test_a_batch_depends_on_its_number_alone() -> None:
    straight = RowStream(DRAW, rows=1, length=320, seed=1, batches=2)
    batches = {number: straight(number) for number in (0, 2)}
    resumed = RowStream(DRAW, rows=1, length=320, seed=1, batches=2, ahead=1)
    try:
        assert same(resumed(2), batches[2])
    finally:
        resumed.close()
    assert not same(batches[0], batches[2])
    assert not same(batches[0], RowStream(DRAW, rows=1, length=320, seed=2, batches=2)(0))


def test_lines_are_nearly_full_and_rows_stay_whole() -> None:
    lines = make_lines(DRAW, 14, 640, "seed")
    for line in lines:
        assert 0 < sum(map(len, line)) <= 640
    assert sum(len(row) for line in lines for row in line) > 0.8 * 14 * 640
    assert {row.mode.value for line in lines for row in line} == {"strict", "lockstep", "sequential"}


@pytest.mark.long
def test_processes_draw_other_rows_and_fewer_lines() -> None:
    first, second = (
        RowStream(DRAW, rows=2, length=320, seed=1, batches=1, processes=Processes(rank, 2))(0) for rank in range(2)
    )
    assert len(first.origins) == len(second.origins) == 1
    assert first.origins != second.origins


def test_rows_of_one_program_share_its_prompt_and_learn_what_they_would_learn_alone() -> None:
    random = Random(4)
    form = next(form for form in iter(lambda: draw_form(random, Part.TRAIN), None) if len(form.questions) == 3)
    recorder = Recorder(TOKENIZER)
    lessons = lessons_about(form, random, Part.TRAIN, count=3, origin="document")
    rows = [recorder.row(lesson, mode) for lesson, mode in zip(lessons, Mode, strict=True)]
    [joined] = with_one_prompt(rows, 5000)
    assert len(joined) < sum(map(len, rows)) - 2 * 50
    assert len(joined.taught) == sum(len(row.taught) for row in rows)
    assert [joined.labels[one.place] for one in joined.taught] == [one.token for one in joined.taught]
    model = toy_model(vocabulary=len(TOKENIZER)).double()

    def logits(row: TrainingRow) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = logits_of(model, collate([[row]], len(row)))
        return found[0, row.labels != IGNORED]

    torch.testing.assert_close(logits(joined), torch.cat([logits(row) for row in rows]), rtol=0, atol=1e-9)
    longest = max(map(len, rows))
    parted = with_one_prompt(rows, longest)
    assert 1 < len(parted) <= 3 and all(len(row) <= longest for row in parted)
    assert sum(len(row.taught) for row in parted) == len(joined.taught)
    assert with_one_prompt(rows, min(map(len, rows)) - 1) == []


def test_the_bits_of_a_batch_allow_what_it_teaches_and_often_little_else() -> None:
    lines = make_lines(DRAW, 2, 640, "seed")
    batch = guided([[replace(row, taught=row.taught[::-1]) for row in line] for line in lines], 640)
    assert batch.allowed is not None
    bits = np.unpackbits(batch.allowed.numpy(), axis=1, bitorder="little")
    labels = batch.labels[batch.labels != IGNORED].numpy()
    assert len(bits) == len(labels)
    assert bits[np.arange(len(labels)), labels].all()
    assert (bits.sum(axis=1) < 100).mean() > 0.1
