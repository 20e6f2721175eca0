from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang.runtime.attention.attention import attend, ready_kernels
from pastalang.runtime.attention.clusters import ON_CPU, Block, Clusters, Costs, Split
from pastalang.runtime.attention.masks import StepMasks, attended, attended_in, step_masks
from pastalang.runtime.attention.views import Views, Visibility
from pastalang.runtime.step import Capture, CellId, RowId, Run, StepBatch, TokenId
from tests.runtime.exact import APART, walk_of

EAGER = Costs(small_step=0, reading=0, per_cell=1, per_cluster=50, per_block=0)  # fit for the small steps of tests


def branches(rows: list[int], *, first_cell: int, after: dict[int, tuple[int, ...]] | None = None) -> StepBatch:
    """One token for each row."""
    size = len(rows)
    runs = tuple(Run(RowId(row), at, 1, (after or {}).get(row, ())) for at, row in enumerate(rows))
    cells = tuple(CellId(first_cell + at) for at in range(size))
    return StepBatch((TokenId(1),) * size, (0,) * size, cells, runs, ())


def documents(views: Views, *, number: int, shared: int, own: int, fields: int) -> None:
    """A shared prompt, documents behind it, and fields of each document: rows 10 x document + field."""
    runs = [Run(RowId(1000), 0, shared)]
    captures = []
    for document in range(number):
        start = shared + document * own
        runs.append(Run(RowId(1001 + document), start, own, after=(shared - 1,)))
        captures += [Capture(RowId(10 * document + field), start + own - 1) for field in range(fields)]
    size = shared + number * own
    cells = tuple(CellId(cell) for cell in range(size))
    batch = StepBatch((TokenId(1),) * size, (0,) * size, cells, tuple(runs), (), (), tuple(captures))
    views.commit(batch, views.prepare(batch))


def tokens_together(blocks: tuple[Block, ...]) -> set[frozenset[int]]:
    return {
        frozenset(int(token) for token in line[:count])
        for block in blocks
        for line, (count, _) in zip(block.tokens, block.sizes, strict=True)
    }


def test_the_fields_of_one_document_attend_together_whatever_their_order() -> None:
    views = Views(1000)
    documents(views, number=3, shared=10, own=100, fields=4)
    batch = branches([0, 10, 20, 1, 11, 21, 2, 12, 22], first_cell=500)
    blocks = Clusters(EAGER).split(batch, views.prepare(batch)).blocks
    assert tokens_together(blocks) == {frozenset({0, 3, 6}), frozenset({1, 4, 7}), frozenset({2, 5, 8})}


def test_clusters_of_one_size_are_one_block() -> None:
    views = Views(1000)
    documents(views, number=3, shared=10, own=100, fields=4)
    batch = branches([0, 1, 10, 11, 20, 21], first_cell=500)
    (block,) = Clusters(EAGER).split(batch, views.prepare(batch)).blocks
    assert (block.tokens.shape, block.cells.shape, block.sizes) == ((3, 2), (3, 112), ((2, 112),) * 3)


def test_branches_of_one_document_that_wrote_little_attend_in_one_piece() -> None:
    views = Views(1000)
    documents(views, number=1, shared=10, own=300, fields=9)
    batch = branches(list(range(9)), first_cell=310)
    assert Clusters(EAGER).split(batch, views.prepare(batch)).blocks == ()


def test_a_small_step_is_one_piece() -> None:
    views = Views(1000)
    documents(views, number=3, shared=10, own=100, fields=4)
    batch = branches([0, 10, 20], first_cell=500)
    assert Clusters(ON_CPU).split(batch, views.prepare(batch)).blocks == ()


def prompt(length: int) -> StepBatch:
    cells = tuple(map(CellId, range(length)))
    return StepBatch((TokenId(1),) * length, (0,) * length, cells, (Run(RowId(0), 0, length),), ())


