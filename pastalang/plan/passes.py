"""The passes of a finished run: the longest path through what its instances did.

    forced text     rides in the pass that feeds what comes before it
    a draw          takes its token from the logits of the last fed token, in the pass t that fed it; the token
                    and the text after it are fed in pass t + 1 at the earliest
    a dropped draw  is not fed: where no text follows it, the next draw takes the same logits, in the same pass
    a start         the child begins in the pass in which its parent's last token before it is fed
    a wait          goes on in the first pass in which the last tokens of all that is awaited are fed, or later
    lock-step       token k is fed when token k of every value before it is fed, or that value has ended
    chunks          a pass feeds a branch at most `chunk` tokens
    a draft         takes no pass: the next draw is from the pass of the draw that confirmed it
    a kept prompt   takes no pass and no part of a chunk: the root's first pass feeds what follows it

An edge of the graph leads from one thing to another that happens in the same pass at the earliest, or in the next one:
that is its weight. The run is over with the last draw. The simulator takes as many passes, step by step.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, assert_never

from pastalang.plan.branches import ROOT, Instance, LockStep
from pastalang.plan.machine import Items
from pastalang.plan.plan import Plan
from pastalang.plan.run_log import Drew, Event, Fed, InstanceLog, RunLog, Skipped, Started, Waited, needed

if TYPE_CHECKING:
    import networkx

_Moment: TypeAlias = Hashable  # a node of the graph
_BEGIN: _Moment = "begin"


def passes_taken(plan: Plan, run: RunLog) -> int:
    """The forward passes that a scheduler without admission limits takes for this run."""
    builder = _Builder(run)
    for instance, log, step in sorted(
        ((instance, log, plan.branch(instance.branch).lockstep) for instance, log in needed(plan, run).items()),
        key=lambda found: 0 if found[2] is None else found[2].index,  # values in lock-step after those before them
    ):
        builder.add(instance, log, step)
    return builder.passes()


@dataclass(slots=True)
class _Front:
    """Lock-step: what token k of the next value comes after, given all values before it."""

    tokens: list[list[_Moment]] = field(default_factory=list)
    beyond: list[_Moment] = field(default_factory=list)  # for a token that no value before has: their ends

    def at(self, index: int) -> list[_Moment]:
        return self.tokens[index] if index < len(self.tokens) else self.beyond

    def after(self, fed: list[_Moment], closed: _Moment) -> _Front:
        """The front after a value that was fed so, and is known to have ended at `closed`."""
        width = max(len(self.tokens), len(fed))
        tokens = [[*self.at(index), fed[index] if index < len(fed) else closed] for index in range(width)]
        return _Front(tokens, [*self.beyond, closed])


@dataclass(slots=True)
class _Clock:
    """How far one instance has come. `ready`: its next token can be fed. `reached`: its last token is fed."""

    ready: _Moment
    reached: _Moment
    front: _Front | None
    confirmed: frozenset[int]
    kept: int = 0  # tokens still to come that take no pass
    number: int = 0  # of the next token, kept ones left out
    fed: list[_Moment] = field(default_factory=list)  # tokens that are moments of their own
    last_draw: _Moment | None = None

    def taken(self, tokens: int) -> int:
        """How many of the next tokens a pass has to feed."""
        kept = min(self.kept, tokens)
        self.kept -= kept
        first, self.number = self.number, self.number + tokens - kept
        return sum(number not in self.confirmed for number in range(first, self.number))


class _Builder:
    def __init__(self, run: RunLog) -> None:
        import networkx  # takes a moment, and most runs are never asked for their critical path

        self._graph: networkx.DiGraph = networkx.DiGraph()
        self._order = networkx.topological_sort
        self._run = run
        self._draws: list[_Moment] = []  # what each draw takes its logits from
        self._fronts: dict[tuple[int, Items], _Front] = {}  # of a group, by its items

    def passes(self) -> int:
        earliest: dict[_Moment, int] = {}
        for moment in self._order(self._graph):
            before = self._graph.pred[moment].items()
            earliest[moment] = max((earliest[one] + edge["weight"] for one, edge in before), default=0)
        return max((earliest[moment] for moment in self._draws), default=0)

    def add(self, instance: Instance, log: InstanceLog, step: LockStep | None) -> None:
        group = None if step is None else (step.group, instance.items)
        front = None if group is None else self._fronts.setdefault(group, _Front())
        clock = _Clock((instance, "ready"), (instance, "reached"), front, log.confirmed)
        if instance.branch == ROOT:
            clock.kept = self._run.kept
            self._edges(clock.ready, (_BEGIN, 1))
            self._edges(clock.reached, (_BEGIN, 1))
        for place, event in enumerate(log.events):
            self._add_event(clock, event, (instance, place))
        self._edges((instance, "end"), (clock.ready, 0))
        if group is not None and front is not None:
            self._fronts[group] = front.after(clock.fed, self._closed(clock, instance))

    def _add_event(self, clock: _Clock, event: Event, moment: _Moment) -> None:
        match event:
            case Fed(tokens=tokens):
                self._feed(clock, clock.taken(tokens), moment)
            case Drew():
                self._draws.append(clock.reached)
                clock.last_draw = clock.reached
                self._edges(moment, (clock.ready, 0), (clock.reached, 1))
                clock.ready = moment
            case Started(instance=child):
                self._edges((child, "ready"), (clock.ready, 0))
                self._edges((child, "reached"), (clock.reached, 0))
            case Waited(instances=awaited):
                self._edges(moment, (clock.ready, 0), *(((other, "end"), 0) for other in awaited))
                clock.ready = moment
            case Skipped():
                pass
            case _:
                assert_never(event)

    def _feed(self, clock: _Clock, tokens: int, moment: _Moment) -> None:
        """Tokens that are fed together need no moments of their own, unless each of them may have to wait."""
        if tokens and (clock.front is not None or self._run.chunk is not None):
            for _ in range(tokens):
                self._feed_one(clock, (moment, len(clock.fed)))
        if tokens:
            clock.reached = clock.ready

    def _feed_one(self, clock: _Clock, token: _Moment) -> None:
        """A chunk has no room for a token if its pass feeds as many before it."""
        earlier = () if clock.front is None else clock.front.at(len(clock.fed))
        self._edges(token, (clock.ready, 0), *((one, 0) for one in earlier))
        if self._run.chunk is not None and len(clock.fed) >= self._run.chunk:
            self._edges(token, (clock.fed[-self._run.chunk], 1))
        clock.fed.append(token)
        clock.ready = token

    def _closed(self, clock: _Clock, instance: Instance) -> _Moment:
        """A value in lock-step is known to have ended once its last token is drawn."""
        if clock.last_draw is None:
            return (instance, "ready")
        self._edges((instance, "closed"), (clock.last_draw, 1))
        return (instance, "closed")

    def _edges(self, moment: _Moment, *before: tuple[_Moment, int]) -> None:
        """`moment` is so many passes after each of these, or later."""
        for one, weight in before:
            known = self._graph.get_edge_data(one, moment, {"weight": 0})
            self._graph.add_edge(one, moment, weight=max(weight, known["weight"]))
