"""One run of a plan: its branches and what they share. It knows which branches exist, not which of them move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, Protocol

from pastalang.plan.plan import ROOT, BranchId, Instance, Overrun
from pastalang.plan.positions import tokens_left
from pastalang.plan.run_log import InstanceLog, RunLog
from pastalang.program.types import Drafts, Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.errors import RunError
from pastalang.runtime.scheduler.branch import BranchMemory, BranchOwner, BranchState, Seen, Source, TokenSequence
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


class RequestState(BranchOwner):
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
        super().__init__()
        self.tokens = tokens = tokens.for_values(values)
        self.plan = tokens.bound
        self.values = values
        self.texts = no_texts(self.plan.inputs) | quotable_texts(values) if tokens.quoting else {}
        self.number = number
        self.seed = seed
        self.base = base or Sampling()
        self.details = details
        self.keeper = keeper  # requests of different ones share no kept prompt
        self.events = EventLog(is_read=with_events)
        self._make_reviewer = make_reviewer
        self.error: RunError | None = None
        self.started_at = self.ended_at = 0.0
        self.is_over = False
        self.pace = Pace.RESERVED
        self.preemptions = 0
        self._reset()

    def _reset(self) -> None:
        """Make the request as it was before it was prepared. All of its memory has been given back."""
        self.disown_all()
        self.branches: list[BranchState] = []
        self.probes: dict[BranchState, None] = {}  # fed for the options of a choice, not part of the answer
        self.is_prepared = False
        self.had_company = False  # another request was active at the same time
        self.joining: list[BranchState] = []
        self.drawing: int = 0  # branches that wait for logits
        self.ready: list[tuple[BranchState, Source]] = []  # branches that wait for logits of the current step
        self.was_held_back = False  # cells or pauses delayed something: the forecast of passes does not hold
        self.last_draw = 0
        self.forward_passes = 0
        self.kept_tokens = 0  # tokens of its prompt that the prefix cache holds
        self.reused_tokens = 0  # those of them that an earlier request had fed
        self.peak_cells = 0
        self.attended = 0
        self.drafted = 0  # drafts that were fed
        self.reviewer = None if self._make_reviewer is None else self._make_reviewer()
        self.first_answer: FirstAnswerStats | None = None
        self._by_instance: dict[BranchId, dict[tuple[int, ...], BranchState]] = {}
        self._by_document: dict[tuple[int, ...], dict[BranchState, None]] = {}
        self.decoded: Counter[tuple[str, tuple[int, ...]]] = Counter()  # how often, by field and items
        self._made: Counter[tuple[BranchId, tuple[int, ...]]] = Counter()

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
        return chain(self.branches, self.probes)

    @property
    def is_waiting(self) -> bool:
        """Whether anything is still to be drawn or joined."""
        return bool(self.drawing or self.joining)

    @property
    def keeps_unseen_tokens(self) -> bool:
        """Whether it goes on from the middle of a kept stretch, whose end takes cells that it does not need."""
        return any(seen.length < len(seen.branch.sequence.tokens) for seen in self.root.sequence.view)

    def review(self) -> bool:
        """Let the reviewer judge the complete answer. Says whether anything is decoded again."""
        self.first_answer = self.first_answer or self.stats
        fix_values_before(self.live)
        return self.reviewer is not None and self.reviewer.review(self)

    @property
    def stats(self) -> FirstAnswerStats:
        drawn = sum(len(branch.record.drawn) for branch in self.branches)
        return FirstAnswerStats(len(self.branches), self.forward_passes, self.last_draw, drawn)

    def run_log(self, *, chunk: int | None = None) -> RunLog:
        """What the first complete answer took, without anything that was decoded again."""
        first = self.branches[: self.first_answer.branches if self.first_answer else None]
        logs = {one.instance: InstanceLog(tuple(one.record.log), frozenset(one.record.confirmed)) for one in first}
        return RunLog(logs, chunk, self.kept_tokens)

    def preempt(self) -> None:
        """Start again later, with the same tokens. All of its memory has been given back."""
        self.preemptions += 1
        self.start_over()

    def start_over(self) -> None:
        """Preparing it begins anew. What it has reported is not reported again."""
        self.events.start_again()
        self._reset()
        self.was_held_back = True

    def begin(self, prefix: Prefix) -> BranchState:
        root = self.add(
            ROOT, (), source=prefix.source, view=prefix.view, position=prefix.length, highest=prefix.length - 1,
            names={}, parent=None,
        )  # fmt: skip
        root.sequence.skip = self.kept_tokens = prefix.length
        root.sequence.own_before = prefix.view
        self.cells_now = prefix.length
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
            sequence=TokenSequence(source, view, position, position, highest), memory=BranchMemory(self),
        )  # fmt: skip
        branch.request = self
        branch.sequence.sees = sum(seen.length for seen in view)
        self.branches.append(branch)
        self.held[branch] = None
        self._made[id, items] += 1
        branch.retries.attempt = self._made[id, items]
        branch.retries.origin = branch.number
        self.show(branch)
        for seen in view:
            seen.branch.memory.viewers += 1
        branch.wait_for_row()
        return branch

    def add_probe(self, branch: BranchState) -> None:
        """Add a branch that is fed once, in parallel with everything else, for the logits of its last token."""
        source, length = branch.sequence.source, len(branch.sequence.tokens)
        assert source is not None and source.index < source.branch.memory.fed
        branch.request = self
        self.probes[branch] = self.held[branch] = None
        branch.wait_for_row()
        for seen in branch.sequence.view:
            seen.branch.memory.viewers += 1
        branch.memory.waiting[length - 1] = [branch]
        self.drawing += 1
        self.demand(branch, length)

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

    @property
    def live(self) -> Iterator[BranchState]:
        """The branches that the answers are made of."""
        return chain.from_iterable(self._by_document.values())

    def live_with(self, branch: BranchState) -> Iterator[BranchState]:
        """The branches of the same answer as `branch`: in a stack, those of its document."""
        return iter(self._by_document[branch.document])

    def instances(self, id: BranchId, prefix: tuple[int, ...]) -> list[BranchState]:
        """The instances of a branch so far whose items begin with `prefix`, in order."""
        known = self._by_instance.get(id, {})
        exact = known.get(prefix)
        if exact is not None:
            return [exact]
        return [branch for items, branch in sorted(known.items()) if items[: len(prefix)] == prefix]

    def room(self, branch: BranchState) -> int | None:
        """How many tokens a branch may still write; None if its reserve does not cap it."""
        if branch.spec.overrun is not Overrun.CAP:
            return None
        sequence = branch.sequence
        return tokens_left(sequence.position, sequence.start, branch.spec.reserve, branch.spec.overrun)
