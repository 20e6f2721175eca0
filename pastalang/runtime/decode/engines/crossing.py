"""Tokens that close a string inside a structure and go on: found once for a vocabulary.

ab", "c      what is before the quote belongs to the string, what is behind it to the structure
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pastalang.runtime.decode.border import Border
from pastalang.runtime.decode.engines.characters import spell_json
from pastalang.runtime.decode.engines.string import StringMachine
from pastalang.runtime.decode.rows import Rows, rows_of
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.trie import Ints

# What may stand behind a string that is an item or the value of a member: the end, or `, ` and how JSON begins.
_BEHIND = re.compile(rb'[]}]|, ?$|, ["[{0-9tfn-]')


def free_machine(tokens: Tokens, least: int, most: int | None) -> StringMachine:
    spelling = tokens.keep(("json", ()), lambda: spell_json(()))
    return StringMachine(spelling, Border(tokens, b""), least=least, most=most)


def prepare_crossing(tokens: Tokens) -> None:
    """What is made once for a vocabulary."""
    machine = free_machine(tokens, 0, None)
    for place in machine.places:
        crossing_of(machine, place, tokens)
    if tokens.vocabulary.covers_bytes:
        spelled_rests(tokens)
        closers_of(tokens)


@dataclass(frozen=True, eq=False)
class Crossing:
    """Such tokens from one place: the characters before the quote, and the number of the text behind it."""

    tokens: Ints
    counts: Ints
    rest: Ints


def crossing_of(machine: StringMachine, place: int, tokens: Tokens) -> Crossing:
    return tokens.keep(("crossing a quote", place), lambda: _crossing(machine, place, tokens))


def _crossing(machine: StringMachine, place: int, tokens: Tokens) -> Crossing:
    numbers = {rest: number for number, rest in enumerate(rests_of(tokens))}
    found = [
        (token, count, numbers[rest]) for count, token, rest in _closing(machine, place, tokens) if _BEHIND.match(rest)
    ]
    columns = np.array(found, dtype=np.int64).reshape(-1, 3)
    return Crossing(columns[:, 0], columns[:, 1], columns[:, 2])


def rests_of(tokens: Tokens) -> list[bytes]:
    """The texts that tokens hold behind a quote, from whatever place in a string, sorted."""

    def find() -> list[bytes]:
        machine = free_machine(tokens, 0, None)
        every = {rest for place in machine.places for _, _, rest in _closing(machine, place, tokens)}
        return sorted(rest for rest in every if _BEHIND.match(rest))

    return tokens.keep("behind a quote", find)


def spelled_rests(tokens: Tokens) -> list[list[int]]:
    """The same, byte by byte."""
    return tokens.keep(
        "behind a quote, as bytes",
        lambda: [[tokens.ids[bytes((byte,))] for byte in rest] for rest in rests_of(tokens)],
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


@dataclass(frozen=True, eq=False)
class Closers:
    """Tokens up to a quote, as rows with numbers of their own; of each its token and the number of the text behind."""

    rows: Rows
    tokens: Ints
    rest: Ints


def closers_of(tokens: Tokens) -> Closers:
    return tokens.keep("closers", lambda: _closers(tokens))


def _closers(tokens: Tokens) -> Closers:
    every, numbers = rows_of(tokens), {rest: number for number, rest in enumerate(rests_of(tokens))}
    found: list[tuple[int, int, int, int]] = []
    for token, start in zip(every.ids.tolist(), every.starts.tolist(), strict=True):
        text = tokens.text(token) or b""
        quote = text.find(b'"')
        while quote >= 0:
            if (rest := numbers.get(text[quote + 1 :])) is not None:
                found.append((start, start + quote + 1, token, rest))
            quote = text.find(b'"', quote + 1)
    starts, ends, ids, rests = np.array(found, dtype=np.int64).reshape(-1, 4).T
    return Closers(Rows(every.letters, starts, ends, np.arange(len(found))), ids, rests)
