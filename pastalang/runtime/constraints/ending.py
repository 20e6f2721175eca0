"""Search a short ending of a nested value: tokens that complete it from where it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from pastalang.runtime.constraints.automata import NumberAutomaton, RegexAutomaton
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.json_prefix import JsonPrefix
from pastalang.runtime.constraints.masks import allows
from pastalang.runtime.constraints.matcher import Matcher
from pastalang.runtime.constraints.tokens import Tokens

Strings: TypeAlias = tuple[
    RegexAutomaton | NumberAutomaton, ...
]  # the numbers are those that the grammar does not write out
_LONGEST_ENDING = 4_000  # bytes: a type with a longer shortest value is refused
_LONGEST_STRING = 400
_MOST_CLOSINGS = 256  # endings to try for a string that must differ from others
_BYTES_PER_STEP = 64  # bytes written again after going back cost steps too
_MAX_STEPS = 700  # of one search: what needs more is refused within half a second
_MAX_STEPS_OF_DIFFERENT = 2_500  # where items must differ, more attempts are needed

_CLOSERS = frozenset(b",]}")

# The order in which the search tries bytes: those that close the value first.
_OPENERS = b'0123456789"ntf[{-'
_FIRST = b']}0123456789"ntf,[{-:. rueals+eE'
_FIRST_IN_STRING = b'"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-.@:/ '
_ORDER = _FIRST + bytes(byte for byte in range(256) if byte not in _FIRST)
_STRING_ORDER = _FIRST_IN_STRING + bytes(byte for byte in range(256) if byte not in _FIRST_IN_STRING)


def find_ending(
    matcher: Matcher,
    prefix: JsonPrefix,
    tokens: Tokens,
    *,
    strings: Strings = (),
    several: bool = False,
    least: int = 0,
) -> tuple[int, ...] | None:
    """A few tokens that complete the value; None if none were found.

    `strings` are the patterns of strings that the value may contain: an open string is closed so that it matches one.
    `several` tries all first bytes: use it at the start, where the kinds of values differ most. `least` is the number
    of bytes of the shortest value: the search may take as many more steps.
    """
    beginnings: list[bytes] = [b""]
    if several:
        mask = matcher.mask()
        allowed = [byte for byte in range(256) if _has(mask, tokens, byte)]
        # if the beginning is forced, the mask may have one longer token and no single byte
        beginnings = [bytes((byte,)) for byte in sorted(allowed, key=_start_rank)[:12]] or beginnings
    left = [(_MAX_STEPS_OF_DIFFERENT if prefix.unique else _MAX_STEPS) + least]
    found = [
        ending for first in beginnings if (ending := _search(matcher, prefix, tokens, first, strings, left)) is not None
    ]
    best = min(found, key=len, default=None)
    return None if best is None else tokens.shortest(best)


def rest_of(ending: tuple[int, ...], text: bytes, tokens: Tokens) -> tuple[int, ...] | None:
    """The rest of an ending after a text; None if the ending does not begin with the text."""
    left = text
    for number, token in enumerate(ending):
        if not left:
            return ending[number:]
        piece = tokens.text(token) or b""
        if piece.startswith(left):
            spelled = tokens.shortest(piece[len(left) :])
            return None if spelled is None else (*spelled, *ending[number + 1 :])
        if not left.startswith(piece):
            return None
        left = left[len(piece) :]
    return None if left else ()


def _start_rank(byte: int) -> int:
    return _OPENERS.index(byte) if byte in _OPENERS else len(_OPENERS)


def _has(mask: TokenMask, tokens: Tokens, byte: int) -> bool:
    token = tokens.ids.get(bytes((byte,)))
    return token is not None and allows(mask, token)


def _search(
    matcher: Matcher, prefix: JsonPrefix, tokens: Tokens, first: bytes, strings: Strings, left: list[int]
) -> bytes | None:
    """Write byte by byte what closes soonest, and go back to the last choice where that leads nowhere.

    Bytes that were used often come later, so that the search does not loop. `left` counts down the steps of all
    searches of one ending.
    """
    start, here, choices = matcher, _Written(matcher.copy(), prefix), list[_Chosen]()
    if first and not here.take(first, tokens):
        return None
    longest = len(first) + _LONGEST_ENDING + left[0]
    while len(here.text) < longest and left[0] > 0:
        left[0] -= 1
        if not here.is_lost:
            if here.is_whole:
                return bytes(here.text)
            if here.follow(tokens, strings):
                continue
            chosen = _Chosen(len(here.text), here.prefix, here.used)
            if chosen.take_best(here, tokens):
                choices.append(chosen)
                continue
        left[0] -= len(here.text) // _BYTES_PER_STEP
        back = next((chosen for chosen in _latest(choices) if chosen.go_back(start, here, tokens)), None)
        if back is None:
            return None
        choices.append(back)
    return None


def _latest(choices: list[_Chosen]) -> Iterator[_Chosen]:
    while choices:
        yield choices.pop()


class _Written:
    """What a search has written so far."""

    def __init__(self, matcher: Matcher, prefix: JsonPrefix) -> None:
        self.matcher, self.prefix = matcher, prefix
        self.text = bytearray()
        self.used = [0] * 256

    @property
    def is_lost(self) -> bool:
        string = self.prefix.string
        is_long = string is not None and len(self.prefix.raw) - string > _LONGEST_STRING
        return self.prefix.is_invalid or is_long or bool(self.matcher.inner.is_error())

    @property
    def is_whole(self) -> bool:
        return self.prefix.end is not None or (self.matcher.accepts and _is_whole(self.prefix))

    def take(self, text: bytes, tokens: Tokens) -> bool:
        spelled = tokens.shortest(text)
        if spelled is None or not self.matcher.take(spelled):
            return False
        self.wrote(text)
        return True

    def wrote(self, text: bytes) -> None:
        self.prefix = self.prefix.extended(text)
        self.text += text
        if not self.prefix.in_string and not _CLOSERS.isdisjoint(text):
            self.used = [0] * 256

    def follow(self, tokens: Tokens, strings: Strings) -> bool:
        """Write what must follow, or the rest of the open string or number, where that is known."""
        if (forced := bytes(self.matcher.inner.compute_ff_bytes())) and self.take(forced, tokens):
            return True
        closing, takes = None, _Takes(self.matcher, tokens)
        if self.prefix.in_string and not takes(0x22):
            closing = _close(self.matcher, self.prefix, tokens, strings, RegexAutomaton)
        elif not self.prefix.in_string and not takes(0x5D) and not takes(0x7D):
            closing = _close(self.matcher, self.prefix, tokens, strings, NumberAutomaton)
        if closing is None:
            return False
        self.wrote(closing)
        return True


class _Chosen:
    """A place at which several bytes could follow, and those that were tried."""

    def __init__(self, length: int, prefix: JsonPrefix, used: list[int]) -> None:
        self._length, self._prefix, self._used = length, prefix, used
        self._tried: set[int] = set()

    def take_best(self, here: _Written, tokens: Tokens) -> bool:
        byte = _best_byte(_Takes(here.matcher, tokens), self._prefix, self._used, self._tried)
        if byte is None:
            return False
        self._tried.add(byte)
        here.used = list(self._used)
        here.used[byte] += 1
        return here.take(bytes((byte,)), tokens)

    def go_back(self, start: Matcher, here: _Written, tokens: Tokens) -> bool:
        """Return to this place, and take a byte that was not tried. Whether there was one."""
        matcher, text = start.copy(), bytes(here.text[: self._length])
        if text and not matcher.take(tokens.shortest(text) or ()):
            return False
        here.matcher, here.prefix, here.text = matcher, self._prefix, bytearray(text)
        return self.take_best(here, tokens)


class _Takes:
    """Whether the matcher takes a byte next; computed per byte, because the search needs only a few."""

    def __init__(self, matcher: Matcher, tokens: Tokens) -> None:
        self._matcher = matcher
        self._tokens = tokens
        self._known: dict[int, bool] = {}

    def __call__(self, byte: int) -> bool:
        if byte not in self._known:
            token = self._tokens.ids.get(bytes((byte,)))
            self._known[byte] = token is not None and self._matcher.would_take(token)
        return self._known[byte]


Kind: TypeAlias = RegexAutomaton | NumberAutomaton


def _close(matcher: Matcher, prefix: JsonPrefix, tokens: Tokens, strings: Strings, kind: type[Kind]) -> bytes | None:
    """The rest of the open string or number, or a number that may begin, which the grammar takes; None if none does.

    If keys or items must differ and the shortest rest would repeat one, other rests are tried.
    """
    open = prefix.string if prefix.in_string else prefix.word
    begun = b"" if open is None else prefix.raw[open:]
    for automaton in strings:
        closing = _new_closing(automaton, begun, prefix) if isinstance(automaton, kind) else None
        spelled = tokens.shortest(closing) if closing else None
        if spelled is not None and matcher.take_all(spelled):
            return closing
    return None


def _new_closing(automaton: Kind, begun: bytes, prefix: JsonPrefix) -> bytes | None:
    """The shortest rest; if its value would be a duplicate that is not allowed, another rest."""
    closing = automaton.closing(begun)
    if closing is None or not _stands_there(prefix, closing):
        return closing
    others = (found for found in _closings(automaton, begun) if not _stands_there(prefix, found))
    return next(others, None if prefix.extended(closing).is_invalid else closing)


@lru_cache
def _closings(automaton: Kind, begun: bytes) -> tuple[bytes, ...]:
    """Rests that first differ from the shortest rest at one byte, later bytes first."""
    return tuple(islice(_parted(automaton, begun), _MOST_CLOSINGS))


def _parted(automaton: Kind, begun: bytes) -> Iterator[bytes]:
    shortest = automaton.closing(begun) or b""
    for at in reversed(range(len(shortest))):
        for byte in _FIRST_IN_STRING:
            kept = shortest[:at] + bytes((byte,))
            rest = automaton.closing(begun + kept) if byte != shortest[at] else None
            if rest is not None:
                yield kept + rest


def _stands_there(prefix: JsonPrefix, closing: bytes) -> bool:
    """Whether the value would repeat a key, or might repeat an item of an array whose items differ."""
    if prefix.extended(closing).is_invalid:
        return True
    if not prefix.unique or not prefix.stack:
        return False
    if prefix.string is not None:
        return prefix.raw[prefix.string :] + closing in prefix.raw[prefix.stack[0].begun : prefix.string]
    for around in reversed(prefix.stack):
        if prefix.extended(closing + b",").is_invalid:
            return True
        closing += b"}" if around.is_object else b"]"
    return False


def _is_whole(prefix: JsonPrefix) -> bool:
    """Whether an outermost number or word is complete."""
    return prefix.is_scalar and not prefix.closed_word().is_invalid


def _best_byte(takes: _Takes, prefix: JsonPrefix, used: list[int], tried: Collection[int]) -> int | None:
    closing = 0x22 if prefix.in_string else None
    if (
        closing is not None
        and closing not in tried
        and takes(closing)
        and not prefix.extended(b'"').is_invalid
        and not _repeats(prefix, closing)
    ):
        return closing
    order = _STRING_ORDER if prefix.in_string else _ORDER
    second: int | None = None
    for byte in _by_use(order, used):
        if byte in tried or not takes(byte) or prefix.extended(bytes((byte,))).is_invalid:
            continue
        if not _repeats(prefix, byte):
            return byte
        second = byte if second is None else second
    return second


def _by_use(order: bytes, used: list[int]) -> Iterable[int]:
    """The bytes in their order; those that were used often come later, unless they close something."""
    often = [byte for byte in order if used[byte] and byte not in b"]}"]
    if not often:
        return order
    ranks = _ranks(order).copy()
    for byte in often:
        ranks[byte] += used[byte] * 8
    return sorted(order, key=ranks.__getitem__)


@lru_cache
def _ranks(order: bytes) -> dict[int, int]:
    return {byte: at for at, byte in enumerate(order)}


def _repeats(prefix: JsonPrefix, byte: int) -> bool:
    """Whether an item that ends with the byte would be a duplicate in an array whose items differ."""
    return bool(prefix.unique) and prefix.extended(bytes((byte, 0x2C))).is_invalid
