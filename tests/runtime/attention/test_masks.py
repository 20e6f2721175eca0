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
from pastalang.runtime.step import Capture, CellId, Empty, Follow, OfCells, OfRow, RowId, Run, Show, StepBatch, TokenId
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


def seen_in(views: Views, batch: StepBatch) -> list[list[int]]:
    """For each token, the cells that it sees, in its order; the rows grow."""
    visibility = views.prepare(batch)
    views.commit(batch, visibility)
    return [[int(cell) for cell in np.argsort(row) if row[cell] > 0] for row in visibility.order]


# ── what each word of a step means ───────────────────────────────────────────────────────────────────────


def test_a_token_sees_the_tokens_of_its_run_before_it_and_itself() -> None:
    assert seen_in(Views(8), step(Run(A, 0, 3), cells=(4, 2, 0))) == [[4], [4, 2], [4, 2, 0]]


def test_branches_of_one_step_do_not_see_each_other() -> None:
    assert seen_in(Views(8), step(Run(A, 0, 1), Run(B, 1, 1))) == [[0], [1]]


def test_a_row_remembers_what_was_fed_for_it() -> None:
    views = Views(8)
    seen_in(views, step(Run(A, 0, 2), cells=(5, 1)))
    assert seen_in(views, step(Run(A, 0, 1), cells=(3,))) == [[5, 1, 3]]


def test_a_branch_forked_inside_a_step_sees_its_parent_up_to_the_fork() -> None:
    views = Views(8)
    assert seen_in(views, step(Run(A, 0, 3), Run(B, 3, 1, after=(1,)))) == [[0], [0, 1], [0, 1, 2], [0, 1, 3]]
    assert views.seen_by(B) == (0, 1, 3)


def test_a_captured_row_sees_what_the_captured_token_sees() -> None:
    views = Views(8)
    seen_in(views, step(Run(A, 0, 3), captures=(Capture(B, 1),)))
    assert views.seen_by(B) == (0, 1)
    assert seen_in(views, step(Run(A, 0, 1), Run(B, 1, 1), cells=(3, 4))) == [[0, 1, 2, 3], [0, 1, 4]]


def test_a_join_inside_a_step_sees_the_last_tokens_of_the_joined_branches_and_what_they_see() -> None:
    views = Views(16)
    seen_in(views, step(Run(A, 0, 2), captures=(Capture(B, 1), Capture(C, 1))))
    seen = seen_in(views, step(Run(B, 0, 2), Run(C, 2, 1), Run(A, 3, 1, after=(2, 1)), cells=(4, 3, 9, 8)))
    assert seen[3] == [0, 1, 9, 4, 3, 8]


def test_a_join_gives_the_same_path_whether_the_joined_are_fed_now_or_were_fed_before() -> None:
    now, before = Views(16), Views(16)
    for views in (now, before):
        seen_in(views, step(Run(A, 0, 2), captures=(Capture(B, 1), Capture(C, 1))))
    seen_in(now, step(Run(C, 0, 1), cells=(5,)))
    seen_in(before, step(Run(C, 0, 1), Run(B, 1, 1), cells=(5, 6)))
    runs = (Run(B, 0, 1), Run(A, 1, 1), Run(A, 2, 1, after=(1, 0, OfRow(C))))
    at_once = seen_in(now, step(*runs, cells=(6, 7, 8)))
    later = seen_in(before, step(Run(A, 0, 1), Run(A, 1, 1, after=(0, OfRow(B), OfCells((CellId(5),)))), cells=(7, 8)))
    assert at_once[-1] == later[-1] == [0, 1, 7, 6, 5, 8]


def test_a_row_that_follows_another_sees_what_that_one_sees_behind_its_own() -> None:
    views = Views(16)
    seen_in(views, step(Run(A, 0, 2), Run(B, 2, 2), cells=(3, 1, 2, 0)))
    assert seen_in(views, step(Run(A, 0, 1), cells=(5,), edits=(Follow(A, B),))) == [[3, 1, 2, 0, 5]]


