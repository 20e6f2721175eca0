"""View rows as one table: which cells each branch sees, and in which order.

    order[token, cell] = 0      the token does not see the cell
                       = k > 0  the cell is the k-th on the token's path; the token itself is the last

Between steps, a row of the table says the same of a branch. The table keeps the order, not only yes or no, because a
sliding window is the last W cells of a path. A fork copies a row and a join appends to one. Freeing a cell costs
nothing, because a cell is only freed when no living row sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.step import CellId, Edit, Empty, Follow, OfCells, OfRow, RowId, Run, Show, StepBatch

Order: TypeAlias = NDArray[np.signedinteger[Any]]
Indexes: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Visibility:
    """What the tokens of one step see. `order` is (tokens, width); no token sees a cell at `width` or beyond."""

    order: Order

    @property
    def width(self) -> int:
        return int(self.order.shape[1])

    @property
    def counts(self) -> Order:
        """How many cells each token sees, itself included: (tokens,)."""
        counts: Order = self.order.max(axis=1)
        return counts


class Views:
    """The rows of all branches over `cells` cells. A row is made when a step first names it."""

    def __init__(self, cells: int) -> None:
        # Half the bytes where they suffice: a step of many requests copies a row of the table for each token.
        self._table: Order = np.zeros((16, cells), dtype=np.int16 if cells <= np.iinfo(np.int16).max else np.int32)
        self._counts = np.zeros(16, dtype=np.int32)  # how many cells a row sees
        self._widths = np.zeros(16, dtype=np.int64)  # a row sees no cell at or beyond its width

    def prepare(self, batch: StepBatch) -> Visibility:
        """Applies the edits of a step and returns what its tokens see."""
        for edit in batch.edits:
            self._edit(edit)
        rows: Indexes = np.array([run.row for run in batch.runs], dtype=np.intp)
        self._grow(int(rows.max(initial=0)))
        cells: Indexes = np.array(batch.cells, dtype=np.intp)
        width = max(int(cells.max(initial=0)) + 1, int(self._widths[rows].max(initial=0)), self._width_of_afters(batch))
        order = self._table[rows, :width]
        if len(batch.runs) < len(batch):
            order = np.repeat(order, [run.count for run in batch.runs], axis=0)
        self._add_lone_tokens(order, batch, rows, cells)
        for run in batch.runs:
            if run.count > 1 or run.after:
                self._add_run(order, run, cells)
        return Visibility(order)

    def commit(self, batch: StepBatch, visibility: Visibility) -> None:
        """Ends the step: rows see what was fed for them, and captured rows what their token saw."""
        lone = [run for run in batch.runs if run.keep and run.count == 1 and not run.after]
        rows = np.array([run.row for run in lone], dtype=np.intp)
        cells = np.array([batch.cells[run.start] for run in lone], dtype=np.intp)
        self._counts[rows] += 1
        self._table[rows, cells] = self._counts[rows]
        self._widths[rows] = np.maximum(self._widths[rows], cells + 1)
        for run in batch.runs:
            if run.keep and (run.count > 1 or run.after):
                self._write(run.row, visibility.order[run.end - 1])
        for capture in batch.captures:
            self._write(capture.row, visibility.order[capture.token])

    def seen_by(self, row: RowId) -> tuple[CellId, ...]:
        """The cells that a row sees, in order."""
        self._grow(row)
        cells = np.flatnonzero(self._table[row])
        return tuple(CellId(int(cell)) for cell in cells[np.argsort(self._table[row, cells])])

    def _edit(self, edit: Edit) -> None:
        self._grow(edit.row)
        match edit:
            case Empty(row):
                self._table[row, : self._widths[row]] = 0
                self._counts[row] = self._widths[row] = 0
            case Follow(row, source):
                self._grow(source)
                self._append(row, self._table[source, : self._widths[source]])
            case Show(row, cells):
                self._append(row, _in_order(cells))
            case _:
                assert_never(edit)

    def _append(self, row: RowId, source: Order) -> None:
        width = max(int(self._widths[row]), len(source))
        self._counts[row] = merge(self._table[row, : len(source)], source, int(self._counts[row]))
        self._widths[row] = width

    def _write(self, row: RowId, order: Order) -> None:
        self._grow(row)
        width = max(int(self._widths[row]), len(order))
        self._table[row, : len(order)] = order
        self._table[row, len(order) : width] = 0
        self._counts[row] = order.max()
        self._widths[row] = len(order)

    def _width_of_afters(self, batch: StepBatch) -> int:
        width = 0
        for run in batch.runs:
            for after in run.after:
                match after:
                    case OfRow(row):
                        self._grow(row)
                        width = max(width, int(self._widths[row]))
                    case OfCells(cells):
                        width = max(width, max(cells, default=-1) + 1)
        return width

    def _add_lone_tokens(self, order: Order, batch: StepBatch, rows: Indexes, cells: Indexes) -> None:
        lone = [index for index, run in enumerate(batch.runs) if run.count == 1 and not run.after]
        at = np.array([batch.runs[index].start for index in lone], dtype=np.intp)
        order[at, cells[at]] = self._counts[rows[lone]] + 1

    def _add_run(self, order: Order, run: Run, cells: Indexes) -> None:
        count = int(self._counts[run.row])
        tokens = order[run.start : run.end]
        if run.after:
            base = tokens[0]
            for after in run.after:
                match after:
                    case OfRow(row):
                        source = self._table[row, : len(base)]
                    case OfCells(cells_shown):
                        source = _in_order(cells_shown)
                    case _:
                        source = order[after]
                count = merge(base[: len(source)], source, count)
            tokens[1:] = base
        own = cells[run.start : run.end]
        if run.count == 1:
            tokens[0, own] = count + 1
            return
        numbers = np.arange(count + 1, count + 1 + run.count, dtype=np.int32)
        tokens[:, own] = np.tril(np.broadcast_to(numbers, (run.count, run.count)))

    def _grow(self, row: int) -> None:
        rows, cells = self._table.shape
        if row < rows:
            return
        more = max(rows, row + 1 - rows)
        self._table = np.concatenate([self._table, np.zeros((more, cells), dtype=self._table.dtype)])
        self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int32)])
        self._widths = np.concatenate([self._widths, np.zeros(more, dtype=np.int64)])


def _in_order(cells: Sequence[CellId]) -> Order:
    """A path of these cells alone, as narrow as possible."""
    order = np.zeros(max(cells, default=-1) + 1, dtype=np.int32)
    order[np.array(cells, dtype=np.intp)] = np.arange(1, len(cells) + 1)
    return order


def merge(base: Order, source: Order, count: int) -> int:
    """Appends to `base`, in place and in order, the cells that only `source` sees.

    `base` sees `count` cells; returns how many it sees afterwards.
    """
    if count == 0:
        base[:] = source
        return int(source.max(initial=0))
    added = np.flatnonzero((source > 0) & (base == 0))
    base[added[np.argsort(source[added])]] = np.arange(count + 1, count + 1 + len(added), dtype=np.int32)
    return count + len(added)
