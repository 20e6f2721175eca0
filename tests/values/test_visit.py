"""Walking over types, rebuilding them, and how many files of the package know the kinds of types."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastalang.program import types as t
from pastalang.program.visit import (
    arms_of,
    flat_arms,
    json_kinds,
    named_types,
    part_at,
    parts_of,
    parts_of_value,
    reached,
    walk,
    with_parts,
)
from pastalang.values.fit import find_mismatches
from pastalang.values.json import JsonValue
from tests.properties.hole_types import ALL_TYPES, NAMED, TYPES, near

PACKAGE = Path("pastalang")
KINDS = "|".join(kind.__name__ for kind in get_args(t.Type))


# ── how many files a new kind of type touches ────────────────────────────────────────────────────────────


def test_at_most_ten_files_match_on_kinds_of_types() -> None:
    """Counts the files with a `case t.Kind` pattern for any of the kinds in `Type`, wherever it stands in the line.

    `isinstance` is not counted: it asks for one kind, and has nothing to say about the others.
    """
    pattern = re.compile(rf"^\s*(case|\|) .*\bt\.({KINDS})\(", re.MULTILINE)
    matching = {str(file) for file in PACKAGE.rglob("*.py") if pattern.search(file.read_text("utf-8"))}
    assert len(matching) <= 10, sorted(matching)


def test_a_new_scalar_type_touches_at_most_eight_files() -> None:
    """Counts the files that name `Uuid`, which has a case of its own wherever a scalar needs one.

    Not counted are the two that make types from Pydantic models and from JSON Schemas: what no model or schema asks for
    needs no line there.
    """
    imports = {PACKAGE / "values/schema/importer.py", PACKAGE / "values/pydantic/scalars.py"}
    naming = {file for file in PACKAGE.rglob("*.py") if re.search(r"\bUuid\b", file.read_text("utf-8"))}
    assert len(naming - imports) <= 8, sorted(map(str, naming - imports))


# ── walking ──────────────────────────────────────────────────────────────────────────────────────────────


@given(ALL_TYPES)
def test_a_type_rebuilt_from_its_parts_is_the_same(type: t.Type) -> None:
    assert with_parts(type, lambda step, part: part) == type


@given(ALL_TYPES)
def test_rebuilding_reaches_every_part_at_its_place(type: t.Type) -> None:
    met: list[tuple[tuple[str | int, ...], t.Type]] = []
    changed = with_parts(type, lambda step, part: met.append((step, part)) or t.Boolean())
    assert met == list(parts_of(type))
    assert [part for _, part in parts_of(changed)] == [t.Boolean()] * len(met)


@given(ALL_TYPES)
def test_a_walk_meets_a_type_and_what_its_parts_meet(type: t.Type) -> None:
    inner = [(step + path, part) for step, one in parts_of(type) for path, part in walk(one)]
    assert list(walk(type)) == [((), type), *inner]


@given(ALL_TYPES)
def test_names_are_followed_once(type: t.Type) -> None:
    assert set(named_types(type, NAMED)) == {part.name for part in reached(type, NAMED) if isinstance(part, t.Named)}
    assert all(part in list(reached(type, NAMED)) for _, part in walk(type))


@given(st.data(), TYPES)
def test_a_value_that_fits_has_a_kind_of_its_type_and_parts_that_fit(data: st.DataObject, type: t.Type) -> None:
    value = data.draw(near(type))
    for arm in arms_of(type, NAMED):
        if not find_mismatches(arm, value, NAMED):
            assert kind_of(value) in json_kinds(arm)
            for _, part_type, part in parts_of_value(arm, value):
                assert not find_mismatches(part_type, part, NAMED)


def kind_of(value: JsonValue) -> str:
    kinds = {bool: "boolean", str: "string", list: "array", dict: "object", int: "number", Decimal: "number"}
    return "null" if value is None else kinds[type(value)]


def test_the_arms_of_a_union_inside_a_union_are_arms() -> None:
    union = t.Union((t.Null(), t.Union((t.Boolean(), t.Named("Tree")))))
    assert flat_arms(union) == (t.Null(), t.Boolean(), t.Named("Tree"))
    assert arms_of(union, NAMED) == [t.Null(), t.Boolean(), NAMED["Tree"]]


@pytest.mark.parametrize(
    ("type", "key", "part"),
    [
        (t.Array(t.Boolean()), None, t.Boolean()),
        (t.Array(t.Boolean()), "a", None),
        (t.Object((t.Field("a", t.Null()),)), "a", t.Null()),
        (t.Object((t.Field("a", t.Null()),)), "b", None),
        (t.Map(t.Null()), "b", t.Null()),
        (t.Anything(), None, t.Anything()),
        (t.Boolean(), "a", None),
    ],
)
def test_the_part_at_a_key_or_of_an_item(type: t.Type, key: str | None, part: t.Type | None) -> None:
    assert part_at(type, key) == part
