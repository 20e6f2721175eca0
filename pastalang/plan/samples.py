"""The shortest and the longest run that a plan allows, as outcomes: what a forecast simulates.

The shortest takes the low end of every length, the arm with the least room and as few items as it may; the longest
the high end of everything. A list has at most `most_items` items here, however many it could have.
"""

from __future__ import annotations

from collections import deque
from typing import assert_never

from pastalang.plan.plan import (
    ROOT,
    Arm,
    BranchId,
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
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.realised import Chosen, Decision, Drawn, Items, Outcome, Realised, Run
from pastalang.plan.token_bounds import Lengths, Range, decision_draws, draws_of, max_text_tokens, max_tokens_of


def shortest_run(plan: Plan, lengths: Lengths, *, most_items: int) -> Realised:
    return _Sample(plan, lengths, most_items, is_long=False).realised()


def longest_run(plan: Plan, lengths: Lengths, *, most_items: int) -> Realised:
    return _Sample(plan, lengths, most_items, is_long=True).realised()


class _Sample:
    def __init__(self, plan: Plan, lengths: Lengths, most_items: int, *, is_long: bool) -> None:
        self._plan = plan
        self._lengths = lengths
        self._most_items = most_items
        self._is_long = is_long
        self._reserves: dict[BranchId, int] = {branch.id: branch.reserve for branch in plan.branches}
        self._waiting = deque([Instance(ROOT)])

    def realised(self) -> Realised:
        runs: dict[Instance, Run] = {}
        while self._waiting:
            instance = self._waiting.popleft()
            outcomes: list[Outcome] = []
            forced: list[int] = []
            self._all(self._plan.branch(instance.branch).segments, instance.items, outcomes, forced)
            runs[instance] = Run(tuple(outcomes), tuple(forced))
        return Realised(runs)

    def _all(
        self, segments: tuple[Segment, ...], items: tuple[int, ...], outcomes: list[Outcome], forced: list[int]
    ) -> None:
        for segment in segments:
            self._one(segment, items, outcomes, forced)

    def _one(self, segment: Segment, items: tuple[int, ...], outcomes: list[Outcome], forced: list[int]) -> None:
        match segment:
            case Hole():
                outcomes.append(Drawn.plain(self._end(draws_of(segment))))
            case Choose(arms=arms):
                self._choose(segment, arms, items, outcomes, forced)
            case Repeat():
                self._repeat(segment, items, outcomes, forced)
            case Each(branch=branch):
                count = self._count(self._lengths.items_of_each(segment))
                outcomes.append(Items(count))
                self._waiting.extend(Instance(branch, (*items, item)) for item in range(count))
            case Fork(branch=branch):
                self._waiting.append(Instance(branch, items))
            case Join() | Place():
                pass
            case TurnStart() | TurnEnd():
                forced.append(self._lengths.turn_tokens)
            case Text(text=text):
                forced.append(self._end(self._lengths.text(text)))
            case ItemNumber():
                forced.append(1)
            case InputText(path=path):
                forced.append(self._end(self._lengths.input(path)))
            case _:
                assert_never(segment)

    def _choose(
        self,
        choose: Choose,
        arms: tuple[Arm, ...],
        items: tuple[int, ...],
        outcomes: list[Outcome],
        forced: list[int],
    ) -> None:
        rooms = [max_text_tokens(arm.lead) + max_tokens_of(arm.segments, self._reserves) for arm in arms]
        index = rooms.index(max(rooms) if self._is_long else min(rooms))
        outcomes.append(Chosen(index, self._decided(len(arms), self._lengths.text(arms[index].lead))))
        self._all(arms[index].segments, items, outcomes, forced)

    def _repeat(self, repeat: Repeat, items: tuple[int, ...], outcomes: list[Outcome], forced: list[int]) -> None:
        count = self._count(self._lengths.items_of_repeat(repeat))
        if repeat.over is not None:
            outcomes.append(Items(count))
        for item in range(count):
            if repeat.over is None:
                lead = self._lengths.lead(repeat.between if item else repeat.first)
                outcomes.append(Decision(True, self._decided(_options(repeat, item), lead)))
            self._all(repeat.body, (*items, item), outcomes, forced)
        if repeat.over is None:
            stop = self._lengths.text((repeat.stop if count else repeat.empty) or "")
            outcomes.append(Decision(False, self._decided(_options(repeat, count), stop)))

    def _decided(self, options: int, lead: Range) -> Drawn:
        """The draws that a decision takes, and the rest of what it writes."""
        draws = self._end(decision_draws(options))
        return Drawn((*[0] * draws, max(self._end(lead) - draws, 0)))

    def _end(self, range: Range) -> int:
        return range.high if self._is_long else range.low

    def _count(self, range: Range) -> int:
        return min(self._end(range), max(self._most_items, range.low))


def _options(repeat: Repeat, item: int) -> int:
    return 2 if repeat.minimum <= item < repeat.maximum else 1
