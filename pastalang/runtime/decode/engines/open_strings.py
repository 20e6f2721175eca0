"""Strings inside structures: the mask of an open free string is put together and not asked of the grammar.

What stays inside the string, or ends with its quote, is the same as for a string alone. Only what a token may hold
behind the quote depends on where the string stands; the grammar is asked about that once for each such place.

    ["ab           inside, and up to the quote: a string machine
    ["ab", "c      behind the quote: the few texts that some token has there, asked one by one
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.runtime.decode.border import Border
from pastalang.runtime.decode.engines.characters import spell_json
from pastalang.runtime.decode.engines.matcher import Matcher
from pastalang.runtime.decode.engines.string import Inside, StringMachine
from pastalang.runtime.decode.engines.trace import Trace
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.machine import Machine, MachineState
from pastalang.runtime.decode.mask import join_masks, mask_of
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.trie import Ints
from pastalang.values.inner_limits import Quoted, arms_of, may_be_text, opens
from pastalang.values.json_text import parse_json

_MAX_KEPT = 512
# What may stand behind a string that is an item or the value of a member: the end, or `, ` and how JSON begins.
_BEHIND = re.compile(rb'[]}]|, ?$|, ["[{0-9tfn-]')
_STRING, _WORD = re.compile(rb'"(?:[^"\\]|\\.)*"'), re.compile(rb"[-+.0-9a-zA-Z]+")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open string: what is before it, its machine, and where that stands behind `raw`.

    Only strings that are free or limited have a machine, and those as long as they are what it takes.
    """

    before: bytes
    place: bytes  # the same as the grammar remembers it
    string: Quoted | None
    machine: Machine | None
    state: MachineState
    raw: bytes


class OpenStrings:
    """The strings of one type in one vocabulary. `plain` makes the machine of one that is not free."""

    def __init__(
        self, type: t.Type, types: Mapping[str, t.Type], tokens: Tokens, plain: Callable[[t.Type], Machine]
    ) -> None:
        self._type = type
        self._types = types
        self._tokens = tokens
        self._plain = plain
        self._machines: dict[Quoted, Machine] = {}
        self._behind: dict[bytes, NDArray[np.bool_] | None] = {}
        self._masks: dict[object, tuple[TokenMask, TokenMask]] = {}

    def opened(self, trace: Trace, known: Opened | None) -> Opened | None:
        """The string that is open, as far as it was known before; None where none is, or a key."""
        if trace.string is None or not trace.stack or trace.stack[-1].wants_key:
            return None
        before = trace.raw[: trace.string]
        if known is None or known.before != before or not trace.raw.startswith(known.raw):
            string = string_at(self._type, self._types, trace)
            is_followed = string is not None and (is_free(string) or string.max_tokens is not None)
            machine = self.machine(string) if is_followed and string is not None else None
            start = Inside(0, 0) if machine is None else machine.start
            known = Opened(before, shape(before), string, machine, start, before)
        if known.machine is None:
            return known
        state = known.state
        for byte in trace.raw[len(known.raw) :]:
            following = known.machine.step(state, byte)
            if following is None:  # the grammar took what the string does not: it is asked from here on
                return replace(known, machine=None, state=state, raw=trace.raw)
            state = following
        return replace(known, state=state, raw=trace.raw)

    def closes_alike(self, before: Trace, after: Trace, ending: Sequence[int], known: Opened | None) -> bool:
        """Whether an ending of the first is one of the second: both between two characters of the same free string.

        Items that must differ are no such strings: one more character may make them equal.
        """
        if not ending or after.string is None or before.string != after.string or after.unique:
            return False
        first = self.opened(before, known)
        if first is None or not (self._tokens.text(ending[0]) or b"").startswith(b'"'):
            return False
        machine, second = first.machine, self.opened(after, first)
        if not isinstance(machine, StringMachine) or second is None or second.machine is not machine:
            return False
        assert isinstance(first.state, Inside) and isinstance(second.state, Inside)
        return machine.is_between(first.state) and machine.is_between(second.state)

    def mask(self, opened: Opened, here: Callable[[], Matcher], left: int | None = None) -> TokenMask | None:
        """With so many tokens left to close the string. None: the grammar has to be asked."""
        machine, state = opened.machine, opened.state
        if not isinstance(machine, StringMachine) or not self._tokens.vocabulary.covers_bytes:
            return None
        assert isinstance(state, Inside)
        place = opened.place
        if place not in self._behind:
            if len(self._behind) >= _MAX_KEPT:
                self._behind.clear()
                self._masks.clear()
            self._behind[place] = self._find_behind(machine, state, here())
        behind = self._behind[place]
        if behind is None:
            return None
        inside = machine.mask(state, left)
        key = (place, state.place, id(inside))
        if key not in self._masks:
            if len(self._masks) >= _MAX_KEPT:
                self._masks.clear()
            crossing = crossing_of(machine, state.place, self._tokens)
            fits = behind[crossing.rest] & machine.room(state, crossing.counts)
            across = mask_of(self._tokens.size, crossing.tokens[fits])
            self._masks[key] = join_masks(self._tokens.size, [inside, across]), inside
        return self._masks[key][0]

    def machine(self, string: Quoted) -> Machine:
        if string not in self._machines:
            if isinstance(string, t.String) and is_free(string):
                self._machines[string] = free_machine(self._tokens, string.min_chars, string.max_chars)
            else:
                self._machines[string] = self._plain(string)
        return self._machines[string]

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


def is_free(string: Quoted) -> bool:
    return isinstance(string, t.String) and string.pattern is None and string.format is None


def string_at(type: t.Type, types: Mapping[str, t.Type], trace: Trace) -> Quoted | None:
    """The type of the open string of a trace, where it can only be one."""
    here: t.Type | None = type
    begins = [around.begun - 1 for around in trace.stack[1:]]
    for around, end in zip(trace.stack, [*begins, trace.string], strict=True):
        found = [arm for arm in arms_of(here, types) if opens(arm, is_object=around.is_object)]
        if len(found) != 1:
            return None
        if isinstance(found[0], t.Tuple):
            items = parse_json((b"[" + trace.raw[around.begun : end].rstrip(b", ") + b"]").decode())
            here = found[0].items[len(items)] if isinstance(items, list) and len(items) < len(found[0].items) else None
        else:
            here = _within(found[0], around.taken[-1] if around.is_object else None)
        if here is None:
            return None
    written = [arm for arm in arms_of(here, types) if may_be_text(arm)]
    return written[0] if len(written) == 1 and isinstance(written[0], Quoted) else None


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
