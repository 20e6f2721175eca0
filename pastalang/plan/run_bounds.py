"""What a run of a plan can write at least and at most: totals for every run, and the two extreme runs.

Totals are sums over patterns, so long lists cost nothing. The shortest run takes the low end of every length, the
arm with the least room and as few items as it may; the longest the high end of everything. A list of the extreme
runs has at most `most_items` items, however many it could have. Threads that the model opens itself are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from pastalang.plan.branches import (
    ROOT,
    Arm,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    Join,
    KnownText,
    Place,
    PlanData,
    Repeat,
    Segment,
    Segments,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.machine import GO_ON, STOP, Closing, Cursor, Draw, Feed, Opening
from pastalang.plan.positions import thread_rooms
from pastalang.plan.run_log import Drawn, RunLog, log_of
from pastalang.plan.token_bounds import (
    NOTHING,
    Lengths,
    Range,
    decision_draws,
    draws_of,
    max_text_tokens,
    max_tokens_of,
)
from pastalang.program.types import AutoPolicy


@dataclass(frozen=True, slots=True)
class Totals:
    draws: Range  # tokens that are sampled
    written: Range  # all tokens, the prompt included: the cells if none were ever given back
    answer: Range  # the tokens of the answer: what plain left-to-right decoding has to sample

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.draws + other.draws, self.written + other.written, self.answer + other.answer)

    def times(self, count: Range) -> Totals:
        return Totals(self.draws.times(count), self.written.times(count), self.answer.times(count))


_NONE = Totals(NOTHING, NOTHING, NOTHING)


def totals_of(plan: PlanData, lengths: Lengths) -> Totals:
    return _Sum(plan, lengths).branch(ROOT)


class _Sum:
    def __init__(self, plan: PlanData, lengths: Lengths) -> None:
        self._plan = plan
        self._lengths = lengths
        self._overrun = plan.branch(ROOT).overrun  # of the branch being summed up
        self._is_answer = False  # the last turn has begun
        self._last_turn = max((turn.index for turn in _turns(plan)), default=0)

    def branch(self, id: BranchId) -> Totals:
        branch, around = self._plan.branch(id), self._overrun
        self._overrun = branch.overrun
        total = self._all(branch.segments)
        self._overrun = around
        return total

    def _all(self, segments: Segments) -> Totals:
        total = _NONE
        for segment in segments:
            total = total + self._one(segment)
        return total

    def _one(self, segment: Segment) -> Totals:
        if isinstance(segment, KnownText):
            return self._forced(self._lengths.known(segment), is_shown=not isinstance(segment, Text) or segment.shown)
        match segment:
            case TurnStart(index=index):
                self._is_answer = index == self._last_turn
                return Totals(NOTHING, Range(self._lengths.turn_tokens, self._lengths.turn_tokens), NOTHING)
            case TurnEnd():
                return Totals(NOTHING, Range(self._lengths.turn_tokens, self._lengths.turn_tokens), NOTHING)
            case Hole():
                drawn = draws_of(segment, self._overrun)
                return Totals(drawn, drawn, drawn)
            case Fork(branch=branch):
                return self.branch(branch)
            case Each(branch=branch):
                return self.branch(branch).times(self._lengths.items_of(segment))
            case Join() | Place():
                return _NONE
            case Choose(arms=arms):
                ways = [
                    self._decided(len(arms), self._lengths.text(arm.lead)) + self._all(arm.segments) for arm in arms
                ]
                return Totals(
                    _either([way.draws for way in ways]),
                    _either([way.written for way in ways]),
                    _either([way.answer for way in ways]),
                )
            case Repeat():
                return self._repeat(segment)
            case _:
                assert_never(segment)

    def _repeat(self, repeat: Repeat) -> Totals:
        items = self._lengths.items_of(repeat)
        body = self._all(repeat.body).times(items)
        if repeat.over is not None:
            return body
        rounds = Range(items.low, items.high)
        lead = self._forced(_wider(self._lengths.lead(repeat.first), self._lengths.lead(repeat.between)))
        stop = self._forced(_wider(self._lengths.text(repeat.stop or ""), self._lengths.text(repeat.empty or "")))
        choices = Range(int(repeat.maximum > repeat.minimum), repeat.maximum - repeat.minimum)
        return body + lead.times(rounds) + stop + Totals(choices, NOTHING, NOTHING)

    def _forced(self, tokens: Range, *, is_shown: bool = True) -> Totals:
        return Totals(NOTHING, tokens, tokens if self._is_answer and is_shown else NOTHING)

    def _decided(self, options: int, lead: Range) -> Totals:
        draws = decision_draws(options)
        written = Range(max(lead.low, draws.low), max(lead.high, draws.high))
        return Totals(draws, written, written)


def _either(ranges: list[Range]) -> Range:
    return Range(min(range.low for range in ranges), max(range.high for range in ranges))


def _wider(one: Range, other: Range) -> Range:
    return Range(min(one.low, other.low), max(one.high, other.high))


def _turns(plan: PlanData) -> list[TurnStart]:
    return [segment for branch in plan.branches for segment in branch.segments if isinstance(segment, TurnStart)]


def shortest_run(plan: PlanData, lengths: Lengths, *, most_items: int) -> RunLog:
    return log_of(plan, _Extreme(plan, lengths, most_items, is_long=False))


def longest_run(plan: PlanData, lengths: Lengths, *, most_items: int) -> RunLog:
    return log_of(plan, _Extreme(plan, lengths, most_items, is_long=True))


class _Extreme:
    """Decides everything as short or as long as possible."""

    def __init__(self, plan: PlanData, lengths: Lengths, most_items: int, *, is_long: bool) -> None:
        self._lengths = lengths
        self._most_items = most_items
        self._is_long = is_long
        self._reserves: dict[BranchId, int] = {branch.id: branch.reserve for branch in plan.branches}

    def feed(self, action: Feed, cursor: Cursor) -> int:
        if isinstance(action.segment, KnownText):
            return self._end(self._lengths.known(action.segment))
        match action.segment:
            case TurnStart() | TurnEnd():
                return self._lengths.turn_tokens
            case Place():
                return 0
            case Opening() | Closing() as lead:
                return self._lead(lead)
            case _:
                assert_never(action.segment)

    def draw(self, action: Draw, cursor: Cursor) -> Drawn:
        if isinstance(action.segment, Hole):
            return self._hole(action.segment)
        option = self._option(action)
        draws = self._end(decision_draws(len(action.options)))
        return Drawn((*[0] * draws, max(self._lead(action.options[option]) - draws, 0)), option=option)

    def elements(self, loop: Each | Repeat, cursor: Cursor) -> int:
        return self._count(self._lengths.items_of(loop))

    def _hole(self, hole: Hole) -> Drawn:
        """The longest text reserves all the room that it may, for one thread."""
        if hole.is_thread:
            return Drawn.plain(1)
        drawn = Drawn.plain(self._end(draws_of(hole)))
        has_thread = hole.threads is not None and self._is_long and hole.auto is AutoPolicy.PASTA
        return replace(drawn, begun=((1, thread_rooms(hole.max_tokens)),)) if has_thread else drawn

    def _option(self, action: Draw) -> int:
        match action.options:
            case (Opening(item=item), Closing(repeat=repeat)):
                return GO_ON if item < self._count(self._lengths.items_of(repeat)) else STOP
            case arms:
                sizes = [self._size(arm) for arm in arms]
                return sizes.index(max(sizes) if self._is_long else min(sizes))

    def _size(self, arm: Arm | Opening | Closing) -> int:
        assert isinstance(arm, Arm)
        return max_text_tokens(arm.lead) + max_tokens_of(arm.segments, self._reserves)

    def _lead(self, option: Arm | Opening | Closing) -> int:
        match option:
            case Arm(lead=lead):
                return self._end(self._lengths.text(lead))
            case Opening(parts=parts):
                return self._end(self._lengths.lead(parts))
            case Closing(text=text):
                return self._end(self._lengths.text(text or ""))

    def _count(self, found: Range) -> int:
        return min(self._end(found), max(self._most_items, found.low))

    def _end(self, range: Range) -> int:
        return range.high if self._is_long else range.low
