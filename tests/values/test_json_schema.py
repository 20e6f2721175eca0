"""JSON Schema in both directions: what is imported is enforced, noted, carried or refused with its pointer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pastalang import NotExpressible
from pastalang.program import types as t
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.to_schema import schema_of, schema_text
from pastalang.values.to_source import type_source
from tests.work import calls_of


def imported(document: object) -> str:
    found = type_of_schema(json.dumps(document))
    assert not found.types
    return type_source(found.type)


@pytest.mark.parametrize(
    ("document", "source"),
    [
        ({}, "any"),
        ({"type": "string"}, "string"),
        ({"type": "string", "minLength": 1, "maxLength": 5}, "string(min_chars=1, max_chars=5)"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "string(pattern=/[a-z]+/)"),
        ({"type": "string", "pattern": "^a|b$"}, r"string(pattern=/a[\s\S]*|[\s\S]*b/)"),
        ({"type": "string", "format": "email"}, 'string(format="email")'),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "uuid"}, "uuid"),
        ({"type": "string", "format": "date-time"}, 'string(format="date-time")'),
        ({"type": "integer", "minimum": 0.5, "maximum": 9}, "integer(1..9)"),
        ({"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5}, "integer(above=0, multiple_of=5)"),
        ({"type": "number", "minimum": 0.1, "multipleOf": 0.01}, "number(min=0.1, multiple_of=0.01)"),
        ({"type": ["string", "null"], "maxLength": 3}, "string(max_chars=3) | null"),
        ({"type": ["integer", "number"]}, "number"),
        ({"const": "x"}, '"x"'),
        ({"const": [1, {"a": None}]}, "[1, { a: null }]"),
        ({"enum": ["a", 1, None, True]}, '"a" | 1 | null | true'),
        ({"enum": ["a", "bcd", 1], "type": "string", "maxLength": 2}, '"a"'),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, "[integer](1..3)"),
        ({"type": "array", "items": {"type": "null"}, "uniqueItems": True}, "[null](unique=true)"),
        (
            {"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": False, "minItems": 2},
            "[null, boolean]",
        ),
        ({"type": "array", "items": [{"type": "null"}, True], "additionalItems": False, "minItems": 2}, "[null, any]"),
        ({"type": "object"}, "{string: any}"),
        ({"type": "object", "additionalProperties": {"type": "null"}, "maxProperties": 2}, "{string: null}(max=2)"),
        (
            {"type": "object", "patternProperties": {"^x-": {"type": "null"}}, "additionalProperties": False},
            r"{/x-[\s\S]*/: null}",
        ),
        ({"type": "object", "propertyNames": {"pattern": "^[a-z]$"}}, "{/[a-z]/: any}"),
        (
            {"type": "object", "properties": {"a": {"type": "null", "description": "no a"}}, "required": ["a"]},
            '{ a: null "no a" }',
        ),
        ({"type": "object", "properties": {"a": {"type": "null", "default": None}}}, "{ a: null = null }"),
        ({"type": "object", "required": ["b"], "additionalProperties": {"type": "null"}}, "{ b: null }"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"oneOf": [{"type": "integer"}, {"enum": ["a", None]}]}, 'integer | "a" | null'),
        ({"oneOf": [{"const": 1}, {"const": True}, {"const": "x"}]}, '1 | true | "x"'),
        ({"allOf": [{"type": "string"}], "description": "wrapped"}, "string"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, "null"),
        ({"type": "string", "title": "T", "examples": ["x"], "$comment": "c", "deprecated": True}, "string"),
    ],
)
def test_a_document_becomes_the_type_that_says_the_same(document: object, source: str) -> None:
    assert imported(document) == source


@pytest.mark.parametrize(
    ("document", "pointer", "reason"),
    [
        (False, "#", "`false` accepts no value"),
        ({"not": {}}, "#/not", "refuses every value"),
        ({"type": "object", "properties": {"a": {"minLenght": 1}}}, "#/properties/a/minLenght", "did you mean"),
        ({"type": "thing"}, "#/type", '"thing" does not name types'),
        ({"type": "string", "format": "idn-email"}, "#/format", "the format idn-email cannot be enforced"),
        ({"type": "string", "pattern": "(?=a)"}, "#/pattern", "look-around"),
        ({"type": "string", "pattern": r"(a)\1"}, "#/pattern", "back-reference"),
        ({"type": "string", "pattern": "a" * 2_000}, "#/pattern", "characters"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "#/minLength", "more than `maxLength`"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "#/minItems", "more than `maxItems`"),
        ({"type": "integer", "minimum": 5, "maximum": 4}, "#/minimum", "no integer lies between"),
        ({"type": "integer", "minimum": 1, "maximum": 4, "multipleOf": 5}, "#/minimum", "no integer lies between"),
        ({"type": "integer", "multipleOf": 0.5}, "#/multipleOf", "an integer cannot be limited to multiples of 0.5"),
        ({"type": "number", "exclusiveMinimum": 1, "maximum": 1}, "#/exclusiveMinimum", "no number lies between"),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, "#/exclusiveMinimum", "draft 4"),
        ({"type": "number", "multipleOf": 0}, "#/multipleOf", "above 0"),
        ({"enum": []}, "#/enum", "an empty enum"),
        ({"enum": ["a"], "type": "integer"}, "#/enum", "no value that the other keywords accept"),
        ({"enum": list(range(1_001))}, "#/enum", "the limit is 1000"),
        ({"enum": ["x" * 70_000]}, "#/enum", "the limit is 64000"),
        ({"$ref": "#"}, "#/$ref", "refers to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "#/$ref", "refers to itself"),
        ({"$ref": "https://example.org/s.json"}, "#/$ref", "nothing is fetched"),
        ({"$ref": "other.json#/a"}, "#/$ref", "nothing is fetched"),
        ({"$ref": "#/$defs/nowhere"}, "#/$ref", "points to nothing"),
        ({"$ref": "#/parts/a", "parts": {"a": {}}}, "#/$ref", "which is not a keyword; use `$defs`"),
        ({"$ref": "#name"}, "#/$ref", "is an anchor"),
        ({"$dynamicRef": "#x"}, "#/$dynamicRef", "dynamic reference"),
        ({"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}, "#", "requires itself"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "#/required", "'a'"),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "#/properties/a", "accepts no value"),
    ],
)  # fmt: skip
def test_what_cannot_be_enforced_is_refused_with_its_pointer(document: Any, pointer: str, reason: str) -> None:
    with pytest.raises(NotExpressible) as refusal:
        type_of_schema(json.dumps(document))
    assert [problem.where for problem in refusal.value.problems] == [pointer]
    assert reason in refusal.value.problems[0].reason


@pytest.mark.parametrize(
    "document",
    [
        '{"items":' * 5_000 + "{}" + "}" * 5_000,
        '{"items":' * 60 + "{}" + "}" * 60 + "  ",
        json.dumps({"properties": {f"p{at}": {} for at in range(20_000)}}),
        json.dumps({"anyOf": [{"type": "string", "maxLength": at} for at in range(9_000)]}),
        json.dumps({"oneOf": [{"type": "object", "properties": {"k": {"const": at}}} for at in range(999)]}),
        json.dumps({"oneOf": [{"type": "object", "properties": {f"k{at}": {"const": at}}} for at in range(999)]}),
        json.dumps({"type": "string", "pattern": "(a|b)*a(a|b){500}(a*)*{100}"}),
        json.dumps({"type": "string", "pattern": "(" * 900}),
        json.dumps({"$ref": "#/$defs/0", "$defs": {str(at): {"$ref": f"#/$defs/{at + 1}"} for at in range(3_000)}}),
        json.dumps({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}),
        '{"type":"integer","minimum":1e9999999}',
        '{"type":"integer","maximum":' + "9" * 4_000 + "}",
        '{"type":"array","items":{"$ref":"#/items"}}',
        '{"a":1,"a":2}', '{"type": NaN}', "[1]", '"x"', "null", "", "\x00",
    ],
)  # fmt: skip
def test_a_hostile_document_is_answered_after_little_work(document: str) -> None:
    assert calls_of(lambda: _read(document)) < 1_000_000


def _read(document: str) -> None:
    try:
        type_of_schema(document)
    except NotExpressible as refusal:
        assert refusal.problems


def test_what_a_type_is_narrower_in_is_noted() -> None:
    found = type_of_schema(
        '{"type":"object","properties":{"a":{"type":"null"},"b":{"minLength":1,"x-mine":1,"format":"colour"}}}'
    )
    assert [str(note) for note in found.notes] == [
        "#: the schema allows further keys; none are written or read",
        "#/properties/a: the key is optional in the schema; it is always written and read",
        "#/properties/b: `x-mine` is not a keyword of JSON Schema and is ignored",
        "#/properties/b: the schema has no `type`; string is assumed from its keywords",
        "#/properties/b: the format colour is not known and is ignored",
        "#/properties/b: the key is optional in the schema; it is always written and read",
    ]


def test_a_part_for_a_grammar_engine_is_carried_whole_with_its_definitions() -> None:
    document = {
        "type": "object",
        "properties": {"a": {"allOf": [{"$ref": "#/$defs/x"}, {"maxLength": 3}]}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"x": {"type": "string"}},
    }
    found = type_of_schema(json.dumps(document)).type
    assert isinstance(found, t.Object)
    carried = found.fields[0].type
    assert isinstance(carried, t.Schema)
    assert json.loads(carried.document) == {
        "allOf": [{"$ref": "#/$defs/x"}, {"maxLength": 3}],
        "$defs": {"x": {"type": "string"}},
    }


def test_a_tree_whose_branches_may_be_left_out_is_carried_whole() -> None:
    found = type_of_schema('{"type":"object","properties":{"left":{"$ref":"#"}}}')
    assert found.type == t.Schema('{"type":"object","properties":{"left":{"$ref":"#"}}}')


def test_recursive_definitions_become_named_types() -> None:
    found = type_of_schema(
        '{"$ref":"#/$defs/tree node","$defs":{"tree node":{"type":"array","items":{"$ref":"#/$defs/tree node"}}}}'
    )
    assert found.type == t.Named("TreeNode")
    assert found.types == {"TreeNode": t.Array(t.Named("TreeNode"))}


def test_objects_are_told_apart_by_the_key_that_differs() -> None:
    def arm(kind: str) -> dict[str, object]:
        return {
            "type": "object",
            "properties": {"n": {"type": "null"}, "kind": {"const": kind}},
            "required": ["kind", "n"],
        }

    found = type_of_schema(json.dumps({"oneOf": [arm("a"), arm("b")]})).type
    assert isinstance(found, t.Union)
    assert found.discriminator == "kind"


def test_an_exported_schema_says_what_the_type_says() -> None:
    type = t.Object(
        (
            t.Field("name", t.String(max_chars=5), description="who"),
            t.Field("size", t.Union((t.Literal("S"), t.Literal("L"), t.Null()))),
            t.Field("when", t.Temporal(t.Moment.DATE)),
            t.Field("n", t.Integer(0, 9), default=t.Default("3")),
        ),
        name="Order",
    )
    document = schema_of(type)
    date = document["properties"]["when"].pop("pattern")  # type: ignore[index, call-overload, union-attr]
    assert date.startswith("^(?:")  # type: ignore[union-attr]
    assert document == {
        "title": "Order",
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 5, "description": "who"},
            "size": {"enum": ["S", "L", None]},
            "when": {"type": "string", "format": "date"},
            "n": {"type": "integer", "minimum": 0, "maximum": 9, "default": 3},
        },
        "required": ["name", "size", "when"],
        "additionalProperties": False,
    }


def test_a_document_inside_a_type_keeps_its_references_to_itself() -> None:
    inner = '{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"null"}}}'
    type = t.Tuple((t.Schema(inner), t.Named("T")))
    text = schema_text(type, {"T": t.Null()})
    again = type_of_schema(text)
    assert again.type == t.Tuple((t.Schema(inner), t.Null()))
