"""Every row of the keyword table holds for the import, for reading, and for the guide of the type."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pastalang import NotExpressible
from pastalang.plan.branches import Form
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.masks import allows
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.values.conversion import Converted
from pastalang.values.fit import read
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.schema.keywords import Status, keyword_table, keywords

DOCS = Path(__file__).parents[2] / "docs"
ROWS = {keyword.name: keyword.status for keyword in keywords()}


@cache
def tokens() -> Tokens:
    encoder = Encoder(byte_tokenizer())
    return Tokens(vocabulary_of(byte_tokenizer(), size=encoder.size, ends=encoder.ends, encode=encoder.text))


def guide_takes(found: Converted, value: object) -> bool:
    """Whether the guide of the type lets a model write this value byte by byte, and end there."""
    guide = compile_guide(found.type, form=Form.JSON, follow="", vocabulary=tokens(), types=dict(found.types))
    text = json.dumps(value, ensure_ascii=False)
    state = guide.start(max_tokens=200)
    for token in (*text.encode(), min(tokens().vocabulary.ends)):
        if state.is_finished:
            break
        if not allows(state.allowed(), token):
            return False
        state.advance(token)
    return state.is_finished and state.text == text


def obj(**more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, **more}


INTEGER = {"type": "integer"}
A = {"a": INTEGER}
NEEDS = obj(properties={"a": INTEGER, "b": INTEGER})
# keyword -> documents, each with a value that fits and one that the keyword keeps out
EXAMPLES: dict[str, list[tuple[dict[str, Any], Any, Any]]] = {
    "type": [({"type": "string"}, "a", 1), ({"type": ["integer", "null"]}, None, "a")],
    "enum": [({"enum": ["a", 1, None]}, 1, "b")],
    "const": [({"const": {"a": 1}}, {"a": 1}, {"a": 2})],
    "minLength": [({"type": "string", "minLength": 2}, "😀😀", "a")],
    "maxLength": [({"type": "string", "maxLength": 2}, "😀😀", "abc")],
    "pattern": [
        ({"type": "string", "pattern": "^a+$"}, "aa", "ab"),
        ({"type": "string", "pattern": r"\d"}, "a1", "ab"),
        ({"type": "string", "pattern": r"^(\S|[^\s,]|[\S.])$"}, "é", "\u3000"),
    ],
    "format": [({"type": "string", "format": "date"}, "2024-02-29", "2023-02-29")],
    "minimum": [({"type": "integer", "minimum": 2}, 2, 1), ({"type": "number", "minimum": 0.5}, 0.5, 0.25)],
    "maximum": [({"type": "integer", "maximum": 2}, 2, 3)],
    "exclusiveMinimum": [({"type": "number", "exclusiveMinimum": 2}, 2.5, 2)],
    "exclusiveMaximum": [({"type": "integer", "exclusiveMaximum": 2}, 1, 2)],
    "multipleOf": [({"type": "integer", "multipleOf": 3}, 9, 10), ({"type": "number", "multipleOf": 0.1}, 0.3, 0.35)],
    "items": [({"type": "array", "items": INTEGER}, [1], ["a"])],
    "prefixItems": [
        ({"type": "array", "prefixItems": [INTEGER], "items": False, "minItems": 1}, [1], ["a"]),
        ({"type": "array", "prefixItems": [INTEGER]}, [1, "a"], ["a"]),
    ],
    "additionalItems": [({"type": "array", "items": [INTEGER], "additionalItems": False, "minItems": 1}, [1], [1, 2])],
    "minItems": [({"type": "array", "items": INTEGER, "minItems": 1}, [1], [])],
    "maxItems": [({"type": "array", "items": INTEGER, "maxItems": 1}, [1], [1, 2])],
    "uniqueItems": [({"type": "array", "items": INTEGER, "uniqueItems": True}, [1, 2], [1, 1])],
    "properties": [(obj(properties=A, required=["a"]), {"a": 1}, {"a": "x"})],
    "required": [(obj(properties=A, required=["a"]), {"a": 1}, {})],
    "additionalProperties": [
        (obj(properties=A, required=["a"]), {"a": 1}, {"a": 1, "b": 1}),
        ({"type": "object", "additionalProperties": INTEGER}, {"b": 1}, {"b": "x"}),
    ],
    "patternProperties": [
        (obj(patternProperties={"^x": INTEGER}), {"xa": 1}, {"a": 1}),
        (obj(patternProperties={"^x": INTEGER}, properties={"b": {}, "x": {}}), {"b": 1, "x": 1}, {"b": 1, "x": "a"}),
        (obj(patternProperties={"^x": INTEGER}, required=["xa"]), {"xa": 1}, {"xa": "a"}),
    ],
    "propertyNames": [
        ({"type": "object", "propertyNames": {"pattern": "^x"}}, {"xa": 1}, {"a": 1}),
        ({"type": "object", "propertyNames": {"enum": ["a.b", "c", 1]}}, {"a.b": 1, "c": 2}, {"axb": 1}),
        ({"type": "object", "propertyNames": {"const": "a"}}, {"a": 1}, {"b": 1}),
        ({"type": "object", "propertyNames": {"format": "date"}}, {"2024-02-29": 1}, {"2023-02-29": 1}),
        (obj(propertyNames={"maxLength": 1}, properties={"a": {}, "bc": {}}, required=["a"]), {"a": 1}, {"bc": 1}),
    ],
    "minProperties": [({"type": "object", "additionalProperties": INTEGER, "minProperties": 1}, {"a": 1}, {})],
    "maxProperties": [
        ({"type": "object", "additionalProperties": INTEGER, "maxProperties": 1}, {"a": 1}, {"a": 1, "b": 1})
    ],
    "anyOf": [
        ({"anyOf": [INTEGER, {"type": "null"}]}, None, "a"),
        ({"type": "object", "properties": A, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}, {}),
    ],
    "oneOf": [({"oneOf": [INTEGER, {"type": "null"}]}, None, "a")],
    "allOf": [({"allOf": [INTEGER]}, 1, "a"), ({"allOf": [INTEGER, {"minimum": 3}]}, 3, 2)],
    "$ref": [({"$ref": "#/$defs/a", "$defs": A}, 1, "a"), ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]], [1])],
    "discriminator": [
        (
            {
                "discriminator": {"propertyName": "k"},
                "oneOf": [obj(properties={"k": {"const": kind}}, required=["k"]) for kind in "xy"],
            },
            {"k": "x"},
            {"k": "z"},
        )
    ],
}
CHECKED_EXAMPLES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "dependentRequired": (NEEDS | {"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
    "dependentSchemas": (
        NEEDS | {"dependentSchemas": {"a": {"properties": {"b": {"minimum": 3}}}}}, {"a": 1, "b": 3}, {"a": 1, "b": 2},
    ),
    "dependencies": (NEEDS | {"dependencies": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
    "not": ({"type": "string", "not": {"pattern": "b"}}, "a", "ab"),
    "if": ({"if": {"pattern": "b"}, "then": {"maxLength": 1}}, "aa", "ab"),
    "then": ({"type": "array", "if": {"contains": {"const": 1}}, "then": {"maxItems": 1}}, [2, 2], [2, 1]),
    "else": ({"type": "array", "if": {"contains": {"const": 1}}, "else": {"maxItems": 1}}, [2, 1], [2, 2]),
    "contains": ({"type": "array", "items": INTEGER, "contains": {"minimum": 5}}, [1, 5], [1]),
    "minContains": ({"type": "array", "contains": INTEGER, "minContains": 2}, [1, 5], [1, "a"]),
    "maxContains": ({"type": "array", "contains": INTEGER, "maxContains": 1}, [1, "a"], [1, 1]),
    "unevaluatedProperties": (
        {"type": "object", "unevaluatedProperties": False, "anyOf": [{"properties": A}, {"required": ["b"]}]},
        {"a": 1}, {"c": 1},
    ),
    "unevaluatedItems": (
        {"type": "array", "unevaluatedItems": False, "anyOf": [{"prefixItems": [INTEGER]}, {"minItems": 9}]},
        [1], [1, 1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, status in ROWS.items() if status is Status.ENFORCED])
def test_an_enforced_keyword_is_enforced_by_reading_and_by_the_guide(name: str) -> None:
    for document, right, wrong in EXAMPLES[name]:
        assert name in json.dumps(document)
        found = type_of_schema(json.dumps(document))
        assert read(json.dumps(right), found.type, found.types).fits
        assert not read(json.dumps(wrong), found.type, found.types).fits
        assert guide_takes(found, right)
        assert not guide_takes(found, wrong)


@pytest.mark.parametrize("name", [name for name, status in ROWS.items() if status is Status.CHECKED])
def test_a_checked_keyword_is_noted_and_judged_by_reading(name: str) -> None:
    document, right, wrong = CHECKED_EXAMPLES[name]
    found = type_of_schema(json.dumps(document))
    assert "is checked after decoding" in " ".join(map(str, found.notes))
    assert read(json.dumps(right), found.type, found.types).fits
    assert not read(json.dumps(wrong), found.type, found.types).fits
    assert guide_takes(found, right)


@pytest.mark.parametrize("name", [name for name, status in ROWS.items() if status is Status.REFUSED])
def test_a_refused_keyword_is_refused_by_name_wherever_it_stands(name: str) -> None:
    document = {"type": "object", "properties": {"a": {"type": "array", name: {}}}}
    with pytest.raises(NotExpressible) as refusal:
        type_of_schema(json.dumps(document))
    assert [problem.where for problem in refusal.value.problems] == [f"#/properties/a/{name}"]


@pytest.mark.parametrize("name", [name for name, status in ROWS.items() if status is Status.REMARK])
def test_a_remark_changes_no_type(name: str) -> None:
    plain = type_of_schema('{"type":"string"}').type
    value = {"$defs": {}, "definitions": {}}.get(name, "x")
    assert type_of_schema(json.dumps({"type": "string", name: value})).type == plain
    assert guide_takes(type_of_schema(json.dumps({"allOf": [{"type": "string", name: value}, {}]})), "x")


def test_at_least_the_twenty_five_common_keywords_are_in_the_table() -> None:
    assert sum(status is Status.ENFORCED for status in ROWS.values()) >= 25


def test_the_table_in_the_documentation_is_the_one_that_the_code_writes() -> None:
    assert keyword_table() in (DOCS / "constraints.md").read_text(encoding="utf-8")
