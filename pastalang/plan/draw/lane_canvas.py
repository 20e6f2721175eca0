"""The shapes of a drawing's lanes: rows are drawn one after another along an axis of passes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pastalang.plan.branches import BranchId
from pastalang.plan.draw.grid import SHOWN_COPIES, STACK, Axis, Row, bar_names, bar_words, times_of
from pastalang.plan.draw.shapes import BarShape, Bend, Box, Diamond, Label, Line, Style, place_label
from pastalang.plan.draw.text_metrics import text_width
from pastalang.plan.draw.timeline import Bar, Chosen, Forked, Joined, Lane, Looped, Prompt, Timeline
from pastalang.values.describe import caption, counted

MARGIN = 40.0
INDENT = 14.0


@dataclass(slots=True)
class LaneCanvas:
    timeline: Timeline
    axis: Axis
    rows: dict[tuple[BranchId, int], Row]
    right: float
    labels: list[Label] = field(default_factory=list)
    chips: list[Label] = field(default_factory=list)
    bars: list[BarShape] = field(default_factory=list)
    bends: list[Bend] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    diamonds: list[Diamond] = field(default_factory=list)
    loops: list[Box] = field(default_factory=list)
    words_before: list[tuple[Row, str, float]] = field(default_factory=list)  # with where they end
    words_behind: list[tuple[Row, str, Style, float, float]] = field(default_factory=list)  # between two places
    written: dict[int, list[Box]] = field(default_factory=dict)  # by the height of the line
    waits_at: dict[float, list[int]] = field(default_factory=dict)
    joined_at: dict[BranchId, int] = field(default_factory=dict)
    arrivals: dict[BranchId, tuple[float, float, str]] = field(default_factory=dict)  # spine, height, lead of its fork

    def draw_all(self) -> None:
        for lane in self.timeline.lanes:
            for event in lane.events:
                if isinstance(event, Joined):
                    self.joined_at.update((branch, event.at) for branch in event.branches)
        for row in self.rows.values():
            self._draw(row)
        self._write_deferred()

    def _draw(self, row: Row) -> None:
        self._name(row)
        starts = self._words(row)
        self._lines(row)
        self._forks(row)
        self._joins(row)
        self._bars(row, starts)

    def _name(self, row: Row) -> None:
        if row.number == 0:
            left = MARGIN + INDENT * row.lane.depth
            self._label(row.lane.title, Style.NAME, left, row.line, self.axis.left - 14 - left)
            times = str(row.lane.copies[-1]) if _is_document(row.lane) else times_of(row.lane)
            if times and not row.lane.bars:
                self._label(times, Style.TIMES, self.axis.leave(row.lane.end) + 8, row.line, 200)

    def _label(self, text: str, style: Style, left: float, middle: float, room: float) -> Label | None:
        label = place_label(text, style, left=left, middle=middle, room=room)
        return self._add(label)

    def _add(self, label: Label | None) -> Label | None:
        """Nothing is written on top of something else: what comes too late is left out (tips still say it)."""
        if label is None:
            return None
        here = self.written.setdefault(round(label.box.top), [])
        if any(label.box.overlaps(other) for other in here):
            return None
        here.append(label.box)
        self.labels.append(label)
        return label

    # ── forced text ──────────────────────────────────────────────────────────────────────────────────────

    def _words(self, row: Row) -> list[float]:
        """Writes the forced text of the row; returns where each piece on the bars' line begins."""
        return self._words_above(row) if row.tall else self._words_between(row)

    def _words_above(self, row: Row) -> list[float]:
        middle = row.top + 11
        arrival = self.arrivals.get(row.lane.branch.id)
        left = self._prompt_chips(row, middle, arrival[0] + 8 if arrival else self.axis.enter(row.lane.start) + 2)
        words = sorted(row.words().items())
        place = self.axis.leave if row.number else self.axis.enter
        lefts = [max(left, place(at) + 2) for at, _ in words]
        for (_, text), start, end in zip(words, lefts, [*lefts, self.right][1:], strict=True):
            if start < end:
                self._label(text, Style.WORDS, start, middle, end - start - 10)
        return self._arrive(row, "")

    def _prompt_chips(self, row: Row, middle: float, left: float) -> float:
        for event in row.lane.events:
            if isinstance(event, Prompt) and event.row == row.number:
                chip = place_label(event.role, Style.CHIP, left=left + 7, middle=middle, room=90)
                if chip:
                    self.chips.append(Label(chip.box, chip.text, f"{event.role}: {event.words}", chip.style))
                    left = chip.box.right + 14
        return left

    def _words_between(self, row: Row) -> list[float]:
        words = row.words()
        starts = self._arrive(row, words.pop(row.lane.start, ""))
        self.words_before += [(row, text, self.axis.enter(at) + 3) for at, text in words.items()]
        return starts

    def _arrive(self, row: Row, own: str) -> list[float]:
        """The bend from the parent, and the words at it: those right before the fork, then the branch's own."""
        branch, start = row.lane.branch.id, row.lane.start
        if row.number or branch not in self.arrivals:
            return []
        spine, line, lead = self.arrivals[branch]
        words = f"{lead} {own}".strip()
        end = self.axis.leave(start)
        if start > 0:
            self.words_before.append((row, words, spine - 6))
            self.bends.append(Bend((spine, line), spine, (end, row.line), False))
            return []
        room = end - 5 - spine - 14
        label = place_label(words, Style.WORDS, left=end - 5, middle=row.line, room=room, from_right=True)
        label = self._add(label)
        self.bends.append(Bend((spine, line), spine, (label.box.left - 4 if label else end, row.line), False))
        return [label.box.left] if label else []

    def _write_deferred(self) -> None:
        """What keeps clear of the bends waits until all of them are known."""
        spines = self._spines()
        for row, text, end in self.words_before:
            crossing = [spine + 6 for spine in _crossing(spines, row.line) if spine < end - 1]
            begin = max([self.axis.left, *crossing])
            label = place_label(text, Style.WORDS, left=end, middle=row.line, room=end - begin, from_right=True)
            if self._add(label) and label:
                self._end_waits_before(label)
        for row, text, style, left, limit in self.words_behind:
            width = text_width(text, style.size)
            for spine in _crossing(spines, row.line):
                left = spine + 7 if left - 4 < spine < left + width + 4 else left
            self._label(text, style, left, row.line, limit - left)
        for label in self.labels:
            if label.style is Style.TIMES:
                self._begin_waits_behind(label)

    def _spines(self) -> dict[float, tuple[float, float]]:
        """Where lines go up and down: for each place the height between which they may do so."""
        spines: dict[float, tuple[float, float]] = {}
        for bend in self.bends:
            low, high = spines.get(bend.spine, (bend.end[1], bend.end[1]))
            spines[bend.spine] = min(low, bend.start[1], bend.end[1]), max(high, bend.start[1], bend.end[1])
        return dict(sorted(spines.items()))

    def _begin_waits_behind(self, label: Label) -> None:
        for index in self.waits_at.get(round((label.box.top + label.box.bottom) / 2, 3), ()):
            line = self.lines[index]
            if label.box.left - 12 < line.start < label.box.right:
                self.lines[index] = replace(line, start=min(line.end, label.box.right + 5))

    def _end_waits_before(self, label: Label) -> None:
        for index in self.waits_at.get(round((label.box.top + label.box.bottom) / 2, 3), ()):
            line = self.lines[index]
            if line.start < label.box.right and label.box.left < line.end:
                self.lines[index] = replace(line, end=max(line.start, label.box.left - 4))

    # ── lines and bends ──────────────────────────────────────────────────────────────────────────────────

    def _lines(self, row: Row) -> None:
        lane = row.lane
        if row.number:
            forks = {event.at for event in lane.events if isinstance(event, Forked) and event.row == row.number}
            self.lines += [Line(self.axis.enter(at), self.axis.leave(at), row.line, False) for at in sorted(forks)]
            return
        start = self.axis.enter(lane.start) if lane.branch.parent is None else self.axis.leave(lane.start)
        waits = [event for event in lane.events if isinstance(event, Joined) and event.start < event.at]
        for wait in waits:
            begin = self.axis.leave(wait.start)
            if row.tall and begin > start:
                self.lines.append(Line(start, begin, row.line, False))
            start = self.axis.leave(wait.at)
            reach = start if row.tall else self.axis.enter(wait.at)
            self._wait(begin, reach, row.line)
        if row.tall and self.axis.leave(lane.end) > start:
            self.lines.append(Line(start, self.axis.leave(lane.end), row.line, False))

    def _wait(self, start: float, end: float, y: float) -> None:
        self.waits_at.setdefault(round(y, 3), []).append(len(self.lines))
        self.lines.append(Line(start, end, y, True))

    def _forks(self, row: Row) -> None:
        depths: dict[int, int] = {}
        for event in row.lane.events:
            if isinstance(event, Forked) and event.row == row.number:
                rank = depths.setdefault(event.at, self._rank(row, event.at))
                self.arrivals[event.branch] = (
                    self.axis.enter(event.at) + (5 if event.at else 9) + 8 * rank,
                    row.line,
                    event.lead,
                )

    def _rank(self, row: Row, at: int) -> int:
        """How many of the lanes above it that fork at the same moment are its ancestors."""
        rank, parent = 0, row.lane.branch.parent
        while parent is not None:
            lane = self.rows[(parent, 0)].lane
            rank += any(isinstance(event, Forked) and event.at == at for event in lane.events)
            parent = lane.branch.parent
        return rank

    def _joins(self, row: Row) -> None:
        for event in row.lane.events:
            if not isinstance(event, Joined) or event.row != row.number:
                continue
            begin, end = self.axis.enter(event.at), self.axis.leave(event.at)
            for branch in event.branches:
                joined = self.rows[(branch, 0)]
                ended = self.axis.enter(joined.lane.last_end)
                if ended < begin:
                    self._wait(ended + 3, begin, joined.line)
                self.bends.append(Bend((begin, joined.line), begin + 8, (end, row.line), True))

    # ── bars ─────────────────────────────────────────────────────────────────────────────────────────────

    def _bars(self, row: Row, starts: list[float]) -> None:
        bars = [event for event in row.lane.bars if event.row == row.number]
        looped = [event for event in row.lane.events if isinstance(event, Looped) and event.row == row.number]
        for event in row.lane.events:
            if isinstance(event, Chosen) and event.row == row.number:
                x = (self.axis.leave(event.start) + self.axis.enter(event.end)) / 2
                self.diamonds.append(Diamond(x, row.line, event.critical, " or ".join(event.labels)))
        for loop in looped:
            self._loop(row, loop, bars)
        ends = [
            *starts,
            *(self.axis.leave(bar.start) for bar in bars),
            *(self.axis.leave(loop.start) for loop in looped),
        ]
        for bar in bars:
            reach = self._copies(row, bar) if row.stacked else 0.0
            shape = self._bar(row, bar)
            limit = min([x for x in ends if x > shape.box.left + 0.5], default=self.right)
            inside = next((loop for loop in looped if loop.start <= bar.start < loop.end), None)
            self._bar_labels(row, bar, shape, limit, reach, inside)
        for loop in looped:
            times = str(loop)
            left = self.axis.enter(loop.end) + 8
            limit = min([x for x in ends if x > left], default=self.right)
            self._label(times, Style.TIMES, left, row.line, limit - left - 4)

    def _bar(self, row: Row, bar: Bar, *, later: int = 0, shift: float = 0.0, ghost: bool = False) -> BarShape:
        start, end = bar.start + later, bar.end + later
        left = self.axis.leave(start) + shift
        box = Box(
            left, row.line - row.half + shift, max(left + 3, self.axis.enter(end) + shift), row.line + row.half + shift
        )
        pale = tuple((band.left, band.right) for band in self.axis.crossed(start, end))
        tip = f"{bar.hole.field}: {caption(bar.hole.type)}, at most {counted(bar.hole.max_tokens, 'token')}"
        shape = BarShape(box, pale, bar.critical, ghost, tip)
        self.bars.append(shape)
        return shape

    def _copies(self, row: Row, bar: Bar) -> float:
        """The instances after the first one: the second, the third and the last. Returns where they end."""
        inner = row.lane.loops[-1]
        period = next((copies.period for copies in reversed(row.lane.loops) if copies.period), 0)
        last = sum(copies.last for copies in row.lane.loops)
        shown = min(SHOWN_COPIES, max(1, inner.maximum - 1))
        laters = [last if number == shown else min(last, number * period) for number in range(1, shown + 1)]
        reach = 0.0
        for number in range(shown, 0, -1):
            ghost = self._bar(row, bar, later=laters[number - 1], shift=STACK * number, ghost=True)
            reach = max(reach, ghost.box.right)
        return reach

    def _loop(self, row: Row, loop: Looped, bars: list[Bar]) -> None:
        """A frame around all items; the bars after the first item's are ghosts."""
        left, right = self.axis.leave(loop.start), self.axis.enter(loop.end)
        self.loops.append(Box(left - 5, row.line - row.half - 4, right + 4, row.line + row.half + 4))
        drawn = 1 if loop.per else min(loop.maximum, 40)
        for number in range(1, drawn):
            for bar in bars:
                if loop.start <= bar.start < loop.first:
                    later = (loop.end - loop.first) * number // max(1, loop.maximum - 1)
                    self._bar(row, bar, later=later, ghost=True)

    def _bar_labels(self, row: Row, bar: Bar, shape: BarShape, limit: float, reach: float, loop: Looped | None) -> None:
        if row.half < 6.5:
            return
        tokens = str(bar.hole.max_tokens)
        room = shape.box.width - 12
        tokens_width = text_width(tokens, Style.LIMIT.size)
        kind = next(
            (name for name in bar_names(row.lane, bar) if text_width(name, 11.5) + tokens_width + 8 <= room), ""
        )
        times = times_of(row.lane)
        outside = times
        if kind:
            self._label(kind, Style.VALUE, shape.box.left + 6, row.line, room)
            self._label(tokens, Style.LIMIT, shape.box.right - 6 - tokens_width, row.line, tokens_width + 1)
        elif tokens_width + 4 <= room and loop is not None:
            self._label(tokens, Style.LIMIT, shape.box.right - 6 - tokens_width, row.line, tokens_width + 1)
        elif loop is None:
            outside = f"{bar_words(row.lane, bar)} {times}".strip()
        if outside:
            joined = self.joined_at.get(row.lane.branch.id)
            left = max(shape.box.right, reach, self.axis.leave(joined) - 3 if joined is not None else 0.0) + 8
            self.words_behind.append((row, outside, Style.TIMES if times else Style.TYPE, left, limit - 6))


def _crossing(spines: dict[float, tuple[float, float]], y: float) -> list[float]:
    return [spine for spine, (low, high) in spines.items() if low - 8 < y < high + 8]


def _is_document(lane: Lane) -> bool:
    return (
        bool(lane.copies)
        and lane.copies[-1].per == "document"
        and any(isinstance(event, Prompt) for event in lane.events)
    )
