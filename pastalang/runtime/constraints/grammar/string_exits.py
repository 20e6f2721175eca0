"""Tokens that close a string inside a structure and continue after it, found once per vocabulary.

ab", "c      the text before the quote belongs to the string, the text after it to the structure
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from pastalang.runtime.constraints.dfa.spelling import spell_json
from pastalang.runtime.constraints.dfa.table_machine import ClosingTokens
from pastalang.runtime.constraints.kinds.string import StringMachine
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.token_bytes import Rows, token_rows
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints

# The texts that may follow a string, which is an item or the value of a member: an end, or `, ` and the next value.
_BEHIND = re.compile(rb'[]}]|, ?$|, ["[{0-9tfn-]')


def free_machine(tokens: Tokens, least: int, most: int | None) -> StringMachine:
    spelling = tokens.cached(("json", ()), lambda: spell_json(()))
    return StringMachine(spelling, Seam(tokens, b""), least=least, most=most)


@dataclass(frozen=True, eq=False)
class QuoteTails:
    """The texts that tokens have after a quote, sorted; `spelled` are their bytes as tokens, if every byte has one.

    `closing(place)` are, for each token from a place in a string: the characters before the quote, the token, and the
    index of its text.
    """

    texts: list[bytes]
    spelled: list[list[int]]
    closing: Callable[[int], list[tuple[int, int, int]]]
    known: dict[int, Exits] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Exits:
    """Tokens from one place, with the characters before the quote and the index of the text after it."""

    tokens: Ints
    counts: Ints
    rest: Ints


def prepare_exits(tokens: Tokens) -> None:
    """Compute everything in this module that is shared by all guides of a vocabulary."""
    tails = quote_tails(tokens)
    for place in free_machine(tokens, 0, None).places:
        exits_from(place, tails)
        _closing_nodes(tokens, place)
    if tokens.vocabulary.covers_bytes:
        closing_tokens(tokens)


def exits_from(place: int, tails: QuoteTails) -> Exits:
    """The tokens from one place of a string."""
    if place not in tails.known:
        counts, ids, numbers = np.array(tails.closing(place), dtype=np.int64).reshape(-1, 3).T
        tails.known[place] = Exits(ids, counts, numbers)
    return tails.known[place]


def quote_tails(tokens: Tokens) -> QuoteTails:
    """The texts after a quote inside a structure."""
    return tokens.cached("after a quote", lambda: _inside_structures(tokens))


def _inside_structures(tokens: Tokens) -> QuoteTails:
    closing = [list(_closing(tokens, place)) for place in free_machine(tokens, 0, None).places]
    texts = sorted({text for found in closing for _, _, text in found})
    numbers = {text: number for number, text in enumerate(texts)}
    return QuoteTails(
        texts,
        _spelled(texts, tokens),
        lambda place: [(count, token, numbers[text]) for count, token, text in closing[place]],
    )


def _closing(tokens: Tokens, place: int) -> Iterator[tuple[int, int, bytes]]:
    """The characters before the quote, the token, and its text after the quote."""
    trie = tokens.trie
    for node, count in zip(*map(np.ndarray.tolist, _closing_nodes(tokens, place)), strict=True):
        depth = trie.depth(node)
        for token in trie.below(node)[int(trie.own[node]) :].tolist():
            text = (tokens.text(token) or b"")[depth:]
            if _BEHIND.match(text):
                yield count, token, text


def seam_tails(seam: Seam) -> QuoteTails:
    """The texts after the quote of a string that is the whole value: beginnings of the text that follows."""
    return seam.tokens.cached_recent(("after a quote", seam.follow), lambda: _before(seam))


def _before(seam: Seam) -> QuoteTails:
    tokens, trie = seam.tokens, seam.tokens.trie
    texts = [seam.follow[:end] for end in range(1, min(len(seam.follow), tokens.longest) + 1)]

    def closing(place: int) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        nodes, counts = _closing_nodes(tokens, place)
        for number, text in enumerate(texts):
            nodes = trie.child(nodes, text[-1])
            nodes, counts = nodes[nodes >= 0], counts[nodes >= 0]
            ids, at = trie.ending_at(nodes)
            found += [(count, token, number) for count, token in zip(counts[at].tolist(), ids.tolist(), strict=True)]
        return found

    return QuoteTails(texts, _spelled(texts, tokens), closing)


def _spelled(texts: list[bytes], tokens: Tokens) -> list[list[int]]:
    covers = tokens.vocabulary.covers_bytes
    return [[tokens.ids[bytes((byte,))] for byte in text] for text in texts] if covers else []


def _closing_nodes(tokens: Tokens, place: int) -> tuple[Ints, Ints]:
    """The trie nodes of closing quotes that have longer tokens below, and the characters before each quote."""

    def find() -> tuple[Ints, Ints]:
        found = free_machine(tokens, 0, None).closing_nodes(place)
        counts = [np.full(len(nodes), count) for count, nodes in found.items()]
        nothing = [np.zeros(0, dtype=np.int64)]
        return np.concatenate([*found.values(), *nothing]), np.concatenate([*counts, *nothing])

    return tokens.cached(("closing nodes", place), find)


def closing_tokens(tokens: Tokens) -> ClosingTokens:
    return tokens.cached("closers", lambda: _closers(tokens))


def _closers(tokens: Tokens) -> ClosingTokens:
    every, numbers = token_rows(tokens), {rest: number for number, rest in enumerate(quote_tails(tokens).texts)}
    found: list[tuple[int, int, int, int]] = []
    for token, start in zip(every.ids.tolist(), every.starts.tolist(), strict=True):
        text = tokens.text(token) or b""
        quote = text.find(b'"')
        while quote >= 0:
            if (rest := numbers.get(text[quote + 1 :])) is not None:
                found.append((start, start + quote + 1, token, rest))
            quote = text.find(b'"', quote + 1)
    starts, ends, ids, tails = np.array(found, dtype=np.int64).reshape(-1, 4).T
    return ClosingTokens(Rows(every.letters, starts, ends, np.arange(len(found))), ids, tails)
