"""Free strings inside structures: the mask of an open string is put together and not asked of the grammar.

What stays inside the string, or ends with its quote, is the same as for a string alone. Only what a token may hold
behind the quote depends on where the string stands; the grammar is asked about that once for each such place.

    ["ab           inside, and up to the quote: a string machine
    ["ab", "c      behind the quote: the few texts that some token has there, asked one by one
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.runtime.decode.border import Border
from pastalang.runtime.decode.engines.characters import spell_json
from pastalang.runtime.decode.engines.matcher import Matcher
from pastalang.runtime.decode.engines.string import Inside, StringMachine
from pastalang.runtime.decode.engines.trace import Trace
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.mask import join_masks, mask_of
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.trie import Ints

_MAX_KEPT = 512
# What may stand behind a string that is an item or the value of a member: the end, or `, ` and how JSON begins.
_BEHIND = re.compile(rb'[]}]|, ?$|, ["[{0-9tfn-]')
_STRING, _WORD = re.compile(rb'"(?:[^"\\]|\\.)*"'), re.compile(rb"[-+.0-9a-zA-Z]+")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open string: what is before it, its machine (None: not a free string), and where that stands behind `raw`."""

    before: bytes
    place: bytes  # the same as the grammar remembers it
    machine: StringMachine | None
    state: Inside
    raw: bytes


class OpenStrings:
    """The free strings of one type in one vocabulary, whose bytes are all tokens."""

    def __init__(self, type: t.Type, types: Mapping[str, t.Type], tokens: Tokens) -> None:
        self._type = type
        self._types = types
        self._tokens = tokens
        self._machines: dict[tuple[int, int | None], StringMachine] = {}
        self._behind: dict[bytes, NDArray[np.bool_] | None] = {}
        self._masks: dict[object, tuple[TokenMask, TokenMask]] = {}

    def opened(self, trace: Trace, known: Opened | None) -> Opened | None:
        """The string that is open, as far as it was known before; None where none is, or a key."""
        if trace.string is None or not trace.stack or trace.stack[-1].wants_key:
            return None
        before = trace.raw[: trace.string]
        if known is None or known.before != before or not trace.raw.startswith(known.raw):
            string = free_string(self._type, self._types, trace)
            machine = None if string is None else self._machine(string)
            start = Inside(0, 0) if machine is None else machine.start
            assert isinstance(start, Inside)
            known = Opened(before, shape(before), machine, start, before)
        if known.machine is None:
            return known
        state = known.state
        for byte in trace.raw[len(known.raw) :]:
            following = known.machine.step(state, byte)
            if following is None:  # the grammar took what the string does not: it is asked from here on
                return Opened(before, known.place, None, state, trace.raw)
            assert isinstance(following, Inside)
            state = following
        return Opened(before, known.place, known.machine, state, trace.raw)

    def closes_alike(self, before: Trace, after: Trace, ending: Sequence[int], known: Opened | None) -> bool:
        """Whether an ending of the first is one of the second: both between two characters of the same free string.

        Items that must differ are no such strings: one more character may make them equal.
        """
        if not ending or after.string is None or before.string != after.string or after.unique:
            return False
        first = self.opened(before, known)
        if first is None or first.machine is None or not (self._tokens.text(ending[0]) or b"").startswith(b'"'):
            return False
        second = self.opened(after, first)
        if second is None or second.machine is not first.machine:
            return False
        return first.machine.is_between(first.state) and first.machine.is_between(second.state)

    def mask(self, opened: Opened, here: Callable[[], Matcher]) -> TokenMask | None:
        """None: the grammar has to be asked."""
        machine, state = opened.machine, opened.state
        if machine is None:
            return None
        place = opened.place
        if place not in self._behind:
            if len(self._behind) >= _MAX_KEPT:
                self._behind.clear()
                self._masks.clear()
            self._behind[place] = self._find_behind(machine, state, here())
        behind = self._behind[place]
        if behind is None:
            return None
        inside = machine.mask(state, None)
        key = (place, state.place, id(inside))
        if key not in self._masks:
            if len(self._masks) >= _MAX_KEPT:
                self._masks.clear()
            crossing = crossing_of(machine, state.place, self._tokens)
            fits = behind[crossing.rest] & machine.room(state, crossing.counts)
            across = mask_of(self._tokens.size, crossing.tokens[fits])
            self._masks[key] = join_masks(self._tokens.size, [inside, across]), inside
        return self._masks[key][0]

    def _machine(self, string: t.String) -> StringMachine:
        limits = string.min_chars, string.max_chars
        if limits not in self._machines:
            self._machines[limits] = free_machine(self._tokens, *limits)
        return self._machines[limits]

    def _find_behind(self, machine: StringMachine, state: Inside, matcher: Matcher) -> NDArray[np.bool_] | None:
        """Of every text that a token holds behind a quote, whether the grammar takes it there."""
        ending = machine.ending(state)
        if ending is None or not (ahead := matcher.copy()).take(ending):
            return None
        rests, spelled = _rests(machine, self._tokens), _spelled_rests(machine, self._tokens)
        found, at = np.zeros(len(rests), dtype=np.bool_), 0
        while at < len(rests):
            taken = ahead.inner.validate_tokens(spelled[at])
            if taken == len(rests[at]):
                found[at] = True
                at += 1
            else:  # nothing else that begins like this is taken either
                refused = rests[at][: taken + 1]
                at = max(at + 1, bisect_left(rests, refused[:-1] + bytes((min(refused[-1] + 1, 0xFF),))))
        return found


