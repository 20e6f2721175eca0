"""How many tokens texts, holes and branches can take, before anything runs.

Texts are counted by a tokenizer, or bounded without one: no token of a byte-level vocabulary is shorter than a
byte. Holes are bounded by their types and limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, assert_never

from pastalang.plan.branches import (
    Arm,
    BranchId,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    KnownText,
    Overrun,
    Repeat,
    Segment,
    Text,
)
from pastalang.plan.positions import thread_rooms
from pastalang.plan.structure import measure
from pastalang.program import types as t
from pastalang.values.lengths import leaves_choice


class Encoder(Protocol):
    """A tokenizer, as far as a forecast needs one."""

    def encode(self, text: str) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Range:
    """`low` to `high`, both included."""

    low: int
    high: int

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def times(self, other: Range) -> Range:
        return Range(self.low * other.low, self.high * other.high)

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        return f"{self.low:,}" if self.is_exact else f"{self.low:,}-{self.high:,}"


NOTHING = Range(0, 0)


@dataclass(frozen=True)
class Lengths:
    """`encoder` counts literal text exactly. `input_tokens` and `items` say what is known about the data.

    Without an encoder a text has at least one token and at most one per UTF-8 byte. Inputs that nothing is known
    about count nothing, and lists among them have one item. `turn_tokens` is what a chat template adds per turn.
    """

    encoder: Encoder | None = None
    input_tokens: Mapping[str, int] = field(default_factory=dict)
    items: Mapping[str, int] = field(default_factory=dict)
    turn_tokens: int = 4

    def text(self, text: str) -> Range:
        if not text:
            return NOTHING
        if self.encoder is None:
            return Range(1, max_text_tokens(text))
        count = len(self.encoder.encode(text))
        return Range(count, count)

    def known(self, segment: KnownText) -> Range:
        match segment:
            case Text(text=text):
                return self.text(text)
            case InputText(path=path):
                count = self.input_tokens.get(".".join(path), self.input_tokens.get(path[0], 0))
                return Range(count, count)
            case ItemNumber():
                return Range(1, 5)
            case _:
                assert_never(segment)

    def lead(self, lead: tuple[Text | ItemNumber, ...]) -> Range:
        total = NOTHING
        for segment in lead:
            total = total + self.known(segment)
        return total

    def items_of(self, loop: Each | Repeat) -> Range:
        """How many items a fan-out or a list has."""
        if loop.over is None:
            return Range(loop.minimum, loop.maximum)
        known = self.items.get(loop.over)
        if known is not None:
            return Range(known, known)
        return Range(0, loop.maximum) if loop.over_hole else Range(1, 1)


def draws_of(hole: Hole, overrun: Overrun = Overrun.CONTINUE) -> Range:
    """The passes that a hole draws from: at least one, unless its value may be forced. `overrun` is its branch's."""
    return Range(0 if _may_be_forced(hole, overrun) else 1, hole.max_tokens)


def _may_be_forced(hole: Hole, overrun: Overrun) -> bool:
    """A type of one value is; and where the limit may be short of what the type needs, so is a value that is also the
    beginning of others, and the null that a field gets which nothing fits into."""
    may_be_short = overrun is Overrun.CAP or (isinstance(hole.type, t.Union) and hole.type.max_tokens is not None)
    return not leaves_choice(hole.type) or (may_be_short and not isinstance(hole.type, t.String))


def decision_draws(options: int) -> Range:
    """A decision is over as soon as one option is left, which the first token that differs may decide."""
    return Range(1, max(options - 1, 1)) if options > 1 else NOTHING


def max_tokens_of(segments: Iterable[Segment], reserves: Mapping[BranchId, int]) -> int:
    """The positions that a branch of these segments can reach beyond its start."""
    return measure(segments, one=partial(_room, reserves=reserves), repeat=partial(_repeat_room, reserves=reserves))


def max_text_tokens(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _room(segment: Segment | Arm, reserves: Mapping[BranchId, int]) -> int:
    match segment:
        case Text(text=text) | Arm(lead=text):
            return max_text_tokens(text)
        case Hole(max_tokens=tokens):
            return tokens + _thread_room(segment)
        case Fork(branch=branch):
            return reserves[branch]
        case Each(branch=branch, maximum=maximum, stacked=stacked):
            return 0 if stacked else reserves[branch] * maximum
        case ItemNumber():
            return 8
        case _:
            return 0  # data and turns are never inside a reserve


_THREAD_TAGS = len("<async></async>")  # the longest tags around a thread, a token for each byte


def _thread_room(hole: Hole) -> int:
    """The room of promised threads, and of a last one that begins where the text ends."""
    if hole.threads is None:
        return 0
    promised = thread_rooms(hole.max_tokens) if hole.auto is t.AutoPolicy.PASTA else 0
    return promised + hole.max_tokens + _THREAD_TAGS


def _repeat_room(repeat: Repeat, body: int, reserves: Mapping[BranchId, int]) -> int:
    first, between = max_tokens_of(repeat.first, reserves), max_tokens_of(repeat.between, reserves)
    items = first + body + (repeat.maximum - 1) * (between + body) if repeat.maximum else 0
    return items + max(max_text_tokens(repeat.stop or ""), max_text_tokens(repeat.empty or ""))
