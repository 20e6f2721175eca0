"""Which tokens of a step attend together: what they see comes in, blocks of tokens and cells go out.

Attention costs tokens x cells, seen or not. Branches of different documents share little, so all tokens against all
cells would be mostly waste. Runs that see much the same form a cluster, which attends to the cells that any of its
tokens sees; clusters of about the same size form a block, which is one call. A small step is one block of everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.batch import RowId, StepBatch
from pastalang.runtime.layout.views import Indexes, Sight

_PADDING = 1.25  # how much larger than its clusters a block may be


@dataclass(frozen=True, slots=True)
class Costs:
    """What attention costs, in units of one token attending to one cell; as measured on a CPU.

    A step of fewer than `small_step` pairs is not looked at.
    """

    small_step: int = 16_384
    per_cell: int = 5  # to gather its keys and values
    per_cluster: int = 400
    per_block: int = 2_000


ON_CPU = Costs()
ON_GPU = Costs(small_step=1 << 22, per_block=1 << 18)  # calls are dear there, waste is cheap


@dataclass(frozen=True, slots=True)
class Block:
    """`tokens` (clusters, m) and `cells` (clusters, n), filled up with 0 behind each cluster's `sizes` (m, n)."""

    tokens: Indexes
    cells: Indexes
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Cluster:
    runs: tuple[int, ...]
    tokens: Indexes
    cells: Indexes

    @property
    def pairs(self) -> int:
        return len(self.tokens) * len(self.cells)


class Clusters:
    """Remembers which rows went together, because they go on together for many steps."""

    def __init__(self, costs: Costs = ON_CPU) -> None:
        self._costs = costs
        self._cluster_of: dict[RowId, int] = {}
        self._stale_below = 0  # rows: so few are left that others would go together now
        self._stale_above = 0  # width: so much was fed since that what they share matters less

    def blocks(self, batch: StepBatch, sight: Sight) -> tuple[Block, ...]:
        """No block at all means: everything attends to everything below the width, under its mask."""
        whole = len(batch) * sight.width
        if whole < self._costs.small_step or len(batch.runs) == 1:
            return ()
        sees = sight.order[[run.end - 1 for run in batch.runs]] > 0  # the last token of a run sees the most
        clusters = [_cluster(batch, runs, sees) for runs in self._groups(batch, sight, sees)]
        blocks = tuple(_blocks(clusters))
        return blocks if _cost(blocks, self._costs) < whole else ()

    def _groups(self, batch: StepBatch, sight: Sight, sees: NDArray[np.bool_]) -> Iterable[Sequence[int]]:
        rows = [run.row for run in batch.runs]
        are_lone = len(batch.runs) == len(batch)
        is_fresh = len(rows) >= self._stale_below and sight.width <= self._stale_above
        if are_lone and is_fresh and all(row in self._cluster_of for row in rows):
            known: dict[int, list[int]] = {}
            for index, row in enumerate(rows):
                known.setdefault(self._cluster_of[row], []).append(index)
            return known.values()
        groups = _group(batch, sight, sees, self._costs)
        if are_lone:
            self._cluster_of = {rows[index]: at for at, runs in enumerate(groups) for index in runs}
            self._stale_below, self._stale_above = len(rows) // 2, sight.width + sight.width // 6
        return groups


def _group(batch: StepBatch, sight: Sight, sees: NDArray[np.bool_], costs: Costs) -> list[list[int]]:
    """Walk through the runs, relatives side by side, and open a group where going on would cost more."""
    groups: list[list[int]] = []
    union, tokens = np.zeros(sight.width, dtype=bool), 0
    for index in _relatives_together(batch, sight, sees):
        count, seen = batch.runs[index].count, sees[index]
        both = union | seen
        cells, own, other = (int(np.count_nonzero(each)) for each in (both, seen, union))
        saved = costs.per_cluster + costs.per_cell * (own + other - cells)
        wasted = (tokens + count) * cells - tokens * other - count * own
        # What is saved once per cluster is shared by its tokens: going on while it is worth it for the last one alone
        # would make clusters far too large, since the next ones could have begun a cluster of their own.
        if groups and wasted * tokens <= 2 * saved:
            groups[-1].append(index)
            union, tokens = both, tokens + count
        else:
            groups.append([index])
            union, tokens = seen.copy(), count
    return groups


def _relatives_together(batch: StepBatch, sight: Sight, sees: NDArray[np.bool_]) -> Sequence[int]:
    """By the first cell of each path that not all runs see: those of one document have it in common."""
    last = sight.order[[run.end - 1 for run in batch.runs]]
    own = np.where(sees & ~sees.all(axis=0), last, np.iinfo(np.int32).max)
    order: list[int] = np.argsort(own.argmin(axis=1), kind="stable").tolist()
    return order


def _cluster(batch: StepBatch, runs: Sequence[int], sees: NDArray[np.bool_]) -> _Cluster:
    tokens = [token for index in runs for token in range(batch.runs[index].start, batch.runs[index].end)]
    return _Cluster(tuple(runs), np.array(tokens, dtype=np.intp), np.flatnonzero(sees[list(runs)].any(axis=0)))


def _blocks(clusters: Sequence[_Cluster]) -> Iterable[Block]:
    """Clusters of like size side by side, as long as filling them up costs little."""
    block: list[_Cluster] = []
    for cluster in sorted(clusters, key=lambda each: (len(each.tokens), len(each.cells))):
        if block and _padded([*block, cluster]) > _PADDING * sum(each.pairs for each in [*block, cluster]):
            yield _block(block)
            block = []
        block.append(cluster)
    yield _block(block)


def _block(clusters: Sequence[_Cluster]) -> Block:
    tokens = np.zeros((len(clusters), max(len(each.tokens) for each in clusters)), dtype=np.intp)
    cells = np.zeros((len(clusters), max(len(each.cells) for each in clusters)), dtype=np.intp)
    for line, each in enumerate(clusters):
        tokens[line, : len(each.tokens)] = each.tokens
        cells[line, : len(each.cells)] = each.cells
    return Block(tokens, cells, tuple((len(each.tokens), len(each.cells)) for each in clusters))


def _padded(clusters: Sequence[_Cluster]) -> int:
    return len(clusters) * max(len(each.tokens) for each in clusters) * max(len(each.cells) for each in clusters)


def _cost(blocks: Sequence[Block], costs: Costs) -> int:
    return sum(
        costs.per_block
        + block.cells.size * (costs.per_cell + block.tokens.shape[1])
        + costs.per_cluster * len(block.sizes)
        for block in blocks
    )
