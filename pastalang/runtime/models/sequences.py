"""What each view row sees, as sequences of llama.cpp. Plain integers only: nothing here needs the library.

A sequence is a set of cells, which share their memory with all other sequences that hold them:

    remove    a sequence holds nothing any more; a cell that no sequence holds is free
    copy      a sequence also holds the cells of another one that stand in a range of positions
    decode    every token is written to a cell that all of its sequences hold, and sees what its *first* sequence holds
              up to its own position; a sequence grows by one position after the other

Sequence r holds what row r sees. A step becomes as few calls as possible. What begins after a token of the same call is
a further sequence of that token and of all that it sees there. What joins a token of the same step goes into a later
call, because a sequence cannot take over cells that are not written yet. A cell that is fed again held nothing that any
living row sees, so whatever still holds it is the sequence of a dead row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from pastalang.runtime.step import CellId, Edit, Empty, Follow, OfCells, OfRow, Run, Show, StepBatch


@dataclass(frozen=True, slots=True)
class Remove:
    """The sequence holds nothing at the position `since` and above it any more."""

    sequence: int
    since: int = 0


@dataclass(frozen=True, slots=True)
class Copy:
    """`target` also holds the cells of `source` at the positions from `since` up to, and without, `until`."""

    source: int
    target: int
    since: int
    until: int


Change: TypeAlias = Remove | Copy


# A token of a call, by its index in the step, and the sequences that hold its cell: it sees by the first.
Fed: TypeAlias = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Call:
    """What is changed, and then decoded at once. The last call of a step may decode nothing."""

    changes: tuple[Change, ...]
    tokens: tuple[Fed, ...]


class NoSequence(Exception):
    """Nothing that can be copied gives a sequence exactly these cells: a mistake of ours."""


class Sequences:
    """`rows` sequences for view rows, and `spare` ones: for drafts, which live until the next step shows them, and for
    what rows held before a join that put other cells at the same positions, so that a branch can begin there later."""

    def __init__(self, *, rows: int, spare: int) -> None:
        self._held: list[set[CellId]] = [set() for _ in range(rows + spare)]
        self._positions: dict[CellId, int] = {}
        self._spare = list(range(rows, rows + spare))
        self._passing: list[int] = []  # spare sequences until the next step has shown what rows see of them
        self._before: dict[int, list[int]] = {}  # of a row, the sequences of what it held before its joins
        self._changes: list[Change] = []  # of the call that comes next

    def held_by(self, sequence: int) -> frozenset[CellId]:
        """The cells that a sequence holds."""
        return frozenset(self._held[sequence])

    def feed(self, batch: StepBatch) -> list[Call]:
        """What is to be called for a step. All of it has to succeed: this memory counts on it."""
        for edit in batch.edits:
            self._edit(edit)
        for sequence in self._passing:
            self._remove(sequence)
        self._spare += self._passing
        self._passing = []
        self._remove_dead(batch.cells)
        step = _Step(batch, self._held)
        calls = [self._call(step, wave) for wave in step.waves]
        if self._changes:
            calls.append(Call(self._taken(), ()))
        return calls

    # ── before the step ──────────────────────────────────────────────────────────────────────────────────

    def _edit(self, edit: Edit) -> None:
        match edit:
            case Empty(row):
                self._remove(row)
            case Follow(row, source):
                self._show(row, self._held[source])
            case Show(row, cells):
                self._show(row, cells)
            case _:
                assert_never(edit)

    def _remove_dead(self, cells: Sequence[CellId]) -> None:
        """What was fed into these cells earlier: the end of what a row without a future holds."""
        again = {cell for cell in cells if cell in self._positions}
        for sequence, held in enumerate(self._held) if again else ():
            if not held.isdisjoint(again):
                since = min(self._positions[cell] for cell in held & again)
                self._held[sequence] = {cell for cell in held if self._positions[cell] < since}
                self._changes.append(Remove(sequence, since))

    def _remove(self, sequence: int) -> None:
        if self._held[sequence]:
            self._held[sequence] = set()
            self._changes.append(Remove(sequence))
        for before in self._before.pop(sequence, ()):
            self._remove(before)
            self._spare.append(before)

    def _show(self, sequence: int, cells: Iterable[CellId]) -> None:
        """Let a sequence hold these cells and no others beside its own: by copies of ranges that hold nothing else."""
        own = self._held[sequence]
        missing = set(cells) - own
        allowed = own | missing
        while missing:
            anchor = max(missing, key=self._positions.__getitem__)
            ranges = (self._range(held, anchor, allowed) for held in self._held)
            gains = [set() if found is None else found[2] & missing for found in ranges]
            donor = max(range(len(gains)), key=lambda one: len(gains[one]))
            if not gains[donor]:
                raise NoSequence(f"no sequence holds cell {anchor} apart from cells that row {sequence} does not see")
            found = self._range(self._held[donor], anchor, allowed)
            assert found is not None
            since, until, copied = found
            self._changes.append(Copy(donor, sequence, since, until))
            own |= copied
            missing -= copied

    def _range(self, held: set[CellId], anchor: CellId, allowed: set[CellId]) -> tuple[int, int, set[CellId]] | None:
        """The widest range of positions around a cell where a sequence holds only `allowed` cells, and those cells."""
        if anchor not in held:
            return None
        at, foreign = self._positions[anchor], [self._positions[cell] for cell in held - allowed]
        if at in foreign:
            return None
        since = max((place + 1 for place in foreign if place < at), default=0)
        until = min((place for place in foreign if place > at), default=1 + max(map(self._positions.__getitem__, held)))
        return since, until, {cell for cell in held & allowed if since <= self._positions[cell] < until}

    # ── one call ─────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, step: _Step, wave: Sequence[int]) -> Call:
        """The runs of a wave. Rows that begin later behind one of its tokens are given what it sees after the call."""
        batch = step.batch
        sequences = {number: self._begin(step, number) for number in wave}
        changes = self._taken()
        tokens = tuple(
            (index, (sequences[number], *(sequences[fork] for fork in step.forks.get(index, ()))))
            for number in wave
            for index in range(batch.runs[number].start, batch.runs[number].end)
        )
        for index, held_by in tokens:
            cell = batch.cells[index]
            self._positions[cell] = batch.positions[index]
            for sequence in held_by:
                self._held[sequence].add(cell)
        for capture in batch.captures:
            if step.run_of[capture.token] in sequences:
                self._remove(capture.row)
                self._show(capture.row, step.seen_by(capture.token))
        return Call(changes, tokens)

    def _begin(self, step: _Step, number: int) -> int:
        """The sequence of a run, which holds what the run sees of earlier calls."""
        run = step.batch.runs[number]
        sequence = run.row if run.keep else self._draft()
        if number in step.parents:
            self._show(sequence, step.bases[step.root(number)])
        else:
            self._join(run.row, step.joined_by(run))
            step.bases[number] = set(self._held[sequence])
        return sequence

    def _join(self, row: int, cells: set[CellId]) -> None:
        """Let a row hold these cells, too. What it held stays if positions cannot distinguish the two."""
        held, at = self._held[row], self._positions
        added = cells - held
        if held and added and self._spare and min(at[one] for one in added) <= max(at[one] for one in held):
            self._before.setdefault(row, []).append(self._spare.pop())
            self._show(self._before[row][-1], held)
        self._show(row, added)

    def _draft(self) -> int:
        if not self._spare:
            raise NoSequence("no sequence is left for drafts")
        self._passing.append(self._spare.pop())
        return self._passing[-1]

    def _taken(self) -> tuple[Change, ...]:
        taken, self._changes = tuple(self._changes), []
        return taken


class _Step:
    """The runs of a step in waves, one for each call, and what its tokens see.

    A run that goes on from one token alone is in the wave of that token, its parent; one that joins waits for the next.
    """

    def __init__(self, batch: StepBatch, held: Sequence[set[CellId]]) -> None:
        self.batch = batch
        self.run_of = {index: number for number, run in enumerate(batch.runs) for index in range(run.start, run.end)}
        self.parents: dict[int, int] = {}  # of a run, the token of its own wave that it goes on from
        self.forks: dict[int, list[int]] = {}  # of a token, the runs of its wave in other sequences that see it
        self.bases: dict[int, set[CellId]] = {}  # of a run without a parent, what its sequence held before it
        self._before = {row: set(held[row]) for row in self._rows_joined()}
        self._fed = {run.row for run in batch.runs if held[run.row]}  # rows that hold something
        self._wave_of: list[int] = []
        for number, run in enumerate(batch.runs):
            self._wave_of.append(self._place(number, run))

    @property
    def waves(self) -> list[list[int]]:
        """The numbers of the runs in each."""
        found: list[list[int]] = [[] for _ in range(1 + max(self._wave_of, default=-1))]
        for number, wave in enumerate(self._wave_of):
            found[wave].append(number)
        return found

    def root(self, number: int) -> int:
        while number in self.parents:
            number = self.run_of[self.parents[number]]
        return number

    def seen_by(self, index: int) -> set[CellId]:
        """What a token of a call sees, itself included, once the call has begun."""
        cells = self.batch.cells
        return self.bases[self.root(self.run_of[index])] | {cells[one] for one in self._path(index)}

    def joined_by(self, run: Run) -> set[CellId]:
        """What a run sees of earlier calls beside what its row holds."""
        found: set[CellId] = set()
        for after in run.after:
            match after:
                case OfRow(row):
                    found |= self._before[row]
                case OfCells(cells):
                    found.update(cells)
                case _:
                    found |= self.seen_by(after)
        return found

    def _rows_joined(self) -> set[int]:
        return {after.row for run in self.batch.runs for after in run.after if isinstance(after, OfRow)}

    def _place(self, number: int, run: Run) -> int:
        """The wave of a run."""
        tokens = [after for after in run.after if isinstance(after, int)]
        is_new = not run.keep or run.row not in self._fed
        if run.keep:
            self._fed.add(run.row)
        if len(run.after) == len(tokens) == 1:
            before = self.run_of[tokens[0]]
            is_next = run.keep and self.batch.runs[before].row == run.row
            if is_new or is_next:
                self.parents[number] = tokens[0]
                for index in self._path(tokens[0]) if is_new else ():
                    self.forks.setdefault(index, []).append(number)
                return self._wave_of[before]
        return max((1 + self._wave_of[self.run_of[token]] for token in tokens), default=0)

    def _path(self, index: int) -> Iterator[int]:
        """A token and those before it in the same call that it sees."""
        at: int | None = index
        while at is not None:
            number = self.run_of[at]
            yield from range(self.batch.runs[number].start, at + 1)
            at = self.parents.get(number)