def free_machine(tokens: Tokens, least: int, most: int | None) -> StringMachine:
    spelling = tokens.keep(("json", ()), lambda: spell_json(()))
    return StringMachine(spelling, Border(tokens, b""), least=least, most=most)


def prepare_crossing(tokens: Tokens) -> None:
    """What is made once for a vocabulary."""
    machine = free_machine(tokens, 0, None)
    for place in machine.places:
        crossing_of(machine, place, tokens)
    if tokens.vocabulary.covers_bytes:
        _spelled_rests(machine, tokens)


def shape(before: bytes) -> bytes:
    """What a grammar remembers of the text before a string: the same for texts that it does not tell apart."""
    return _WORD.sub(b"0", _STRING.sub(b"0", before))


# ── tokens that close a string and go on ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Crossing:
    """Such tokens from one place: the characters before the quote, and the number of the text behind it."""

    tokens: Ints
    counts: Ints
    rest: Ints


def crossing_of(machine: StringMachine, place: int, tokens: Tokens) -> Crossing:
    return tokens.keep(("crossing a quote", place), lambda: _crossing(machine, place, tokens))


def _crossing(machine: StringMachine, place: int, tokens: Tokens) -> Crossing:
    numbers = {rest: number for number, rest in enumerate(_rests(machine, tokens))}
    found = [
        (token, count, numbers[rest]) for count, token, rest in _closing(machine, place, tokens) if _BEHIND.match(rest)
    ]
    columns = np.array(found, dtype=np.int64).reshape(-1, 3)
    return Crossing(columns[:, 0], columns[:, 1], columns[:, 2])


def _rests(machine: StringMachine, tokens: Tokens) -> list[bytes]:
    """The texts that tokens hold behind a quote, from whatever place in a string, sorted."""

    def find() -> list[bytes]:
        every = {rest for place in machine.places for _, _, rest in _closing(machine, place, tokens)}
        return sorted(rest for rest in every if _BEHIND.match(rest))

    return tokens.keep("behind a quote", find)


def _spelled_rests(machine: StringMachine, tokens: Tokens) -> list[list[int]]:
    """The same, byte by byte."""
    return tokens.keep(
        "behind a quote, as bytes",
        lambda: [[tokens.ids[bytes((byte,))] for byte in rest] for rest in _rests(machine, tokens)],
    )


def _closing(machine: StringMachine, place: int, tokens: Tokens) -> list[tuple[int, int, bytes]]:
    """Characters before the quote, the token, and what it holds behind the quote."""
    trie, found = tokens.trie, []
    for count, nodes in machine.closing_nodes(place).items():
        for node in nodes.tolist():
            depth = trie.depth(node)
            for token in trie.below(node)[int(trie.own[node]) :].tolist():
                found.append((count, token, (tokens.text(token) or b"")[depth:]))
    return found


# ── which string stands where ────────────────────────────────────────────────────────────────────────────


def free_string(type: t.Type, types: Mapping[str, t.Type], trace: Trace) -> t.String | None:
    """The type of the open string of a trace, where it can only be one, and that a free string."""
    here: t.Type | None = type
    for around in trace.stack:
        found = [arm for arm in _arms(here, types) if _opens(arm, is_object=around.is_object)]
        here = _within(found[0], around.taken[-1] if around.is_object else None) if len(found) == 1 else None
        if here is None:
            return None
    written = [arm for arm in _arms(here, types) if _may_be_written(arm)]
    if len(written) != 1 or not isinstance(string := written[0], t.String):
        return None
    return string if string.pattern is None and string.format is None else None


def _arms(type: t.Type | None, types: Mapping[str, t.Type]) -> list[t.Type]:
    while isinstance(type, t.Named):
        type = types[type.name]
    if isinstance(type, t.Union):
        return [inner for arm in type.arms for inner in _arms(arm, types)]
    return [] if type is None else [type]


def _opens(type: t.Type, *, is_object: bool) -> bool:
    if isinstance(type, t.Literal):
        return False
    if isinstance(type, t.Anything | t.Schema):
        return True
    return isinstance(type, t.Object | t.Map if is_object else t.Array | t.Tuple)


def _within(type: t.Type, key: str | None) -> t.Type | None:
    match type:
        case t.Array(item=item):
            return item
        case t.Map(value=value):
            return value
        case t.Object(fields=fields):
            return next((place.type for place in fields if place.key == key), None)
        case _:
            return None


def _may_be_written(type: t.Type) -> bool:
    """Whether a value of it may begin with a quote."""
    if isinstance(type, t.Literal):
        return isinstance(type.value, str)
    return isinstance(type, t.String | t.Regex | t.Temporal | t.Uuid | t.Verbatim | t.Anything | t.Schema)
