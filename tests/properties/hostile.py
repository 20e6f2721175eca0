"""Hostile models for guides: they always take the worst of the allowed tokens. And the types they are tried on."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from pastalang.program import types as t
from pastalang.runtime.constraints.tokens import Tokens

Pick = Callable[[np.ndarray, Tokens, random.Random], int]


def _text(tokens: Tokens, token: int) -> bytes:
    return tokens.text(token) or b""


def at_random(allowed: np.ndarray, tokens: Tokens, rng: random.Random) -> int:
    return int(rng.choice(allowed))


def the_first(allowed: np.ndarray, tokens: Tokens, rng: random.Random) -> int:
    return int(allowed[0])


def the_longest(allowed: np.ndarray, tokens: Tokens, rng: random.Random) -> int:
    return max((int(token) for token in allowed), key=lambda token: len(_text(tokens, token)))


def a_quote(allowed: np.ndarray, tokens: Tokens, rng: random.Random) -> int:
    return max((int(token) for token in allowed), key=lambda token: (_text(tokens, token).count(b'"'), rng.random()))


def white_space(allowed: np.ndarray, tokens: Tokens, rng: random.Random) -> int:
    spaces = [int(token) for token in allowed if _text(tokens, int(token)).strip() == b""]
    return rng.choice(spaces) if spaces else at_random(allowed, tokens, rng)


def what_opens(allowed: np.ndarray, tokens: Tokens, rng: random.Random) -> int:
    """Brackets, escapes and bytes of unfinished characters: whatever takes longest to close."""

    def cost(token: int) -> tuple[int, float]:
        text = _text(tokens, token)
        opened = sum(text.count(part) for part in (b"[", b"{", b"\\", b"-", b"."))
        return opened * 4 + (text[-1:] >= b"\xc0") * 3 - (text == b"") * 9, rng.random()

    return max(map(int, allowed), key=cost)


PICKS: dict[str, Pick] = {
    "random": at_random,
    "constant": the_first,
    "longest": the_longest,
    "quote": a_quote,
    "white space": white_space,
    "what opens": what_opens,
}

SIMPLE: tuple[t.Type, ...] = (
    t.Boolean(),
    t.Null(),
    t.Literal('say "hi"\n😀'),
    t.Literal(Decimal("1.50")),
    t.Integer(),
    t.Integer(minimum=1, maximum=5),
    t.Integer(minimum=-120, maximum=-17),
    t.Integer(exclusive_minimum=99, multiple_of=7),
    t.Integer(minimum=17, maximum=9_431),
    t.Integer(minimum=2**63 + 1),
    t.Number(),
    t.Number(minimum=Decimal("0.5"), exclusive_maximum=Decimal("0.75")),
    t.Number(multiple_of=Decimal("0.1"), minimum=Decimal(-1), maximum=Decimal(1)),
    t.Number(exclusive_minimum=Decimal(0), exclusive_maximum=Decimal("1e-6")),
    t.Number(exclusive_maximum=Decimal(0)),
    t.Temporal(t.Moment.DATE),
    t.Temporal(t.Moment.DATETIME),
    t.Temporal(t.Moment.TIME),
    t.Uuid(),
    t.Regex("[A-Z]{2}-[0-9]{4}"),
    t.Regex('[^a]*x+|"+'),
    t.Regex("(a|b)*a(a|b){6}"),
    t.String(),
    t.String(max_chars=1),
    t.String(min_chars=3, max_chars=6),
    t.String(min_chars=40),
    t.String(format="email", max_chars=20),
    t.String(pattern="[a-zé]+", min_chars=2, max_chars=4),
    t.String(stop=(". ", "END")),
    t.Verbatim("source"),
    t.Union((t.Literal("A"), t.Literal("AB"), t.Literal("ABBA"))),
    t.Union((t.Literal(""), t.Literal('"'), t.Literal("\n"), t.Literal("😀"))),
    t.Union((t.String(max_chars=8), t.Null())),
    t.Union((t.Literal("4K"), t.Integer(minimum=0), t.Null())),
    t.Union((t.Temporal(t.Moment.DATE), t.Verbatim("source"), t.Null())),
)

_CHILD = t.Object((t.Field("name", t.String(max_chars=5)), t.Field("children", t.Array(t.Named("Tree"), 0, 2))))
TYPES = {"Tree": _CHILD}

STRUCTURES: tuple[t.Type, ...] = (
    t.Array(t.Integer()),
    t.Array(t.String(max_chars=3), 1, 3),
    t.Array(t.Number(minimum=Decimal(1)), 0, 2),
    t.Array(t.Integer(), 0, 1),
    t.Array(t.String(format="email"), 1, 2),
    t.Array(t.Union((t.Literal("a"), t.Literal("b"), t.Null())), 2, 4, unique=True),
    t.Array(t.Verbatim("source"), 1, 2),
    t.Tuple((t.Integer(), t.String(), t.Boolean())),
    t.Map(t.Integer(minimum=0, maximum=9), max_items=3),
    t.Map(t.String(), key_pattern="[a-c]{1,2}", min_items=1),
    t.Object((t.Field("a", t.Integer()), t.Field('q"b', t.Array(t.Temporal(t.Moment.DATE))))),
    t.Anything(),
    t.Named("Tree"),
    t.Union((t.Array(t.Integer()), t.Null(), t.String())),
    t.Schema(
        '{"type":"object","properties":{"x":{"type":"integer","minimum":3},'
        '"y":{"type":"array","items":{"$ref":"#"}}},"required":["x"]}'
    ),
)
