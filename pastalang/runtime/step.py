"""One step: which tokens the model is fed, what each token sees, and which logits are wanted. Plain integers only.

    scheduler ── StepBatch ──> model.forward ── logits, one row per wanted token

Every live branch owns a *view row*: the cells that it sees, in the order in which it came to see them. A step edits
rows and feeds runs of tokens, and the rows then also see what was fed:

    edits     before the step    a new row, cells that a join adds, cells kept from an earlier request
    runs      during the step    a token sees its row, what its run comes `after`, the run so far, and itself
    captures  after the step     a fork: a row that sees exactly what one of the fed tokens sees

Visibility inside a step never depends on the order of the runs of different rows, only on `after`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NewType, TypeAlias

TokenId = NewType("TokenId", int)
CellId = NewType("CellId", int)
RowId = NewType("RowId", int)


@dataclass(frozen=True, slots=True)
class Empty:
    """The row sees nothing. This is the first edit of every row that is not captured."""

    row: RowId


@dataclass(frozen=True, slots=True)
class Follow:
    """A join: after what it sees already, the row sees everything that `source` sees, in that order."""

    row: RowId
    source: RowId


@dataclass(frozen=True, slots=True)
class Show:
    """After what it sees already, the row sees these cells, in this order.

    Used for a prefix kept from an earlier request, accepted drafts, and earlier values of a lock-step group.
    """

    row: RowId
    cells: tuple[CellId, ...]


Edit: TypeAlias = Empty | Follow | Show


@dataclass(frozen=True, slots=True)
class OfRow:
    """Everything that a row sees after the edits of the step."""

    row: RowId


@dataclass(frozen=True, slots=True)
class OfCells:
    """These cells, in this order."""

    cells: tuple[CellId, ...]


# An index is an earlier token of the same step: the token and everything that it sees.
After: TypeAlias = int | OfRow | OfCells


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive tokens of one row: `count` of them from index `start` of the step.

    The run sees what its row sees, and then what `after` names beyond that, in order. So a path is the same whether
    the part it continues was fed earlier (a row, cells) or is fed in this very step (a token):

        a branch forked at a token of this step    an empty row, after=(that token,)
        a row that continues after a join          after=(its own last token, each joined branch's last or OfRow)
        a lock-step token                          after=(the same token of the values before it, ...)
        a node of a draft tree                     after=(its parent,), not kept

    The row does not see a run that it does not `keep`, unless a later edit shows its cells.
    """

    row: RowId
    start: int
    count: int
    after: tuple[After, ...] = ()
    keep: bool = True

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class Capture:
    """After the step, `row` sees the token at index `token` of the step and everything that this token sees."""

    row: RowId
    token: int


@dataclass(frozen=True, slots=True)
class StepBatch:
    """What one forward pass is fed. `tokens`, `positions` and `cells` are parallel; `wanted` are indexes into them."""

    tokens: tuple[TokenId, ...]
    positions: tuple[int, ...]
    cells: tuple[CellId, ...]
    runs: tuple[Run, ...]
    wanted: tuple[int, ...]
    edits: tuple[Edit, ...] = ()
    captures: tuple[Capture, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    def check(self) -> None:
        """Asserts what the scheduler promises of every step."""
        size = len(self.tokens)
        assert size == len(self.positions) == len(self.cells), "tokens, positions and cells are parallel"
        assert len(set(self.cells)) == size, "two tokens of one step in one cell"
        assert list(self._covered()) == list(range(size)), "the runs cover the tokens in order"
        for run in self.runs:
            assert run.count > 0, f"{run} feeds nothing"
            assert all(0 <= each < run.start for each in run.after if isinstance(each, int)), f"{run} looks ahead"
        last: dict[RowId, int] = {}
        for run in (run for run in self.runs if run.keep):
            assert run.row not in last or last[run.row] in run.after, f"{run} does not see what its row was fed before"
            last[run.row] = run.end - 1
        indexes = (*self.wanted, *(capture.token for capture in self.captures))
        assert all(0 <= index < size for index in indexes), "an index beyond the step"

    def _covered(self) -> Iterator[int]:
        for run in self.runs:
            yield from range(run.start, run.end)
