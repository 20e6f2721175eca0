"""Keys that depend on each other, said as alternatives: no value tells the two apart for the `jsonschema` library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from pastalang.values.converted import NotExpressible
from pastalang.values.from_json_schema import type_of_schema
from pastalang.values.read import read
from pastalang.values.schema_cases import MAX_DEPENDENT_KEYS, in_cases, in_new_words, map_schemas

KEYS = st.sampled_from("abcd")
LISTS = st.lists(KEYS, max_size=3, unique=True)
ARMS = st.lists(st.builds(lambda keys: {"required": keys}, LISTS.filter(bool)), min_size=2, max_size=4)
PARTS = st.sampled_from(
    [True, False, {}, {"required": ["b"]}, {"properties": {"c": {"minimum": 2}}}, {"maxProperties": 2}]
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("object"),
        "properties": st.dictionaries(KEYS, st.just({"type": "integer"}), max_size=3),
        "dependentRequired": st.dictionaries(KEYS, LISTS, max_size=3),
        "dependentSchemas": st.dictionaries(KEYS, PARTS, max_size=3),
        "oneOf": ARMS,
        "allOf": st.just([{"maxProperties": 3}]),
    },
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.dictionaries(KEYS, st.integers(0, 3), max_size=4), st.sampled_from([None, 1, "a", []])
)


@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_the_cases_take_what_the_keywords_take(schema: dict[str, Any], values: list[Any]) -> None:
    cases = in_cases(schema)
    assert not {"dependentRequired", "dependentSchemas"} & set(cases) or "allOf" in cases or cases == schema
    for value in values:
        assert Draft202012Validator(cases).is_valid(value) == Draft202012Validator(schema).is_valid(value), value


@given(st.dictionaries(KEYS, LISTS | PARTS, max_size=3), st.lists(VALUES, min_size=1, max_size=8))
def test_new_words_take_what_the_old_one_takes(given: dict[str, Any], values: list[Any]) -> None:
    old: dict[str, Any] = {"properties": {"dependencies": {}}, "dependencies": given}
    new = map_schemas(old, in_new_words)
    assert isinstance(new, dict) and "dependencies" not in new and new["properties"] == {"dependencies": {}}
    for value in values:
        assert Draft202012Validator(new).is_valid(value) == Draft7Validator(old).is_valid(value), value


def test_what_is_imported_is_read_by_the_same_rule() -> None:
    found = type_of_schema(json.dumps({"type": "object", "properties": {"a": {}}, "dependencies": {"a": ["b"]}}))
    assert read('{"a": 1, "b": 2}', found.type, found.types).fits
    assert not read('{"a": 1}', found.type, found.types).fits


def test_more_keys_than_can_be_enforced_are_refused_by_name() -> None:
    needs = {f"k{number}": ["a"] for number in range(MAX_DEPENDENT_KEYS + 1)}
    with pytest.raises(NotExpressible, match=r"dependentRequired.*more than 8 keys"):
        type_of_schema(json.dumps({"type": "object", "dependentRequired": needs}))
