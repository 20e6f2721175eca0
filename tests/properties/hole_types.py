"""Strategies for hole types, and for JSON values near their borders."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from pastalang.program import types as t
from pastalang.values.json import JsonValue
from pastalang.values.patterns import FORMATS
from pastalang.values.quotes import BORDER

WORDS = st.text(alphabet='abAZ09 é😀"\\/{}_-', max_size=6)
PATTERNS = ["[a-z]{1,3}", "a|b{2}", "[A-Z]-[0-9]+", r"\d*", r"[^a]x?", "(?:ab)+", r"\w\.\w"]
STEPS = [Decimal("0.5"), Decimal("0.25"), Decimal(2), Decimal(3)]
NAMED: Mapping[str, t.Type] = {
    "Tree": t.Object((t.Field("n", t.Integer(0, 3)), t.Field("below", t.Array(t.Named("Tree"), max_items=2)))),
    "Nested": t.Array(t.Union((t.Named("Nested"), t.Boolean())), max_items=3),
}


def bounds(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    pair = st.tuples(st.none() | values, st.none() | values)
    return pair.map(lambda ends: tuple(sorted(ends)) if None not in ends else ends)


@st.composite
def strings(draw: st.DrawFn) -> t.Type:
    low, high = draw(bounds(st.integers(0, 4)))
    return t.String(min_chars=low or 0, max_chars=high)


@st.composite
def integers(draw: st.DrawFn) -> t.Type:
    low, high = draw(bounds(st.integers(-6, 6)))
    match draw(st.sampled_from(["closed", "open", "step"])):
        case "closed":
            return t.Integer(minimum=low, maximum=high)
        case "open":
            return t.Integer(exclusive_minimum=None if low is None else low - 1, maximum=high)
        case _:
            return t.Integer(minimum=low, multiple_of=draw(st.integers(1, 4)))


@st.composite
def numbers(draw: st.DrawFn) -> t.Type:
    low, high = draw(bounds(st.sampled_from([Decimal(n) / 4 for n in range(-9, 10)])))
    match draw(st.sampled_from(["closed", "open", "step"])):
        case "closed":
            return t.Number(minimum=low, maximum=high)
        case "open":
            return t.Number(exclusive_minimum=None if low is None else low - 1, maximum=high)
        case _:
            return t.Number(minimum=low, multiple_of=draw(st.sampled_from(STEPS)))


LITERALS = st.one_of(WORDS, st.integers(2, 9), st.booleans(), st.sampled_from([Decimal("0.5"), Decimal("-2.25")]))
SCALARS = st.one_of(
    strings(),
    integers(),
    numbers(),
    LITERALS.map(t.Literal),
    st.sampled_from(PATTERNS).map(t.Regex),
    st.sampled_from(PATTERNS).map(lambda pattern: t.String(pattern=pattern)),
    st.sampled_from(sorted(FORMATS)).map(lambda name: t.String(format=name)),
    st.sampled_from(t.Moment).map(t.Temporal),
    st.sampled_from([t.Boolean(), t.Null(), t.Uuid(), t.Anything(), t.Named("Tree"), t.Named("Nested")]),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[t.Type]) -> t.Type:
    keys = draw(st.lists(WORDS.filter(bool), min_size=1, max_size=3, unique=True))
    return t.Object(tuple(t.Field(key, draw(inner)) for key in keys))


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[t.Type]) -> t.Type:
    low, high = draw(bounds(st.integers(0, 3)))
    # Of a type with one value no two different items exist, and a program that asks for them is refused.
    return t.Array(draw(inner), low or 0, high, unique=draw(st.booleans()) and (low or 0) < 2)


@st.composite
def unions(draw: st.DrawFn, inner: st.SearchStrategy[t.Type]) -> t.Type:
    flat: list[t.Type] = []
    for arm in draw(st.lists(inner, min_size=2, max_size=4)):
        flat.extend(arm.arms if isinstance(arm, t.Union) else [arm])
    arms = tuple(dict.fromkeys(flat))
    if t.Anything() in arms or len(arms) == 1:
        return arms[0]
    return t.Union(arms)


def containers(inner: st.SearchStrategy[t.Type]) -> st.SearchStrategy[t.Type]:
    return st.one_of(
        arrays(inner),
        objects(inner),
        unions(inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: t.Tuple(tuple(items))),
        st.builds(t.Map, inner, st.none() | st.sampled_from(PATTERNS)),
    )


TYPES = st.recursive(SCALARS, containers, max_leaves=6)

SOURCE = BORDER.join(['A "quoted" 27-inch', "", "screen,\n日本語 größer 😀 \\ end."])  # a list of three texts
SCHEMAS = [
    '{"type":"object","properties":{"a":{"type":"integer"}}}',
    '{"type":"object","additionalProperties":{"type":"boolean"}}',
    '{"anyOf":[{"type":"string","maxLength":2},{"type":"array","items":{"type":"null"}}]}',
]
ALL_TYPES = st.recursive(
    SCALARS
    | st.builds(t.Verbatim, st.just("source"), at=st.sampled_from(t.QuoteUnit))
    | st.sampled_from(SCHEMAS).map(t.Schema),
    containers,
    max_leaves=6,
)

# ── values ───────────────────────────────────────────────────────────────────────────────────────────────

SPELLINGS = [
    "", "a", "ab", "abc", "A-1", "1", "x.y", "aa", "2024-02-29", "2023-02-29", "2024-02-29T12:00:00",
    "2024-02-29T12:00:00Z", "12:00:00", "12:00:00+02:00", "24:00:00", "P1D", "a@b.org", "a@", "example.org", "::1",
    "1.2.3.4", "256.1.1.1", "https://example.org/", "urn:x", "01234567-89ab-cdef-0123-456789abcdef",
    "01234567-89AB-CDEF-0123-456789ABCDEF",
]  # fmt: skip
ANY_VALUE = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 9), st.integers(),
        st.sampled_from([Decimal(n) / 8 for n in range(-20, 21)]), WORDS, st.sampled_from(SPELLINGS),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def near(type: t.Type, types: Mapping[str, t.Type] = NAMED, *, depth: int = 3) -> st.SearchStrategy[JsonValue]:
    """Values that often fit, and often just do not."""
    right = _right(type, types, depth)
    return st.one_of(right, right, right, ANY_VALUE)


def _right(type: t.Type, types: Mapping[str, t.Type], depth: int) -> st.SearchStrategy[JsonValue]:
    match type:
        case t.String(pattern=None, format=None):
            return st.text(alphabet="ab😀", min_size=max(type.min_chars - 1, 0), max_size=(type.max_chars or 4) + 1)
        case t.String() | t.Regex() | t.Temporal() | t.Uuid():
            return st.sampled_from(SPELLINGS) | st.text(alphabet="abxAZ019-.", max_size=4)
        case t.Integer():
            return st.integers(-8, 8)
        case t.Number():
            return st.integers(-4, 4) | st.sampled_from([Decimal(n) / 8 for n in range(-24, 25) if n % 8])
        case t.Verbatim():
            return st.sampled_from(
                [text for at in range(0, 30, 3) for size in (1, 3, 9) if BORDER not in (text := SOURCE[at : at + size])]
            )
        case t.Boolean():
            return st.booleans()
        case t.Null():
            return st.none()
        case t.Literal(value=value):
            return st.just(value)
        case t.Array(item=item):
            most = 4 if type.max_items is None else type.max_items + 1
            return st.lists(near(item, types, depth=depth), min_size=max(type.min_items - 1, 0), max_size=min(most, 4))
        case t.Tuple(items=items):
            whole = st.tuples(*(near(item, types, depth=depth) for item in items)).map(list)
            return whole | whole.map(lambda places: places[:-1])
        case t.Map(value=value):
            return st.dictionaries(st.sampled_from(SPELLINGS[:8]), near(value, types, depth=depth), max_size=3)
        case t.Object(fields=fields):
            whole = st.fixed_dictionaries({place.key: near(place.type, types, depth=depth) for place in fields})
            left_out = whole.map(lambda value: dict(list(value.items())[1:]))
            return st.one_of(whole, whole, left_out, whole.map(lambda value: {**value, "extra": None}))
        case t.Union(arms=arms):
            return st.one_of([near(arm, types, depth=depth) for arm in arms])
        case t.Named(name=name):
            return near(types[name], types, depth=depth - 1) if depth else ANY_VALUE
        case _:
            return ANY_VALUE
