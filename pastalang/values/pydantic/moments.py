"""Dates and times within bounds, as strings with a format and a pattern: the digits of a moment sort as it does."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from pastalang.program import types as t

_SECOND: Final = datetime.timedelta(seconds=1)
_NAMES: Final = ("ge", "gt", "le", "lt")
_DAY: Final = datetime.timedelta(days=1)
_FRACTION: Final = r"(?:\.\d{1,6})?"


class NoMoment(ValueError):
    """Bounds that leave no date or time."""


def date_between(bounds: Mapping[str, Any]) -> t.String:
    """The dates within the bounds `ge`, `gt`, `le` and `lt`, of which there is at least one."""
    low, high = datetime.date.min, datetime.date.max
    try:
        low = max([low, *_given(bounds, "ge"), *(bound + _DAY for bound in _given(bounds, "gt"))])
        high = min([high, *_given(bounds, "le"), *(bound - _DAY for bound in _given(bounds, "lt"))])
    except OverflowError:
        raise NoMoment("no date lies between the bounds") from None
    if low > high:
        raise NoMoment("no date lies between the bounds")
    return t.String(format="date", pattern=between(low.isoformat(), high.isoformat()))


def datetime_between(bounds: Mapping[str, Any]) -> t.String | None:
    """The times within the bounds, to the second. None if some bounds have an offset and others do not.

    They are written without an offset, as the bounds are, or in UTC if the bounds have offsets.
    """
    given = [bound for name in _NAMES for bound in _given(bounds, name)]
    is_aware = [bound.tzinfo is not None for bound in given]
    if any(is_aware) and not all(is_aware):
        return None
    try:
        low = max([datetime.datetime.min, *map(_up, _given(bounds, "ge")), *map(_after, _given(bounds, "gt"))])
        ends = [*((_plain(bound), False) for bound in _given(bounds, "le"))]
        ends += [(_plain(bound), bound.microsecond == 0) for bound in _given(bounds, "lt")]
        high, is_excluded = min(ends, default=(datetime.datetime.max, True), key=lambda end: (end[0], not end[1]))
        last, final = high.replace(microsecond=0), [] if is_excluded and ends else [_text(high)]
        whole = [between(_text(low), _text(last - _SECOND)) + _FRACTION] if low < last else []
        final = final if low <= last else []
    except OverflowError:
        raise NoMoment("no time lies between the bounds") from None
    if not whole and not final:
        raise NoMoment("no time lies between the bounds")
    pattern = f"(?:{'|'.join([*whole, *final])})" + ("Z" if any(is_aware) else "")
    return t.String(format="date-time" if any(is_aware) else "local-date-time", pattern=pattern)


def time_between(bounds: Mapping[str, Any]) -> t.Regex | None:
    """The times of day within the bounds, without an offset. None if a bound has one."""
    day = datetime.date(2000, 1, 1)
    given = {name: datetime.datetime.combine(day, bounds[name]) for name in _NAMES if bounds.get(name) is not None}
    if any(bound.tzinfo is not None for bound in given.values()):
        return None
    start = datetime.datetime.combine(day, datetime.time.min)
    end = {} if {"le", "lt"} & given.keys() else {"lt": start + _DAY}
    found = datetime_between({"ge": start, **end, **given})
    return None if found is None or found.pattern is None else t.Regex(found.pattern.replace(f"{day}T", ""))


def between(low: str, high: str) -> str:
    """A pattern of the texts from `low` to `high`, which differ in digits only."""
    at = next((at for at, (one, other) in enumerate(zip(low, high, strict=True)) if one != other), None)
    if at is None:
        return low
    first, last = int(low[at]), int(high[at])
    parts = [low[at] + _at_least(low[at + 1 :])]
    if last - first > 1:
        parts.append(f"[{first + 1}-{last - 1}]{_any(low[at + 1 :])}")
    parts.append(high[at] + _at_most(high[at + 1 :]))
    return f"{low[:at]}(?:{'|'.join(parts)})"


def _at_least(text: str) -> str:
    if not text.strip("0-:T"):
        return _any(text)
    if not text[0].isdigit() or text[0] == "9":
        return text[0] + _at_least(text[1:])
    return f"(?:{text[0]}{_at_least(text[1:])}|[{int(text[0]) + 1}-9]{_any(text[1:])})"


def _at_most(text: str) -> str:
    if not text.strip("9-:T"):
        return _any(text)
    if not text[0].isdigit() or text[0] == "0":
        return text[0] + _at_most(text[1:])
    return f"(?:[0-{int(text[0]) - 1}]{_any(text[1:])}|{text[0]}{_at_most(text[1:])})"


def _any(text: str) -> str:
    return "".join(r"\d" if character.isdigit() else character for character in text)


def _given(bounds: Mapping[str, Any], name: str) -> list[Any]:
    return [] if bounds.get(name) is None else [bounds[name]]


def _plain(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _up(moment: datetime.datetime) -> datetime.datetime:
    """The first whole second from the moment on."""
    plain = _plain(moment)
    return plain if plain.microsecond == 0 else plain.replace(microsecond=0) + _SECOND


def _after(moment: datetime.datetime) -> datetime.datetime:
    return _plain(moment).replace(microsecond=0) + _SECOND


def _text(moment: datetime.datetime) -> str:
    return moment.replace(microsecond=0).isoformat()
