"""Groups the tokens of a step that see nearly the same cells, so that attention skips the rest.

Attention costs tokens x cells, whether a token sees a cell or not. Branches of different documents share little, and
a token of a prompt sees half of it on average, so attending with all tokens to all cells would mostly be waste.

    stretch    consecutive tokens of one run
    cluster    stretches that see nearly the same; it attends to every cell that one of its tokens sees
    block      clusters of about the same size, padded; one block is one attention call
    shared     cells that all tokens see, such as common instructions: one more call, of all tokens

A small step is not split at all, unless it sees few of the cells below its width: an engine keeps the prompts of
earlier requests, so the cells of the next one lie beyond thousands that it does not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pastalang.runtime.attention.views import Indexes, Path, Visibility
from pastalang.runtime.step import RowId, Run, StepBatch


@dataclass(frozen=True, slots=True)
class Costs:
    """What attention costs, in units of one token that attends to one cell. The defaults were measured on a CPU.

    Steps that cost less than `small_step` in one piece are never split. A run of more than `stretch` tokens is cut.
    """

    small_step: int = 8_192
    reading: int = 5  # a cell from memory, if all below the width are read
    per_cell: int = 5  # for gathering its keys and values
    per_cluster: int = 400
    per_block: int = 2_000
    stretch: int = 128
    shared: int | None = 16  # the fewest cells that are worth a call of all tokens; None: it is never made
    at_once: int = 1_024  # cells of a block: gathered keys and values that stay in the cache until they are used
    multiple: int = 1  # of which the cells of a call are one: kernels of a GPU copy masks of other widths

    def of(self, clusters: int, tokens: int, cells: int) -> int:
        """The cost of a block whose clusters are padded to so many tokens and cells."""
        return self.per_block + clusters * (self.per_cluster + cells * (self.per_cell + tokens))

    def of_whole(self, tokens: int, cells: int) -> int:
        """The cost of one call of all tokens."""
        return cells * (self.reading + tokens)

    def is_worth_a_call(self, shared: slice) -> bool:
        """Whether a single cluster had better attend to these cells in a call of their own than gather them."""
        return self.per_cell * int(shared.stop - shared.start) > 2 * self.per_block

    def of_shared(self, tokens: int, cells: int) -> int:
        """The cost of a call of all tokens, and of adding its results to those of the blocks."""
        return 2 * self.per_block + cells * tokens


ON_CPU = Costs()
# A GPU wastes cheaply, and each call is expensive there. But few units of it look through the cells of a single call:
# on an H200, 256 tokens of 32 documents took nearly as long in one as 1,024 of 128 apart.
ON_GPU = Costs(small_step=1 << 20, per_block=1 << 17, stretch=1 << 12, shared=None, at_once=1 << 30, multiple=16)


@dataclass(frozen=True, slots=True)
class Split:
    """Every token attends to the `shared` cells, and in its block to the others that it sees.

    Without blocks there is one call: all tokens attend to all cells below the width.
    """

    blocks: tuple[Block, ...] = ()
    shared: slice | None = None

    def of_tokens(self, tokens: Indexes, *, count: int) -> Split:
        """The same for some of the `count` tokens of a step, which are numbered anew. A block may become empty."""
        number = np.full(count, -1, dtype=np.intp)
        number[tokens] = np.arange(len(tokens))
        return Split(tuple(block for each in self.blocks if (block := each.of_tokens(number))), self.shared)


class Clusters:
    """Splits steps into blocks. Remembers which rows were clustered, because that rarely changes between steps."""

    def __init__(self, costs: Costs = ON_CPU) -> None:
        self._costs = costs
        self._cluster_of: dict[RowId, int] = {}
        self._stale_below = 0  # rows: with fewer left, other clusters would be better
        self._stale_above = 0  # width: beyond it, what the rows share matters less

    def split(self, batch: StepBatch, visibility: Visibility) -> Split:
        whole = self._costs.of_whole(len(batch), visibility.width)
        if whole < self._costs.small_step:
            return Split()
        stretches = [stretch for run in batch.runs for stretch in _cut(run, self._costs.stretch)]
        whole_paths = paths = [visibility.path(stretch.end - 1) for stretch in stretches]
        shared = None if self._costs.shared is None else _shared(batch, stretches, visibility, self._costs.shared)
        if shared is not None:
            paths = [path[(path < shared.start) | (path >= shared.stop)] for path in paths]
        groups = list(self._groups(batch, stretches, visibility.width, paths))
        if shared is not None and len(groups) == 1 and not self._costs.is_worth_a_call(shared):
            paths, shared = whole_paths, None
        blocks = tuple(_blocks([_cluster(stretches, group, paths) for group in groups], self._costs))
        apart = sum(block.cost(self._costs) for block in blocks)
        if shared is not None:
            apart += self._costs.of_shared(len(batch), shared.stop - shared.start)
        return Split(blocks, shared) if apart < whole else Split()

    def _groups(
        self, batch: StepBatch, stretches: Sequence[_Stretch], width: int, paths: Sequence[Path]
    ) -> Iterable[Sequence[int]]:
        rows = [run.row for run in batch.runs]
        feeds_single_tokens = len(batch.runs) == len(batch)
        is_fresh = len(rows) >= self._stale_below and width <= self._stale_above
        if feeds_single_tokens and is_fresh and all(row in self._cluster_of for row in rows):
            known: dict[int, list[int]] = {}
            for index, row in enumerate(rows):
                known.setdefault(self._cluster_of[row], []).append(index)
            return known.values()
        groups = _group(stretches, width, paths, self._costs)
        if feeds_single_tokens:
            self._cluster_of = {rows[index]: at for at, group in enumerate(groups) for index in group}
            self._stale_below, self._stale_above = len(rows) // 2, width + width // 6
        return groups


@dataclass(frozen=True, slots=True)
class Block:
    """`tokens` (clusters, m) and `cells` (clusters, n), padded with 0 after each cluster's `sizes` (m, n)."""

    tokens: Indexes
    cells: Indexes
    sizes: tuple[tuple[int, int], ...]
    multiple: int = 1

    def of_tokens(self, number: Indexes) -> Block | None:
        """The block with the tokens that have a number; None if no token has one."""
        clusters = [
            _Cluster(tokens, line[:cells])
            for each, line, (most, cells) in zip(number[self.tokens], self.cells, self.sizes, strict=True)
            if len(tokens := each[:most][each[:most] >= 0])
        ]
        return _block(clusters, self.multiple) if clusters else None

    def cost(self, costs: Costs) -> int:
        clusters, tokens = self.tokens.shape
        return costs.of(clusters, tokens, self.cells.shape[1])


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Consecutive tokens of a run. The last one sees everything that the others see."""

    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class _Cluster:
    tokens: Indexes
    cells: Indexes


def _cut(run: Run, longest: int) -> Iterable[_Stretch]:
    """Stretches of about the same length."""
    pieces = -(-run.count // longest)
    borders = [run.start + run.count * at // pieces for at in range(pieces + 1)]
    return (_Stretch(start, end) for start, end in pairwise(borders))


def _shared(batch: StepBatch, stretches: Sequence[_Stretch], visibility: Visibility, fewest: int) -> slice | None:
    """The most consecutive cells of earlier steps that all tokens see, if they are not too few.

    A stretch's first token sees least. Cells of this step stay apart, so that no token is left without any.
    """
    first = [visibility.path(stretch.start) for stretch in stretches]
    cells = np.setdiff1d(np.flatnonzero(_seen_by(first, visibility.width) == len(first)), batch.cells)
    if len(cells) < fewest:
        return None
    borders = [0, *(np.flatnonzero(np.diff(cells) > 1) + 1).tolist(), len(cells)]
    start, end = max(pairwise(borders), key=lambda pair: pair[1] - pair[0])
    return slice(int(cells[start]), int(cells[end - 1]) + 1) if end - start >= fewest else None


def _seen_by(paths: Sequence[Path], width: int) -> Indexes:
    """How many of the paths hold each cell."""
    return np.bincount(np.concatenate(paths), minlength=width)


def _group(stretches: Sequence[_Stretch], width: int, paths: Sequence[Path], costs: Costs) -> list[list[int]]:
    """Groups neighbours greedily: a stretch opens a new group where joining the last one would cost more."""
    groups: list[list[int]] = []
    group_of = np.zeros(width, dtype=np.intp)  # the last group, counted from 1, that a cell is seen in
    other, tokens = 0, 0
    for index in _relatives_together(width, paths):
        count, seen = stretches[index].count, paths[index]
        new = seen[group_of[seen] != len(groups)] if groups else seen
        own, cells = len(seen), other + len(new)
        saved = costs.per_cluster + costs.per_cell * (own + other - cells)
        wasted = (tokens + count) * cells - tokens * other - count * own
        # The saving is made once per cluster, so it is shared among the tokens of the group. Comparing it with the
        # waste of the new stretch alone would make clusters far too large.
        if groups and wasted * tokens <= 2 * saved:
            groups[-1].append(index)
            other, tokens = cells, tokens + count
        else:
            groups.append([index])
            new, other, tokens = seen, own, count
        group_of[new] = len(groups)
    return groups


def _relatives_together(width: int, paths: Sequence[Path]) -> Sequence[int]:
    """The stretches ordered by the first cell of each path that not all of them see.

    Stretches of one document have that cell in common, so they become neighbours.
    """
    is_own = _seen_by(paths, width) < len(paths)
    own = [path[is_own[path]][:1] for path in paths]
    order: list[int] = np.argsort([first[0] if len(first) else 0 for first in own], kind="stable").tolist()
    return order


def _cluster(stretches: Sequence[_Stretch], group: Sequence[int], paths: Sequence[Path]) -> _Cluster:
    tokens = np.concatenate([np.arange(stretches[index].start, stretches[index].end) for index in group])
    cells = np.sort(np.concatenate([paths[index] for index in group]))
    return _Cluster(tokens, cells[np.diff(cells, prepend=-1) > 0])


def _blocks(clusters: Sequence[_Cluster], costs: Costs) -> Iterable[Block]:
    """Puts clusters of similar size into one block as long as padding costs less than another call."""
    block: list[_Cluster] = []
    most = 0  # cells of the widest cluster in the block; the last cluster has the most tokens
    for cluster in sorted(clusters, key=lambda each: (len(each.tokens), len(each.cells))):
        tokens, cells = len(cluster.tokens), len(cluster.cells)
        if block:
            apart = costs.of(len(block), len(block[-1].tokens), most) + costs.of(1, tokens, cells)
            joined = costs.of(len(block) + 1, tokens, max(most, cells))
            if joined > apart or (len(block) + 1) * max(most, cells) > costs.at_once:
                yield _block(block, costs.multiple)
                block, most = [], 0
        block.append(cluster)
        most = max(most, cells)
    yield _block(block, costs.multiple)


def _block(clusters: Sequence[_Cluster], multiple: int) -> Block:
    tokens = np.zeros((len(clusters), max(len(each.tokens) for each in clusters)), dtype=np.intp)
    widest = max(len(each.cells) for each in clusters)
    cells = np.zeros((len(clusters), -(-widest // multiple) * multiple), dtype=np.intp)
    for line, each in enumerate(clusters):
        tokens[line, : len(each.tokens)] = each.tokens
        cells[line, : len(each.cells)] = each.cells
    return Block(tokens, cells, tuple((len(each.tokens), len(each.cells)) for each in clusters), multiple)
