"""One run of a plan: its branches and what they share. It knows which branches exist, not which of them move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from pastalang.plan.plan import ROOT, BranchId, Overrun
from pastalang.plan.positions import room_left
from pastalang.program.types import Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.errors import RunError
from pastalang.runtime.events import Event
from pastalang.runtime.scheduler.branch import BranchState, Seen, Source
from pastalang.runtime.scheduler.event_log import EventLog
from pastalang.runtime.scheduler.lockstep import settle_values_before
from pastalang.runtime.step import RowId


@dataclass(frozen=True, slots=True)
class FirstAnswerStats:
    branches: int
    forward_passes: int
    last_draw: int
    drawn: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a request starts behind: its first `length` tokens are in `view`, the last of them is `source`."""

    length: int = 0
    view: tuple[Seen, ...] = ()
    source: Source | None = None
    reused: int = 0  # how many of them had been fed before


NOTHING = Prefix()


class BranchOwner:
    """Whoever owns branches: a request, or the memory of prompts."""

    def __init__(self) -> None:
        self.hungry: dict[BranchState, None] = {}  # with tokens that somebody needs fed
        self.held: dict[BranchState, None] = {}  # that keep memory, or may come to
        self.late: list[BranchState] = []  # forked behind tokens that had been fed before
        self.idle_rows: list[RowId] = []  # of branches that are gone

    def demand(self, branch: BranchState, upto: int) -> None:
        """Somebody needs the first `upto` tokens of a branch fed, and so all that those see."""
        if upto <= branch.demand:
            return
        waiting = [(branch, upto)]
        while waiting:
            branch, upto = waiting.pop()
            if upto <= branch.demand:
                continue
            for index, joined in branch.joins.items():
                if branch.demand <= index < upto:
                    waiting += [(last.branch, last.index + 1) for one in joined if (last := one.last) is not None]
            if branch.demand == 0 and branch.source is not None:
                waiting.append((branch.source.branch, branch.source.index + 1))
            branch.demand = upto
            if upto > branch.fed:
                branch.request.hungry[branch] = None


class Reviewer(Protocol):
    """Looks at a request that has nothing left to draw, and may take branches of it up again: says whether it did."""

    def review(self, request: RequestState) -> bool: ...


