"""The state of a run: a request and its branches. Each class is written by one part of the scheduler.

RequestState      what was asked, and what became of it
LiveBranches      the branches of the run, by instance and document   `RequestState.add`
PendingBranches   those that wait                                     the interpreter
OwnerMemory       those that have something in memory or need it      the step builder and `memory`
Scheduling        how the request begins, and whether it has          `Scheduler`
RunCounts         what the run has taken                              all of them

BranchState       where it is in the plan, and what it has written    the interpreter
TokenSequence     its tokens, their positions, what they see          `append` and joins
BranchMemory      its cells and its row, and who needs them           the step builder and `memory`
Pending           the hole, decision or join that it waits for        `fields`, `visibility`
BranchRecord      what it has done                                    all of them; results are made of it
Repeats           what it repeats of the run before                   `again`
Again             how a run repeats the one before                    the reviewer and `again`

tokens   [ fed │ not fed yet ]       `cells` has one cell for each fed token
demand   how many of them are needed; other tokens are never fed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

from pastalang.plan.branches import ROOT, Branch, BranchId, Hole, Instance, Repeat
from pastalang.plan.machine import Cursor, Wait
from pastalang.plan.positions import tokens_left
from pastalang.plan.run_log import Event, Fed, InstanceLog, RunLog
from pastalang.program.types import Drafts, Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.constraints.tagged_text import Tag
from pastalang.runtime.errors import RunError
from pastalang.runtime.events import EventLog
from pastalang.runtime.scheduler.hole import Decision, Fill, OpenHole
from pastalang.runtime.scheduler.transcript import DrawnToken, Field, Written
from pastalang.runtime.step import CellId, RowId
from pastalang.values.quotes import no_texts, quotable_texts

_ONE_FED = Fed(1)  # a run has thousands of them


class Stage(Enum):
    WALKING = "walking"
    DRAWING = "drawing"  # waits for logits
    JOINING = "joining"  # waits for other branches
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Source:
    """The token that a branch follows: number `index` of `branch`."""

    branch: BranchState
    index: int


class Seen(NamedTuple):
    """A prefix of another branch."""

    branch: BranchState
    length: int


@dataclass(slots=True)
class OpenList:
    """A list that a branch is inside of: what its items have written so far, and the elements that it goes over."""

    repeat: Repeat
    elements: tuple[Any, ...] | None = None
    items: list[list[Written]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class OwnerMemory:
    """The branches of a request that have something in memory or need it, or those of the prefix cache."""

    request: RequestState | None = None
    to_feed: dict[BranchState, None] = field(default_factory=dict)  # branches with tokens that are needed and not fed
    held: dict[BranchState, None] = field(default_factory=dict)  # branches that keep memory, or may take some
    late: list[BranchState] = field(default_factory=list)  # without a row, forked after a token that was fed earlier
    cells_now: int = 0


@dataclass(eq=False, slots=True)
class TokenSequence:
    """The tokens of a branch, where they stand, and what they see of other branches."""

    source: Source | None  # what its first token follows
    view: tuple[Seen, ...]  # what its next token sees
    start: int  # the position of its first token
    position: int  # of its next token
    highest: int  # the highest position that it sees or has
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    joins: dict[int, tuple[BranchState, ...]] = field(default_factory=dict)  # before the token of this index
    sees: int = 0  # how many tokens of other branches are in its view
    values_before: list[BranchState] | None = None  # in its lock-step group, the nearest first
    prompt: int = 0  # its tokens before the model's turn, if that turn begins in it
    skip: int = 0  # so many of its first tokens are in the prefix cache
    own_before: tuple[Seen, ...] = ()  # its own beginning, in other branches: see `sample_request.penalty_tokens`


def view_from(branch: BranchState) -> tuple[Seen, ...]:
    """What a branch sees that starts here."""
    sequence = branch.sequence
    return (*sequence.view, Seen(branch, len(sequence.tokens))) if sequence.tokens else sequence.view


class Drafted(Protocol):
    """What the current step fed after the last token of a branch, on the chance that the branch draws it."""

    def confirm(self) -> None:
        """Make the tokens of the branch that are needed next its own, as far as they are drafts."""

    def row_of(self, token: int) -> int | None:
        """The row of logits of a token of the branch, if it is a confirmed draft."""


@dataclass(eq=False, slots=True)
class BranchMemory:
    """What a branch has in memory, what is needed there, and for whom it is kept.

    Its owner is its request, unless that is the prefix cache: a kept stretch of a prompt has no request.
    """

    owner: OwnerMemory
    cells: list[CellId] = field(default_factory=list)  # one for each fed token
    row: RowId | None = None
    fed: int = 0  # how many of its tokens
    demand: int = 0  # how many of them are needed
    children: list[tuple[int, BranchState]] = field(default_factory=list)  # (after which token, child) without a row
    waiting: dict[int, list[BranchState]] = field(default_factory=dict)  # the branches that sample after each token
    viewers: int = 0  # held branches that see it
    is_held: bool = True
    is_admitted: bool = False
    reserved: int = 0  # cells that were reserved for it when it was admitted
    expected: int = 0  # tokens of a thread: how many to reserve cells for
    draft: Drafted | None = None
    unseen: list[CellId] = field(default_factory=list)  # cells of confirmed drafts, which its row has yet to see


WithTags: TypeAlias = tuple[Fill, tuple[tuple[int, Tag], ...]]  # what a token does, and the tags that it completes


@dataclass(eq=False, slots=True)
class Pending:
    """What a branch waits for: a sample for its hole or its decision, or other branches."""

    hole: OpenHole | None = None
    decision: Decision | None = None
    wait: Wait | None = None
    held_back: WithTags | None = None  # a token that is fed once threads have ended
    since: int = 0  # the forward pass in which it began to wait for other branches
    start: int = 0  # how many tokens it had when its hole began


@dataclass(eq=False, slots=True)
class BranchRecord:
    """What a branch has done. Nothing that it does next depends on it."""

    log: list[Event] = field(default_factory=list)
    drawn: list[DrawnToken] = field(default_factory=list)
    runs: list[tuple[int, int, int]] = field(default_factory=list)  # (first token, count, forward pass)
    joins: list[tuple[int, int, tuple[BranchState, ...]]] = field(default_factory=list)  # (since, index, joined)
    drafts: list[tuple[int, int, int]] = field(default_factory=list)  # (forward pass, drafts, confirmed ones)
    confirmed: list[int] = field(default_factory=list)  # its tokens that were drafts
    outcomes: list[Any] = field(default_factory=list)  # of its holes, decisions and loops: see `again`


@dataclass(eq=False, slots=True)
class Repeats:
    """What a branch repeats of the run before: see `again`."""

    before: BranchState | None = None  # what it repeats now
    is_stale: bool = False  # it repeats, and sees something that is not what it saw before
    since: int = 1  # the run in which it last wrote something new
    kept: int = 0  # how many outcomes it repeated before that
    lead: Lead | None = None  # with which it became new


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class BranchState:
    """Which branch it is, where it is in the plan, and what it has written; the rest of its state has other owners."""

    request: RequestState = field(init=False)  # a stretch in the prefix cache has none
    spec: Branch
    items: tuple[int, ...]
    number: int  # in the order in which branches were made: parents first
    names: Mapping[str, Any]  # the elements of the fan-outs around it
    draw_items: tuple[int, ...]  # its items, those of stacked documents left out
    cursor: Cursor  # where it is in the plan
    sequence: TokenSequence
    memory: BranchMemory
    parent: BranchState | None = None
    stage: Stage = Stage.WALKING
    lists: list[OpenList] = field(default_factory=list)  # around its place, outermost first
    written: list[Written] = field(default_factory=list)
    pending: Pending = field(default_factory=Pending)
    record: BranchRecord = field(default_factory=BranchRecord)
    repeats: Repeats = field(default_factory=Repeats)

    def __repr__(self) -> str:
        """Short, because branches refer to one another."""
        return f"<branch {self.number} `{self.name}` {self.items}>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def instance(self) -> Instance:
        return self.cursor.instance

    @property
    def document(self) -> tuple[int, ...]:
        """The number of its document in a stack: the items that its random draws do not depend on."""
        return self.items[: len(self.items) - len(self.draw_items)]

    @property
    def has_ended(self) -> bool:
        return self.stage is Stage.ENDED

    @property
    def view(self) -> tuple[Seen, ...]:
        """The branches that it sees."""
        return self.sequence.view

    @property
    def drafts(self) -> Drafts:
        """How many tokens are guessed ahead of the hole that it fills."""
        hole = self.pending.hole
        asked = None if hole is None else hole.hole.sampling.drafts
        return asked or self.request.base.drafts or "off"

    @property
    def last(self) -> Source | None:
        """The token that its next token follows."""
        sequence = self.sequence
        return Source(self, len(sequence.tokens) - 1) if sequence.tokens else sequence.source

    def append(self, tokens: tuple[int, ...] | list[int]) -> None:
        """Add tokens, to be fed when they are needed."""
        sequence = self.sequence
        if tokens:
            self.record.log.append(_ONE_FED if len(tokens) == 1 else Fed(len(tokens)))
        if sequence.skip:
            skipped = min(sequence.skip, len(tokens))
            sequence.skip -= skipped
            tokens = tokens[skipped:]
        if not tokens:
            return
        sequence.tokens.extend(tokens)
        sequence.positions.extend(range(sequence.position, sequence.position + len(tokens)))
        sequence.position += len(tokens)
        sequence.highest = max(sequence.highest, sequence.position - 1)

    def need(self, count: int) -> None:
        """Its first `count` tokens are needed, and so is everything that these tokens see."""
        if count <= self.memory.demand:
            return
        needed = [(self, count)]
        while needed:
            branch, count = needed.pop()
            memory, sequence = branch.memory, branch.sequence
            if count <= memory.demand:
                continue
            for index, joined in sequence.joins.items():
                if memory.demand <= index < count:
                    needed += [(last.branch, last.index + 1) for one in joined if (last := one.last) is not None]
            if memory.demand == 0 and sequence.source is not None:
                needed.append((sequence.source.branch, sequence.source.index + 1))
            memory.demand = count
            if memory.draft is not None:
                memory.draft.confirm()
            if count > memory.fed:
                memory.owner.to_feed[branch] = None

    def take_draft(self, cell: CellId) -> None:
        """Its next token has been fed as a draft: the cell is now its own."""
        counts, memory, owner = self.request.counts, self.memory, self.memory.owner
        self.record.confirmed.append(memory.fed)
        self.record.runs.append((memory.fed, 1, counts.forward_passes))
        memory.cells.append(cell)
        memory.unseen.append(cell)
        memory.fed += 1
        owner.cells_now += 1
        counts.peak_cells = max(counts.peak_cells, owner.cells_now)
        later = [(index, child) for index, child in memory.children if index >= memory.fed]
        owner.late += [child for index, child in memory.children if index < memory.fed]
        memory.children[:] = later

    @property
    def page(self) -> list[Written]:
        """Where it writes: in the present item of the innermost list."""
        return self.lists[-1].items[-1] if self.lists else self.written

    @property
    def draw_items_here(self) -> tuple[int, ...]:
        """The item numbers at its current place, those of stacked documents left out."""
        return (*self.draw_items, *self.cursor.items[len(self.items) :])

    def move(self, answer: int = 0) -> None:
        """Move its cursor behind the present action, and begin the items and leave the lists that this passes."""
        self.cursor = self.cursor.after(answer)
        if not self.lists:
            return
        around = self.cursor.lists
        while len(self.lists) > len(around):
            self.lists.pop()
        if around:
            items = self.lists[-1].items
            while len(items) <= around[-1].item:
                items.append([])

    def wait_for_row(self) -> None:
        """Get a row with the token that it follows, or in the next step if that token has been fed."""
        source = self.sequence.source
        if source is None:
            return
        before = source.branch.memory
        if source.index < before.fed:
            self.memory.owner.late.append(self)
        else:
            before.children.append((source.index, self))

    def forget_row(self) -> None:
        """The branch no longer waits for a row."""
        source = self.sequence.source
        if source is not None:
            children = source.branch.memory.children
            children[:] = [(index, child) for index, child in children if child is not self]


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────


class Pace(Enum):
    """How a request begins its branches, from the most to the least memory that it takes as it goes."""

    RESERVED = "reserved"  # each branch once its cells are reserved
    RELAXED = "relaxed"  # at first like that, and without reservations from then on
    EAGER = "eager"  # all at once from the start, without reservations: the schedule of a large memory
    SERIAL = "serial"  # one after another

    @property
    def next(self) -> Pace | None:
        """What to try when no branch can begin."""
        order = tuple(Pace)
        return None if self is order[-1] else order[order.index(self) + 1]


@dataclass(frozen=True, slots=True)
class FirstAnswerStats:
    """What a run had taken when its first answer was complete, before anything was decoded again."""

    branches: int
    forward_passes: int
    last_draw: int
    drawn: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """The kept beginning of a prompt: its first `length` tokens are in `view`, the last of them is `source`."""

    length: int = 0
    view: tuple[Seen, ...] = ()
    source: Source | None = None
    reused: int = 0  # how many of them had been fed before


NOTHING = Prefix()


@dataclass(frozen=True, slots=True)
class Filled:
    """A hole as it was filled: its field, and its tokens among those of its branch."""

    field: Field
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lead:
    """Text that is forced before what is decoded again, and is not part of the answer.

    `key` names what is decoded again: a field, or else all of a branch from its first hole, choice or list on.
    `position` is where the text stands if not where the branch is.
    """

    key: tuple[str, tuple[int, ...]]
    field: tuple[str, tuple[int, ...]] | None
    text: str
    reason: str
    position: int | None


@dataclass(eq=False, slots=True)
class Again:
    """How a run repeats the one before it.

    before   what each branch repeats
    leads    where branches are new
    settled  the documents in which a branch is new that has joined something newer than what it saw before
    known    how many outcomes of a branch the caller knows; without a number, all that it repeats
    """

    number: int
    before: dict[Instance, BranchState]
    leads: dict[Instance, list[Lead]] = field(default_factory=dict)
    settled: set[tuple[int, ...]] = field(default_factory=set)
    known: dict[Instance, int] = field(default_factory=dict)

    def repeats(self, instance: Instance, parent: BranchState | None) -> Repeats:
        """What a branch repeats that begins now."""
        around = Repeats() if parent is None else parent.repeats
        before = self.before.get(instance) if parent is None or around.before is not None else None
        return Repeats(before, around.is_stale, self.number if before is None else before.repeats.since)


class Reviewer(Protocol):
    """Judges a complete answer. Gives how it is decoded again, or None if it stays.

    `give_up`: there is no room for what some documents, or all of them, decode again. Gives how the run is repeated
    without it.
    """

    def review(self, request: RequestState) -> Again | None: ...

    def give_up(self, request: RequestState, why: RunError, documents: Collection[tuple[int, ...]]) -> Again: ...


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the caller asks of one run. Requests of different keepers share no kept prompt, and those that have a keeper
    leave nothing behind that drafts are guessed from."""

    number: int
    seed: int
    details: bool
    keeper: str
    make_reviewer: Callable[[], Reviewer] | None


