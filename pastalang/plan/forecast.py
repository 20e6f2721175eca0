"""What a plan will cost before anything runs, and whether it fits a model.

Ranges are bounds for every run. The figures of `typical` runs come from simulating the shortest and the longest
run that the limits allow, with lists of at most `most_items` items.
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
    Release,
    Repeat,
    Segment,
    Segments,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.dependencies import passes_of
from pastalang.plan.machine import GO_ON, STOP, Closing, Cursor, Draw, Feed, Opening
from pastalang.plan.positions import thread_rooms
from pastalang.plan.run_log import Drawn, RunLog, log_of, needed
from pastalang.plan.simulate import Simulated, simulate
from pastalang.plan.structure import walk_plan
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

ANY = Lengths()


@dataclass(frozen=True, slots=True)
class Gap:
    """Positions that the parent leaves free for a branch (for one instance of it)."""

    branch: BranchId
    name: str
    positions: int


@dataclass(frozen=True)
class Forecast:
    passes: Range  # L*: forward passes, the first of which is the prefill
    draws: Range  # sampled tokens: the passes of the same plan in sequential mode
    answer: Range  # tokens of the answer: what plain decoding takes, keys and punctuation included
    cells: Range  # written in all; no schedule needs more at one time than the high end
    cells_at_least: int  # no schedule does with less: what is seen until the answer is complete
    gaps: tuple[Gap, ...]  # the largest first
    shortest: Simulated
    longest: Simulated
    is_exact: bool  # whether literal text was counted by a tokenizer
    thread_rooms: int = 0  # positions that threads of `auto(...)` may reserve together

    @property
    def speed_up(self) -> float:
        """Passes of the same plan left to right for each of its own, with everything as long as it may be."""
        return self.draws.high / max(1, self.passes.high)

    @property
    def peak_cells(self) -> Range:
        """At one time, with memory given back as early as the plan allows, of the two simulated runs."""
        return Range(*sorted((self.shortest.peak_cells, self.longest.peak_cells)))

    @property
    def highest_position(self) -> Range:
        return Range(*sorted((self.shortest.highest_position, self.longest.highest_position)))


def forecast(plan: PlanData, lengths: Lengths = ANY, *, most_items: int = 16) -> Forecast:
    totals = totals_of(plan, lengths)
    shortest = shortest_run(plan, lengths, most_items=most_items)
    return Forecast(
        passes=passes_of(plan, lengths),
        draws=totals.draws,
        answer=totals.answer,
        cells=totals.written,
        cells_at_least=_cells_at_least(plan, shortest),
        gaps=costliest_gaps(plan),
        shortest=simulate(plan, shortest),
        longest=simulate(plan, longest_run(plan, lengths, most_items=most_items)),
        is_exact=lengths.encoder is not None,
        thread_rooms=rooms_of_threads(plan),
    )


def rooms_of_threads(plan: PlanData) -> int:
    """The most positions that texts leave for promised threads, those in the gaps of the plan left out."""
    texts = [
        segment
        for branch, _, segment in walk_plan(plan)
        if isinstance(segment, Hole) and segment.threads is not None and not branch.reserve
    ]
    return sum(thread_rooms(text.max_tokens) for text in texts if text.auto is AutoPolicy.PASTA)


def costliest_gaps(plan: PlanData) -> tuple[Gap, ...]:
    gaps = [
        Gap(branch.id, branch.name, branch.reserve) for branch in plan.branches if branch.id != ROOT and branch.reserve
    ]
    return tuple(sorted(gaps, key=lambda gap: (-gap.positions, gap.branch)))


def _cells_at_least(plan: PlanData, shortest: RunLog) -> int:
    """The root keeps its cells to the end, and so do all branches that it joins."""
    kept = {branch.id for branch in plan.branches if branch.release is Release.NEVER}
    return sum(log.tokens for instance, log in needed(plan, shortest).items() if instance.branch in kept)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of a model and its pool; None where there is no limit."""

    positions: int | None = None
    cells: int | None = None


class DoesNotFit(ValueError):
    """`needed` of `available` positions or cells; `gaps` are the ones that cost most, the largest first."""

    def __init__(self, what: str, needed: int, available: int, *, gaps: tuple[Gap, ...], help: str) -> None:
        super().__init__(f"this plan needs {needed:,} {what}, and there are {available:,}: {help}")
        self.what = what
        self.needed = needed
        self.available = available
        self.gaps = gaps
        self.help = help


def fit(plan: PlanData, limits: Capacity, lengths: Lengths = ANY) -> Forecast:
    """Raise `DoesNotFit` if the longest run leaves the model's positions, or if even the shortest exceeds the pool.

    A pool that only longer runs exceed is not a reason to refuse: branches can wait until others have given their
    cells back. Returns the forecast that the decision is based on.
    """
    found = forecast(plan, lengths)
    needed = found.highest_position.high + 1
    if limits.positions is not None and needed > limits.positions:
        raise DoesNotFit("positions", needed, limits.positions, gaps=found.gaps[:3], help=_shorter(found))
    if limits.cells is not None and found.cells_at_least > limits.cells:
        help = "shorten the prompt, or give the pool more cells"
        raise DoesNotFit("cells", found.cells_at_least, limits.cells, gaps=found.gaps[:3], help=help)
    return found


def _shorter(found: Forecast) -> str:
    if found.thread_rooms:
        return f"lower the `max` of the text: its threads may reserve {found.thread_rooms:,}"
    if not found.gaps:
        return "shorten the prompt"
    named = ", ".join(f"{gap.name} ({gap.positions:,})" for gap in found.gaps[:3])
    return f"lower the limits of the fields whose gaps cost most: {named}"


# ── totals of all runs, and the shortest and the longest one ──────────────────────────────────────────


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
        lead = self._forced(_either([self._lengths.lead(repeat.first), self._lengths.lead(repeat.between)]))
        stop = self._forced(_either([self._lengths.text(repeat.stop or ""), self._lengths.text(repeat.empty or "")]))
        choices = Range(int(repeat.maximum > repeat.minimum), repeat.maximum - repeat.minimum)
        return body + lead.times(items) + stop + Totals(choices, NOTHING, NOTHING)

    def _forced(self, tokens: Range, *, is_shown: bool = True) -> Totals:
        return Totals(NOTHING, tokens, tokens if self._is_answer and is_shown else NOTHING)

    def _decided(self, options: int, lead: Range) -> Totals:
        draws = decision_draws(options)
        written = Range(max(lead.low, draws.low), max(lead.high, draws.high))
        return Totals(draws, written, written)


def _either(ranges: list[Range]) -> Range:
    return Range(min(range.low for range in ranges), max(range.high for range in ranges))


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