class RequestState(BranchOwner):
    """`base` is the sampling where neither hole nor template says anything.

    With a reviewer, what a branch could be taken up behind stays in memory until the request is over.
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
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.plan = tokens.bound
        self.values = values
        self.number = number
        self.seed = seed
        self.base = base or Sampling()
        self.details = details
        self._make_reviewer = make_reviewer
        self.error: RunError | None = None
        self.started_at = self.ended_at = 0.0
        self.is_over = False
        self.was_set_back = False
        self._told = EventLog()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.branches: list[BranchState] = []
        self.aside: dict[BranchState, None] = {}  # that stand beside a choice until its options are weighed
        self.events: list[Event] = []
        self.is_prepared = False
        self.joining: list[BranchState] = []
        self.drawing: int = 0  # branches that wait for logits
        self.ready: list[tuple[BranchState, Source]] = []  # that wait for logits which this very step has given
        self.was_held_back = False  # cells or pauses made something wait: the forecast of passes is off
        self.first_pass = 0
        self.last_draw = 0
        self.forward_passes = 0
        self.fed_tokens = 0
        self.kept_tokens = 0  # that the memory of prompts holds for it, fed before or for all who begin with them
        self.reused_tokens = 0  # those of them that had been fed before
        self.peak_cells = 0
        self.attended = 0
        self.cells_now = 0
        self.reviewer = None if self._make_reviewer is None else self._make_reviewer()
        self.draft: FirstAnswerStats | None = None
        self._by_instance: dict[BranchId, dict[tuple[int, ...], BranchState]] = {}
        self.decoded: Counter[tuple[str, tuple[int, ...]]] = Counter()  # how often, by field and items
        self._made: Counter[tuple[BranchId, tuple[int, ...]]] = Counter()

    @property
    def root(self) -> BranchState:
        return self.branches[0]

    @property
    def all_branches(self) -> Iterator[BranchState]:
        """Those that stand aside too: whoever may hold memory."""
        return chain(self.branches, self.aside)

    @property
    def is_waiting(self) -> bool:
        """Whether anything is still to be drawn or joined."""
        return bool(self.drawing or self.joining)

    def takes_up_again(self) -> bool:
        """The first complete answer stands; it may not be the last one. Says whether anything is written again."""
        self.draft = self.draft or self.stand
        settle_values_before(self.live)
        return self.reviewer is not None and self.reviewer.review(self)

    @property
    def stand(self) -> FirstAnswerStats:
        drawn = sum(len(branch.drawn) for branch in self.branches)
        return FirstAnswerStats(len(self.branches), self.forward_passes, self.last_draw, drawn)

    def set_back(self) -> None:
        """Start anew later; all memory has been given back. The same tokens will come."""
        self.was_set_back = True
        self._told.start_again()
        self._begin_anew()
        self.was_held_back = True

    def take_events(self) -> list[Event]:
        """What happened since the last call. What a request that was set back tells again is left out."""
        events, self.events = self.events, []
        return self._told.new(events)

    def begin(self, prefix: Prefix) -> BranchState:
        root = self.add(
            ROOT, (), source=prefix.source, view=prefix.view, position=prefix.length, highest=prefix.length - 1,
            names={}, parent=None,
        )  # fmt: skip
        root.skip = self.kept_tokens = prefix.length
        root.own_before = prefix.view
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
            request=self, spec=self.plan.branch(id), items=items, number=len(self.branches), source=source, view=view,
            start=position, position=position, highest=highest, names=names, parent=parent,
            draw_items=items if draw_items is None else draw_items,
        )  # fmt: skip
        branch.sees = sum(seen.length for seen in view)
        self.branches.append(branch)
        self.held[branch] = None
        self._made[id, items] += 1
        branch.attempt = self._made[id, items]
        branch.origin = branch.number
        self.show(branch)
        for seen in view:
            seen.branch.viewers += 1
        if source is not None and source.index >= source.branch.fed:
            source.branch.children.append((source.index, branch))
        elif source is not None:
            self.late.append(branch)
        return branch

    def stand_aside(self, branch: BranchState) -> None:
        """It is fed once, beside everything else, for the row behind its last token, and is no part of the answer."""
        assert branch.source is not None and branch.source.index < branch.source.branch.fed
        self.aside[branch] = self.held[branch] = None
        self.late.append(branch)
        for seen in branch.view:
            seen.branch.viewers += 1
        branch.waiting[len(branch.tokens) - 1] = [branch]
        self.drawing += 1
        self.demand(branch, len(branch.tokens))

    def show(self, *branches: BranchState) -> None:
        """They are the instances of their branches."""
        for branch in branches:
            self._by_instance.setdefault(branch.spec.id, {})[branch.items] = branch

    def hide(self, *branches: BranchState) -> None:
        """Others may be the instances of their branches."""
        for branch in branches:
            del self._by_instance[branch.spec.id][branch.items]

    @property
    def live(self) -> Iterator[BranchState]:
        """The branches that the answer is made of."""
        return chain.from_iterable(known.values() for known in self._by_instance.values())

    def instances(self, id: BranchId, prefix: tuple[int, ...]) -> list[BranchState]:
        """The instances of a branch so far whose items begin with `prefix`, in order."""
        known = self._by_instance.get(id, {})
        exact = known.get(prefix)
        if exact is not None:
            return [exact]
        return [branch for items, branch in sorted(known.items()) if items[: len(prefix)] == prefix]

    def room(self, branch: BranchState) -> int | None:
        """How many tokens a branch may still write, where its reserve caps it."""
        if branch.spec.overrun is not Overrun.CAP:
            return None
        return room_left(branch.position, branch.start, branch.spec.reserve, branch.spec.overrun)
