"""The table against the lists: what `Views` and the masks say is what the plain predicate says."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang.runtime.attention.masks import additive_mask, attended
from pastalang.runtime.attention.plain_views import FedToken, PlainViews
from pastalang.runtime.attention.views import Views
from pastalang.runtime.step import CellId, Empty, RowId, Run, Show, StepBatch, TokenId
from tests.runtime.walk import Walk

A, B, C = RowId(0), RowId(1), RowId(2)


def step(*runs: Run, cells: tuple[int, ...] = (), **parts: tuple[object, ...]) -> StepBatch:
    size = sum(run.count for run in runs)
    batch = StepBatch(
        tokens=(TokenId(7),) * size,
        positions=tuple(range(size)),
        cells=tuple(map(CellId, cells or range(size))),
        runs=runs,
        wanted=(),
        **parts,  # type: ignore[arg-type]
    )
    batch.check()
    return batch


def test_rows_are_made_when_they_are_first_named() -> None:
    assert Views(4).prepare(step(Run(RowId(1000), 0, 1))).path(0).tolist() == [0]


@pytest.mark.parametrize("cells", [2**15 - 1, 2**15])
def test_a_path_may_be_as_long_as_the_memory(cells: int) -> None:
    views = Views(cells)
    shown = Show(A, tuple(map(CellId, range(cells - 1))))
    visibility = views.prepare(batch := step(Run(A, 0, 1), cells=(cells - 1,), edits=(Empty(A), shown)))
    assert visibility.counts.tolist() == [cells]
    assert attended(visibility, window=2).nonzero()[1].tolist() == [cells - 2, cells - 1]
    views.commit(batch, visibility)
    assert views.seen_by(A) == tuple(range(cells))


def test_masks_add_nothing_where_a_token_attends_and_forbid_the_rest() -> None:
    visibility = Views(16).prepare(step(Run(A, 0, 2)))
    off = float("-inf")
    for window, expected in ((None, [[0, off], [0, 0]]), (1, [[0, off], [off, 0]])):
        mask = additive_mask(attended(visibility, window=window), dtype=torch.float32, device=torch.device("cpu"))
        assert mask.tolist() == expected


# ── the table against the lists ──────────────────────────────────────────────────────────────────────────


def assert_same_visibility(batch: StepBatch, views: Views, fed: tuple[FedToken, ...]) -> None:
    visibility = views.prepare(batch)
    for window in (None, 1, 3, 7):
        attends = attended(visibility, window=window)
        for row, token in zip(attends, fed, strict=True):
            last = token.path if window is None else token.path[-window:]
            assert np.flatnonzero(row).tolist() == sorted(seen.cell for seen in last)
    views.commit(batch, visibility)


def check_walk(seed: int, *, steps: int) -> None:
    walk, views = Walk(random.Random(seed)), Views(320)
    for _ in range(steps):
        batch = walk.step()
        assert_same_visibility(batch, views, walk.fed)
        for branch in walk.live:
            assert views.seen_by(branch.row) == tuple(token.cell for token in walk.views.seen_by(branch.row))
    walk.cells.check_integrity([walk._owned, walk.stuck])


@given(st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_the_table_sees_what_the_plain_predicate_sees(seed: int) -> None:
    check_walk(seed, steps=15)


@pytest.mark.long
@given(st.integers(0, 10**9))
def test_the_table_sees_what_the_plain_predicate_sees_on_long_walks(seed: int) -> None:
    check_walk(seed, steps=60)


def test_the_predicate_counts_a_window_along_the_path() -> None:
    fed = PlainViews().feed(step(Run(A, 0, 4)))
    assert [fed[3].may_see(key, window=2) for key in fed] == [False, False, True, True]
    assert [fed[1].may_see(key) for key in fed] == [True, True, False, False]


# ── steps that nobody may make ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("runs", "cells"),
    [
        ((Run(A, 0, 1), Run(B, 2, 1)), (0, 1)),  # a hole between the runs
        ((Run(A, 0, 2),), (3, 3)),  # one cell twice
        ((Run(A, 0, 1, after=(0,)),), (0,)),  # after itself
        ((Run(A, 0, 1), Run(A, 1, 1)), (0, 1)),  # a row goes on without seeing what it was just fed
        ((Run(A, 0, 0),), ()),  # nothing fed
    ],
)
def test_a_step_that_breaks_its_own_rules_is_a_mistake_of_ours(runs: tuple[Run, ...], cells: tuple[int, ...]) -> None:
    size = len(cells)
    batch = StepBatch((TokenId(1),) * size, (0,) * size, tuple(map(CellId, cells)), runs, ())
    with pytest.raises(AssertionError):
        batch.check()
