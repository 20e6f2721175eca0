"""Strategies for the types of holes: every kind, small, and at home in the place where it is asked for."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from pastalang.program import types as t

KEYS = ("brand", "size", "price", "first-key", "note", "größe", "x")


def scalars() -> st.SearchStrategy[t.Type]:
    """Types of one value, that one hole decodes."""
    return st.one_of(
        st.builds(t.String, max_tokens=st.integers(1, 9)),
        st.builds(t.Integer, minimum=st.just(0), maximum=st.integers(1, 99)),
        st.builds(t.Number, minimum=st.just(Decimal(0)), max_tokens=st.integers(2, 9)),
        st.just(t.Boolean()),
        st.just(t.Temporal(t.Moment.DATE)),
        st.just(t.Regex("[A-Z]{2}-[0-9]{4}", max_tokens=9)),
        st.just(t.Union((t.Literal("tv"), t.Literal("phone")))),
        st.builds(lambda most: t.Array(t.String(max_tokens=4), max_items=most, max_tokens=24), st.integers(1, 3)),
    )


def values(*, depth: int = 2) -> st.SearchStrategy[t.Type]:
    """Types of JSON values: scalars, known values, optional ones, objects, lists of objects, choices of objects."""
    known: tuple[t.Type, ...] = (t.Null(), t.Literal("fixed"), t.Object(()))
    simple: st.SearchStrategy[t.Type] = st.one_of(
        scalars(),
        st.sampled_from(known),
        scalars().map(lambda type: t.Union((type, t.Null()))),
    )
    if depth == 0:
        return simple
    inside = objects(depth=depth - 1)
    return st.one_of(
        simple,
        simple,
        inside,
        inside.map(lambda type: t.Union((type, t.Null()))),
        st.builds(_list_of, inside, st.integers(0, 2), st.integers(1, 2)),
        st.builds(_tagged, inside, inside),
    )


@st.composite
def objects(draw: st.DrawFn, *, depth: int = 2, max_fields: int = 4) -> t.Object:
    """Fields beside one another, some waiting for others (written before or behind them), some in sequential groups."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=max_fields, unique=True))
    order = draw(st.permutations(keys))
    groups = _groups(draw, keys)
    rank = _ranks(keys, order, groups)
    fields = []
    for key in keys:
        earlier = [other for other in keys if rank[other] < rank[key]]
        after = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        fields.append(t.Field(key, draw(values(depth=depth)), after=tuple(after), group=groups.get(key)))
    return t.Object(tuple(fields))


def _groups(draw: st.DrawFn, keys: list[str]) -> dict[str, int]:
    """At most one group of neighbours."""
    if len(keys) < 2 or not draw(st.booleans()):
        return {}
    start = draw(st.integers(0, len(keys) - 2))
    end = draw(st.integers(start + 2, len(keys)))
    return dict.fromkeys(keys[start:end], 0)


def _ranks(keys: list[str], order: list[str], groups: dict[str, int]) -> dict[str, int]:
    """An order in which all fields can be decoded: the drawn one, with the members of a group as written."""
    members = iter([key for key in keys if key in groups])
    return {(next(members) if key in groups else key): place for place, key in enumerate(order)}


def _list_of(item: t.Object, least: int, more: int) -> t.Array:
    return t.Array(item, min_items=least, max_items=least + more)


def _tagged(one: t.Object, other: t.Object) -> t.Union:
    """Two kinds of object that a literal in front tells apart."""

    def tag(object: t.Object, value: str) -> t.Object:
        return t.Object((t.Field("kind", t.Literal(value)), *object.fields))

    return t.Union((tag(one, "a"), tag(other, "b")), "kind")
