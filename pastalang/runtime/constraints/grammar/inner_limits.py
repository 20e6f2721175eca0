"""Strings inside structures whose tokens are counted: what may come while one is open, and when its limit closes it.

Counted is what a string alone counts: from the token that opens it to the one that closes it, both included. A token
that closes one string and opens the next counts for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pastalang.runtime.constraints.grammar.json_prefix import JsonPrefix
from pastalang.runtime.constraints.grammar.open_strings import Opened, OpenStrings
from pastalang.runtime.constraints.grammar.schema_position import is_free
from pastalang.runtime.constraints.grammar.string_exits import exits_from, free_machine, quote_tails
from pastalang.runtime.constraints.guide import GuideError, TokenMask
from pastalang.runtime.constraints.masks import empty_mask, frozen, mask_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.values.inner_limits import Quoted
from pastalang.values.words import counted, describe

_STRUCTURE = b"]},: "


@dataclass(frozen=True, slots=True)
class Held:
    """An open string with a limit: so many tokens may still come, the one that closes it included."""

    opened: Opened
    left: int


class InnerLimits:
    """The limits of all strings inside one type. Raises `GuideError` where one of them leaves no value."""

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

    def held(self, prefix: JsonPrefix, taken: Sequence[int], known: Opened | None) -> Held | None:
        """The limit that holds here; None outside of limited strings."""
        opened = self._inside.opened(prefix, known)
        if opened is None or not isinstance(opened.string, Quoted) or opened.string.max_tokens is None:
            return None
        assert prefix.string is not None
        spent, end = 0, len(prefix.raw)
        while end > prefix.string:
            spent += 1
            end -= len(self._tokens.text(taken[-spent]) or b"")
        return Held(opened, opened.string.max_tokens - spent)

    def within(self, held: Held) -> TokenMask:
        """The tokens behind which the string still closes within its limit, and all that close it and go on."""
        machine, tokens = held.opened.machine, self._tokens
        if machine is None or held.left < 1:
            return frozen(empty_mask(tokens.size))
        found: TokenMask = machine.mask(held.opened.state, held.left) | tokens.keep("closing a quote", self._closing)
        return found

    def _closing(self) -> TokenMask:
        places = free_machine(self._tokens, 0, None).places
        exits = [exits_from(place, quote_tails(self._tokens)).tokens for place in places]
        return mask_of(self._tokens.size, np.concatenate(exits))

    def opening_well(self, mask: TokenMask) -> TokenMask:
        """Without tokens that open a string and leave it where closing may take long."""
        key = ("opening well", self._is_free)
        narrowed: TokenMask = mask & ~self._tokens.keep(key, self._opening_badly)
        return frozen(narrowed) if narrowed.any() else mask

    def _opening_badly(self) -> TokenMask:
        is_bad = _ends_inside if self._is_free else _goes_on
        texts = enumerate(map(self._tokens.text, range(self._tokens.size)))
        return mask_of(
            self._tokens.size, [token for token, text in texts if text and b'"' in text and is_bad(_behind_quote(text))]
        )

    def closes(self, held: Held) -> bool:
        """Whether the next token closes the string only because nothing else fits."""
        machine, state = held.opened.machine, held.opened.state
        if machine is None or held.left > 1:
            return machine is None
        return bool((machine.mask(state, None) & ~machine.mask(state, held.left)).any())

    def keeps(self, prefix: JsonPrefix, taken: Sequence[int], following: Sequence[int]) -> bool:
        """Whether no string outgrows its limit when these tokens come, and one that is open then still closes."""
        taken, known = list(taken), None
        held: Held | None = None
        for token in following:
            prefix = prefix.extended(self._tokens.text(token) or b"")
            taken.append(token)
            held = self.held(prefix, taken, known)
            known = None if held is None else held.opened
            if held is not None and (held.left < 1 or held.opened.machine is None):
                return False
        if held is None or held.opened.machine is None:
            return True
        ending = held.opened.machine.ending(held.opened.state)
        return ending is not None and len(ending) <= held.left


def _behind_quote(text: bytes) -> bytes:
    return text[text.rindex(b'"') + 1 :]


def _goes_on(rest: bytes) -> bool:
    """Whether this, behind a quote, may be how a string goes on."""
    return bool(rest.strip(_STRUCTURE))


def _ends_inside(rest: bytes) -> bool:
    """Whether this ends inside a character, or has escapes."""
    return b"\\" in rest or rest.decode("utf-8", "ignore").encode() != rest
