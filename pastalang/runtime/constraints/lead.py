"""White space before a value, sampled together with the value: most tokenizers join a space and the next word.

A guide with a lead constrains `lead + value`. The lead does not belong to the value.

    lead ` `        ` "` · ` 12` · ` true`    a token with the lead and the beginning of the value
                    ` `                       the lead alone, if a value still fits after it

The value takes the rest of such a token: as the token with that text if there is one, otherwise as bytes.
Every token counts against the limit, also a token of the lead alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from pastalang.runtime.constraints.guide import Machine, NoEndingFits, State, TokenMask
from pastalang.runtime.constraints.masks import mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import BoundedCache, Ints, Tokens
from pastalang.values.describe import counted

S = TypeVar("S", bound=State)

_MAX_MASKS = 256
_NEVER = -1


class Lead:
    """The white space before the values of one guide, at least one character. `rest` is what is not written of it."""

    def __init__(self, space: str, tokens: Tokens) -> None:
        self.space = space
        self._tokens = tokens
        self._masks: BoundedCache[Hashable, tuple[TokenMask, object]] = BoundedCache(_MAX_MASKS)

    @property
    def tokens(self) -> int:
        """The number of tokens that spell the lead alone."""
        return len(self._tokens.shortest(self.space.encode()) or self.space)

    def mask(
        self,
        rest: bytes,
        value: TokenMask | None,
        others: Mapping[int, Ints],
        *,
        shortest: int,
        remaining: int,
        sure: bytes = b"",
    ) -> TokenMask:
        """The tokens that may come before the value.

        `value` are the tokens that the value may begin with; None if no value fits here. `others` are tokens that
        begin with the lead and whose rest is no token, by the number of tokens to an end of the value. `sure` is the
        text that every value begins with: a grammar's own mask has only one token of it.
        """
        fitting = tuple(cost for cost in others if cost < remaining)
        room = min(remaining, shortest + len(self.space) + 1)
        key = (rest, id(value), fitting, room, sure)
        known = self._masks.get(key)
        if known is None:
            parts = [self._alone(rest, room, shortest), *(others[cost] for cost in fitting)]
            if value is not None:
                parts += [self._merged(rest, value), self._beginning(rest, sure)]
            known = self._masks[key] = mask_of(self._tokens.size, np.concatenate(parts)), value
        return known[0]

    def others(self, rest: bytes, machine: Machine, seam: Seam) -> dict[int, Ints]:
        """The tokens that begin with the lead, whose rest is no token but the beginning of a value."""
        found: dict[int, list[int]] = {}
        reader = _Reader(machine, seam)
        for first, rests in self._first_tokens(rest).others.items():
            if not reader.may_begin_with(first):
                continue
            for token, text in rests:
                cost = reader.cost(text)
                if cost != _NEVER:
                    found.setdefault(cost, []).append(token)
        return {cost: np.array(tokens, dtype=np.int64) for cost, tokens in found.items()}

    def _first_tokens(self, rest: bytes) -> _FirstTokens:
        return self._tokens.cached(("lead", rest), lambda: _first_tokens(self._tokens, rest))

    def _alone(self, rest: bytes, remaining: int, shortest: int) -> Ints:
        found = []
        for token, length in self._first_tokens(rest).alone:
            left = self._tokens.shortest(rest[length:])
            if left is not None and 1 + len(left) + shortest <= remaining:
                found.append(token)
        return np.array(found, dtype=np.int64)

    def _merged(self, rest: bytes, value: TokenMask) -> Ints:
        begin = self._first_tokens(rest)
        is_allowed = value[begin.plain >> 5] >> (begin.plain & 31).astype(np.uint32) & np.uint32(1)
        found: Ints = begin.merged[is_allowed.astype(np.bool_)]
        return found

    def _beginning(self, rest: bytes, sure: bytes) -> Ints:
        spellings = (rest + sure[:length] for length in range(1, len(sure) + 1))
        begun = [
            (token, spelling[len(rest) :]) for spelling in spellings for token in self._tokens.by_text.get(spelling, ())
        ]
        return np.array([token for token, text in begun if text in self._tokens.ids], dtype=np.int64)


@dataclass(frozen=True)
class _FirstTokens:
    """The tokens that may come first, given the rest of a lead.

    `alone` are the tokens that are a beginning of the lead, with their length. The other tokens begin with the lead:
    `plain[k]` is the token with the text of `merged[k]` after the lead; for `others`, by the first byte of that text,
    there is no such token.
    """

    alone: tuple[tuple[int, int], ...]
    merged: Ints
    plain: Ints
    others: Mapping[int, Sequence[tuple[int, bytes]]]


def _first_tokens(tokens: Tokens, lead: bytes) -> _FirstTokens:
    alone: list[tuple[int, int]] = []
    merged: list[tuple[int, int]] = []
    others: dict[int, list[tuple[int, bytes]]] = {}
    for token, text in enumerate(tokens.vocabulary.spelling):
        if text and lead.startswith(text):
            alone.append((token, len(text)))
        elif text and text.startswith(lead):
            rest = text[len(lead) :]
            plain = tokens.ids.get(rest)
            if plain is None:
                others.setdefault(rest[0], []).append((token, rest))
            else:
                merged.append((token, plain))
    pairs = np.array(merged, dtype=np.int64).reshape(-1, 2)
    return _FirstTokens(tuple(alone), pairs[:, 0], pairs[:, 1], others)


class GuideAfterLead(ABC, Generic[S]):
    """What guides do alike with the white space before their values."""

    seam: Seam
    lead: Lead | None

    @property
    @abstractmethod
    def shortest_value(self) -> int: ...

    @abstractmethod
    def _begin(self, space: str, max_tokens: int) -> S:
        """The state before a value, whether or not one fits."""

    @property
    def space(self) -> str:
        return "" if self.lead is None else self.lead.space

    @property
    def shortest(self) -> int:
        needed = self.shortest_value
        if self.lead is None:
            return needed
        try:
            self.start(max_tokens=needed)
        except NoEndingFits:
            return needed + self.lead.tokens
        return needed

    def start(self, *, max_tokens: int) -> S:
        needed, room = self.shortest_value, f"no value fits into {counted(max_tokens, 'token')}"
        if self.lead is None and needed > max_tokens:
            raise NoEndingFits(f"{room}; a short one takes {needed}")
        state = self._begin(self.space, max_tokens)
        if self.lead is not None and max_tokens <= needed + len(self.space) and not state.allowed().any():
            raise NoEndingFits(f"{room} after its white space")
        return state


class _Reader:
    """Runs a machine over the rests of tokens, from the start of the value."""

    def __init__(self, machine: Machine, seam: Seam) -> None:
        self._machine = machine
        self._agrees = seam.agrees
        self._start = machine.start
        self._next: dict[tuple[Hashable, int], Hashable | None] = {}
        self._about: dict[Hashable, tuple[bool, bool]] = {}
        self._endings: dict[Hashable, int] = {}

    def may_begin_with(self, byte: int) -> bool:
        """Whether a value, or what follows an empty one, may."""
        return self._facts(self._start)[0] or self._step(self._start, byte) is not None

    def cost(self, text: bytes) -> int:
        """The number of tokens of an ending after the text; `_NEVER` if no value begins with the text."""
        machine, state, may_have_ended = self._machine, self._start, False
        for at, byte in enumerate(text):
            if self._facts(state)[0] and self._agrees(text[at:]):
                may_have_ended = True
            following = self._step(state, byte)
            if following is None:
                return 0 if may_have_ended else _NEVER
            state = following
            if self._facts(state)[1]:
                return 0
        if may_have_ended:
            return 0
        if state not in self._endings:
            ending = machine.ending(state)
            self._endings[state] = _NEVER if ending is None else len(ending)
        return self._endings[state]

    def _step(self, state: Hashable, byte: int) -> Hashable | None:
        key = state, byte
        if key not in self._next:
            self._next[key] = self._machine.step(state, byte)
        return self._next[key]

    def _facts(self, state: Hashable) -> tuple[bool, bool]:
        """Whether the value may end here, and whether a stop text has ended it."""
        if state not in self._about:
            self._about[state] = self._machine.accepts(state), bool(self._machine.stop_bytes(state))
        return self._about[state]
