"""A random but legal schedule: a source of choices comes in, steps go out that use every word of `StepBatch`.

Branches fork (behind a step, inside a step, from a prefix), feed one token or several, leave gaps, end, are joined
(behind a step, inside a step), give their cells back; requests come and go; drafts are fed and some are accepted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from pastalang.runtime.attention.plain_views import FedToken, PlainViews
from pastalang.runtime.scheduler.memory import Cells
from pastalang.runtime.step import (
    After,
    Capture,
    CellId,
    Edit,
    Empty,
    Follow,
    OfCells,
    OfRow,
    RowId,
    Run,
    Show,
    StepBatch,
    TokenId,
)


@dataclass(eq=False)
class Live:
    row: RowId
    position: int
    joined: list[FedToken] = field(default_factory=list)  # seen from the coming step on
    drafts: list[tuple[int, ...]] = field(default_factory=list)  # paths of drafts fed in the last step


class Walk:
    """`choices` decides everything, so that a walk can be repeated. `fed` is what the last step's tokens see."""

    def __init__(self, choices: random.Random, *, cells: int = 320, vocabulary: int = 320) -> None:
        self.views = PlainViews()
        self.cells = Cells(cells)
        self.live: list[Live] = []
        self.fed: tuple[FedToken, ...] = ()
        self._choices = choices
        self._vocabulary = vocabulary
        self._owned: set[CellId] = set()
        self._rows: list[RowId] = []  # free ones
        self._made = 0
        self._scramble()

    def step(self) -> StepBatch:
        edits: list[Edit] = []
        self._accept_drafts(edits)
        if len(self.live) > 2 and self._chance(0.3):
            self._join(edits)
        if len(self.live) > 3 and self._chance(0.3):
            self._end(self._choices.choice(self.live))
        while len(self._seen()) > self.cells.capacity // 4:
            self._end(self._choices.choice(self.live))
        if not self.live or (len(self.live) < 6 and self._chance(0.15)):
            self._branch(edits, position=self._choices.choice([0, 0, 7]))
        self._release_unseen()
        batch = Feeding(self, edits).batch()
        self.fed = self.views.feed(batch)
        for branch in self.live:
            branch.joined.clear()
        return batch

    def unseen(self) -> list[CellId]:
        """Cells that nothing alive sees or may accept, whoever wrote them."""
        open_drafts = {index for branch in self.live for path in branch.drafts for index in path}
        seen = self._seen() | {self.fed[index].cell for index in open_drafts}
        return [CellId(cell) for cell in range(self.cells.capacity) if cell not in seen]

    def take(self, count: int) -> tuple[CellId, ...]:
        taken = self.cells.take(count)
        self._owned.update(taken)
        return taken

    # ── between steps ────────────────────────────────────────────────────────────────────────────────────

    def _branch(self, edits: list[Edit] | None, *, position: int) -> Live:
        if self._rows and self._chance(0.7):
            row = self._rows.pop(self._choices.randrange(len(self._rows)))
        else:
            row = RowId(self._made)
            self._made += 1
        if edits is not None:
            edits.append(Empty(row))
        self.live.append(Live(row, position))
        return self.live[-1]

    def _accept_drafts(self, edits: list[Edit]) -> None:
        for branch in self.live:
            if branch.drafts and self._chance(0.7):
                path = self._choices.choice(branch.drafts)
                accepted = [self.fed[index] for index in path]
                edits.append(Show(branch.row, tuple(fed.cell for fed in accepted)))
                branch.joined += accepted
                branch.position = accepted[-1].position + 1
            branch.drafts.clear()

    def _join(self, edits: list[Edit]) -> None:
        joiner, joined = self._choices.sample(self.live, 2)
        if joined.joined or not self.views.seen_by(joined.row):
            return
        path = self.views.seen_by(joined.row)
        if self._chance(0.5):
            edits.append(Follow(joiner.row, joined.row))
        else:
            edits.append(Show(joiner.row, tuple(fed.cell for fed in path)))
        joiner.joined += path
        joiner.position = max(joiner.position, joined.position)
        self._end(joined)

    def _end(self, branch: Live) -> None:
        self.live.remove(branch)
        self._rows.append(branch.row)

    def _release_unseen(self) -> None:
        dead = self._owned - self._seen()
        self.cells.release(sorted(dead))
        self._owned -= dead

    def _seen(self) -> set[CellId]:
        return {fed.cell for branch in self.live for fed in (*self.views.seen_by(branch.row), *branch.joined)}

    def _scramble(self) -> None:
        """Give cells back in disorder once, so that neighbours in text are no neighbours in memory."""
        holes = self.cells.take(self.cells.capacity // 2)
        freed = self._choices.sample(holes, len(holes) // 2)
        self.cells.release(freed)
        self.stuck = tuple(cell for cell in holes if cell not in freed)

    def _chance(self, probability: float) -> bool:
        return self._choices.random() < probability


class Feeding:
    """One step being put together."""

    def __init__(self, walk: Walk, edits: Sequence[Edit]) -> None:
        self._walk = walk
        self._choices = walk._choices
        self._edits = list(edits)
        self._tokens: list[TokenId] = []
        self._positions: list[int] = []
        self._cells: list[CellId] = []
        self._runs: list[Run] = []
        self._captures: list[Capture] = []
        self._last: dict[int, int] = {}  # row -> the index of its last kept token in this step

    def batch(self) -> StepBatch:
        live = list(self._walk.live)
        chosen = [branch for branch in live if not self._has_path(branch) or self._walk._chance(0.8)] or live[:1]
        for branch in chosen:
            self._advance(branch)
        if len(chosen) > 1 and self._walk._chance(0.4):
            self._join_inside(chosen, live)
        for branch in chosen:
            if self._walk._chance(0.2):
                self._draft(branch)
        size = len(self._tokens)
        wanted = tuple(sorted(self._choices.sample(range(size), self._choices.randint(0, min(size, 6)))))
        return StepBatch(
            tuple(self._tokens),
            tuple(self._positions),
            tuple(self._cells),
            tuple(self._runs),
            wanted,
            tuple(self._edits),
            tuple(self._captures),
        )

    def _has_path(self, branch: Live) -> bool:
        return bool(self._walk.views.seen_by(branch.row)) or bool(branch.joined)

    def _advance(self, branch: Live) -> None:
        indexes = self._feed(branch, self._choices.choice([1, 1, 1, 2, 5]))
        if self._walk._chance(0.25):
            branch.position += self._choices.randint(1, 30)
        if self._walk._chance(0.25):
            indexes = self._feed(branch, self._choices.randint(1, 3), after=(indexes[-1],))
        if len(self._walk.live) < 8 and self._walk._chance(0.3):
            self._fork(self._choices.choice(indexes))

    def _fork(self, at: int) -> None:
        position = self._positions[at] + self._choices.randint(1, 20)
        if self._walk._chance(0.5):
            child = self._walk._branch(None, position=position)
            self._captures.append(Capture(child.row, at))
        else:
            child = self._walk._branch(self._edits, position=position)
            self._feed(child, self._choices.randint(1, 3), after=(at,))

    def _join_inside(self, chosen: Sequence[Live], live: Sequence[Live]) -> None:
        joiner, joined = self._choices.sample(chosen, 2)
        joiner.position = max(joiner.position, joined.position)
        seen: list[After] = [self._last[joined.row]]
        for other in live:
            path = () if Empty(other.row) in self._edits else self._walk.views.seen_by(other.row)
            if path and not other.joined and other not in (joiner, joined) and self._walk._chance(0.3):
                seen.append(OfRow(other.row) if self._walk._chance(0.5) else OfCells(tuple(fed.cell for fed in path)))
        self._choices.shuffle(seen)
        self._feed(joiner, self._choices.randint(1, 2), after=(self._last[joiner.row], *seen))

    def _draft(self, branch: Live) -> None:
        """A small tree: a stem, and two tokens behind its end."""
        root = self._last[branch.row]
        stem = self._feed(branch, self._choices.randint(1, 2), after=(root,), keep=False)
        branch.drafts.append(tuple(stem))
        for _ in range(2):
            leaf = self._feed(branch, 1, after=(stem[-1],), keep=False, ahead=len(stem))
            branch.drafts.append((*stem, *leaf))

    def _feed(
        self, branch: Live, count: int, *, after: tuple[After, ...] = (), keep: bool = True, ahead: int = 0
    ) -> range:
        start = len(self._tokens)
        for offset in range(count):
            self._tokens.append(TokenId(self._choices.randrange(self._walk._vocabulary)))
            self._positions.append(branch.position + ahead + offset)
        self._cells += self._walk.take(count)
        self._runs.append(Run(branch.row, start, count, after, keep))
        if keep:
            branch.position += count
            self._last[branch.row] = start + count - 1
        return range(start, start + count)
