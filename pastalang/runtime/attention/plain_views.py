"""Who sees whom, the slow and obvious way: steps come in, for each token the list of tokens that it sees goes out.

The oracle of the tests, and what the models without a memory (the reference, the fakes) are made of. Tokens are
kept for ever and by their own identity, so a reused cell cannot deceive it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pastalang.runtime.step import CellId, Edit, Empty, Follow, OfCells, OfRow, RowId, Show, StepBatch, TokenId


@dataclass(frozen=True, eq=False, repr=False)
class FedToken:
    """A token that was fed: `sees` is its path, oldest first, itself left out."""

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
        """Whether this token attends to `key`; with a window, only to the last `window` of its path."""
        path = self.path if window is None else self.path[-window:]
        return any(key is seen for seen in path)


class PlainViews:
    """What `Views` keeps in a table, as lists."""

    def __init__(self) -> None:
        self._rows: dict[RowId, tuple[FedToken, ...]] = {}
        self._in_cell: dict[CellId, FedToken] = {}

    def feed(self, batch: StepBatch) -> tuple[FedToken, ...]:
        """The tokens of the step, with what they see."""
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
    """`path`, then what only `more` has, in its order."""
    known = set(map(id, path))
    return (*path, *(token for token in more if id(token) not in known))
