"""Where the quotations of a field stand in the inputs: for each `verbatim` value, the text and the characters in it.

A value that stands in its source several times is reported at the first place. Which place the model meant is not
known: the mask follows all places at once, and the tokens of a value are the same wherever it is copied from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pastalang.plan.branches import Each, Hole, Repeat
from pastalang.plan.plan import Plan
from pastalang.plan.structure import Nesting, visit, walk_plan
from pastalang.program import types as t
from pastalang.program.visit import parts_of_value
from pastalang.values.fit import find_mismatches
from pastalang.values.json import JsonValue, parse_json
from pastalang.values.paths import place_in_answer
from pastalang.values.quotes import BORDER, find_quotation, quoted_sources
from pastalang.values.text import value_at


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Where a quotation stands: `result.sources[path][start:end]` is the quotation, in characters of the string.

    name          the input, as the program names it; or the field of a running text that is quoted
    path          the text in it: "title", "order.note", "pages[2]", "docs[0].body"
    item          the 0-based number of the element, if `verbatim` was given a list of texts
    start, end    the first place of the quotation in that text
    occurrences   in how many places it stands there, all elements of a list together
    within        the place of the quotation in the value of its field, such as (2,) in a list; () is the whole value
    """

    name: str
    path: str
    item: int | None
    start: int
    end: int
    occurrences: int = 1
    within: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop around a hole: `item` names its element, and is empty if the loop goes over no list."""

    item: str
    over: str
    over_hole: bool


@dataclass(frozen=True, slots=True)
class QuotingHole:
    """A hole whose value quotes: the names of its sources, and the loops around it, outermost first."""

    sources: tuple[str, ...]
    loops: tuple[Loop, ...]
    fields: Mapping[str, tuple[str, int]]  # the path of every field by its name, and the number of loops around it


def quoting_holes(plan: Plan, nesting: Nesting) -> dict[str, QuotingHole]:
    """The holes that quote, by their fields."""
    types = dict(plan.types)
    loops = {
        (branch.id, address): _loop(segment)
        for branch, address, segment in walk_plan(plan)
        if isinstance(segment, Each | Repeat)
    }
    around = [
        (one.segment, (*nesting.loops[branch.id], *((branch.id, address) for address in one.repeats)))
        for branch in plan.branches
        if branch.id in nesting.loops  # threads are forked by the model; their text quotes nothing
        for one in visit(branch.segments)
        if isinstance(one.segment, Hole)
    ]
    fields = {last_name(hole.field): (hole.field, len(found)) for hole, found in around}
    return {
        hole.field: QuotingHole(sources, tuple(loops[loop] for loop in found), fields)
        for hole, found in around
        if (sources := quoted_sources(hole.type, types))
    }


def last_name(path: str) -> str:
    """The name of a field without those of the loops around it. In a running text no other field has it."""
    return path.rsplit(".", 1)[-1].removesuffix("[]")


def _loop(segment: Each | Repeat) -> Loop:
    name = segment.name if isinstance(segment, Each) else segment.item
    return Loop(name, segment.over or "", segment.over_hole)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text that may be quoted, and the number of the element if it belongs to a list of them."""

    path: str
    text: str
    item: int | None = None


Sources: TypeAlias = Mapping[str, tuple[SourceText, ...]]


def texts_of(
    hole: QuotingHole,
    inputs: Mapping[str, Any],
    items: tuple[int, ...],
    seen: Mapping[str, str],
) -> Sources:
    """The texts of each source of a hole, for one instance of it.

    `seen` are the texts that its branch sees.
    """
    places = {name: Place(name, value) for name, value in inputs.items()}
    for loop, number in zip(hole.loops, items, strict=False):
        over = _written_list(loop.over, seen) if loop.over_hole else _place(loop.over, places)
        if over is not None:
            places[loop.item] = Place(f"{over.path}[{number}]", over.value[number])
    found: dict[str, tuple[SourceText, ...]] = {}
    for name in hole.sources:
        if name.partition(".")[0] in places:
            found[name] = tuple(_texts_at(name, places))
        elif name in seen and name in hole.fields:
            path, depth = hole.fields[name]
            found[name] = (SourceText(place_in_answer(path, items[:depth]), seen[name]),)
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """A value in the inputs, and the path to it."""

    path: str
    value: Any


def _written_list(field: str, seen: Mapping[str, str]) -> Place | None:
    """A list that the model wrote, if it is the whole value of its field."""
    text = seen.get(last_name(field))
    value = None if text is None else parse_json(text)
    return Place(field, value) if isinstance(value, list) else None


def _place(name: str, places: Mapping[str, Place]) -> Place | None:
    """What a loop goes over; None for a loop that the model ends."""
    head, *keys = name.split(".")
    if not head:
        return None
    found = places[head]
    return Place(".".join((found.path, *keys)), value_at(found.value, tuple(keys)))


def _texts_at(name: str, places: Mapping[str, Place]) -> Iterator[SourceText]:
    """The text of that name, or the texts of the one list that is on the way."""
    head, *keys = name.split(".")
    here = [places[head]]
    is_list = False
    while True:
        if here and isinstance(here[0].value, list | tuple):
            is_list = True
            here = [Place(f"{here[0].path}[{number}]", one) for number, one in enumerate(here[0].value)]
        elif keys:
            key = keys.pop(0)
            here = [Place(f"{place.path}.{key}", place.value[key]) for place in here]
        else:
            break
    for number, place in enumerate(here):
        yield SourceText(place.path, str(place.value), number if is_list else None)


def spans_of(type: t.Type, value: JsonValue, types: Mapping[str, t.Type], sources: Sources) -> Iterator[SourceSpan]:
    """The place of every quotation in a value of the type."""
    texts = {name: BORDER.join(one.text for one in found) for name, found in sources.items()}
    for quoted, quotation, within in _quotations(type, value, types, texts):
        name = quoted.source
        place = find_quotation(texts[name], quotation, quoted.at)
        if place is None:
            continue
        source = sources[name][place.item or 0]
        yield SourceSpan(
            re.split(r"[.\[]", source.path, maxsplit=1)[0], source.path, source.item, place.start, place.end,
            place.occurrences, within,
        )  # fmt: skip


def _quotations(
    type: t.Type, value: JsonValue, types: Mapping[str, t.Type], texts: Mapping[str, str]
) -> Iterator[tuple[t.Verbatim, str, tuple[str | int, ...]]]:
    """The quotations in a value: the type of each, the quotation, and its place in the value."""
    if isinstance(type, t.Verbatim) and isinstance(value, str) and type.source in texts:
        yield type, value, ()
    elif isinstance(type, t.Named):
        yield from _quotations(types[type.name], value, types, texts)
    elif isinstance(type, t.Union):
        fitting = next((arm for arm in type.arms if not find_mismatches(arm, value, types, sources=texts)), None)
        if fitting is not None:
            yield from _quotations(fitting, value, types, texts)
    else:
        for step, inner, part in parts_of_value(type, value):
            for quoted, quotation, within in _quotations(inner, part, types, texts):
                yield quoted, quotation, (step, *within)
