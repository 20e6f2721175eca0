"""Builds one step: which tokens are fed, where their keys and values go, and what each token sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pastalang.runtime.scheduler.branch import BranchState, Source, Stage
from pastalang.runtime.scheduler.lockstep import values_before
from pastalang.runtime.scheduler.request import BranchOwner
from pastalang.runtime.scheduler.step_budget import StepCells
from pastalang.runtime.step import (
    After,
    Capture,
    CellId,
    Edit,
    Empty,
    OfCells,
    OfRow,
    RowId,
    Run,
    StepBatch,
    TokenId,
)


def cells_of_path(source: Source) -> tuple[CellId, ...]:
    """Every token of the path has been fed, and is in memory."""
    path = _Path()
    path.add(source)
    return tuple(path.cells)


class _Path:
    def __init__(self) -> None:
        self.cells: dict[CellId, None] = {}
        self._known: dict[BranchState, int] = {}  # how many tokens of a branch have been added

    def add(self, source: Source) -> None:
        branch, count = source.branch, source.index + 1
        known = self._known.get(branch, 0)
        if count <= known:
            return
        if known == 0 and branch.source is not None:
            self.add(branch.source)
        self._known[branch] = count
        for index in range(known, count):
            for one in branch.joins.get(index, ()):
                if one.last is not None:
                    self.add(one.last)
            self._add_level(branch, index)
            self.cells[branch.cells[index]] = None

    def _add_level(self, branch: BranchState, index: int) -> None:
        if branch.spec.lockstep is not None:
            for value in reversed(values_before(branch)):
                if value is not None and index < len(value.tokens):
                    self.cells[value.cells[index]] = None


@dataclass(frozen=True, slots=True)
class Step:
    """`draws` are the branches that draw from the logits of each wanted token, in the order of the rows."""

    batch: StepBatch
    fed: tuple[BranchState, ...]
    sources: tuple[Source, ...]
    was_short: bool  # of cells or room, or held: something that a chunk had place for was not fed


class Rows:
    """The names of view rows; those given back are given again."""

    def __init__(self) -> None:
        self._free: list[RowId] = []
        self._next = 0

    def take(self) -> RowId:
        if self._free:
            return self._free.pop()
        self._next += 1
        return RowId(self._next - 1)

    def release(self, row: RowId) -> None:
        self._free.append(row)


class StepBuilder:
    """Lives for one step. `may_begin` says whether a branch that has no cells yet may take its first ones."""

    def __init__(
        self,
        cells: StepCells,
        rows: Rows,
        edits: list[Edit],
        *,
        chunk: int | None,
        may_begin: Callable[[BranchState], bool],
        may_move: Callable[[BranchState], bool] | None,
    ) -> None:
        self._cells = cells
        self._rows = rows
        self._edits = edits
        self._chunk = chunk
        self._may_begin = may_begin
        self._may_move = may_move
        self._tokens: list[TokenId] = []
        self._positions: list[int] = []
        self._taken: list[CellId] = []
        self._runs: list[Run] = []
        self._fed: list[BranchState] = []
        self._asked: set[BranchState] = set()
        self.was_short = False

    def step(self, hungry: Sequence[BranchState]) -> Step | None:
        for branch in hungry:
            if branch.spec.lockstep is not None:
                self._demand_values_before(branch)
        for branch in hungry:
            self._place(branch)
        if not self._tokens:
            return None
        captures = self._captures()
        wanted, sources = self._wanted()
        batch = StepBatch(
            tuple(self._tokens), tuple(self._positions), tuple(self._taken), tuple(self._runs),
            tuple(wanted), tuple(self._edits), tuple(captures),
        )  # fmt: skip
        return Step(batch, tuple(self._fed), tuple(sources), self.was_short)

    # ── one branch ───────────────────────────────────────────────────────────────────────────────────────

    def _place(self, branch: BranchState) -> None:
        if branch in self._asked:
            return
        self._asked.add(branch)
        branch.placed = branch.fed
        end = branch.demand
        if self._chunk is not None and end > branch.fed + self._chunk:
            end = branch.fed + self._chunk
        if end <= branch.fed:
            return
        held = self._may_move is not None and not self._may_move(branch)
        if held or not (branch.is_admitted or self._may_begin(branch)):
            self.was_short = True
            return
        if branch.spec.lockstep is not None:
            self._place_in_lockstep(branch, end)
            return
        while branch.placed < end:
            stop = min((index for index in branch.joins if branch.placed < index < end), default=end)
            if not self._place_stretch(branch, stop):
                return

    def _place_stretch(self, branch: BranchState, stop: int) -> bool:
        """The tokens up to `stop`, which see the same other branches. Says whether all of them were taken."""
        at = branch.placed
        joined = branch.joins.get(at, ())
        if at == 0 and not self._is_reached(branch.source):
            return False
        if not all(self._is_reached(one.last) for one in joined):
            return False
        count = min(stop - at, self._cells.free)
        if count < stop - at:
            self.was_short = True
        if count == 0:
            return False
        after = self._connect(branch, joined)
        self._feed(branch, count, after)
        return at + count == stop

    def _is_reached(self, source: Source | None) -> bool:
        """Whether a token is fed once this step is over; where it can be, this makes it so."""
        if source is None or source.index < source.branch.fed:
            return True
        self._place(source.branch)
        return source.index < source.branch.placed

    def _connect(self, branch: BranchState, joined: Sequence[BranchState]) -> tuple[After, ...]:
        """What the next run of a branch goes on from, in the order of its path."""
        after = self._own(branch)
        for one in joined:
            last = one.last
            if last is not None and last.index >= last.branch.fed:
                after.append(last.branch.index_in_step(last.index))
            elif last is not None:
                assert one.row is not None, f"`{one.name}` was fed and has no row"
                after.append(OfRow(one.row))
        return tuple(after)

    def _own(self, branch: BranchState) -> list[After]:
        """The token before, where it is one of this step: the branch's own, or the one it was forked behind."""
        if branch.placed > branch.fed:
            return [branch.index_in_step(branch.placed - 1)]
        if branch.row is not None:
            return []
        branch.row = self._new_row()
        source = branch.source
        return [] if source is None else [source.branch.index_in_step(source.index)]

    def _new_row(self) -> RowId:
        row = self._rows.take()
        self._edits.append(Empty(row))
        return row

    def _feed(self, branch: BranchState, count: int, after: tuple[After, ...]) -> None:
        start, at = len(self._tokens), branch.placed
        assert branch.row is not None
        cells = self._cells.take(count)
        self._tokens += branch.tokens[at : at + count]  # type: ignore[arg-type]
        self._positions += branch.positions[at : at + count]
        self._taken += cells
        branch.cells += cells
        self._runs.append(Run(branch.row, start, count, after))
        branch.pieces.append((at, start, count))
        branch.placed += count
        if len(branch.pieces) == 1:
            self._fed.append(branch)

    # ── lock-step ────────────────────────────────────────────────────────────────────────────────────────

    def _place_in_lockstep(self, branch: BranchState, end: int) -> None:
        """Token k goes when token k of every value before it has gone, or that value has ended."""
        values = values_before(branch)
        while branch.placed < end:
            at = branch.placed
            if at == 0 and not self._is_reached(branch.source):
                return
            seen = self._seen_in_lockstep(values, at)
            if seen is None:
                return
            if self._cells.free == 0:  # asked behind the values before: those of this step were placed just now
                self.was_short = True
                return
            now, earlier = seen
            alone = not now and not earlier and branch.placed == branch.fed and not _are_waited_for(values, at)
            count = min(end - at, self._cells.free) if alone else 1
            shown = (OfCells(earlier),) if earlier else ()
            self._feed(branch, count, (*self._own(branch), *now, *shown))

    def _demand_values_before(self, branch: BranchState) -> None:
        """Before anybody is placed, so that all they have goes now; who still draws has asked for it itself."""
        for value in values_before(branch):
            if value is not None and value.has_ended:
                value.request.demand(value, min(branch.demand, len(value.tokens)))

    def _seen_in_lockstep(
        self, values: Sequence[BranchState | None], at: int
    ) -> tuple[tuple[int, ...], tuple[CellId, ...]] | None:
        """Token `at` of the values before: the last one of this step, and those behind it, which are of earlier steps
        where only the one of this step is decoded again. None: some are to come."""
        earlier: list[CellId] = []
        for index, value in enumerate(values):
            if value is None:
                return None
            if value.has_ended and len(value.tokens) <= at:
                continue
            if len(value.tokens) <= at:
                return None
            if at < value.fed:
                earlier.append(value.cells[at])
                continue
            self._place(value)
            if at >= value.placed or value.values_before != list(values[index + 1 :]):
                return None  # the last tokens of a value that has seen others are fed in a step before
            return (value.index_in_step(at),), tuple(reversed(earlier))  # it sees all values before it
        return (), tuple(reversed(earlier))

    # ── behind the step ──────────────────────────────────────────────────────────────────────────────────

    def _captures(self) -> list[Capture]:
        """Rows for the children of what was fed that begin later."""
        captures: list[Capture] = []
        for branch in self._fed:
            later = []
            for index, child in branch.children:
                if index >= branch.placed:
                    later.append((index, child))
                elif child.row is None and _is_to_come(child):
                    child.row = self._rows.take()
                    captures.append(Capture(child.row, branch.index_in_step(index)))
            branch.children[:] = later
        return captures

    def _wanted(self) -> tuple[list[int], list[Source]]:
        wanted: list[int] = []
        sources: list[Source] = []
        for branch in self._fed:
            for index in sorted(index for index in branch.waiting if index < branch.placed):
                wanted.append(branch.index_in_step(index))
                sources.append(Source(branch, index))
        return wanted, sources


def _are_waited_for(values: Sequence[BranchState | None], at: int) -> bool:
    """Whether some value before may still have more tokens than `at`."""
    return any(value is None or not value.has_ended or len(value.tokens) > at for value in values)


def _is_to_come(child: BranchState) -> bool:
    """Whether anybody may still need a row for it."""
    if child.fed or not child.is_held:
        return False
    return child.stage is not Stage.ENDED or bool(child.tokens) or bool(child.request.tokens.joiners[child.spec.id])


def commit_step(step: Step, *, kept: BranchOwner) -> None:
    """What is fed for `kept`, the owner of kept prompts, is nobody's."""
    for request in dict.fromkeys(branch.request for branch in step.fed if branch.request is not kept):
        request.forward_passes += 1
        request.was_held_back |= step.was_short
    for branch in step.fed:
        count = branch.placed - branch.fed
        owner = branch.request
        if owner is not kept:
            branch.runs.append((branch.fed, count, owner.forward_passes))
            owner.fed_tokens += count
            owner.cells_now += count
            owner.peak_cells = max(owner.peak_cells, owner.cells_now)
        branch.fed = branch.placed
        branch.pieces.clear()
        if branch.fed >= branch.demand:
            owner.hungry.pop(branch, None)