@dataclass(eq=False, slots=True)
class RunCounts:
    """What a run has taken since it was prepared."""

    forward_passes: int = 0
    last_draw: int = 0  # the forward pass of the last drawn token
    kept_tokens: int = 0  # tokens of its prompt that the prefix cache holds
    reused_tokens: int = 0  # those of them that an earlier request had fed
    peak_cells: int = 0
    attended: int = 0
    drafted: int = 0  # drafts that were fed
    was_held_back: bool = False  # cells or pauses delayed something: the forecast of passes does not hold
    decoded: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)  # how often, by field and items
    decoded_before: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)  # the present run
    first_answer: FirstAnswerStats | None = None


@dataclass(eq=False, slots=True)
class PendingBranches:
    """The branches of a run that wait. Nothing is left to do once none of them draws or joins."""

    drawing: int = 0  # how many wait for logits
    ready: list[tuple[BranchState, Source]] = field(default_factory=list)  # those of the current step will do
    joining: list[BranchState] = field(default_factory=list)
    probes: dict[BranchState, None] = field(default_factory=dict)  # fed for options of a choice, not part of the answer


@dataclass(eq=False, slots=True)
class Scheduling:
    """How a request has come along in the scheduler, from the time it was submitted."""

    pace: Pace = Pace.RESERVED
    began: Pace = Pace.RESERVED  # how it began the last time
    answered: Pace | None = None  # how it began when it last came to an answer
    is_last_try: bool = False  # nothing less is left to try, and what is decoded again has had its tries
    preemptions: int = 0
    is_prepared: bool = False
    had_company: bool = False  # another request was active at the same time
    is_stopped: bool = False  # it is over, and its answer is not complete
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def seconds(self) -> float:
        return self.ended_at - self.started_at if self.started_at else 0.0


