"""Builds one step: which tokens are fed, where their keys and values go, and what each token sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.runtime.scheduler.draft_tree import FROM_BRANCH, DraftTree, Guess, Node
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.state import BranchState, OwnerMemory, Pace, Source, Stage
from pastalang.runtime.scheduler.visibility import cells_of_path, values_before
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


@dataclass(frozen=True, slots=True)
class Step:
    """`fed` says how many tokens of each of its branches are in memory once it has run. `sources` are the tokens whose
    logits are wanted, in the order of the rows of logits."""

    batch: StepBatch
    fed: Mapping[BranchState, int]
    sources: tuple[Source, ...]
    was_short: bool  # something that a chunk had room for was not fed: for want of cells, or because it was paused
    drafts: tuple[DraftTree, ...] = ()

    @property
    def opened_rows(self) -> set[RowId]:
        return opened_rows(self.batch.edits) | {capture.row for capture in self.batch.captures}


def opened_rows(edits: Iterable[Edit]) -> set[RowId]:
    return {edit.row for edit in edits if isinstance(edit, Empty)}


def open_late_rows(owner: OwnerMemory, memory: Memory) -> list[Edit]:
    """View rows for branches that follow a token of an earlier step. What they have joined since comes after it.

    Those for which no row is left wait for one.
    """
    edits: list[Edit] = []
    late, owner.late = owner.late, []
    for branch in late:
        if branch.memory.row is None and branch.memory.is_held:
            source = branch.sequence.source
            assert source is not None
            before = source.branch.memory
            if not memory.has_row or source.index >= before.fed:
                branch.wait_for_row()
                continue
            row = memory.open_row(branch)
            edits.append(Empty(row))
            if before.fed == source.index + 1 and before.row is not None:
                edits.append(Follow(row, before.row))
            else:
                edits.append(Show(row, cells_of_path(source)))
    return edits


# The trees for branches that draw from a step of so many tokens, of so many free cells.
Draft: TypeAlias = Callable[[Sequence[BranchState], int, int], Sequence[Sequence[Guess]]]


class StepBuilder:
    """Lives for one step of at most `most` tokens.

    `may_begin` says whether a branch that has no cells yet may take its first ones.
    """

    def __init__(
        self,
        memory: Memory,
        edits: list[Edit],
        *,
        most: int | None,
        chunk: int | None,
        may_begin: Callable[[BranchState], bool],
        schedule_filter: Callable[[BranchState], bool] | None,
    ) -> None:
        self._memory = memory
        self._most = most
        self._edits = edits
        self._chunk = chunk
        self._may_begin = may_begin
        self._schedule_filter = schedule_filter
        self._tokens: list[TokenId] = []
        self._positions: list[int] = []
        self._taken: list[CellId] = []
        self._runs: list[Run] = []
        self._placed: dict[BranchState, int] = {}  # how many tokens of each are in memory once the step has run
        self._pieces: dict[BranchState, list[tuple[int, int, int]]] = {}  # (first token, index in the step, count)
        self._asked: set[BranchState] = set()
        self.was_short = False

    def step(self, to_feed: Sequence[BranchState], draft: Draft | None = None) -> Step | None:
        """`draft` guesses what branches draw from the step, which is known but for these guesses."""
        for branch in to_feed:
            if branch.spec.lockstep is not None:
                self._demand_values_before(branch)
        if sum(branch.memory.demand - branch.memory.fed for branch in to_feed) > self._free:
            to_feed = sorted(to_feed, key=lambda branch: not branch.memory.is_admitted)  # what has begun goes on first
        for branch in to_feed:
            self._place(branch)
        if not self._tokens:
            return None
        captures = self._captures()
        wanted, sources = self._wanted()
        drafts = [] if draft is None else self._draft(draft, wanted, sources)
        batch = StepBatch(
            tuple(self._tokens), tuple(self._positions), tuple(self._taken), tuple(self._runs),
            tuple(wanted), tuple(self._edits), tuple(captures),
        )  # fmt: skip
        fed = {branch: self._placed[branch] for branch in self._pieces}
        return Step(batch, fed, tuple(sources), self.was_short, tuple(drafts))

    @property
    def _free(self) -> int:
        """How many more tokens the step may take."""
        free = self._memory.free
        return free if self._most is None else min(free, self._most - len(self._tokens))

    # ── one branch ───────────────────────────────────────────────────────────────────────────────────────

    def _place(self, branch: BranchState, *, is_needed: bool = False) -> None:
        """Feed what the step can take of a branch. A branch that another one needs is not asked to wait: what was let
        through the gate can go on."""
        if branch in self._asked:
            return
        memory = branch.memory
        self._placed[branch] = memory.fed
        end = memory.demand
        if self._chunk is not None and end > memory.fed + self._chunk:
            end = memory.fed + self._chunk
        if end <= memory.fed:
            return
        if self._schedule_filter is not None and not self._schedule_filter(branch):
            self.was_short = True
            return
        if not self._has_row(branch):
            self.was_short = True
            return
        if not (memory.is_admitted or self._may_begin(branch) or is_needed):
            self.was_short = True
            return
        self._asked.add(branch)
        memory.is_admitted = True
        if branch.spec.lockstep is not None:
            self._place_in_lockstep(branch, end)
            return
        while (at := self._placed[branch]) < end:
            stop = min((index for index in branch.sequence.joins if at < index < end), default=end)
            if not self._place_stretch(branch, stop):
                return

    def _has_row(self, branch: BranchState) -> bool:
        """Whether a branch has a row, or can get one in this step: one that follows an earlier step has one before."""
        if branch.memory.row is not None:
            return True
        source = branch.sequence.source
        follows = source is not None and source.index < source.branch.memory.fed
        return self._memory.has_row and not follows

    def _place_stretch(self, branch: BranchState, stop: int) -> bool:
        """Take the tokens up to `stop`, which see the same other branches. Says whether all of them fitted."""
        at = self._placed[branch]
        joined = branch.sequence.joins.get(at, ())
        if at == 0 and not self._is_reached(branch.sequence.source):
            return False
        if not all(self._is_reached(one.last) for one in joined):
            return False
        if not self._has_row(branch):  # asked after the branches that it sees, which may just have taken rows
            self.was_short = True
            return False
        count = min(stop - at, self._free)
        if count < stop - at:
            self.was_short = True
        if count == 0:
            return False
        after = self._connect(branch, joined)
        self._feed(branch, count, after)
        return at + count == stop

    def _is_reached(self, source: Source | None) -> bool:
        """Whether a token is fed once this step is over. Feeds it in this step if that is possible."""
        if source is None or source.index < source.branch.memory.fed:
            return True
        self._place(source.branch, is_needed=True)
        return source.index < self._placed[source.branch]

    def _connect(self, branch: BranchState, joined: Sequence[BranchState]) -> tuple[After, ...]:
        """What the next run of a branch follows, in the order of its path."""
        after = self._own(branch)
        for one in joined:
            last = one.last
            if last is not None and last.index >= last.branch.memory.fed:
                after.append(self._index_of(last.branch, last.index))
            elif last is not None:
                row = one.memory.row
                after.append(OfCells(cells_of_path(last)) if row is None else OfRow(row))
        return tuple(after)

    def _own(self, branch: BranchState) -> list[After]:
        """The token before, if this step feeds it: the branch's own, or the one it was forked after."""
        memory, placed = branch.memory, self._placed[branch]
        if placed > memory.fed:
            return [self._index_of(branch, placed - 1)]
        if memory.row is not None:
            return []
        self._edits.append(Empty(self._memory.open_row(branch)))
        source = branch.sequence.source
        return [] if source is None else [self._index_of(source.branch, source.index)]

    def _feed(self, branch: BranchState, count: int, after: tuple[After, ...]) -> None:
        start, at = len(self._tokens), self._placed[branch]
        row, sequence = branch.memory.row, branch.sequence
        assert row is not None
        cells = self._memory.take(branch, count)
        self._tokens += sequence.tokens[at : at + count]  # type: ignore[arg-type]
        self._positions += sequence.positions[at : at + count]
        self._taken += cells
        self._runs.append(Run(row, start, count, after))
        self._pieces.setdefault(branch, []).append((at, start, count))
        self._placed[branch] = at + count

    def _index_of(self, branch: BranchState, token: int) -> int:
        """The index in this step of a token that the step feeds."""
        for first, start, count in self._pieces[branch]:
            if first <= token < first + count:
                return start + token - first
        raise AssertionError(f"token {token} of `{branch.name}` is not in this step")

    # ── lock-step ────────────────────────────────────────────────────────────────────────────────────────

    def _place_in_lockstep(self, branch: BranchState, end: int) -> None:
        """Token k is fed when token k of every earlier value has been fed, or that value has ended."""
        values = values_before(branch)
        while (at := self._placed[branch]) < end:
            if at == 0 and not self._is_reached(branch.sequence.source):
                return
            seen = self._seen_in_lockstep(values, at)
            if seen is None:
                return
            if self._free == 0:  # asked after the earlier values, which may just have taken cells
                self.was_short = True
                return
            now, earlier = seen
            alone = not now and not earlier and at == branch.memory.fed and not _may_grow(values, at)
            count = min(end - at, self._free) if alone else 1
            shown = (OfCells(earlier),) if earlier else ()
            self._feed(branch, count, (*self._own(branch), *now, *shown))

    def _demand_values_before(self, branch: BranchState) -> None:
        """Before any branch is placed: earlier values that have ended feed what later ones need."""
        for value in values_before(branch):
            if value is not None and value.has_ended:
                value.need(min(branch.memory.demand, len(value.sequence.tokens)))

    def _seen_in_lockstep(
        self, values: Sequence[BranchState | None], at: int
    ) -> tuple[tuple[int, ...], tuple[CellId, ...]] | None:
        """Token `at` of the earlier values: the last one of this step, and cells of tokens fed in earlier steps.

        The latter only exist when a value is decoded again. None: some tokens are still to come.
        """
        earlier: list[CellId] = []
        for index, value in enumerate(values):
            if value is None:
                return None
            length = len(value.sequence.tokens)
            if value.has_ended and length <= at:
                continue
            if length <= at:
                return None
            if at < value.memory.fed:
                earlier.append(value.memory.cells[at])
                continue
            self._place(value, is_needed=True)
            if at >= self._placed[value] or value.sequence.values_before != list(values[index + 1 :]):
                return None  # the last tokens of a value that has seen others are fed one step earlier
            return (self._index_of(value, at),), tuple(reversed(earlier))  # it sees all earlier values
        return (), tuple(reversed(earlier))

    # ── after the step ───────────────────────────────────────────────────────────────────────────────────

    def _captures(self) -> list[Capture]:
        """Rows for children that follow a token of this step and begin later."""
        captures: list[Capture] = []
        for branch in self._pieces:
            later = []
            for index, child in branch.memory.children:
                if index >= self._placed[branch]:
                    later.append((index, child))
                elif child.memory.row is None and _needs_row(child) and not self._memory.has_row:
                    child.memory.owner.late.append(child)
                elif child.memory.row is None and _needs_row(child):
                    captures.append(Capture(self._memory.open_row(child), self._index_of(branch, index)))
            branch.memory.children[:] = later
        return captures

    def _wanted(self) -> tuple[list[int], list[Source]]:
        wanted: list[int] = []
        sources: list[Source] = []
        for branch in self._pieces:
            placed = self._placed[branch]
            for index in sorted(index for index in branch.memory.waiting if index < placed):
                wanted.append(self._index_of(branch, index))
                sources.append(Source(branch, index))
        return wanted, sources

    def _draft(self, draft: Draft, wanted: list[int], sources: Sequence[Source]) -> list[DraftTree]:
        if self._free <= 0:
            return []
        drawing = {
            branch: source
            for source in sources
            for branch in source.branch.memory.waiting[source.index]
            if self._can_draft(branch, source)
        }
        trees = draft(list(drawing), len(self._tokens), self._free) if drawing else ()
        return [
            self._feed_drafts(branch, drawing[branch], guesses, wanted)
            for branch, guesses in zip(drawing, trees, strict=True)
            if guesses
        ]

    def _can_draft(self, branch: BranchState, source: Source) -> bool:
        """Whether guesses can follow the token that a branch draws from. In lock-step a value sees others grow. A
        branch that begins here has to be let in first."""
        request = branch.request
        sequence, memory = branch.sequence, branch.memory
        if branch.pending.hole is None or branch in request.pending.probes or branch.spec.lockstep is not None:
            return False
        if branch.drafts == "off":
            return False
        if len(sequence.tokens) in sequence.joins or request.schedule.pace is not Pace.RESERVED:
            return False
        if branch is source.branch:
            return memory.waiting[source.index] == [branch] and source.index == len(sequence.tokens) - 1
        if sequence.tokens or memory.row is None:
            return False
        memory.is_admitted = memory.is_admitted or self._may_begin(branch)
        return memory.is_admitted

    def _feed_drafts(
        self, branch: BranchState, source: Source, guesses: Sequence[Guess], wanted: list[int]
    ) -> DraftTree:
        cells = self._memory.take_for_drafts(len(guesses))
        row = source.branch.memory.row
        assert row is not None
        first, last = len(self._tokens), self._index_of(source.branch, source.index)
        nodes: list[Node] = []
        for number, (guess, cell) in enumerate(zip(guesses, cells, strict=True)):
            is_first = guess.parent == FROM_BRANCH
            position = branch.sequence.position if is_first else nodes[guess.parent].position + 1
            if number and guess.parent == number - 1:
                run = self._runs.pop()
                self._runs.append(Run(run.row, run.start, run.count + 1, run.after, keep=False))
            else:
                after = last if is_first else first + guess.parent
                self._runs.append(Run(row, first + number, 1, (after,), keep=False))
            nodes.append(Node(guess, position, cell, len(wanted)))
            wanted.append(first + number)
            self._tokens.append(TokenId(guess.token))
            self._positions.append(position)
            self._taken.append(cell)
        return DraftTree(branch, len(branch.sequence.tokens), nodes, is_weighed=branch.drafts == "auto")


def _may_grow(values: Sequence[BranchState | None], at: int) -> bool:
    """Whether an earlier value may still have more tokens than `at`."""
    return any(value is None or not value.has_ended or len(value.sequence.tokens) > at for value in values)


def _needs_row(child: BranchState) -> bool:
    """Whether the child may still need a row."""
    if child.memory.fed or not child.memory.is_held:
        return False
    if child.stage is not Stage.ENDED or child.sequence.tokens:
        return True
    return bool(child.request.tokens.joiners[child.spec.id])


def commit_step(step: Step) -> None:
    """The step has run: its tokens are fed, and count for the requests that they were fed for."""
    for owner in dict.fromkeys(branch.memory.owner for branch in step.fed):
        if owner.request is not None:
            counts = owner.request.counts
            counts.forward_passes += 1
            counts.was_held_back |= step.was_short
            counts.peak_cells = max(counts.peak_cells, owner.cells_now)
    for branch, placed in step.fed.items():
        memory = branch.memory
        request = memory.owner.request
        if request is not None:
            branch.record.runs.append((memory.fed, placed - memory.fed, request.counts.forward_passes))
        memory.fed = placed
        if memory.fed >= memory.demand:
            memory.owner.to_feed.pop(branch, None)
