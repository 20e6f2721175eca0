"""The machine of free strings with limits on characters, and the spelling of strings, byte by byte.

    JSON    open ─"─> between characters ⇄ inside one (UTF-8, an escape, half a pair of surrogates) ─"─> closed
    text              between characters ⇄ inside one (UTF-8)                                  ─stop─> closed

Once per vocabulary, all tokens are grouped by the characters they add and the place in the spelling where they end.
The mask of a hole is a union of a few such groups, whatever its limits. The exact number of tokens of every ending is
known, so there is no search.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import frozen, join_masks, mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import ROOT, BoundedCache, Ints, Tokens, ranges

DEAD = -1
_MAX_MASKS = 512
_NO_NODES = np.zeros(0, dtype=np.int64)
_HEX = b"0123456789abcdefABCDEF"
_BETWEEN, _OPEN, _CLOSED = "between", "open", "closed"


class Place(NamedTuple):
    """`tail` are the last bytes, as far as a stop text or a forbidden text begins with them."""

    inside: str
    tail: bytes


@dataclass(frozen=True, eq=False)
class Spelling:
    """A table over all places.

    `completes[p, b]`: whether the byte completes a character. `stops[p, b]`: the length of a stop text that it ends.
    `taken[p, b]`: the characters of that stop text without the last. `pending[p]`: the number of last characters with
    which a stop text begins. `endings[p]`: the fewest bytes to a place between two characters; None if there are none.
    """

    next: NDArray[np.int32]
    completes: NDArray[np.bool_]
    stops: NDArray[np.int32]
    taken: NDArray[np.int32]
    pending: tuple[int, ...]
    between: tuple[bool, ...]
    endings: tuple[bytes | None, ...]
    start: int
    closed: int
    closing: bytes  # closes the value between two characters; empty in running text


@lru_cache(maxsize=256)
def spell_json(forbidden: tuple[str, ...]) -> Spelling:
    return _tabulate(_json_step, Place(_OPEN, b""), (), _bytes(forbidden), b'"')


@lru_cache(maxsize=256)
def spell_text(stops: tuple[str, ...], forbidden: tuple[str, ...]) -> Spelling:
    """Plain text. Its only control characters are tabs, and line ends if they do not stop the value."""
    return _tabulate(_text_step, Place(_BETWEEN, b""), _bytes(stops), _bytes(forbidden), b"")


@lru_cache(maxsize=1)
def spell_characters() -> Spelling:
    """Any characters, without escapes."""
    return _tabulate(_utf8_step, Place(_BETWEEN, b""), (), (), b"")


def _bytes(texts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts if text)


def _text_step(inside: str, byte: int) -> tuple[str, bool] | None:
    if inside == _BETWEEN and (byte == 0x7F or (byte < 0x20 and byte not in (0x09, 0x0A, 0x0D))):
        return None
    return _utf8_step(inside, byte)


def _utf8_step(inside: str, byte: int) -> tuple[str, bool] | None:
    """The next place between or inside characters, and whether the byte completes a character."""
    if inside == _BETWEEN:
        if byte < 0x80:
            return _BETWEEN, True
        for first, last, following in _LEADS:
            if first <= byte <= last:
                return following, False
        return None
    low, high, following = _TAILS[inside]
    return (following, following == _BETWEEN) if low <= byte <= high else None


_LEADS = (
    (0xC2, 0xDF, "1"), (0xE0, 0xE0, "E0"), (0xE1, 0xEC, "2"), (0xED, 0xED, "ED"), (0xEE, 0xEF, "2"),
    (0xF0, 0xF0, "F0"), (0xF1, 0xF3, "3"), (0xF4, 0xF4, "F4"),
)  # fmt: skip
_TAILS = {
    "1": (0x80, 0xBF, _BETWEEN), "2": (0x80, 0xBF, "1"), "3": (0x80, 0xBF, "2"), "E0": (0xA0, 0xBF, "1"),
    "ED": (0x80, 0x9F, "1"), "F0": (0x90, 0xBF, "2"), "F4": (0x80, 0x8F, "2"),
}  # fmt: skip

# Inside `\uXXXX`: the allowed digits, and the next place. A high surrogate must be followed by a low one.
_ESCAPES: dict[str, tuple[tuple[bytes, str], ...]] = {
    "u": ((b"0123456789abcefABCEF", "u3"), (b"dD", "uD")),
    "uD": ((b"01234567", "u2"), (b"89abAB", "h2")),
    "u3": ((_HEX, "u2"),),
    "u2": ((_HEX, "u1"),),
    "u1": ((_HEX, _BETWEEN),),
    "h2": ((_HEX, "h1"),),
    "h1": ((_HEX, "h\\"),),
    "h\\": ((b"\\", "hu"),),
    "hu": ((b"u", "hd"),),
    "hd": ((b"dD", "hc"),),
    "hc": ((b"cdefCDEF", "u2"),),
    "\\": ((b'"\\/bfnrt', _BETWEEN), (b"u", "u")),
}


def _json_step(inside: str, byte: int) -> tuple[str, bool] | None:
    if inside == _OPEN:
        return (_BETWEEN, False) if byte == 0x22 else None
    if inside == _BETWEEN and byte < 0x20:
        return None
    if inside == _BETWEEN and byte == 0x22:
        return _CLOSED, False
    if inside == _BETWEEN and byte == 0x5C:
        return "\\", False
    if inside in _ESCAPES:
        return next(
            ((following, following == _BETWEEN) for digits, following in _ESCAPES[inside] if byte in digits), None
        )
    return _utf8_step(inside, byte)


class _Table:
    def __init__(self) -> None:
        self.numbers: dict[Place, int] = {}
        self.waiting: list[Place] = []

    def number(self, place: Place) -> int:
        if place not in self.numbers:
            self.numbers[place] = len(self.numbers)
            self.waiting.append(place)
        return self.numbers[place]


def _tabulate(
    step: object, start: Place, stops: tuple[bytes, ...], forbidden: tuple[bytes, ...], closing: bytes
) -> Spelling:
    assert callable(step)
    table, rows = _Table(), []
    table.number(start)
    closed = table.number(Place(_CLOSED, b""))
    while table.waiting:
        place = table.waiting.pop(0)
        row, ends, cuts = np.full(256, DEAD, np.int32), np.zeros(256, np.bool_), np.zeros(256, np.int32)
        taken = np.zeros(256, np.int32)
        for byte in range(256) if place.inside != _CLOSED else ():
            moved = step(place.inside, byte)
            tail = place.tail + bytes((byte,))
            if moved is None or any(tail.endswith(text) for text in forbidden):
                continue
            stopped = [text for text in stops if tail.endswith(text)]
            inside, ends[byte] = moved
            if stopped:
                stop = max(stopped, key=len)
                row[byte], cuts[byte], taken[byte] = closed, len(stop), len(stop.decode()) - 1
            elif inside == _CLOSED:
                row[byte] = closed
            else:
                row[byte] = table.number(Place(inside, _tail(tail, (*stops, *forbidden))))
        rows.append((row, ends, cuts, taken))
    places = sorted(table.numbers, key=lambda place: table.numbers[place])
    following = np.stack([row for row, _, _, _ in rows])
    between = tuple(place.inside == _BETWEEN for place in places)
    return Spelling(
        following,
        np.stack([ends for _, ends, _, _ in rows]),
        np.stack([cuts for _, _, cuts, _ in rows]),
        np.stack([taken for _, _, _, taken in rows]),
        tuple(len(place.tail.decode("utf-8", "ignore")) for place in places),
        between,
        _endings(following, between, closed),
        0,
        closed,
        closing,
    )


def _tail(tail: bytes, texts: tuple[bytes, ...]) -> bytes:
    """The longest suffix of `tail` that is a prefix of one of the texts."""
    for start in range(len(tail)):
        if any(text.startswith(tail[start:]) for text in texts):
            return tail[start:]
    return b""


def _endings(following: NDArray[np.int32], between: tuple[bool, ...], closed: int) -> tuple[bytes | None, ...]:
    found: dict[int, bytes] = {place: b"" for place, is_between in enumerate(between) if is_between}
    changed = True
    while changed:
        changed = False
        for place in range(len(between)):
            if place in found or place == closed:
                continue
            ways = [(byte, int(end)) for byte, end in enumerate(following[place]) if int(end) in found]
            if ways:
                byte, end = min(ways, key=lambda way: len(found[way[1]]))
                found[place] = bytes((byte,)) + found[end]
                changed = True
    return tuple(found.get(place) for place in range(len(between)))


# ── the machine ────────────────────────────────────────────────────────────────────────────────────────────


class StringPosition(NamedTuple):
    """A place of the spelling and the number of complete characters; the last `trim` bytes were a stop text."""

    place: int
    characters: int
    trim: int = 0


class StringMachine:
    """See `guide.Machine`."""

    def __init__(self, spelling: Spelling, seam: Seam, *, least: int, most: int | None) -> None:
        self._spelling = spelling
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._least = least
        self._most = most
        self._masks: BoundedCache[object, TokenMask] = BoundedCache(_MAX_MASKS)
        kept: dict[tuple[int, int], tuple[int, ...] | None] = seam.tokens.cached(("tails", spelling), dict)
        self._endings = kept  # by place and number of missing characters
        self.start = StringPosition(spelling.start, 0)

    def step(self, state: StringPosition, byte: int) -> StringPosition | None:
        place = int(self._spelling.next[state.place, byte])
        if place == DEAD:
            return None
        if place == self._spelling.closed:
            characters = state.characters - int(self._spelling.taken[state.place, byte])
            stop = int(self._spelling.stops[state.place, byte])
            return StringPosition(place, characters, stop) if self._allows(characters) else None
        characters = state.characters + bool(self._spelling.completes[state.place, byte])
        begun = characters + self._has_begun(place) - self._spelling.pending[place]
        return None if self._most is not None and begun > self._most else StringPosition(place, characters)

    def _has_begun(self, place: int) -> bool:
        """Whether the place is inside a character."""
        return not self._between(place) and not self._is_before(place) and place != self._spelling.closed

    def _is_before(self, place: int) -> bool:
        """Whether the place is before the opening quote."""
        return place == self._spelling.start and not self._between(place)

    def accepts(self, state: StringPosition) -> bool:
        if self._spelling.closing:
            return state.place == self._spelling.closed
        return state.place == self._spelling.closed or (self._between(state.place) and self._allows(state.characters))

    def can_continue(self, state: StringPosition) -> bool:
        if state.place == self._spelling.closed:
            return False
        if self._spelling.closing or self._most is None:
            return True
        return state.characters < self._most or not self._between(state.place)

    def stop_bytes(self, state: StringPosition) -> int:
        return state.trim

    def forced(self, state: StringPosition) -> bytes:
        if self._is_before(state.place) or (self._most == state.characters and self._between(state.place)):
            return self._spelling.closing
        return b""

    def ending(self, state: StringPosition) -> tuple[int, ...] | None:
        return self._ending(state.place, state.characters)

    def mask(self, state: StringPosition, remaining: int | None) -> TokenMask:
        groups = self._groups(state.place)
        least = max(0, self._least - state.characters)
        most = None if self._most is None else min(self._most - state.characters, groups.most + 1)
        horizon = 16 + least
        limit = None if remaining is None or remaining > horizon else remaining
        key = (state.place, least, most, limit)
        return self._masks.cached(key, lambda: self._make_mask(state, groups, limit))

    def prepare(self) -> None:
        """Group the tokens from every place, as far as that does not depend on what follows the value."""
        for place in range(len(self._spelling.between)):
            if place != self._spelling.closed:
                groups = self._groups(place)
                for room in range(groups.most + 2) if self._between(place) else [groups.most + 1]:
                    self._fitting(groups.inside, room)

    def is_between(self, here: StringPosition) -> bool:
        """Whether the position is between two characters."""
        return self._between(here.place)

    @property
    def positions(self) -> list[StringPosition]:
        """All places, without characters before them."""
        return [StringPosition(place, 0) for place in range(len(self._spelling.between))]

    def closed_nodes(self, state: StringPosition) -> Ints:
        if state.place == self._spelling.closed:
            return _NO_NODES
        closing = self._sorted(state.place).closing
        return np.concatenate(
            [_NO_NODES, *(nodes for added, (_, nodes) in closing.items() if self._allows(state.characters + added))]
        )

    def _allows(self, characters: int) -> bool:
        return self._least <= characters and (self._most is None or characters <= self._most)

    # ── masks ──────────────────────────────────────────────────────────────────────────────────────────────

    def _between(self, place: int) -> bool:
        return self._spelling.between[place]

    def _make_mask(self, here: StringPosition, groups: _TokenGroups, remaining: int | None) -> TokenMask:
        most = self._most
        if self._is_plenty(here, groups.inside, remaining) and here.characters + min(groups.least, 0) >= self._least:
            room = groups.most + 1 if most is None else min(most - here.characters, groups.most + 1)
            return join_masks(self._tokens.size, [self._fitting(groups.inside, room), *groups.closing_within(room)])
        parts = [
            mask
            for (place, added), mask in groups.inside.masks.items()
            if self._has_room(place, here.characters + added)
            and self._closes_in(place, here.characters + added, remaining)
        ]
        for added, mask in groups.closing.items():
            characters = here.characters + added
            if self._allows(characters):
                parts.append(mask)
        return join_masks(self._tokens.size, parts)

    def _is_plenty(self, here: StringPosition, inside: _InsideTokens, remaining: int | None) -> bool:
        """Whether an ending fits after every token."""
        if remaining is None:
            return self._tokens.vocabulary.covers_bytes
        return all(self._closes_in(place, here.characters, remaining) for place in inside.until)

    def _has_room(self, place: int, characters: int) -> bool:
        return self._most is None or characters + self._has_begun(place) <= self._most

    def _fitting(self, inside: _InsideTokens, room: int) -> TokenMask:
        """The tokens that stay inside and add at most `room` characters, whatever their endings."""
        if room not in inside.fitting:
            parts = []
            for place, (counts, masks) in inside.until.items():
                if within := bisect_right(counts, room - self._has_begun(place)):
                    parts.append(masks[within - 1])
            inside.fitting[room] = join_masks(self._tokens.size, parts)
        return inside.fitting[room]

    def _closes_in(self, place: int, characters: int, remaining: int | None) -> bool:
        ending = self._ending(place, characters)
        return ending is not None and (remaining is None or len(ending) <= remaining - 1)

    def _ending(self, place: int, characters: int) -> tuple[int, ...] | None:
        """Tokens that end the character, add the missing characters and close the value."""
        key = (place, max(0, self._least - characters))
        if key not in self._endings:
            self._endings[key] = self._find_ending(place, characters)
        return self._endings[key]

    def _find_ending(self, place: int, characters: int) -> tuple[int, ...] | None:
        if place == self._spelling.closed:
            return ()
        if self._is_before(place):
            opened = self._ending(int(self._spelling.next[place, self._spelling.closing[0]]), characters)
            quote = self._tokens.ids.get(self._spelling.closing)
            return None if opened is None or quote is None else (quote, *opened)
        text = self._spelling.endings[place]
        first = None if text is None else self._tokens.shortest(text)
        if text is None or first is None:
            return None
        here = place
        for byte in text:
            here = int(self._spelling.next[here, byte])
        filled = self._fill(here, self._least - characters - bool(text))
        close = self._tokens.shortest(self._spelling.closing)
        return None if filled is None or close is None else (*first, *filled, *close)

    def _fill(self, place: int, missing: int) -> tuple[int, ...] | None:
        if missing <= 0:
            return ()
        fillers = self._inside_of(place).fillers
        found: list[int] = []
        while missing > 0:
            size = max((size for size in fillers if size <= missing), default=0)
            if not size:
                return None
            found.extend([fillers[size]] * (missing // size))
            missing -= size * (missing // size)
        return tuple(found)

    # ── groups of tokens, once per vocabulary ──────────────────────────────────────────────────────────────

    def _groups(self, place: int) -> _TokenGroups:
        key = ("string", self._spelling, self._seam.follow, place)
        return self._tokens.cached(key, lambda: self._make_groups(place))

    def _make_groups(self, start: int) -> _TokenGroups:
        inside, found = self._inside_of(start), self._sorted(start).closing
        added = np.repeat(list(found), [len(nodes) for _, nodes in found.values()]).astype(np.int64)
        tokens, at = self._agreeing(np.concatenate([np.zeros(0, np.int64), *(nodes for _, nodes in found.values())]))
        closing = {
            count: mask_of(self._tokens.size, np.concatenate([ends, tokens[added[at] == count]]))
            for count, (ends, _) in found.items()
        }
        most = max((added for _, added in [*inside.masks, *((0, added) for added in closing)]), default=0)
        return _TokenGroups(inside, closing, most)

    def _sorted(self, start: int) -> _SortedTokens:
        return self._tokens.cached(("sorted", self._spelling, start), lambda: self._sort(start))

    def _inside_of(self, start: int) -> _InsideTokens:
        return self._tokens.cached(("inside", self._spelling, start), lambda: self._make_inside(start))

    def _make_inside(self, start: int) -> _InsideTokens:
        masks: dict[tuple[int, int], TokenMask] = {}
        until: dict[int, tuple[list[int], list[TokenMask]]] = {}
        fillers: dict[int, int] = {}
        for (place, added), tokens in sorted(self._sorted(start).inside.items()):
            masks[place, added] = mask_of(self._tokens.size, tokens)
            counts, joined = until.setdefault(place, ([], []))
            joined.append(join_masks(self._tokens.size, [*joined[-1:], masks[place, added]]))
            counts.append(added)
            if added and place == start and self._between(place):  # the same filler can be repeated
                fillers[added] = int(tokens.min())
        return _InsideTokens(masks, until, fillers, {})

    def _agreeing(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The tokens below nodes where the value is closed, and the index of each token's node.

        After a stop text a token may hold any text, after a quote only the text that follows.
        """
        if self._spelling.closing:
            return self._seam.tokens_after_each(nodes)
        trie = self._tokens.trie
        low, high = trie.low[nodes], trie.high[nodes]
        return trie.order[ranges(low, high)], np.repeat(np.arange(len(nodes)), high - low)

    def _sort(self, start: int) -> _SortedTokens:
        """Run all tokens through the spelling at once, level by level."""
        trie, spelling = self._tokens.trie, self._spelling
        nodes = np.array([ROOT])
        places, counts = np.array([start]), np.array([0])
        inside: list[tuple[Ints, Ints, Ints]] = []
        closing: list[tuple[Ints, Ints]] = []
        while len(nodes):
            children, parent = trie.expand(nodes)
            bytes_ = trie.byte[children]
            before, count = places[parent], counts[parent]
            following = spelling.next[before, bytes_]
            ended = count + spelling.completes[before, bytes_]
            shut = following == spelling.closed
            closing.append((children[shut], count[shut] - spelling.taken[before, bytes_][shut]))
            alive = (following != DEAD) & ~shut
            nodes, places, counts = children[alive], following[alive].astype(np.int64), ended[alive]
            found, at = trie.ending_at(nodes)
            inside.append((found, places[at], counts[at]))
        return _SortedTokens(_grouped(inside), self._closers(closing))

    def _closers(self, closing: list[tuple[Ints, Ints]]) -> dict[int, tuple[Ints, Ints]]:
        trie = self._tokens.trie
        nodes = np.concatenate([nodes for nodes, _ in closing])
        added = np.concatenate([added for _, added in closing])
        inner = trie.children[nodes] > 0
        return {
            int(count): (trie.ending_at(nodes[added == count])[0], nodes[inner & (added == count)])
            for count in np.unique(added)
        }


