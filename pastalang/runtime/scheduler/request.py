"""One run of a plan: its branches and what they share. It knows which branches exist, not which of them move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, Protocol

from pastalang.plan.plan import ROOT, BranchId, Instance, Overrun
from pastalang.plan.positions import tokens_left
from pastalang.plan.run_log import InstanceLog, RunLog
from pastalang.program.types import Drafts, Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.errors import RunError
from pastalang.runtime.scheduler.branch import BranchMemory, BranchState, OwnerMemory, Seen, Source, TokenSequence
from pastalang.runtime.scheduler.event_log import EventLog
from pastalang.runtime.scheduler.lockstep import fix_values_before
from pastalang.values.quotes import no_texts, quotable_texts


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


class Reviewer(Protocol):
    """Judges a complete answer, and may rewind branches of the request; says whether it did.

    `undoable` are branches that are not in the answer now and may be put back into it.
    """

    @property
    def undoable(self) -> Iterable[BranchState]: ...

    def review(self, request: RequestState) -> bool: ...


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the caller asks of one run. Requests of different keepers share no kept prompt."""

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
    preemptions: int = 0
    is_prepared: bool = False
    had_company: bool = False  # another request was active at the same time
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def seconds(self) -> float:
        return self.ended_at - self.started_at if self.started_at else 0.0


class LiveBranches:
    """The branches that the answers are made of: for each instance the one that stands for it."""

    def __init__(self) -> None:
        self._by_instance: dict[BranchId, dict[tuple[int, ...], BranchState]] = {}
        self._by_document: dict[tuple[int, ...], dict[BranchState, None]] = {}
        self._made: Counter[tuple[BranchId, tuple[int, ...]]] = Counter()

    def __iter__(self) -> Iterator[BranchState]:
        return chain.from_iterable(self._by_document.values())

    def add(self, branch: BranchState) -> int:
        """Show a new branch. Returns how many have been made for its instance, this one included."""
        key = branch.spec.id, branch.items
        self._made[key] += 1
        self.show(branch)
        return self._made[key]

    def show(self, *branches: BranchState) -> None:
        """Make them the instances of their branches."""
        for branch in branches:
            self._by_instance.setdefault(branch.spec.id, {})[branch.items] = branch
            self._by_document.setdefault(branch.document, {})[branch] = None

    def hide(self, *branches: BranchState) -> None:
        """Take them out of the answer: other branches may be the instances."""
        for branch in branches:
            del self._by_instance[branch.spec.id][branch.items]
            del self._by_document[branch.document][branch]

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

    With a reviewer, a branch that could be rewound keeps its memory while it is part of the answer.
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
    def root(self) -> BranchState:
        return self.branches[0]

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
        return any(seen.length < len(seen.branch.sequence.tokens) for seen in self.root.sequence.view)

    def review(self) -> bool:
        """Let the reviewer judge the complete answer. Says whether anything is decoded again."""
        self.counts.first_answer = self.counts.first_answer or self.stats
        fix_values_before(self.live)
        return self.reviewer is not None and self.reviewer.review(self)

    @property
    def stats(self) -> FirstAnswerStats:
        drawn = sum(len(branch.record.drawn) for branch in self.branches)
        return FirstAnswerStats(len(self.branches), self.counts.forward_passes, self.counts.last_draw, drawn)

    def run_log(self, *, chunk: int | None = None) -> RunLog:
        """What the first complete answer took, without anything that was decoded again."""
        first = self.branches[: self.counts.first_answer.branches if self.counts.first_answer else None]
        logs = {one.instance: InstanceLog(tuple(one.record.log), frozenset(one.record.confirmed)) for one in first}
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
        root.sequence.skip = self.counts.kept_tokens = prefix.length
        root.sequence.own_before = prefix.view
        self.memory.cells_now = prefix.length
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
        branch.retries.attempt = self.live.add(branch)
        branch.retries.origin = branch.number
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

    def room(self, branch: BranchState) -> int | None:
        """How many tokens a branch may still write; None if its reserve does not cap it."""
        if branch.spec.overrun is not Overrun.CAP:
            return None
        sequence = branch.sequence
        return tokens_left(sequence.position, sequence.start, branch.spec.reserve, branch.spec.overrun)