class LiveBranches:
    """The branches of the present run of the plan, and how it repeats the one before."""

    def __init__(self, again: Again | None = None) -> None:
        self.again = again
        self._by_instance: dict[BranchId, dict[tuple[int, ...], BranchState]] = {}
        self._by_document: dict[tuple[int, ...], list[BranchState]] = {}

    def __iter__(self) -> Iterator[BranchState]:
        return chain.from_iterable(self._by_document.values())

    def add(self, branch: BranchState) -> None:
        self._by_instance.setdefault(branch.spec.id, {})[branch.items] = branch
        self._by_document.setdefault(branch.document, []).append(branch)

    def beside(self, branch: BranchState) -> Iterator[BranchState]:
        """The branches of the same answer as `branch`: in a stack, those of its document."""
        return iter(self._by_document[branch.document])

    def instances(self, id: BranchId, prefix: tuple[int, ...]) -> list[BranchState]:
        """The instances of a branch so far whose items begin with `prefix`, in order."""
        known = self._by_instance.get(id, {})
        exact = known.get(prefix)
        if exact is not None:
            return [exact]
        return [branch for items, branch in sorted(known.items()) if items[: len(prefix)] == prefix]


class RequestState:
    """`base` is the sampling where neither hole nor template sets one. `events` are kept only `with_events`.

    With a reviewer, the plan may be run several times: `branches` are those of all runs, `live` those of the last one.
    """

    def __init__(
        self,
        tokens: BoundPlan,
        values: Mapping[str, Any],
        *,
        number: int,
        seed: int = 0,
        base: Sampling | None = None,
        make_reviewer: Callable[[], Reviewer] | None = None,
        details: bool = False,
        with_events: bool = True,
        keeper: str = "",
    ) -> None:
        self.tokens = tokens = tokens.for_values(values)
        self.plan = tokens.bound
        self.values = values
        self.texts = no_texts(self.plan.inputs) | quotable_texts(values) if tokens.quoting else {}
        self.base = base or Sampling()
        self.options = RunOptions(number, seed, details, keeper, make_reviewer)
        self.events = EventLog(is_read=with_events)
        self.error: RunError | None = None
        self.is_over = False
        self.schedule = Scheduling()
        self._reset()

    def _reset(self) -> None:
        """Make the request as it was before it was prepared. All of its memory has been given back."""
        make_reviewer = self.options.make_reviewer
        self.reviewer = None if make_reviewer is None else make_reviewer()
        self.branches: list[BranchState] = []  # in the order in which they were made
        self.live = LiveBranches()
        self.memory = OwnerMemory(self)
        self.pending = PendingBranches()
        self.counts = RunCounts()
        self.schedule.is_prepared = self.schedule.had_company = False

    @property
    def decoded(self) -> Counter[tuple[str, tuple[int, ...]]]:
        """How often each field was decoded, by its path and items."""
        return self.counts.decoded

    @property
    def drafts(self) -> set[Drafts]:
        """How many tokens its holes guess ahead."""
        return {one or self.base.drafts or "off" for one in self.tokens.drafts}

    @property
    def again(self) -> Again | None:
        """How the present run repeats the one before."""
        return self.live.again

    @property
    def root(self) -> BranchState:
        [root] = self.live.instances(ROOT, ())
        return root

    @property
    def first_run(self) -> Sequence[BranchState]:
        """The branches of the first complete answer."""
        first = self.counts.first_answer
        return self.branches if first is None else self.branches[: first.branches]

    @property
    def all_branches(self) -> Iterator[BranchState]:
        """Every branch that may own memory, probes included."""
        return chain(self.branches, self.pending.probes)

    @property
    def is_waiting(self) -> bool:
        """Whether anything is still to be drawn or joined."""
        return bool(self.pending.drawing or self.pending.joining)

    @property
    def keeps_unseen_tokens(self) -> bool:
        """Whether it goes on from the middle of a kept stretch, whose end takes cells that it does not need."""
        seen_in_cache = (seen for seen in self.root.sequence.view if seen.branch.memory.owner is not self.memory)
        return any(seen.length < len(seen.branch.sequence.tokens) for seen in seen_in_cache)

    def review(self) -> Again | None:
        """Let the reviewer judge the complete answer. Gives how it is decoded again, or None."""
        self.counts.first_answer = self.counts.first_answer or self.stats
        if self.reviewer is None:
            return None
        self.events.complete(1 if self.again is None else self.again.number)
        return self.reviewer.review(self)

    def give_up(self, why: RunError, documents: Collection[tuple[int, ...]]) -> Again | None:
        """How the present run is repeated without what it decodes again, which there is no room for; None if it decodes
        nothing again. What is given up counts for its cost alone."""
        again = self.again
        if self.reviewer is None or again is None or not (again.leads or again.settled):
            return None
        self.counts.decoded = self.counts.decoded_before
        return self.reviewer.give_up(self, why, documents)

    @property
    def stats(self) -> FirstAnswerStats:
        drawn = sum(len(branch.record.drawn) for branch in self.branches)
        return FirstAnswerStats(len(self.branches), self.counts.forward_passes, self.counts.last_draw, drawn)

    def run_log(self, *, chunk: int | None = None) -> RunLog:
        """What the first complete answer took, without anything that was decoded again."""
        logs = {
            one.instance: InstanceLog(tuple(one.record.log), frozenset(one.record.confirmed)) for one in self.first_run
        }
        return RunLog(logs, chunk, self.counts.kept_tokens)

    def preempt(self) -> None:
        """Start again later, with the same tokens. All of its memory has been given back."""
        self.schedule.preemptions += 1
        self.start_over()

    def start_over(self) -> None:
        """Preparing it begins anew. What it has reported is not reported again."""
        self.events.start_again()
        self._reset()
        self.counts.was_held_back = True

    def begin(self, prefix: Prefix) -> BranchState:
        root = self.add(
            ROOT, (), source=prefix.source, view=prefix.view, position=prefix.length, highest=prefix.length - 1,
            names={}, parent=None,
        )  # fmt: skip
        root.sequence.skip = prefix.length
        root.sequence.own_before = prefix.view
        return root

    def prompt_kept(self, leading: int) -> Prefix:
        """What of the first `leading` tokens of its prompt is in memory."""
        root, view, source = self.root, self.root.sequence.own_before, self.root.sequence.source
        length = sum(seen.length for seen in view)
        count = min(leading - length, root.memory.fed)
        if count > 0:
            length, view, source = length + count, (*view, Seen(root, count)), Source(root, count - 1)
        return Prefix(length, view, source)

    def begin_again(self, again: Again, prefix: Prefix) -> BranchState:
        """Run the plan once more, on the prompt that is kept. All other memory has been given back."""
        self.live, self.pending = LiveBranches(again), PendingBranches()
        self.counts.decoded_before = self.counts.decoded.copy()
        root = self.begin(prefix)
        root.memory.is_admitted = True
        return root

    def add(
        self,
        id: BranchId,
        items: tuple[int, ...],
        *,
        source: Source | None,
        view: tuple[Seen, ...],
        position: int,
        highest: int,
        names: Mapping[str, Any],
        parent: BranchState | None,
        draw_items: tuple[int, ...] | None = None,
    ) -> BranchState:
        branch = BranchState(
            spec=self.plan.branch(id), items=items, number=len(self.branches), names=names, parent=parent,
            draw_items=items if draw_items is None else draw_items,
            cursor=self.tokens.machine.begin(Instance(id, items)),
            sequence=TokenSequence(source, view, position, position, highest), memory=BranchMemory(self.memory),
        )  # fmt: skip
        branch.request = self
        branch.sequence.sees = sum(seen.length for seen in view)
        self.branches.append(branch)
        self.memory.held[branch] = None
        self.live.add(branch)
        if self.again is not None:
            branch.repeats = self.again.repeats(branch.instance, parent)
        for seen in view:
            seen.branch.memory.viewers += 1
        branch.wait_for_row()
        return branch

    def add_probe(self, branch: BranchState) -> None:
        """Add a branch that is fed once, in parallel with everything else, for the logits of its last token."""
        source, length = branch.sequence.source, len(branch.sequence.tokens)
        assert source is not None and source.index < source.branch.memory.fed
        branch.request = self
        self.pending.probes[branch] = self.memory.held[branch] = None
        branch.wait_for_row()
        for seen in branch.sequence.view:
            seen.branch.memory.viewers += 1
        branch.memory.waiting[length - 1] = [branch]
        self.pending.drawing += 1
        branch.need(length)

    def limit(self, branch: BranchState, hole: Hole, *, fed: int = 0) -> int:
        """How many tokens the value of a hole may have where a branch is, or `fed` tokens later."""
        spec, sequence = branch.spec, branch.sequence
        left = tokens_left(sequence.position + fed, sequence.start, spec.reserve, spec.overrun)
        return hole.max_tokens if left is None else min(hole.max_tokens, left)