def test_following_a_row_adds_only_what_is_new() -> None:
    views = Views(16)
    seen_in(views, step(Run(A, 0, 2), captures=(Capture(B, 0),)))
    seen_in(views, step(Run(B, 0, 1), cells=(7,)))
    assert seen_in(views, step(Run(A, 0, 1), cells=(4,), edits=(Follow(A, B),))) == [[0, 1, 7, 4]]


def test_shown_cells_are_seen_in_the_order_in_which_they_are_named() -> None:
    views = Views(16)
    seen_in(views, step(Run(A, 0, 3)))
    assert seen_in(views, step(Run(B, 0, 1), cells=(9,), edits=(Empty(B), Show(B, (2, 0))))) == [[2, 0, 9]]


def test_an_emptied_row_sees_nothing_of_its_earlier_use() -> None:
    views = Views(16)
    seen_in(views, step(Run(A, 0, 3)))
    assert seen_in(views, step(Run(A, 0, 1), cells=(1,), edits=(Empty(A),))) == [[1]]


def test_drafts_see_their_ancestors_and_leave_no_trace() -> None:
    views = Views(16)
    drafts = (Run(A, 1, 1, (0,), keep=False), Run(A, 2, 1, (0,), keep=False), Run(A, 3, 1, (2,), keep=False))
    assert seen_in(views, step(Run(A, 0, 1), *drafts)) == [[0], [0, 1], [0, 2], [0, 2, 3]]
    assert views.seen_by(A) == (0,)
    assert seen_in(views, step(Run(A, 0, 1), cells=(8,), edits=(Show(A, (2, 3)),))) == [[0, 2, 3, 8]]


def test_a_lock_step_token_sees_the_earlier_values_up_to_the_same_index() -> None:
    views = Views(16)
    seen_in(views, step(Run(A, 0, 1), captures=(Capture(B, 0), Capture(C, 0))))
    first = seen_in(views, step(Run(B, 0, 1), Run(C, 1, 1, after=(0,)), cells=(1, 2)))
    second = seen_in(views, step(Run(B, 0, 1), Run(C, 1, 1, after=(0,)), cells=(3, 4)))
    assert first == [[0, 1], [0, 1, 2]]
    assert second == [[0, 1, 3], [0, 1, 2, 3, 4]]


def test_rows_are_made_when_they_are_first_named() -> None:
    assert seen_in(Views(4), step(Run(RowId(1000), 0, 1))) == [[0]]


@pytest.mark.parametrize("cells", [2**15 - 1, 2**15])
def test_a_path_may_be_as_long_as_the_memory(cells: int) -> None:
    views = Views(cells)
    shown = Show(A, tuple(map(CellId, range(cells - 1))))
    visibility = views.prepare(batch := step(Run(A, 0, 1), cells=(cells - 1,), edits=(Empty(A), shown)))
    assert visibility.counts.tolist() == [cells]
    assert attended(visibility, window=2).nonzero()[1].tolist() == [cells - 2, cells - 1]
    views.commit(batch, visibility)
    assert views.seen_by(A) == tuple(range(cells))


# ── windows ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_window_is_the_last_tokens_of_the_branchs_own_path() -> None:
    views = Views(16)
    seen_in(views, step(Run(A, 0, 4), captures=(Capture(B, 3),)))
    for at in range(2):  # two branches take turns in memory
        visibility = views.prepare(batch := step(Run(A, 0, 1), Run(B, 1, 1), cells=(4 + 2 * at, 5 + 2 * at)))
        views.commit(batch, visibility)
    narrow = attended(visibility, window=3)
    assert [np.flatnonzero(row).tolist() for row in narrow] == [[3, 4, 6], [3, 5, 7]]


def test_without_branches_a_window_is_the_ordinary_sliding_window() -> None:
    visibility = Views(16).prepare(step(Run(A, 0, 10)))
    rows, columns = np.indices((10, 10))
    assert (attended(visibility, window=4) == ((columns <= rows) & (rows - columns < 4))).all()


def test_a_window_of_one_is_the_token_itself() -> None:
    visibility = Views(16).prepare(step(Run(A, 0, 4)))
    assert (attended(visibility, window=1) == np.eye(4, dtype=bool)).all()


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
