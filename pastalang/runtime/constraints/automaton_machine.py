"""Machines of numbers and of strings with patterns: an automaton, and the tokens that each of its states allows.

    AutomatonMachine    a state of the automaton
    CountedMachine      a state and the number of characters so far, for patterns with limits of length

For a state, all tokens run through the automaton at once; the state that each token reaches is cached for all holes of
the type. A limit allows the tokens whose state is near enough to an ending.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Generic, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.program.regex import Chars, Node, RegexError, Repetition, parse_regex
from pastalang.runtime.constraints.automata import Automaton, IntersectionAutomaton, NumberAutomaton, RegexAutomaton
from pastalang.runtime.constraints.guide import GuideError, M, TokenMask
from pastalang.runtime.constraints.masks import mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.string_machine import Spelling, spell_characters, spell_json
from pastalang.runtime.constraints.tokens import ROOT, BoundedCache, Ints, LruCache, Tokens, TokenTrie

DEAD = -1
MAX_STATES = 480  # of an automaton that is explored completely
_MAX_TYPES = 256
_MAX_MASKS = 512
_MAX_REACHED = 128  # states whose tokens are cached; those of one open state take up to a megabyte
_MAX_ENDINGS = 4_096
_MAX_ALPHABETS = 32
_FAR = 1 << 30
_UNLIMITED = 1 << 40

Flags: TypeAlias = NDArray[np.bool_]
StateNumbers: TypeAlias = NDArray[np.int32]


# ── the states of an automaton ──────────────────────────────────────────────────────────────────────────────


class States:
    """The states of an automaton as numbers, in the order in which they are reached; 0 is the start.

    No automaton is built completely, so none can explode. States do not depend on the vocabulary or the text after the
    value, so all holes of a type share them.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._numbers: dict[Hashable, int] = {}
        self._states: list[Hashable] = []
        self._endings: dict[int, bytes] = {}
        # The last entry of each array stands for `DEAD`, as index -1.
        self._rows: NDArray[np.int32] = np.full((16, 256), DEAD, dtype=np.int32)
        self._ready: Flags = np.arange(16) == 15  # whether the row of a state is known
        self.accepting: Flags = np.zeros(16, dtype=np.bool_)
        self._number(automaton.start)

    def __len__(self) -> int:
        return len(self._states)

    @property
    def alphabet(self) -> bytes:
        return self._automaton.alphabet

    def row(self, at: int) -> NDArray[np.int32]:
        """The state after every byte; `DEAD` if there is none."""
        if not self._ready[at]:
            ways = [(list(bytes_), self._number(to)) for bytes_, to in self._automaton.ways(self._states[at])]
            for bytes_, number in ways:
                self._rows[at, bytes_] = number
            self._ready[at] = True
        found: NDArray[np.int32] = self._rows[at]
        return found

    def rows(self) -> NDArray[np.int32]:
        """The rows of all states, which have been explored."""
        return self._rows[: len(self)]

    def after(self, states: StateNumbers, bytes_: Ints) -> StateNumbers:
        """The state after one byte from each of these states, any of which may be `DEAD`."""
        ready = self._ready.take(states, mode="wrap")
        if not ready.all():
            for at in _distinct(states[~ready]):
                self.row(at)
        found: StateNumbers = self._rows.ravel().take(states * np.int64(256) + bytes_, mode="wrap")
        return found

    def next_bytes(self, at: int) -> list[int]:
        """The bytes that may follow the state."""
        found: list[int] = np.flatnonzero(self.row(at) != DEAD).tolist()
        return found

    def ending(self, at: int) -> bytes:
        """The fewest bytes to the end of a value."""
        if at not in self._endings:
            self._endings[at] = self._automaton.ending(self._states[at])
        return self._endings[at]

    def explore(self, most: int) -> bool:
        """Compute the rows of all states. Returns False if there are more than `most`."""
        at = 0
        while at < len(self) <= most:
            self.row(at)
            at += 1
        return len(self) <= most

    def _number(self, state: Hashable) -> int:
        found = self._numbers.get(state)
        if found is None:
            found = self._numbers[state] = len(self._states)
            self._states.append(state)
            if found + 1 >= len(self._rows):
                self._grow()
            self.accepting[found] = self._automaton.accepts(state)
        return found

    def _grow(self) -> None:
        more = len(self._rows)
        self._rows = np.concatenate([self._rows, np.full((more, 256), DEAD, dtype=np.int32)])
        self._ready = np.concatenate([self._ready[:-1], np.zeros(more, dtype=np.bool_), self._ready[-1:]])
        self.accepting = np.concatenate([self.accepting, np.zeros(more, dtype=np.bool_)])


