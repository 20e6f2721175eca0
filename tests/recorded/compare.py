"""Two records of a run: the first difference between them, in words."""

from __future__ import annotations

from typing import Any

NEAR = 2e-6  # of numbers that were rounded to six digits
AROUND = 40


def difference(recorded: Any, found: Any, place: str = "") -> str | None:
    """None where nothing differs."""
    match recorded, found:
        case dict(), dict():
            return _of_parts(recorded, found, place)
        case list(), list():
            return _of_items(recorded, found, place)
        case (str(), str()) if recorded != found:
            return _of_texts(recorded, found, place)
        case (float(), int() | float()) | (int(), float()):
            return None if abs(recorded - found) <= NEAR else f"{place} was {recorded}, is {found}"
        case _ if recorded != found or type(recorded) is not type(found):
            return f"{place} was {recorded!r:.80}, is {found!r:.80}"
    return None


def _of_parts(recorded: dict[str, Any], found: dict[str, Any], place: str) -> str | None:
    for name in [*recorded, *(name for name in found if name not in recorded)]:
        inside = f"{place}.{name}" if place else name
        if name not in found:
            return f"{inside} was {recorded[name]!r:.80}, is gone"
        if name not in recorded:
            return f"{inside} is new: {found[name]!r:.80}"
        if said := difference(recorded[name], found[name], inside):
            return said
    return None


def _of_items(recorded: list[Any], found: list[Any], place: str) -> str | None:
    for at, (one, other) in enumerate(zip(recorded, found, strict=False)):
        named = f" ({one[0]})" if isinstance(one, list) and one and isinstance(one[0], str) else ""
        if said := difference(one, other, f"{place}[{at}]{named}"):
            return said
    if len(recorded) != len(found):
        return f"{place} had {len(recorded)} entries, has {len(found)}"
    return None


def _of_texts(recorded: str, found: str, place: str) -> str:
    pairs = zip(recorded, found, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(recorded), len(found)))
    start = max(0, at - AROUND // 2)
    before, after = (repr(text[start : at + AROUND]) for text in (recorded, found))
    return f"{place} differs from character {at} on: was …{before}…, is …{after}…"
