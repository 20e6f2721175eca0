"""Strings inside structures: their masks come from string machines, and their token limits are enforced.

The tokens that stay inside the string, or end with its quote, are the same as for a string alone. Only the texts that
a token may have after the quote depend on the structure; the grammar checks them once for each shape of structure.

    ["ab           inside, and up to the quote: a string machine
    ["ab", "c      after the quote: the few texts that some token has there, checked one by one

A limit counts as it does for a string alone: from the token that opens the string to the token that closes it, both
included. A token that closes one string and opens the next counts for both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.runtime.constraints.bounded_cache import BoundedCache
from pastalang.runtime.constraints.dfa.bounded import BoundedMachine
from pastalang.runtime.constraints.dfa.table_machine import TableMachine
from pastalang.runtime.constraints.grammar.json_prefix import JsonPrefix
from pastalang.runtime.constraints.grammar.lark import is_small
from pastalang.runtime.constraints.grammar.matcher import Matcher
from pastalang.runtime.constraints.grammar.schema_position import (
    SharedMasks,
    StringType,
    is_free,
    openings,
    shape,
    string_at,
)
from pastalang.runtime.constraints.grammar.string_exits import (
    QuoteTails,
    closing_tokens,
    exits_from,
    free_machine,
    quote_tails,
    seam_tails,
)
from pastalang.runtime.constraints.guide import GuideError, Machine, MachineState, TokenMask
from pastalang.runtime.constraints.kinds.string import StringMachine, StringPosition
from pastalang.runtime.constraints.masks import empty_mask, frozen, join_masks, mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints
from pastalang.values.describe import counted, describe
from pastalang.values.one_hole import Quoted

_MAX_KEPT = 512
_TABLES = TableMachine | BoundedMachine
_STRUCTURE = b"]},: "


@dataclass(frozen=True, slots=True)
class Opened:
    """An open string: the text before it, its machine, and the machine's state after `raw`.

    Only free strings, strings with a limit and strings with a pattern have a machine. A string loses its machine when
    the grammar takes bytes that the machine refuses.
    """

    before: bytes
    place: bytes  # its shape
    string: StringType | None
    machine: Machine | None
    state: MachineState
    raw: bytes


class OpenStrings:
    """The strings of one type in one vocabulary. `plain` makes the machine of a string that is not free."""

    def __init__(
        self, type: t.Type, types: Mapping[str, t.Type], seam: Seam, plain: Callable[[t.Type], Machine]
    ) -> None:
        self._type = type
        self._types = types
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._plain = plain
        self.shared_masks = SharedMasks(type, types)
        self._machines: dict[StringType, Machine | None] = {}
        self._accepted_after: BoundedCache[bytes, NDArray[np.bool_] | None] = BoundedCache(_MAX_KEPT)
        self._masks: BoundedCache[object, tuple[TokenMask, TokenMask]] = BoundedCache(_MAX_KEPT)

    def warm_first(self, prefix: JsonPrefix, matcher: Callable[[], Matcher]) -> None:
        """Compute the masks of the first strings of a value; those of other strings are computed when they open."""
        for text in openings(self._type, self._types):
            begun = matcher()
            if begun.take([self._tokens.ids[bytes((byte,))] for byte in text]):
                opened = self.opened(prefix.extended(text), None)
                if opened is not None and self.mask(opened, begun.copy) is not None and opened.machine is not None:
                    opened.machine.warm()

    def opened(self, prefix: JsonPrefix, known: Opened | None) -> Opened | None:
        """The open string, continued from `known`; None if no string is open, or a key."""
        if prefix.string is None or (prefix.stack and prefix.stack[-1].wants_key):
            return None
        before = prefix.raw[: prefix.string]
        if known is None or known.before != before or not prefix.raw.startswith(known.raw):
            string = string_at(self._type, self._types, prefix)
            if not prefix.stack and not (isinstance(string, t.String) and is_free(string)):
                string = None  # its token limit is that of the whole value
            machine = None if string is None else self.machine(string)
            start = StringPosition(0, 0) if machine is None else machine.start
            known = Opened(before, shape(before), string, machine, start, before)
        if known.machine is None:
            return known
        state = known.state
        for byte in prefix.raw[len(known.raw) :]:
            following = known.machine.step(state, byte)
            if following is None:  # from here on only the grammar is used
                return replace(known, machine=None, state=state, raw=prefix.raw)
            state = following
        return replace(known, state=state, raw=prefix.raw)

    def closes_alike(self, before: JsonPrefix, after: JsonPrefix, ending: Sequence[int], known: Opened | None) -> bool:
        """Whether an ending of `before` is one of `after`: both are between characters of the same free string.

        It does not hold for items that must differ: one more character may make two of them equal.
        """
        if not ending or after.string is None or before.string != after.string or after.unique:
            return False
        first = self.opened(before, known)
        if first is None or not (self._tokens.text(ending[0]) or b"").startswith(b'"'):
            return False
        machine, second = first.machine, self.opened(after, first)
        if not isinstance(machine, StringMachine) or second is None or second.machine is not machine:
            return False
        assert isinstance(first.state, StringPosition) and isinstance(second.state, StringPosition)
        return machine.is_between(first.state) and machine.is_between(second.state)

    def mask(self, opened: Opened, here: Callable[[], Matcher], left: int | None = None) -> TokenMask | None:
        """The mask with `left` tokens to close the string. None: only the grammar can compute it."""
        machine, state = opened.machine, opened.state
        is_ours = isinstance(machine, StringMachine) or (left is None and isinstance(machine, _TABLES))
        if machine is None or not is_ours or not self._tokens.vocabulary.covers_bytes:
            return None
        place = opened.place
        if place not in self._accepted_after:
            self._accepted_after[place] = self._find_accepted_after(machine, state, here(), self._tails(place))
        accepted = self._accepted_after[place]
        if accepted is None:
            return None
        inside = machine.mask(state, left)
        key = (place, state.place if isinstance(state, StringPosition) else state, id(inside))
        if key not in self._masks:
            across = mask_of(self._tokens.size, self._across(machine, state, place, accepted))
            self._masks[key] = join_masks(self._tokens.size, [inside, across]), inside
        return self._masks[key][0]

    def _across(self, machine: Machine, state: MachineState, place: bytes, accepted: NDArray[np.bool_]) -> Ints:
        """The tokens that close the string and have an accepted text after the quote."""
        if isinstance(machine, StringMachine):
            assert isinstance(state, StringPosition)
            exits = exits_from(state.place, self._tails(place))
            return exits.tokens[accepted[exits.rest] & machine.room(state, exits.counts)]
        assert isinstance(machine, _TABLES)
        closers = closing_tokens(self._tokens)
        rows = machine.completing(state, closers)
        return closers.tokens[rows[accepted[closers.rest[rows]]]]

    def machine(self, string: StringType) -> Machine | None:
        """The machine of such strings; None if their masks come from the grammar."""
        if string not in self._machines:
            self._machines[string] = self._make_machine(string)
        return self._machines[string]

    def _make_machine(self, string: StringType) -> Machine | None:
        if isinstance(string, t.String) and is_free(string):
            return free_machine(self._tokens, string.min_chars, string.max_chars)
        is_limited = isinstance(string, Quoted) and string.max_tokens is not None
        if not is_limited and not is_small(string):
            return None
        try:
            machine = self._plain(string)
        except GuideError:
            if is_limited:
                raise
            return None
        return machine if is_limited or isinstance(machine, _TABLES) else None

    def _tails(self, place: bytes) -> QuoteTails:
        """The texts that tokens have after the string; if it is the whole value, the text that follows."""
        return quote_tails(self._tokens) if place else seam_tails(self._seam)

    def _find_accepted_after(
        self, machine: Machine, state: MachineState, matcher: Matcher, tails: QuoteTails
    ) -> NDArray[np.bool_] | None:
        """For every text that a token has after a quote, whether the grammar accepts it after this string."""
        ending = machine.ending(state)
        if ending is None or not (ahead := matcher.copy()).take(ending):
            return None
        found, at = np.zeros(len(tails.texts), dtype=np.bool_), 0
        while at < len(tails.texts):
            text = tails.texts[at]
            taken = ahead.inner.validate_tokens(tails.spelled[at])
            if taken == len(text):
                found[at] = True
                at += 1
            else:  # skip all texts with the same refused beginning
                refused = text[: taken + 1]
                at = max(at + 1, bisect_left(tails.texts, refused[:-1] + bytes((min(refused[-1] + 1, 0xFF),))))
        return found


@dataclass(frozen=True, slots=True)
class OpenLimit:
    """An open string with a limit: `left` more tokens may come, including the token that closes it."""

    opened: Opened
    left: int


class StringLimits:
    """The token limits of all strings inside one type. Raises `GuideError` if no value fits into one of them."""

    def __init__(self, strings: Sequence[Quoted], inside: OpenStrings, tokens: Tokens) -> None:
        self._inside = inside
        self._tokens = tokens
        for string in strings:
            machine = inside.machine(string)
            assert machine is not None
            ending = machine.ending(machine.start)
            assert string.max_tokens is not None
            if ending is None or len(ending) > string.max_tokens:
                shortest = "" if ending is None else f"; the shortest takes {len(ending)}"
                room = counted(string.max_tokens, "token")
                raise GuideError(f"inside a value, no value of {describe(string)} fits into {room}{shortest}")
        self._is_free = all(map(is_free, strings))

    def limit_at(self, prefix: JsonPrefix, taken: Sequence[int], known: Opened | None) -> OpenLimit | None:
        """The limit of the open string; None if it has none."""
        opened = self._inside.opened(prefix, known)
        if opened is None or not isinstance(opened.string, Quoted) or opened.string.max_tokens is None:
            return None
        assert prefix.string is not None
        spent, end = 0, len(prefix.raw)
        while end > prefix.string:
            spent += 1
            end -= len(self._tokens.text(taken[-spent]) or b"")
        return OpenLimit(opened, opened.string.max_tokens - spent)

    def within(self, limit: OpenLimit) -> TokenMask:
        """The tokens after which the string can be closed within its limit, and all tokens that close it."""
        machine, tokens = limit.opened.machine, self._tokens
        if machine is None or limit.left < 1:
            return frozen(empty_mask(tokens.size))
        found: TokenMask = machine.mask(limit.opened.state, limit.left) | tokens.cached(
            "closing a quote", self._closing
        )
        return found

    def _closing(self) -> TokenMask:
        places = free_machine(self._tokens, 0, None).places
        exits = [exits_from(place, quote_tails(self._tokens)).tokens for place in places]
        return mask_of(self._tokens.size, np.concatenate(exits))

    def without_bad_openings(self, mask: TokenMask) -> TokenMask:
        """Without tokens that open a string and leave it in a place from which closing may take many tokens."""
        key = ("opening well", self._is_free)
        narrowed: TokenMask = mask & ~self._tokens.cached(key, self._bad_openings)
        return frozen(narrowed) if narrowed.any() else mask

    def _bad_openings(self) -> TokenMask:
        is_bad = _ends_inside if self._is_free else _continues_string
        texts = enumerate(map(self._tokens.text, range(self._tokens.size)))
        return mask_of(
            self._tokens.size, [token for token, text in texts if text and b'"' in text and is_bad(_after_quote(text))]
        )

    def closes(self, limit: OpenLimit) -> bool:
        """Whether the limit forces the next token to close the string."""
        machine, state = limit.opened.machine, limit.opened.state
        if machine is None or limit.left > 1:
            return machine is None
        return bool((machine.mask(state, None) & ~machine.mask(state, limit.left)).any())

    def keeps(self, prefix: JsonPrefix, taken: Sequence[int], following: Sequence[int]) -> bool:
        """Whether all strings keep their limits after these tokens, and a string open at their end can be closed."""
        taken, known = list(taken), None
        limit: OpenLimit | None = None
        for token in following:
            prefix = prefix.extended(self._tokens.text(token) or b"")
            taken.append(token)
            limit = self.limit_at(prefix, taken, known)
            known = None if limit is None else limit.opened
            if limit is not None and (limit.left < 1 or limit.opened.machine is None):
                return False
        if limit is None or limit.opened.machine is None:
            return True
        ending = limit.opened.machine.ending(limit.opened.state)
        return ending is not None and len(ending) <= limit.left


def _after_quote(text: bytes) -> bytes:
    return text[text.rindex(b'"') + 1 :]


def _continues_string(rest: bytes) -> bool:
    """Whether this text after a quote may belong to a string."""
    return bool(rest.strip(_STRUCTURE))


def _ends_inside(rest: bytes) -> bool:
    """Whether this text ends inside a character, or has escapes."""
    return b"\\" in rest or rest.decode("utf-8", "ignore").encode() != rest