# ── the tokens of a state ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _Within:
    """The part of the trie whose texts consist of the bytes of an alphabet. Its nodes have numbers of their own."""

    nodes: Ints  # their numbers in the trie
    parent: Ints
    byte: Ints
    levels: tuple[int, ...]
    is_inner: Flags  # whether longer tokens continue
    tokens: Ints
    token_nodes: Ints  # the node where each token ends


def _within(alphabet: bytes, tokens: Tokens) -> _Within:
    known: LruCache[bytes, _Within] = tokens.cached("alphabets", lambda: LruCache(_MAX_ALPHABETS))
    return known.cached(alphabet, lambda: _find_within(alphabet, tokens.trie))


def _find_within(alphabet: bytes, trie: TokenTrie) -> _Within:
    is_byte = np.zeros(256, dtype=np.bool_)
    is_byte[list(alphabet)] = True
    alive = is_byte[trie.byte]
    alive[ROOT] = True
    for low, high in pairwise(trie.levels[1:]):
        alive[low:high] &= alive[trie.parent[low:high]]
    nodes = np.flatnonzero(alive)
    number = np.cumsum(alive) - 1
    tokens, owner = trie.ending_at(nodes)
    levels = tuple(np.searchsorted(nodes, trie.levels).tolist())
    return _Within(
        nodes, number[trie.parent[nodes]], trie.byte[nodes], levels, trie.children[nodes] > 0, tokens, owner
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Reached:
    """The tokens that stay inside the value, the node of the trie and the state that each reaches.

    `whole` are the nodes of the trie after which the value is complete and longer tokens continue.
    """

    tokens: Ints
    nodes: Ints
    ends: StateNumbers
    whole: Ints


def reached_from(states: States, at: int, tokens: Tokens) -> Reached:
    """The tokens of a state, the same for all texts that may follow the value."""
    known: LruCache[tuple[States, int], Reached] = tokens.cached("reached", lambda: LruCache(_MAX_REACHED))
    return known.cached((states, at), lambda: _reach(states, at, _within(states.alphabet, tokens)))


def _reach(states: States, at: int, within: _Within) -> Reached:
    """Run all tokens through the automaton, level by level of their trie."""
    ends = np.full(len(within.nodes), DEAD, dtype=np.int32)
    ends[ROOT] = at
    for low, high in pairwise(within.levels[1:]):
        before = ends.take(within.parent[low:high])
        if not len(before) or before.max() == DEAD:
            break
        ends[low:high] = states.after(before, within.byte[low:high])
    ends[ROOT] = DEAD
    token_ends = ends.take(within.token_nodes)
    alive = np.flatnonzero(token_ends != DEAD)
    is_whole = states.accepting.take(ends, mode="wrap") & within.is_inner
    return Reached(
        within.tokens.take(alive), within.nodes.take(within.token_nodes.take(alive)), token_ends.take(alive),
        within.nodes[is_whole],
    )  # fmt: skip


class _StatesMachine(ABC, Generic[M]):
    """What both machines of automata do alike."""

    @abstractmethod
    def step(self, state: M, byte: int) -> M | None: ...

    @abstractmethod
    def accepts(self, state: M) -> bool: ...

    @abstractmethod
    def _next_bytes(self, state: M) -> list[int]:
        """The bytes that may follow."""

    def can_continue(self, state: M) -> bool:
        return bool(self._next_bytes(state))

    def stop_bytes(self, state: M) -> int:
        return 0

    def forced(self, state: M) -> bytes:
        found = bytearray()
        while not self.accepts(state) and len(ways := self._next_bytes(state)) == 1:
            following = self.step(state, ways[0])
            assert following is not None, "an allowed byte without a next state"
            found += bytes(ways)
            state = following
        return bytes(found)


class AutomatonMachine(_StatesMachine[int]):
    """See `guide.Machine`. Its states are the numbers of the automaton's states."""

    def __init__(self, states: States, seam: Seam) -> None:
        self._states = states
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._masks: BoundedCache[tuple[int, int | None], TokenMask] = BoundedCache(_MAX_MASKS)
        self._farthest: dict[int, int] = {}  # by state: the most bytes to an ending after a token
        self.start = 0

    def step(self, state: int, byte: int) -> int | None:
        following = self._states.row(state).item(byte)
        return None if following == DEAD else following

    def accepts(self, state: int) -> bool:
        return self._states.accepting.item(state)

    def _next_bytes(self, state: int) -> list[int]:
        return self._states.next_bytes(state)

    def ending(self, state: int) -> tuple[int, ...] | None:
        return self._tokens.shortest(self._states.ending(state))

    def closed_nodes(self, state: int) -> Ints:
        return reached_from(self._states, state, self._tokens).whole

    def mask(self, state: int, remaining: int | None) -> TokenMask:
        if remaining is not None and self._is_plenty(state, remaining - 1):
            remaining = None
        return self._masks.cached((state, remaining), lambda: self._make_mask(state, remaining))

    def _is_plenty(self, at: int, left: int) -> bool:
        """Whether an ending fits after every token, because it has at most as many bytes as tokens are left."""
        if not self._tokens.vocabulary.covers_bytes:
            return False
        if at not in self._farthest:
            ends = _distinct(reached_from(self._states, at, self._tokens).ends)
            self._farthest[at] = max((len(self._states.ending(end)) for end in ends), default=0)
        return left >= self._farthest[at]

    def _make_mask(self, at: int, remaining: int | None) -> TokenMask:
        reached = reached_from(self._states, at, self._tokens)
        inside = reached.tokens
        if remaining is not None or not self._tokens.vocabulary.covers_bytes:
            inside = inside[self._fits(reached.ends, remaining)]
        across = self._seam.tokens_after(reached.whole)
        return mask_of(self._tokens.size, np.concatenate([inside, across]))

    def _fits(self, ends: StateNumbers, remaining: int | None) -> Flags:
        """For each state, whether its ending fits into the remaining tokens after one more."""
        fits = np.zeros(len(self._states), dtype=np.bool_)
        for end in _distinct(ends):
            fits[end] = _has_room(self._states.ending(end), remaining, self._tokens)
        found: Flags = fits[ends]
        return found


def _has_room(ending: bytes, remaining: int | None, tokens: Tokens) -> bool:
    """Whether the ending fits into the remaining tokens after one more."""
    if tokens.vocabulary.covers_bytes and (remaining is None or len(ending) < remaining):
        return True
    spelled = tokens.shortest(ending)
    return spelled is not None and (remaining is None or len(spelled) < remaining)


def _distinct(ends: StateNumbers) -> list[int]:
    found: list[int] = np.flatnonzero(np.bincount(ends)).tolist()
    return found


# ── patterns with limits of length ─────────────────────────────────────────────────────────────────────────


class CountedState(NamedTuple):
    at: int
    characters: int  # complete ones


class CountedMachine(_StatesMachine[CountedState]):
    """See `guide.Machine`. A count next to the state: the automaton of pattern and limits together is never built."""

    def __init__(self, states: States, lengths: LengthLimits, seam: Seam) -> None:
        self._states = states
        self._lengths = lengths
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._masks: BoundedCache[object, TokenMask] = BoundedCache(_MAX_MASKS)
        self._endings: BoundedCache[CountedState, tuple[int, ...] | None] = BoundedCache(_MAX_ENDINGS)
        self.start = CountedState(0, 0)

    def step(self, state: CountedState, byte: int) -> CountedState | None:
        at = self._states.row(state.at).item(byte)
        if at == DEAD:
            return None
        characters = state.characters + self._lengths.completes(state.at, byte)
        return CountedState(at, characters) if self._lengths.fits(at, characters) else None

    def accepts(self, state: CountedState) -> bool:
        return self._states.accepting.item(state.at) and self._lengths.allows(state.characters)

    def ending(self, state: CountedState) -> tuple[int, ...] | None:
        return self._endings.cached(state, lambda: self._tokens.shortest(self._lengths.ending(*state)))

    def _next_bytes(self, state: CountedState) -> list[int]:
        return [byte for byte in self._states.next_bytes(state.at) if self.step(state, byte) is not None]

    def closed_nodes(self, state: CountedState) -> Ints:
        whole = reached_from(self._states, state.at, self._tokens).whole
        return whole[self._lengths.all_allow(state.characters + self._added(state.at)[whole])]

    def mask(self, state: CountedState, remaining: int | None) -> TokenMask:
        room = self._lengths.room(state.characters, self._tokens.longest)
        if remaining is not None and self._is_plenty(remaining - 1):
            remaining = None
        return self._masks.cached((state.at, room, remaining), lambda: self._make_mask(state, remaining))

    def _is_plenty(self, left: int) -> bool:
        """Whether an ending fits after every token."""
        return self._tokens.vocabulary.covers_bytes and left >= self._lengths.most_bytes

    def _make_mask(self, here: CountedState, remaining: int | None) -> TokenMask:
        reached = reached_from(self._states, here.at, self._tokens)
        counts = here.characters + self._added(here.at)[reached.nodes]
        fits = self._lengths.fit(reached.ends, counts)
        if remaining is not None or not self._tokens.vocabulary.covers_bytes:
            fits = self._ends_in(reached.ends, counts, fits, remaining)
        across = self._seam.tokens_after(self.closed_nodes(here))
        return mask_of(self._tokens.size, np.concatenate([reached.tokens[fits], across]))

    def _ends_in(self, ends: StateNumbers, counts: Ints, fits: Flags, remaining: int | None) -> Flags:
        """Those that fit and after which an ending fits into the remaining tokens."""
        known: dict[CountedState, bool] = {}
        found = np.zeros(len(ends), dtype=np.bool_)
        for number in np.flatnonzero(fits).tolist():
            reached = CountedState(ends.item(number), counts.item(number))
            if reached not in known:
                ending = self.ending(reached)
                known[reached] = ending is not None and (remaining is None or len(ending) < remaining)
            found[number] = known[reached]
        return found

    def _added(self, at: int) -> Ints:
        """For each node of the trie, the number of characters that its text completes after the state."""
        spelling, place = self._lengths.spelling, self._lengths.place(at)
        key = ("completed characters", spelling, place)
        return self._tokens.cached(key, lambda: _completed(spelling, place, self._tokens.trie))


def _completed(spelling: Spelling, start: int, trie: TokenTrie) -> Ints:
    """The number of characters that each node of the trie completes, as far as it stays inside the spelling."""
    places, counts = np.full(len(trie), start, dtype=np.int32), np.zeros(len(trie), dtype=np.int64)
    for low, high in pairwise(trie.levels[1:]):
        parent, byte = trie.parent[low:high], trie.byte[low:high]
        here = places[parent]
        places[low:high] = np.where(here == DEAD, DEAD, spelling.next[here, byte])
        counts[low:high] = counts[parent] + (spelling.completes[here, byte] & (here != DEAD))
    return counts


class LengthLimits:
    """Limits of `least` to `most` characters for the values of an automaton of which all states are known.

    `_bytes[r, s]` are the fewest bytes from state s to an end that complete exactly r characters.
    """

    def __init__(self, states: States, spelling: Spelling, least: int, most: int | None) -> None:
        self.spelling = spelling
        self._least = least
        self._most = _UNLIMITED if most is None else most
        self._edges = _Edges(states, spelling)
        self._bytes = self._distances(states)
        finite = self._bytes < _FAR
        self._before = np.zeros((len(finite) + 1, finite.shape[1]), dtype=np.int32)
        np.cumsum(finite, axis=0, out=self._before[1:])  # [r, s]: how many r' < r reach an end
        self.most_bytes = int(self._bytes[finite].max(initial=0)) if least == 0 else _UNLIMITED
        if not self.fits(0, 0):
            raise GuideError("no string fits the pattern, the format and the limits of length together")

    def _distances(self, states: States) -> NDArray[np.int32]:
        """As many rows as matter: for a longer ending there is always a shorter one that keeps the limits."""
        last = np.where(states.accepting[: len(states)], 0, _FAR).astype(np.int32)
        rows = [self._edges.within(last)]
        longest = min(self._most, self._least + len(states) + 1)
        while len(rows) <= longest:
            if not self._least and (np.minimum.reduce(rows) < _FAR).all():
                break
            rows.append(self._edges.within(self._edges.completing(rows[-1])))
        return np.stack(rows)

    def place(self, state: int) -> int:
        """The place of the state in the spelling."""
        return self._edges.places.item(state)

    def completes(self, state: int, byte: int) -> bool:
        """Whether the byte completes a character after the state."""
        return self.spelling.completes.item(self.place(state), byte)

    def allows(self, characters: int) -> bool:
        return self._least <= characters <= self._most

    def all_allow(self, characters: Ints) -> Flags:
        found: Flags = (characters >= self._least) & (characters <= self._most)
        return found

    def fits(self, state: int, characters: int) -> bool:
        """As `fit`, for one state."""
        rows = len(self._bytes)
        low = min(max(self._least - characters, 0), rows)
        beyond = min(max(self._most - characters + 1, low), rows)
        return self._before.item(beyond, state) > self._before.item(low, state)

    def fit(self, states: StateNumbers, characters: Ints) -> Flags:
        """For each state and number of complete characters, whether some ending keeps the limits."""
        rows = len(self._bytes)
        low = np.clip(self._least - characters, 0, rows)
        beyond = np.clip(self._most - characters + 1, low, rows)
        found: Flags = self._before[beyond, states] > self._before[low, states]
        return found

    def room(self, characters: int, longest: int) -> tuple[int, int]:
        """The part of the limits that a mask depends on: limits that are far away have the same mask."""
        return max(self._least - characters, 0), min(self._most - characters, longest + len(self._bytes))

    def ending(self, state: int, characters: int) -> bytes:
        """The fewest bytes to an end within the limits."""
        low = max(self._least - characters, 0)
        column = self._bytes[low : min(self._most - characters + 1, len(self._bytes)), state]
        left, text = low + int(column.argmin()), bytearray()
        while (ahead := self._bytes.item(left, state)) > 0:
            byte, state, completes = self._edges.nearer(state, self._bytes[: left + 1], left, ahead)
            text.append(byte)
            left -= completes
        return bytes(text)


class _Edges:
    """The transitions of an automaton, one for each range of bytes that lead to the same state, by their state.

    `places` is the place of each state in the spelling: all texts that reach a state end at the same byte of a
    character.
    """

    def __init__(self, states: States, spelling: Spelling) -> None:
        rows = states.rows()
        fresh = np.ones(rows.shape, dtype=np.bool_)
        fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
        self._from, self._byte = np.nonzero(fresh & (rows != DEAD))
        self._to = rows[self._from, self._byte]
        self._starts = np.searchsorted(self._from, np.arange(len(rows) + 1))
        self._states = len(rows)
        self.places = self._find_places(spelling)
        self._completes = spelling.completes[self.places[self._from], self._byte]

    def _span(self, state: int) -> slice:
        return slice(self._starts.item(state), self._starts.item(state + 1))

    def _find_places(self, spelling: Spelling) -> Ints:
        found = np.full(self._states, spelling.start, dtype=np.int64)
        seen, waiting = {0}, [0]
        while waiting:
            state = waiting.pop()
            span = self._span(state)
            for byte, following in zip(self._byte[span].tolist(), self._to[span].tolist(), strict=True):
                if following not in seen:
                    seen.add(following)
                    found[following] = spelling.next[found[state], byte]
                    waiting.append(following)
        return found

    def completing(self, before: NDArray[np.int32]) -> NDArray[np.int32]:
        """The distances over one byte that completes a character, given those with one character less."""
        return self._nearest(before, self._completes)

    def within(self, found: NDArray[np.int32]) -> NDArray[np.int32]:
        """The distances including bytes that do not complete a character: bytes inside one, and quotes."""
        while True:
            nearer = np.minimum(found, self._nearest(found, ~self._completes))
            if (nearer == found).all():
                return nearer
            found = nearer

    def _nearest(self, ahead: NDArray[np.int32], chosen: Flags) -> NDArray[np.int32]:
        found = np.full(self._states, _FAR, dtype=np.int32)
        edges = np.flatnonzero(chosen & (ahead[self._to] < _FAR))
        np.minimum.at(found, self._from[edges], ahead[self._to[edges]] + 1)
        return found

    def nearer(self, state: int, bytes_: NDArray[np.int32], left: int, ahead: int) -> tuple[int, int, int]:
        """One step towards an end: its byte, its state and whether it completes a character."""
        span = self._span(state)
        for byte, following, completes in zip(
            self._byte[span].tolist(), self._to[span].tolist(), self._completes[span].tolist(), strict=True
        ):
            if left >= completes and bytes_[left - completes, following] == ahead - 1:
                return byte, following, int(completes)
        raise AssertionError("no transition has this distance")


# ── the machines of types ──────────────────────────────────────────────────────────────────────────────────


def number_machine(type: t.Integer | t.Number, seam: Seam) -> AutomatonMachine:
    return AutomatonMachine(number_states(type), seam)


def pattern_machine(
    patterns: Sequence[str], seam: Seam, *, quoted: bool, least: int = 0, most: int | None = None
) -> AutomatonMachine | CountedMachine:
    """The machine of strings of `least` to `most` characters that match all of the patterns."""
    key = tuple(patterns)
    if not least and most is None:
        return AutomatonMachine(_pattern_states(key, quoted), seam)
    if has_few_states(key, quoted):
        return CountedMachine(_pattern_states(key, quoted), _length_limits(key, least, most, quoted), seam)
    return AutomatonMachine(_limited_states(key, least, most, quoted), seam)


@lru_cache(maxsize=_MAX_TYPES)
def number_states(type: t.Integer | t.Number) -> States:
    return States(NumberAutomaton(type))


@lru_cache(maxsize=_MAX_TYPES)
def _pattern_states(patterns: tuple[str, ...], quoted: bool) -> States:
    return _intersection([_parsed(pattern) for pattern in patterns], quoted)


@lru_cache(maxsize=_MAX_TYPES)
def _limited_states(patterns: tuple[str, ...], least: int, most: int | None, quoted: bool) -> States:
    """The limits of length as one more pattern, for patterns that have too many states by themselves."""
    any_characters = Repetition(Chars(((0, 0xD7FF), (0xE000, 0x10FFFF))), least, most)
    return _intersection([*map(_parsed, patterns), any_characters], quoted)


@lru_cache(maxsize=_MAX_TYPES)
def _length_limits(patterns: tuple[str, ...], least: int, most: int | None, quoted: bool) -> LengthLimits:
    spelling = spell_json(()) if quoted else spell_characters()
    return LengthLimits(_pattern_states(patterns, quoted), spelling, least, most)


def has_few_states(patterns: tuple[str, ...], quoted: bool) -> bool:
    return _pattern_states(patterns, quoted).explore(MAX_STATES)


def _intersection(nodes: Sequence[Node], quoted: bool) -> States:
    automata = [RegexAutomaton(node, quoted=quoted) for node in nodes]
    if any(automaton.is_empty for automaton in automata):
        raise GuideError("nothing matches the pattern")
    return States(automata[0] if len(automata) == 1 else IntersectionAutomaton(automata))


def _parsed(pattern: str) -> Node:
    try:
        return parse_regex(pattern)
    except RegexError as problem:
        raise GuideError(f"the pattern /{pattern[:40]}/ cannot be enforced: {problem.message}") from problem


def forget_types() -> None:
    """Clear all caches of types, as in a new process."""
    for known in (number_states, _pattern_states, _limited_states, _length_limits):
        known.cache_clear()
