"""What happened in a finished run, in counts: how long every hole became, which arms were chosen, how many items.

`(plan, run_outcomes)` determines how many forward passes a scheduler has to take (`passes.py`).

A run is recorded per instance of a branch, as the outcomes of its decisions in the order in which the branch meets
them. Forced text has no outcome; its tokens are counted separately. `outcomes_of` makes the record of a run that
decides as its caller says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

from pastalang.plan.plan import (
    ROOT,
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    Instance,
    ItemNumber,
    Join,
    Place,
    Plan,
    Repeat,
    Segment,
    Segments,
    Text,
    TurnEnd,
    TurnStart,
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens drawn one by one with forced tokens between them: `rides[k]` forced ones directly after draw k.

    `rides[0]` come before the first draw, so there is one ride more than draws. A draw is a pass whose logits
    chose a token of this hole. `dropped`: the last token drawn was not fed as it is, because it ended the hole
    from outside (a stop, the end of the turn) or crossed its border; what was kept of it is a forced token.
    """

    rides: tuple[int, ...]
    dropped: bool = False

    def __post_init__(self) -> None:
        assert self.rides and all(ride >= 0 for ride in self.rides), "a ride before the first draw, and one after each"
        assert self.draws or not self.dropped, "nothing was drawn that could be dropped"

    @staticmethod
    def plain(draws: int) -> Drawn:
        return Drawn((0,) * (draws + 1))

    @property
    def draws(self) -> int:
        return len(self.rides) - 1

    @property
    def tokens(self) -> int:
        """What the branch is fed for it, if all of it is fed."""
        return sum(self.rides) + self.draws - self.dropped


@dataclass(frozen=True, slots=True)
class Threaded:
    """A text in which the model may open threads.

    `begun` are its threads: the draw that completed the tag of each, and the positions that the text left for it.
    `waits` are the draws whose token waited for the threads so far: the draw, and how many there were.
    """

    drawn: Drawn
    begun: tuple[tuple[int, int], ...] = ()
    waits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arm of a `Choose`; what was drawn and forced to write its lead."""

    arm: int
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a `Repeat` had another item; what was drawn and forced to write its opening, or the list's end.

    A repeat of n items has n + 1 decisions; those without a choice have no draws.
    """

    goes_on: bool
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Items:
    """How many elements the list of an `Each` had (or of a `Repeat` that goes over a list)."""

    count: int


Outcome: TypeAlias = Drawn | Threaded | Chosen | Decision | Items


@dataclass(frozen=True, slots=True)
class InstanceOutcomes:
    """One instance: `outcomes` of holes, choices, repeats and fan-outs, `forced` tokens of turns, texts and data.

    Both in the order met. Where `forced` is left out, every forced segment counts one token: how many there are
    matters with chunks and in lock-step, and whether there are any matters after a dropped draw. `confirmed` are the
    numbers of the instance's tokens that had been fed as drafts before they were drawn.
    """

    outcomes: tuple[Outcome, ...]
    forced: tuple[int, ...] = ()
    confirmed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class RunOutcomes:
    """`chunk` is the most tokens that one pass feeds for one branch; None is no limit.

    `kept` tokens at the beginning of the root are in the prefix cache. No pass feeds them for this run.
    """

    runs: Mapping[Instance, InstanceOutcomes]
    chunk: int | None = None
    kept: int = 0


Lead: TypeAlias = tuple[Text | ItemNumber, ...]
Forced: TypeAlias = TurnStart | TurnEnd | Text | InputText | ItemNumber


class Decisions(Protocol):
    """What a run decides, asked in the order in which the branches are walked."""

    def hole(self, hole: Hole) -> Drawn: ...

    def text(self, hole: Hole) -> Threaded:
        """A hole in which the model opens threads."""
        ...

    def choice(self, choose: Choose) -> Chosen: ...

    def items(self, loop: Repeat | Each) -> int:
        """How many items a list or a fan-out has."""
        ...

    def round(self, options: int, lead: Lead) -> Drawn:
        """How a list writes the opening of its next item or its end; with one option the way is forced."""
        ...

    def forced(self, segment: Forced) -> int:
        """How many tokens a forced text has."""
        ...


def outcomes_of(plan: Plan, decisions: Decisions) -> dict[Instance, InstanceOutcomes]:
    """The record of a run that decides so, parents before their children."""
    walk = _Walk(plan, decisions)
    return walk.run()


class _Walk:
    def __init__(self, plan: Plan, decisions: Decisions) -> None:
        self._plan = plan
        self._decide = decisions
        self._waiting = deque([Instance(ROOT)])
        self._outcomes: list[Outcome] = []  # of the present instance
        self._forced: list[int] = []

    def run(self) -> dict[Instance, InstanceOutcomes]:
        found: dict[Instance, InstanceOutcomes] = {}
        while self._waiting:
            instance = self._waiting.popleft()
            self._outcomes, self._forced = [], []
            self._all(self._plan.branch(instance.branch).segments, instance.items)
            found[instance] = InstanceOutcomes(tuple(self._outcomes), tuple(self._forced))
        return found

    def _all(self, segments: Segments, items: tuple[int, ...]) -> None:
        for segment in segments:
            self._one(segment, items)

    def _one(self, segment: Segment, items: tuple[int, ...]) -> None:
        match segment:
            case Hole(threads=int() as threads):
                text = self._decide.text(segment)
                self._outcomes.append(text)
                self._waiting.extend(Instance(threads, (*items, number)) for number in range(len(text.begun)))
            case Hole():
                self._outcomes.append(self._decide.hole(segment))
            case Choose(arms=arms):
                chosen = self._decide.choice(segment)
                self._outcomes.append(chosen)
                self._all(arms[chosen.arm].segments, items)
            case Repeat():
                self._repeat(segment, items)
            case Each(branch=branch):
                count = self._decide.items(segment)
                self._outcomes.append(Items(count))
                self._waiting.extend(Instance(branch, (*items, item)) for item in range(count))
            case Fork(branch=branch):
                self._waiting.append(Instance(branch, items))
            case Join() | Place():
                pass
            case TurnStart() | TurnEnd() | Text() | ItemNumber() | InputText():
                self._forced.append(self._decide.forced(segment))
            case _:
                assert_never(segment)

    def _repeat(self, repeat: Repeat, items: tuple[int, ...]) -> None:
        count = self._decide.items(repeat)
        if repeat.over is not None:
            self._outcomes.append(Items(count))
        for item in range(count):
            if repeat.over is None:
                self._round(repeat, item, repeat.between if item else repeat.first, goes_on=True)
            self._all(repeat.body, (*items, item))
        if repeat.over is None:
            end = (repeat.stop if count else repeat.empty) or ""
            self._round(repeat, count, (Text(end),), goes_on=False)

    def _round(self, repeat: Repeat, item: int, lead: Lead, *, goes_on: bool) -> None:
        options = 2 if repeat.minimum <= item < repeat.maximum else 1
        self._outcomes.append(Decision(goes_on, self._decide.round(options, lead)))
