"""What the demo shows on a terminal: a title with its values, fields that grow at the same time, and costs.

Norvika Coffee, Dark Roast, 12 oz
1──────         2─────────  3────
  1  Brand       Norvika     0–7
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO, TypeAlias

from pastalang.runtime.events import Event, FieldDone, FieldStarted, TextDelta

Values: TypeAlias = Mapping[str, str | None]

_COLOURS = (36, 33, 35, 32, 34, 31)
_BOLD, _FAINT = 1, 2
_TITLE = 38  # columns of a title in a table
_UP = "\x1b[{lines}A"
_CLEAR_LINE = "\x1b[K"
_CURSOR = "▌"


@dataclass(frozen=True, slots=True)
class Ink:
    """Terminal colours, or plain text if `is_coloured` is false."""

    is_coloured: bool

    def bold(self, text: str) -> str:
        return self._in(_BOLD, text)

    def faint(self, text: str) -> str:
        return self._in(_FAINT, text)

    def mark(self, number: int, text: str) -> str:
        """The colour of the number-th value, counted from 1."""
        return self._in(_COLOURS[(number - 1) % len(_COLOURS)], text)

    def _in(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_coloured and text else text


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it starts in the title. Both are None if the title does not state the value."""

    number: int
    name: str
    value: str | None
    start: int | None

    @property
    def end(self) -> int | None:
        return None if self.start is None or self.value is None else self.start + len(self.value)


def locate(title: str, values: Values) -> list[Found]:
    """Every value with its first place in the title. The stated values are numbered from 1."""
    found, number = [], 0
    for name, value in values.items():
        number += value is not None
        start = None if value is None else title.find(value)
        found.append(Found(number, name, value, None if start is None or start < 0 else start))
    return found


def show_answer(title: str, given: Values, right: Values, ink: Ink) -> list[str]:
    """The title with its spans underlined, a line for each value, and how many are right."""
    found = locate(title, given)
    width = max(len(name) for name in given)
    lines = ["  " + ink.bold(title)]
    stated = [one for one in found if one.value is not None]
    if stated:
        lines.append("  " + _underlined(stated, ink))
    longest = max((len(one.value or "") for one in stated), default=0)
    lines += ["    " + _line(one, width, longest, right.get(one.name), ink) for one in stated]
    lines += [f"    {ink.faint('–')}  {name:<{width}}  missed: {right[name]}" for name in _missed(given, right)]
    absent = [one.name for one in found if one.value is None and right.get(one.name) is None]
    if absent:
        lines.append("    " + ink.faint(f"not stated: {', '.join(absent)}"))
    return lines


def count_right(given: Values, right: Values) -> int:
    return sum(given[name] == right.get(name) for name in given)


def _missed(given: Values, right: Values) -> list[str]:
    return [name for name, value in given.items() if value is None and right.get(name) is not None]


def _line(one: Found, width: int, longest: int, expected: str | None, ink: Ink) -> str:
    where = "" if one.start is None else ink.faint(f"{one.start}–{one.end}")
    verdict = "" if one.value == expected else f"   wrong: it is {expected or 'not stated'}"
    return f"{ink.mark(one.number, f'{one.number}')}  {one.name:<{width}}  {one.value:<{longest}}  {where}{verdict}"


def _underlined(stated: Sequence[Found], ink: Ink) -> str:
    """A rule under each span, starting with its number. Of spans that overlap, only the first one gets a rule."""
    line, at = "", 0
    for one in sorted((one for one in stated if one.start is not None), key=lambda one: (one.start or 0, one.number)):
        assert one.start is not None and one.end is not None
        if one.start < at:
            continue
        rule = str(one.number).ljust(one.end - one.start, "─")[: max(one.end - one.start, 1)]
        line += " " * (one.start - at) + ink.mark(one.number, rule)
        at = one.start + len(rule)
    return line


@dataclass(frozen=True, slots=True)
class Cost:
    passes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Race:
    """One listing, decoded in both ways."""

    title: str
    at_once: Cost
    in_sequence: Cost


def show_costs(races: Sequence[Race], ink: Ink) -> list[str]:
    whole = Race("all of them", _sum(race.at_once for race in races), _sum(race.in_sequence for race in races))
    head = f"  {'':<{_TITLE}}  {'forward passes':^17}  {'seconds':^17}"
    below = f"  {'':<{_TITLE}}  {'at once':>8} {'in turn':>8}  {'at once':>8} {'in turn':>8}"
    lines = [ink.faint(head.rstrip()), ink.faint(below)]
    lines += [_race(race) for race in races]
    return [*lines, ink.bold(_race(whole))]


def ratios(races: Sequence[Race]) -> tuple[float, float]:
    """How many times fewer passes, and how many times less time, over all races."""
    at_once, in_sequence = _sum(race.at_once for race in races), _sum(race.in_sequence for race in races)
    return in_sequence.passes / max(1, at_once.passes), in_sequence.seconds / max(1e-9, at_once.seconds)


def _race(race: Race) -> str:
    title = race.title if len(race.title) <= _TITLE else race.title[: _TITLE - 1] + "…"
    one, other = race.at_once, race.in_sequence
    return f"  {title:<{_TITLE}}  {one.passes:>8} {other.passes:>8}  {one.seconds:>8.2f} {other.seconds:>8.2f}"


def _sum(costs: Iterable[Cost]) -> Cost:
    listed = list(costs)
    return Cost(sum(cost.passes for cost in listed), sum(cost.seconds for cost in listed))


class Board:
    """The fields of one answer, a line each, redrawn in place after every forward pass; `pace` seconds between two.

    `names` are the fields in their order.
    """

    def __init__(self, stream: TextIO, names: Sequence[str], ink: Ink, *, pace: float) -> None:
        self._stream = stream
        self._ink = ink
        self._pace = pace
        self._texts = dict.fromkeys(names, "")
        self._growing: set[str] = set()
        self._written: set[str] = set()  # since the last drawing
        self._is_drawn = False

    def show(self, event: Event) -> None:
        match event:
            case FieldStarted(field=field):
                self._growing.add(_name(field))
            case TextDelta(field=field, text=text):
                name = _name(field)
                if name in self._written:  # a field writes once in a pass, so a new pass has begun
                    self.draw()
                self._written.add(name)
                self._texts[name] += text
            case FieldDone(field=field, text=text):
                self._texts[_name(field)] = text
                self._growing.discard(_name(field))
            case _:
                pass

    def draw(self) -> None:
        if self._is_drawn:
            self._stream.write(_UP.format(lines=len(self._texts)))
        width = max(map(len, self._texts))
        for number, (name, text) in enumerate(self._texts.items(), start=1):
            self._stream.write(f"{_CLEAR_LINE}    {name:<{width}}  {self._shown(number, name, text)}\n")
        self._stream.flush()
        self._written.clear()
        self._is_drawn = True
        time.sleep(self._pace)

    def _shown(self, number: int, name: str, text: str) -> str:
        """Control characters are dropped, so the model cannot move the cursor."""
        safe = "".join(letter for letter in text.strip('"') if letter.isprintable())
        if name in self._growing:
            return self._ink.mark(number, safe) + _CURSOR
        return self._ink.faint(safe) if text == "null" else self._ink.mark(number, safe)


def _name(path: str) -> str:
    """In a path, keys that are not plain words are quoted."""
    return str(json.loads(path)) if path.startswith('"') else path
