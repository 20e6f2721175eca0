"""When alternatives share no value, and dependent keys of older drafts, according to the `jsonschema` library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from pastalang.values.fit import read
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.schema.keywords import map_schemas, split_dependencies
from pastalang.values.schema.split import DisjointSchemas


def obj_with(key: str, value: Any = True) -> dict[str, Any]:
    """A closed object that requires the key."""
    return {"type": "object", "required": [key], "properties": {key: value}, "additionalProperties": False}


KEYS = st.sampled_from("abcd")
LISTS = st.lists(KEYS, max_size=3, unique=True)
PARTS = st.sampled_from(
    [True, False, {}, {"required": ["b"]}, {"properties": {"c": {"minimum": 2}}}, {"maxProperties": 2}]
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.dictionaries(KEYS, st.integers(0, 3), max_size=4), st.sampled_from([None, 1, "a", []])
)


KINDS = st.sampled_from(["string", "integer", "number", "null", "object", ["object", "null"], ["integer", "string"]])
LEAVES = st.one_of(
    st.builds(lambda kind: {"type": kind}, KINDS),
    st.builds(lambda value: {"const": value}, st.sampled_from([1, 1.0, True, "x", None, {"a": 1}])),
    st.builds(
        lambda values: {"enum": values}, st.lists(st.sampled_from([0, 1, "x", "y", None]), min_size=1, max_size=3)
    ),
    st.sampled_from([True, False, {}, {"$ref": "#/$defs/one"}, {"$ref": "#/$defs/one", "type": "string"}]),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": st.booleans(),
            "patternProperties": st.just({"^a": {}}),
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    )


ALTERNATIVES = st.one_of(_objects(LEAVES), _objects(LEAVES), _objects(_objects(LEAVES)), LEAVES)
DEFINED: dict[str, Any] = {
    "one": {"type": "object", "required": ["a"], "properties": {"a": {"const": 1}}, "additionalProperties": False}
}
SCALARS: list[Any] = [0, 1, 1.5, "x", None, True]
INNER: list[Any] = [1, "x", {}, {"a": 1}, {"b": "x"}]
TRIED = [*SCALARS, {}, *(value for one in INNER for value in ({"a": one}, {"b": one}, {"a": one, "b": 1}))]


@given(st.lists(ALTERNATIVES, min_size=2, max_size=3), LEAVES)
def test_disjoint_schemas_share_no_value(arms: list[Any], together_with: Any) -> None:
    around: dict[str, Any] = together_with if isinstance(together_with, dict) else {}
    if DisjointSchemas({**around, "$defs": DEFINED, "oneOf": arms}).are_disjoint(arms, together_with=around):
        wholes = [Draft202012Validator({"$defs": DEFINED, "allOf": [around, arm]}) for arm in arms]
        for value in TRIED:
            assert sum(whole.is_valid(value) for whole in wholes) < 2, value


@pytest.mark.parametrize(
    ("left", "right", "apart"),
    [
        ({"type": "integer"}, {"type": "number"}, False),
        ({"type": "string"}, {"type": ["null", "integer"]}, True),
        ({"enum": ["a", 1]}, {"enum": ["b", True]}, True),
        ({"enum": ["a"]}, {"type": "null"}, True),
        (obj_with("a"), obj_with("b"), True),
        ({**obj_with("a"), "additionalProperties": True}, obj_with("b"), True),
        ({**obj_with("a"), "additionalProperties": True}, {**obj_with("b"), "additionalProperties": True}, False),
        ({"required": ["a"]}, {"properties": {"a": False}}, False),  # what is no object fits both
        ({**obj_with("a"), "patternProperties": {"^b": {}}}, {**obj_with("b"), "patternProperties": {"^a": {}}}, False),
        (obj_with("k", {"const": "x"}), obj_with("k", {"const": "y"}), True),
        (obj_with("k", {"const": 1}), obj_with("k", {"const": 1.0}), False),
    ],
)
def test_when_schemas_are_apart(left: Any, right: Any, apart: bool) -> None:
    assert DisjointSchemas({}).are_disjoint([left, right]) == apart
    assert not DisjointSchemas({}, steps=1).are_disjoint([left, right])


def test_alternatives_that_a_key_tells_apart_are_imported_and_enforced() -> None:
    arms = [obj_with("a", {"type": "integer"}), obj_with("b", {"type": "integer"})]
    found = type_of_schema(json.dumps({"oneOf": arms}))
    assert read('{"b": 1}', found.type, found.types).fits
    assert not read('{"a": 1, "b": 1}', found.type, found.types).fits


@given(st.dictionaries(KEYS, LISTS | PARTS, max_size=3), st.lists(VALUES, min_size=1, max_size=8))
def test_new_words_take_what_the_old_one_takes(given: dict[str, Any], values: list[Any]) -> None:
    old: dict[str, Any] = {"properties": {"dependencies": {}}, "dependencies": given}
    new = map_schemas(old, split_dependencies)
    assert isinstance(new, dict) and "dependencies" not in new and new["properties"] == {"dependencies": {}}
    for value in values:
        assert Draft202012Validator(new).is_valid(value) == Draft7Validator(old).is_valid(value), value


def test_what_a_reference_leads_to_is_read_by_the_same_draft() -> None:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}}
    found = type_of_schema(json.dumps({**draft, "type": "object", "additionalProperties": {"$ref": "#"}}))
    assert read('{"c": {"a": {}, "b": {}}}', found.type, found.types).fits
    assert not read('{"c": {"a": {}}}', found.type, found.types).fits
