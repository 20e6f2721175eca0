"""The slow and obvious way to say what each token sees: a list of tokens instead of paths of cells.

Tests compare `Views` with it, and models without a KV cache (the reference, the fakes) build on it. It keeps every
token forever and compares tokens by identity, so a reused cell cannot confuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pastalang.runtime.step import CellId, Edit, Empty, Follow, OfCells, OfRow, RowId, Show, StepBatch, TokenId


@dataclass(frozen=True, eq=False, repr=False)
class FedToken:
    """A token that a step fed. `sees` is its path, oldest first, without itself."""

    token: TokenId
    position: int
    cell: CellId
    sees: tuple[FedToken, ...]

    def __repr__(self) -> str:
        return f"Fed(token={self.token}, position={self.position}, cell={self.cell}, sees {len(self.sees)})"

    @property
    def path(self) -> tuple[FedToken, ...]:
        return (*self.sees, self)

    def may_see(self, key: FedToken, *, window: int | None = None) -> bool:
        """Whether this token attends to `key`. With a window it attends to the last `window` tokens of its path."""
        path = self.path if window is None else self.path[-window:]
        return any(key is seen for seen in path)


class PlainViews:
    """Keeps as tokens what `Views` keeps as cells."""

    def __init__(self) -> None:
        self._rows: dict[RowId, tuple[FedToken, ...]] = {}
        self._in_cell: dict[CellId, FedToken] = {}

    def feed(self, batch: StepBatch) -> tuple[FedToken, ...]:
        """Feeds a step. Returns its tokens, each with its path."""
        batch.check()
        for edit in batch.edits:
            self._edit(edit)
        fed = self._run(batch)
        self._in_cell.update({token.cell: token for token in fed})
        for run in batch.runs:
            if run.keep:
                self._rows[run.row] = fed[run.end - 1].path
        for capture in batch.captures:
            self._rows[capture.row] = fed[capture.token].path
        return fed

    def seen_by(self, row: RowId) -> tuple[FedToken, ...]:
        return self._rows.get(row, ())

    def _edit(self, edit: Edit) -> None:
        match edit:
            case Empty(row):
                self._rows[row] = ()
            case Follow(row, source):
                self._rows[row] = joined(self.seen_by(row), self.seen_by(source))
            case Show(row, cells):
                self._rows[row] = joined(self.seen_by(row), tuple(self._in_cell[cell] for cell in cells))
            case _:
                assert_never(edit)

    def _run(self, batch: StepBatch) -> tuple[FedToken, ...]:
        fed: list[FedToken] = []
        for run in batch.runs:
            path = self.seen_by(run.row)
            for after in run.after:
                match after:
                    case OfRow(row):
                        path = joined(path, self.seen_by(row))
                    case OfCells(cells):
                        path = joined(path, tuple(self._in_cell[cell] for cell in cells))
                    case _:
                        path = joined(path, fed[after].path)
            for index in range(run.start, run.end):
                fed.append(FedToken(batch.tokens[index], batch.positions[index], batch.cells[index], path))
                path = fed[-1].path
        return tuple(fed)


def joined(path: tuple[FedToken, ...], more: tuple[FedToken, ...]) -> tuple[FedToken, ...]:
    """`path`, then the tokens that only `more` has, in its order."""
    known = set(map(id, path))
    return (*path, *(token for token in more if id(token) not in known))
