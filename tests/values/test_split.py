"""What a grammar enforces of a schema accepts every value of it, and only these where nothing is left to the check."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pastalang.values.fit import to_plain
from pastalang.values.json import parse_json
from pastalang.values.schema.guard import find_unsafe
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.schema.split import split, split_text

KEYS = st.sampled_from("abc")
CONSTANTS = st.sampled_from([0, 1, 2.5, True, False, None, "", "a", "ab", "b", [], {}])
NUMBERS = st.integers(0, 3)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["string", "integer", "number", "null", "object", "array", ["object", "null"]]),
    "const": CONSTANTS,
    "enum": st.lists(CONSTANTS, min_size=1, max_size=3),
    **dict.fromkeys(("minimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"), NUMBERS),
    **dict.fromkeys(("minProperties", "maxProperties"), NUMBERS),
    "required": st.lists(KEYS, max_size=2, unique=True),
    "uniqueItems": st.booleans(),
    "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, max_size=2, unique=True), max_size=2),
    "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two", "#"]),
    "format": st.sampled_from(["regex", "date", "json-pointer"]),
}


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arms, named = st.lists(inner, min_size=1, max_size=3), st.dictionaries(KEYS, inner, max_size=2)
    single = dict.fromkeys(
        (
            *("not", "if", "then", "else", "contains", "propertyNames"),
            *("additionalProperties", "items", "unevaluatedProperties", "unevaluatedItems"),
        ),
        inner,
    )
    several = {"anyOf": arms, "oneOf": arms, "allOf": arms, "prefixItems": arms}
    optional = {**SCALARS, **single, **several, "properties": named, "dependentSchemas": named}
    optional |= {"patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2)}
    return st.lists(st.sampled_from(sorted(optional)), max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: optional[name] for name in names})
    )


SCHEMAS = st.recursive(st.booleans() | st.just({}), keywords, max_leaves=8)
DOCUMENTS = st.builds(
    lambda schema, one, two: {**schema, "$defs": {"one": one, "two": two}},
    keywords(SCHEMAS), SCHEMAS, keywords(st.just({"$ref": "#/$defs/two"})),
)  # fmt: skip
VALUES = st.recursive(
    st.sampled_from([0, 1, 2, 2.5, 3, True, False, None, "", "a", "ab", "abc", "/", "("]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=4,
)


A_KEYS = {"patternProperties": {"^a": {"type": "integer"}}}


def is_valid(document: Any, value: Any) -> bool | None:
    """By the standard, without formats; None if the document never ends."""
    try:
        return bool(Draft202012Validator(document).is_valid(value))
    except RecursionError:
        return None


@settings(max_examples=200)
@given(DOCUMENTS, st.lists(VALUES, min_size=1, max_size=8))
def test_what_is_enforced_and_what_is_checked_together_are_the_document(document: Any, values: list[Any]) -> None:
    exact = parse_json(json.dumps(document))
    if find_unsafe(exact) is not None:
        return
    found = split(exact)
    enforced = to_plain(found.enforced)
    for value in values:
        wanted, taken = is_valid(document, value), is_valid(enforced, value)
        if wanted:
            assert taken is not False, (value, enforced)
        elif wanted is False and not found.checked:
            assert not taken, (value, enforced)


@pytest.mark.parametrize(
    ("document", "checked"),
    [
        ({"not": {"required": ["a"]}}, ["#/not"]),
        ({"not": False, "if": {"minimum": 2}}, []),
        ({"if": {"properties": {"k": {"const": "a"}}}, "then": {"required": ["b"]}}, ["#/if"]),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}, ["#/oneOf"]),
        ({"oneOf": [{"type": "string"}, {"const": 1}, {"enum": [2, 3]}]}, []),
        ({"oneOf": [{"multipleOf": 2}, {"maximum": 5}]}, ["#/oneOf"]),
        ({"oneOf": [{"type": "integer"}, {"type": "string", "not": {"pattern": "a"}}]}, ["#/oneOf/1/not"]),
        ({"properties": {"a/b": {"uniqueItems": True}}}, ["#/properties/a~1b/uniqueItems"]),
        ({"uniqueItems": True, "maxItems": 1}, []),
        ({"properties": {"a": {}}, "required": ["a"], "minProperties": 2}, []),
        ({"properties": {"a": {}}, "minProperties": 1}, ["#/minProperties"]),
        ({"properties": {"a": {}}, "required": ["b"], "minProperties": 1, "maxProperties": 2}, ["#/maxProperties"]),
        ({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {}}, ["#/dependentRequired"]),
        ({"propertyNames": {"enum": ["a", "b"]}, "properties": {"a": {}}}, ["#/propertyNames"]),
        ({"format": "regex"}, ["#/format"]),
        ({"format": "uri-reference"}, []),
        ({"unevaluatedProperties": False, "anyOf": [{"properties": {"a": {}}}, {}]}, ["#/unevaluatedProperties"]),
        ({"minContains": 0, "contains": {}}, []),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"pattern": "x"}}, "b": {"contains": {}}}}, ["#/$defs/a/not"]),
        ({"properties": {"a": {"$ref": "#", "minItems": 1}}}, ["#/properties/a/$ref"]),
        ({"patternProperties": {"^a": {}, "^b": {}, "[0-9]{2}$": {}}}, ["#/patternProperties"]),
        ({"patternProperties": {"^a": {}, "^b": {}, "^[0-9]{2}$": {}}}, []),
        ({"allOf": [{"patternProperties": {"^a": {}}}, {"patternProperties": {"b$": {}}}]}, ["#/patternProperties"]),
        ({"allOf": [{"patternProperties": {"^a": {}}}, {"patternProperties": {"^a": {}, "^b": {}}}]}, []),
        ({"anyOf": [{"patternProperties": {"^a": {}}}, {"patternProperties": {"b$": {}}}], "minItems": 1}, []),
        ({"$ref": "#/$defs/a", "patternProperties": {"b": {}}, "$defs": {"a": A_KEYS}}, ["#/patternProperties"]),
        ({"minimum": 10**18, "maximum": 10**19}, ["#/minimum"]),
        ({"exclusiveMaximum": -(10**18), "exclusiveMinimum": -(10**400)}, ["#/exclusiveMaximum"]),
        ({"items": {"multipleOf": 0.07}}, ["#/items/multipleOf"]),
        ({"anyOf": [{"multipleOf": 0.01}, {"multipleOf": 1000}, {"multipleOf": 70_000}]}, ["#/anyOf/2/multipleOf"]),
    ],
)  # fmt: skip
def test_only_what_has_no_exact_form_is_left_to_the_check(document: Any, checked: list[str]) -> None:
    assert list(split_text(json.dumps(document)).checked) == checked


def test_the_import_says_what_is_checked() -> None:
    document = {
        "type": "object",
        "properties": {"a": {"oneOf": [{"multipleOf": 2}, {"maximum": 5}]}},
        "required": ["a"],
    }
    notes = [str(note) for note in type_of_schema(json.dumps(document)).notes]
    assert "#/properties/a/oneOf: is checked after decoding" in notes


def test_what_is_reached_through_definitions_inside_definitions_is_split_too() -> None:
    inner = {"one": {"allOf": [{"type": "string"}, {"if": {"minLength": 3}, "then": {"maxLength": 5}}]}}
    outer = {"names": {"definitions": {**inner, "all": {"items": {"$ref": "#/definitions/names/definitions/one"}}}}}
    middle = {"ways": {"definitions": {"in": {"$ref": "#/definitions/names/definitions/all"}}}}
    way = {"properties": {"a": {"$ref": "#/definitions/ways/definitions/in"}}}
    found = split(parse_json(json.dumps({"definitions": outer | middle, **way})))
    assert found.checked and '"if"' not in json.dumps(found.enforced)