@dataclass(frozen=True)
class _InsideTokens:
    """The tokens that stay inside the value from one place, as masks by (place at the end, characters added).

    They do not depend on what follows the value. `until[place]` are numbers of characters, ascending, and for each the
    mask of all tokens that add at most so many. `fillers` has one token for each number of characters that a token
    can add between two characters.
    """

    masks: dict[tuple[int, int], TokenMask]
    until: dict[int, tuple[list[int], list[TokenMask]]]
    fillers: dict[int, int]
    fitting: dict[int, TokenMask]  # by the number of characters that there is room for


@dataclass(frozen=True)
class _TokenGroups:
    """All tokens from one place: tokens that stay inside, and masks of tokens that close, by characters added."""

    inside: _InsideTokens
    closing: dict[int, TokenMask]
    most: int

    @property
    def least(self) -> int:
        """The fewest characters that a token adds; negative if it turns earlier characters into a stop text."""
        return min(self.closing, default=0)

    def closing_within(self, room: int) -> list[TokenMask]:
        """The tokens that close after at most `room` characters: one mask or none."""
        counts, masks = self._closing
        within = bisect_right(counts, room)
        return masks[within - 1 : within] if within else []

    @cached_property
    def _closing(self) -> tuple[list[int], list[TokenMask]]:
        counts = sorted(self.closing)
        every = accumulate((self.closing[count] for count in counts), lambda one, other: frozen(one | other))
        return counts, list(every)


@dataclass(frozen=True)
class _SortedTokens:
    """Tokens that stay inside, and for each number of characters: the tokens that end with the closing text, and the
    nodes where the value is closed and longer tokens continue."""

    inside: dict[tuple[int, int], Ints]
    closing: dict[int, tuple[Ints, Ints]]


def _grouped(found: list[tuple[Ints, Ints, Ints]]) -> dict[tuple[int, int], Ints]:
    tokens, places, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    keys = places * 1_000 + counts
    order = np.argsort(keys, kind="stable")
    unique, starts = np.unique(keys[order], return_index=True)
    groups = np.split(tokens[order], starts[1:])
    return {(int(key) // 1_000, int(key) % 1_000): group for key, group in zip(unique, groups, strict=True)}
