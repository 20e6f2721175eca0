"""The places of everything in a drawing: passes across, lanes down.

Across, a band of room is kept where forced text is fed. Within a band no time passes: forks and joins bend there
and forced text is written there. Between bands the scale is the same everywhere, so a bar is as long as its limit
(it runs on, paler, through the bands). Down, every lane has its rows, as high as their words want.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from pastalang.plan.draw.shapes import Style
from pastalang.plan.draw.text_metrics import text_width
from pastalang.plan.draw.timeline import Bar, Forked, Joined, Lane, Looped, Prompt, Timeline, Words
from pastalang.values.describe import caption

LEAST_BAND = 6.0
LEAST_SCALE = 0.02


@dataclass(frozen=True, slots=True)
class Band:
    """The moment after pass `at`, drawn from `left` to `right`."""

    at: int
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Axis:
    """`bands` are in the order of time; there is one at every moment that needs room."""

    left: float
    scale: float  # pixels per pass
    bands: tuple[Band, ...]
    times: tuple[int, ...]
    before: tuple[float, ...]  # the room that the bands before each one take together; one more at the end

    def enter(self, at: int) -> float:
        """Where that moment begins: what ends at `at` ends here."""
        return self.left + self.scale * at + self.before[bisect_left(self.times, at)]

    def leave(self, at: int) -> float:
        """Where that moment ends: what starts at `at` starts here."""
        return self.left + self.scale * at + self.before[bisect_right(self.times, at)]

    def crossed(self, start: int, end: int) -> tuple[Band, ...]:
        """The bands strictly between two times."""
        return self.bands[bisect_right(self.times, start) : bisect_left(self.times, end)]


def make_axis(left: float, right: float, passes: int, needs: Mapping[int, float]) -> Axis:
    """`needs` are the moments that want room, with how much; together they get half of the width at most."""
    times = tuple(sorted(needs))
    budget = (right - left) * (0.5 if passes else 1.0)
    cap = _cap([needs[at] for at in times], budget)
    widths = [min(needs[at], cap) for at in times]
    before = [0.0]
    for width in widths:
        before.append(before[-1] + width)
    scale = max(LEAST_SCALE, (right - left - before[-1]) / max(1, passes))
    bands = tuple(
        Band(at, left + scale * at + start, left + scale * at + start + width)
        for at, start, width in zip(times, before, widths, strict=False)
    )
    return Axis(left, scale, bands, times, tuple(before))


def _cap(needs: list[float], budget: float) -> float:
    """The widest that a band may be, so that all of them fit into the budget."""
    rest, left = budget, len(needs)
    for need in sorted(needs):
        if need * left > rest:
            return max(LEAST_BAND, rest / left)
        rest -= need
        left -= 1
    return max(needs, default=0.0)


BEND = 16.0  # the room in which a line bends into another row
FIRST_BEND = 26.0  # the same at the very beginning, where no bar is cut by it
LONGEST_WORDS = 190.0
LEAST_LANES = 600.0  # the lanes are at least as long as this, more or less
SHOWN_COPIES = 3  # the second, the third and the last item of a loop
STACK = 4.0  # how far a copy is shifted


@dataclass(frozen=True, slots=True)
class Row:
    """One line of bars. A tall row has its words above the line, where they may be long."""

    lane: Lane
    number: int
    top: float
    height: float
    tall: bool
    stacked: bool

    @property
    def line(self) -> float:
        """Where the bars of the row have their middle."""
        return self.top + (32.0 if self.tall else 15.0 if self.height >= 29 else self.height / 2)

    @property
    def half(self) -> float:
        return 9.5 if self.height >= 28 else self.height / 2 - 2.5

    @property
    def box_bottom(self) -> float:
        return self.top + self.height

    def words(self) -> dict[int, str]:
        """The forced text of the row at every moment at which there is some."""
        texts: dict[int, list[str]] = {}
        for event in self.lane.events:
            if isinstance(event, Words) and event.row == self.number and (self.lane.depth == 0 or _reads(event.text)):
                texts.setdefault(event.at, []).append(event.text)
        return {at: " ".join(parts) for at, parts in texts.items()}


def _reads(text: str) -> bool:
    """Whether there is more to it than brackets and commas."""
    return any(character.isalnum() for character in text)


def make_rows(timeline: Timeline, top: float) -> list[Row]:
    count = sum(lane.rows for lane in timeline.lanes)
    height = 30.0 if count <= 30 else 24.0 if count <= 100 else 20.0
    rows = []
    for lane in timeline.lanes:
        for number in range(lane.rows):
            stacked = bool(lane.loops) and bool(lane.bars)
            tall = _is_tall(lane, number)
            extra = 18.0 if tall else 0.0
            tallness = max(height, 30.0 if tall or stacked else 0.0) + extra + (STACK * SHOWN_COPIES if stacked else 0)
            rows.append(Row(lane, number, top, tallness, tall, stacked))
            top += tallness
    return rows


def _is_tall(lane: Lane, row: int) -> bool:
    here = [event for event in lane.events if event.row == row]
    begins = {lane.start, *(event.at for event in here if isinstance(event, Joined))} if row == 0 else set()
    return any(
        isinstance(event, (Forked, Prompt)) or (isinstance(event, Words) and event.at not in begins) for event in here
    )


def moments_of(rows: list[Row]) -> dict[int, float]:
    """How much room every moment wants: for bends, and at the very beginning for the words in front of the bars."""
    depths: dict[int, set[int]] = {0: set()}
    for row in rows:
        for event in row.lane.events:
            if event.row == row.number and isinstance(event, (Forked, Joined)):
                depths.setdefault(event.at, set()).add(row.lane.depth if isinstance(event, Forked) else -1)
    needs = {at: (BEND if at else FIRST_BEND) + 8 * max(0, len(bends) - 1) for at, bends in depths.items()}
    chips = [event.role for row in rows[:1] for event in row.lane.events if isinstance(event, Prompt)]
    given = sum(text_width(role, Style.CHIP.size) + 22 for role in chips)
    return {**needs, 0: max(needs[0] + _widest_beginning(rows) + 8, given)}


def _widest_beginning(rows: list[Row]) -> float:
    leads = {event.branch: event.lead for row in rows for event in row.lane.events if isinstance(event, Forked)}
    widest = 0.0
    for row in rows:
        if row.lane.start == 0 and row.number == 0:
            words = leads.get(row.lane.branch.id, "") + ("" if row.tall else row.words().get(0, ""))
            widest = max(widest, text_width(words[:60], Style.WORDS.size, mono=True))
    return min(LONGEST_WORDS, widest)


def room_on_the_right(timeline: Timeline) -> float:
    """For the labels of bars that end close to where everything ends."""
    return max((_room_wanted(timeline, lane) for lane in timeline.lanes if lane.bars), default=0.0)


def _room_wanted(timeline: Timeline, lane: Lane) -> float:
    bar, words = lane.bars[-1], times_of(lane)
    if (bar.end - bar.start) * 5 < timeline.passes:
        words = f"{bar_words(lane, bar)[:50]} {words}".strip()
    if any(isinstance(event, Looped) for event in lane.events):
        words = words or "×(000..000)"
    before_the_end = (timeline.passes - lane.last_end) / max(1, timeline.passes) * LEAST_LANES
    return text_width(words, Style.TIMES.size) + 36 - before_the_end if words else 0.0


def times_of(lane: Lane) -> str:
    """How often the lane occurs; that it does so in every document is said once, at the document."""
    return " ".join(str(copies) for copies in lane.copies if copies.per != "document")


def bar_names(lane: Lane, bar: Bar) -> tuple[str, ...]:
    """What a value may be called, the longest first; by its type alone where the lane has its name."""
    kind = caption(bar.hole.type)
    if bar.hole.field == lane.branch.name:
        return (kind,)
    name = bar.hole.field.removeprefix(lane.branch.name).lstrip("[].") or bar.hole.field
    return (f"{name}: {kind}", name, name.rsplit(".")[-1])


def bar_words(lane: Lane, bar: Bar) -> str:
    return f"{bar_names(lane, bar)[0]} · {bar.hole.max_tokens}"