def test_a_short_prompt_is_one_piece() -> None:
    assert Clusters(EAGER).split(prompt(128), Views(128).prepare(prompt(128))).blocks == ()


def test_the_stretches_of_a_long_prompt_attend_to_what_is_before_them() -> None:
    blocks = Clusters(ON_CPU).split(prompt(480), Views(480).prepare(prompt(480))).blocks
    assert [block.sizes for block in blocks] == [((120, 120),), ((120, 240),), ((120, 360),), ((120, 480),)]


def test_documents_that_are_fed_at_once_attend_apart() -> None:
    views = Views(2000)
    runs = tuple(Run(RowId(row), 100 * row, 100) for row in range(8))
    batch = StepBatch((TokenId(1),) * 800, (0,) * 800, tuple(map(CellId, range(800))), runs, ())
    (block,) = Clusters(ON_CPU).split(batch, views.prepare(batch)).blocks
    assert block.sizes == ((100, 100),) * 8


def test_rows_that_went_together_stay_together_and_new_rows_are_placed() -> None:
    views, clusters = Views(4000), Clusters(EAGER)
    documents(views, number=3, shared=10, own=100, fields=4)
    for rows, first_cell in (([0, 1, 10, 11, 20, 21], 320), ([0, 10, 11, 21], 330), ([0, 10, 11, 12, 21, 22], 340)):
        batch = branches(rows, first_cell=first_cell)
        blocks = clusters.split(batch, visibility := views.prepare(batch)).blocks
        views.commit(batch, visibility)
        expected: dict[int, set[int]] = {}
        for token, row in enumerate(rows):
            expected.setdefault(row // 10, set()).add(token)
        assert tokens_together(blocks) == {frozenset(tokens) for tokens in expected.values()}


def spread_out(split: Split, visibility: Visibility, *, window: int | None) -> np.ndarray:
    """What a split lets through, as one table: (tokens, width). Fails if a token is in no block or in two."""
    table = np.zeros_like(visibility.order, dtype=bool)
    times = np.zeros(len(visibility.order), dtype=int)
    for block in split.blocks:
        attends = attended_in(block, visibility, window=window)
        assert attends.any(axis=2).all(), "a query that attends to nothing gives NaN"
        for line, (tokens, cells) in enumerate(block.sizes):
            own = block.tokens[line, :tokens]
            assert split.shared is None or not set(range(*split.shared.indices(10**6))) & set(block.cells[line, :cells])
            table[own[:, None], block.cells[line, :cells]] = attends[line, :tokens, :cells]
            times[own] += 1
    assert (times == 1).all()
    if split.shared is not None:
        table[:, split.shared] = True
    return table


@given(st.integers(0, 10**9), st.sampled_from([APART, EAGER]), st.sampled_from([None, 1, 5]))
@settings(max_examples=40)
def test_blocks_let_through_exactly_what_the_whole_mask_lets_through(
    seed: int, costs: Costs, window: int | None
) -> None:
    costs = replace(costs, shared=None if window else 2, multiple=1 + seed % 16)
    walk, views, clusters = walk_of(seed), Views(320, multiple=costs.multiple), Clusters(costs)
    for _ in range(12):
        batch = walk.step()
        visibility = views.prepare(batch)
        if (split := clusters.split(batch, visibility)).blocks:
            expected = attended(visibility, window=window)
            assert (spread_out(split, visibility, window=window) == expected).all()
            some = np.arange(seed % 3, len(batch), 1 + seed % 4)
            fewer = split.of_tokens(some, count=len(batch))
            assert (spread_out(fewer, visibility.of(some), window=window) == expected[some]).all()
        views.commit(batch, visibility)


def test_a_block_gathers_no_more_than_stays_in_the_cache() -> None:
    views = Views(1000)
    documents(views, number=6, shared=10, own=100, fields=4)
    batch = branches([10 * document + field for document in range(6) for field in range(2)], first_cell=700)
    for most, sizes in ((1_000, [6]), (300, [2, 2, 2]), (1, [1] * 6)):
        costs = Costs(small_step=0, reading=0, per_cell=1, per_cluster=50, per_block=500, at_once=most)
        assert [len(block.sizes) for block in Clusters(costs).split(batch, views.prepare(batch)).blocks] == sizes


def four_fields_of_three_documents() -> tuple[StepBatch, Visibility, tuple[torch.Tensor, ...]]:
    """A step with a token of each field, what it sees, and random queries, keys and values."""
    views, noise = Views(1000), torch.Generator().manual_seed(0)
    documents(views, number=3, shared=40, own=100, fields=4)
    batch = branches([10 * document + field for document in range(3) for field in range(4)], first_cell=500)
    visibility = views.prepare(batch)
    query = torch.randn(1, 4, len(batch), 8, generator=noise, dtype=torch.float64)
    key, value = torch.randn(2, 1, 2, visibility.width, 8, generator=noise, dtype=torch.float64)
    return batch, visibility, (query, key, value)


@pytest.mark.parametrize("options", [{}, {"softcap": 0.7}, {"sinks": torch.tensor([0.3, -1.0, 2.0, 0.1])}])
def test_attending_to_shared_cells_once_changes_no_result(options: dict[str, Any]) -> None:
    batch, visibility, tensors = four_fields_of_three_documents()
    found = []
    for shared in (20, None):
        split = Clusters(replace(EAGER, shared=shared)).split(batch, visibility)
        assert split.blocks and split.shared == (slice(0, 40) if shared else None)
        masks = step_masks(split, visibility, [None], dtype=torch.float64, device=torch.device("cpu"))
        found.append(attend(masks, None, *tensors, **{"scaling": None, **options}))
    torch.testing.assert_close(found[0], found[1], atol=1e-12, rtol=0)


def attended_by(layer: int, masks: StepMasks, query: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    last = masks.last_of(layer)
    if last is None:
        return attend(masks, None, query, *others, scaling=None)
    return last.spread(attend(last.masks, None, query.index_select(2, last.wanted), *others, scaling=None)[None])[0]


def test_the_last_layer_attends_for_the_tokens_alone_that_are_read() -> None:
    batch, visibility, tensors = four_fields_of_three_documents()
    for split in (Split(), Clusters(EAGER).split(batch, visibility)):
        found = {}
        for wanted in (None, (1, 2, 7)):
            masks = step_masks(
                split, visibility, [None, None], dtype=torch.float64, device=torch.device("cpu"), wanted=wanted
            )
            for layer in (0, 1):
                found[layer, wanted] = attended_by(layer, masks, *tensors)
        whole, last = found[1, None], found[1, (1, 2, 7)]
        assert (found[0, (1, 2, 7)] == whole).all()
        torch.testing.assert_close(last[[1, 2, 7]], whole[[1, 2, 7]], atol=1e-12, rtol=0)
        assert (np.flatnonzero(last.abs().sum((1, 2)).numpy()) == [1, 2, 7]).all()


def test_a_branch_whose_cells_lie_beyond_those_of_others_attends_to_its_own() -> None:
    views = Views(8000)
    documents(views, number=20, shared=50, own=300, fields=1)
    batch = branches([190], first_cell=6100)
    visibility = views.prepare(batch)
    (block,) = Clusters(ON_CPU).split(batch, visibility).blocks
    assert block.sizes == ((1, 351),) and visibility.width > 6000


def test_the_kernels_of_a_gpu_are_those_of_before_once_all_threads_have_left() -> None:
    first, second, preferred = ready_kernels(torch.device("cuda")), ready_kernels(torch.device("cuda")), []
    for act in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None), lambda: None):
        act()
        preferred.append(torch.backends.cuda.cudnn_sdp_enabled())
    second.__exit__(None, None, None)
    assert preferred == [False] * 4 and torch.backends.cuda.cudnn_sdp_enabled()
