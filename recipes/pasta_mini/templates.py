"""Templates: documents that were written by hand, with places for what they state.

    {seller}                    has to be stated
    {due date|Pay by {}}        may be stated; without it, the text goes, too
    {items*|- {}\\n}             every line of a list
    {|Total|To pay}             one of these
    {#4}                        so many digits, about which nothing is asked
    {=paid:false}               prints nothing: what the text says in words of its own

A line of which nothing is left goes with its places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from pastalang.values.json import JsonValue
from recipes.pasta_mini.facts import Fact

_NAME = re.compile(r"(?P<name>[^{}|*#]*)(?P<each>\*?)\|")
_GLUED = re.compile(r"[A-Za-z]:\{[a-z]|[\w}][;,]\{|\}[;,][\w{]|\}\.\w|\}'s")  # a value is one word with its neighbour
_LEFT_OVER = " ,;/|"  # signs between places, at either end of a line
_EMPTY = "\0"  # what stays of a place that is empty, until its line is judged


@dataclass(frozen=True, slots=True)
class _Value:
    """Of the named slot; without a name, of the place that this stands in."""

    name: str


@dataclass(frozen=True, slots=True)
class _Digits:
    count: int


@dataclass(frozen=True, slots=True)
class _Place:
    """May stay empty. `each`: the text is repeated for every line of a list."""

    name: str
    each: bool
    parts: tuple[_Part, ...]


@dataclass(frozen=True, slots=True)
class _Fixed:
    name: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple[tuple[_Part, ...], ...]


_Part = str | _Value | _Digits | _Fixed | _Place | _Choice


@dataclass(frozen=True, slots=True)
class Template:
    """`required` and `optional` are names of slots. `fixed`: what else it says. `is_glued`: no value can be quoted."""

    parts: tuple[_Part, ...]
    required: frozenset[str]
    optional: frozenset[str]
    fixed: Mapping[str, JsonValue]
    is_glued: bool

    @property
    def names(self) -> frozenset[str]:
        return self.required | self.optional

    def fill(self, facts: Mapping[str, Fact], random: Random) -> tuple[str, frozenset[str]]:
        """The document, and the names of what it states. `facts` holds at least what is required."""
        filling = _Filling(facts, random)
        lines = filling.fill(self.parts, None).split("\n")
        cleared = [line.replace(_EMPTY, "").strip(_LEFT_OVER) if _EMPTY in line else line.rstrip() for line in lines]
        kept = [clear for clear, line in zip(cleared, lines, strict=True) if clear or _EMPTY not in line]
        return "\n".join(kept).strip("\n"), frozenset(filling.printed)


@cache
def read_template(text: str) -> Template:
    parts, end = _parts(text.strip("\n"), 0, "")
    assert end == len(text.strip("\n")), f"a brace closes nothing: {text}"
    required = frozenset(_named(parts, _Value))
    optional = frozenset(_named(parts, _Place)) - required
    fixed = {part.name: part.value for part in parts if isinstance(part, _Fixed)}
    assert len(fixed) == text.count("{="), f"what is fixed stands inside of a place: {text}"
    return Template(parts, required, optional, fixed, _GLUED.search(text) is not None)


def _parts(text: str, here: int, ends: str) -> tuple[tuple[_Part, ...], int]:
    """The parts from `here` to the first of `ends` that stands outside of braces."""
    found: list[_Part] = []
    while here < len(text) and text[here] not in ends and text[here] != "}":
        if text[here] == "{":
            part, here = _braced(text, here + 1)
            found.append(part)
        else:
            after = next((at for at in range(here, len(text)) if text[at] in "{}" + ends), len(text))
            found.append(text[here:after])
            here = after
    return tuple(found), here


def _braced(text: str, here: int) -> tuple[_Part, int]:
    if text[here] in "#=":
        end = text.index("}", here)
        name, _, value = text[here + 1 : end].partition(":")
        return (_Digits(int(name)) if text[here] == "#" else _Fixed(name, json.loads(value))), end + 1
    opened = _NAME.match(text, here)
    if opened is None:
        end = text.index("}", here)
        return _Value(text[here:end]), end + 1
    if opened["name"]:
        parts, end = _parts(text, opened.end(), "")
        return _Place(opened["name"], bool(opened["each"]), parts), end + 1
    options, end = [], here
    while text[end] == "|":
        option, end = _parts(text, end + 1, "|")
        options.append(option)
    return _Choice(tuple(options)), end + 1


def _named(parts: Sequence[_Part], kind: type[_Value] | type[_Place]) -> Iterator[str]:
    """Values outside of places, or places with the values inside of them."""
    for part in parts:
        match part:
            case _Value(name) if name and kind is _Value:
                yield name
            case _Choice(options):
                for option in options:
                    yield from _named(option, kind)
            case _Place(name, _, inner) if kind is _Place:
                yield from (name, *_named(inner, _Place), *_named(inner, _Value))


class _Filling:
    """`printed` are the names of what the text states so far."""

    def __init__(self, facts: Mapping[str, Fact], random: Random) -> None:
        self._facts, self._random = facts, random
        self.printed: set[str] = set()

    def fill(self, parts: Sequence[_Part], here: str | None) -> str:
        """`here` is what stands for a value without a name."""
        text = ""
        for part in parts:
            match part:
                case str():
                    text += part
                case _Digits(count):
                    text += str(self._random.randrange(10 ** (count - 1), 10**count))
                case _Choice(options):
                    text += self.fill(self._random.choice(options), here)
                case _Value(""):
                    assert here is not None, "a place without a name stands inside of another one"
                    text += here
                case _Value(name):
                    text += self._facts[name].printed
                    self.printed.add(name)
                case _Place():
                    text += self._place(part)
                case _Fixed():
                    pass
        return text

    def _place(self, place: _Place) -> str:
        if not {place.name, *_named(place.parts, _Value)} <= self._facts.keys():
            return _EMPTY
        fact = self._facts[place.name]
        self.printed.add(place.name)
        if not place.each:
            return self.fill(place.parts, fact.printed)
        chosen, texts = self._random.getstate(), []
        for line in fact.lines or (fact.printed,):
            self._random.setstate(chosen)  # all lines choose alike
            texts.append(self.fill(place.parts, line))
        return "".join(texts)
