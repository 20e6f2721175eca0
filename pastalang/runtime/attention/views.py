"""View rows as paths: which cells each branch sees, oldest first.

    row      the cells that a branch sees
    token    the cells of its row, what its run comes after, the run so far; the token itself is the last

A path says more than which cells are seen, because a sliding window is the last W cells of a path. A fork copies a
path and a join appends to it. What a step costs here grows with what its tokens see, and not with the memory: of many
documents at once, each sees little of it. Freeing a cell costs nothing, because a cell is only freed when no living row
sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.step import CellId, Edit, Empty, Follow, OfCells, OfRow, RowId, Show, StepBatch

Order: TypeAlias = NDArray[np.signedinteger[Any]]
Indexes: TypeAlias = NDArray[np.intp]
Path: TypeAlias = NDArray[np.intp]

_SHORT = 64  # cells of a row when it is made
_NOTHING: Path = np.zeros(0, dtype=np.intp)


class Visibility:
    """What the tokens of one step see. No token sees a cell at `width` or beyond.

    The tokens of a run have a path in common, and of the run's own `cells` each sees one more than the token before.
    `runs` has the number of each token's run, and `shown` how many of its run's cells it sees.
    """

    def __init__(
        self, before: Sequence[Path], cells: Sequence[Path], runs: Indexes, shown: Indexes, *, width: int
    ) -> None:  # fmt: skip
        self.width = width
        self._before, self._cells = before, cells
        self._runs, self._shown = runs, shown

    def __len__(self) -> int:
        return len(self._runs)

    def path(self, token: int) -> Path:
        """The cells that a token sees, itself last."""
        run = self._runs[token]
        own = self._cells[run][: self._shown[token]]
        before = self._before[run]
        return np.concatenate((before, own)) if len(before) else own

    def of(self, tokens: Indexes) -> Visibility:
        """What some of the tokens see."""
        return Visibility(self._before, self._cells, self._runs[tokens], self._shown[tokens], width=self.width)

    @cached_property
    def counts(self) -> Order:
        """How many cells each token sees, itself included: (tokens,)."""
        before = np.fromiter(map(len, self._before), dtype=np.intp, count=len(self._before))
        return before[self._runs] + self._shown

    @cached_property
    def order(self) -> Order:
        """(tokens, width): 0 for a cell that a token does not see, k > 0 for the k-th on its path."""
        order = np.zeros((len(self), self.width), dtype=np.int32)
        numbers = np.arange(1, self.width + 1, dtype=np.int32)
        sizes = np.bincount(self._runs, minlength=len(self._before))
        lone = np.flatnonzero(sizes[self._runs] == 1)
        paths = [self.path(token) for token in lone.tolist()]
        if paths:
            lengths = np.fromiter(map(len, paths), dtype=np.intp, count=len(paths))
            order[np.repeat(lone, lengths), np.concatenate(paths)] = np.concatenate([numbers[:n] for n in lengths])
        for run in np.flatnonzero(sizes > 1).tolist():
            tokens = np.flatnonzero(self._runs == run)
            before, own = self._before[run], self._cells[run]
            count = len(before)
            order[tokens[:, None], before] = numbers[:count]
            own_numbers = numbers[count : count + len(own)]
            order[tokens[:, None], own] = own_numbers * (own_numbers <= count + self._shown[tokens][:, None])
        return order


class Views:
    """The rows of all branches over `cells` cells. A row is made when a step first names it."""

    def __init__(self, cells: int, *, multiple: int = 1) -> None:
        """The width of a step is a `multiple`, if there are so many cells."""
        self._cells, self._multiple = cells, multiple
        self._paths: dict[RowId, _Row] = {}
        self._is_seen = np.zeros(cells, dtype=bool)  # all False between two calls

    def prepare(self, batch: StepBatch) -> Visibility:
        """Applies the edits of a step and returns what its tokens see."""
        for edit in batch.edits:
            self._edit(edit)
        cells: Path = np.array(batch.cells, dtype=np.intp)
        counts = [run.count for run in batch.runs]
        runs = np.repeat(np.arange(len(counts), dtype=np.intp), counts)
        starts = np.array([run.start for run in batch.runs], dtype=np.intp)
        shown = np.arange(1, len(cells) + 1, dtype=np.intp) - starts[runs]
        before: list[Path] = []
        own = [cells[run.start : run.end] for run in batch.runs]
        so_far = Visibility(before, own, runs, shown, width=0)
        width = int(cells.max(initial=-1)) + 1
        for run in batch.runs:
            row = self._row(run.row)
            path, width = row.path, max(width, row.width)
            for after in run.after:
                match after:
                    case OfRow(other):
                        source, beyond = self._row(other).path, self._row(other).width
                    case OfCells(shown_cells):
                        source = np.array(shown_cells, dtype=np.intp)
                        beyond = int(source.max(initial=-1)) + 1
                    case _:
                        source, beyond = so_far.path(after), 0
                path, width = self._joined(path, source), max(width, beyond)
            before.append(path)
        rounded = -(-width // self._multiple) * self._multiple
        return Visibility(before, own, runs, shown, width=max(width, min(rounded, self._cells)))

    def commit(self, batch: StepBatch, visibility: Visibility) -> None:
        """Ends the step: rows see what was fed for them, and captured rows what their token saw."""
        for run in batch.runs:
            if not run.keep:
                continue
            if run.count == 1 and not run.after:
                self._row(run.row).append(batch.cells[run.start])
            else:
                self._paths[run.row] = _Row(visibility.path(run.end - 1), visibility.width)
        for capture in batch.captures:
            self._paths[capture.row] = _Row(visibility.path(capture.token), visibility.width)

    def seen_by(self, row: RowId) -> tuple[CellId, ...]:
        """The cells that a row sees, in order."""
        return tuple(CellId(cell) for cell in self._row(row).path.tolist())

    def _row(self, row: RowId) -> _Row:
        found = self._paths.get(row)
        if found is None:
            found = self._paths[row] = _Row(_NOTHING, 0)
        return found

    def _edit(self, edit: Edit) -> None:
        match edit:
            case Empty(row):
                self._paths[row] = _Row(_NOTHING, 0)
            case Follow(row, source):
                other = self._row(source)
                self._append(row, other.path, other.width)
            case Show(row, cells):
                shown = np.array(cells, dtype=np.intp)
                self._append(row, shown, int(shown.max(initial=-1)) + 1)
            case _:
                assert_never(edit)

    def _append(self, row: RowId, source: Path, width: int) -> None:
        known = self._row(row)
        self._paths[row] = _Row(self._joined(known.path, source), max(known.width, width))

    def _joined(self, path: Path, source: Path) -> Path:
        """The path, and after it the cells that only `source` has, in its order."""
        if not len(path) or not len(source):
            return path if len(path) else source
        self._is_seen[path] = True
        added = source[~self._is_seen[source]]
        self._is_seen[path] = False
        return np.concatenate((path, added)) if len(added) else path


class _Row:
    """The path of a branch, which sees no cell at or beyond `width`. What was read of it stays as it is."""

    __slots__ = ("_cells", "_count", "width")

    def __init__(self, path: Path, width: int) -> None:
        self._cells, self._count, self.width = path, len(path), width

    @property
    def path(self) -> Path:
        return self._cells[: self._count]

    def append(self, cell: int) -> None:
        if self._count == len(self._cells):
            self._cells = np.concatenate((self._cells, np.empty(max(_SHORT, self._count // 2), dtype=np.intp)))
        self._cells[self._count] = cell
        self._count += 1
        self.width = max(self.width, cell + 1)
