"""JSON Schema in both directions: what is imported is enforced, noted, carried or refused with its pointer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pastalang import NotExpressible, from_schema
from pastalang.program import types as t
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.to_schema import schema_of, schema_text
from pastalang.values.to_source import type_source
from tests.tables import cases_of
from tests.work import calls_of

HERE = Path(__file__).parent


def imported(document: object) -> str:
    found = type_of_schema(json.dumps(document))
    assert not found.types
    return type_source(found.type)


@pytest.mark.parametrize(("document", "source"), cases_of(HERE / "schemas.md"))
def test_a_document_becomes_the_type_that_says_the_same(document: str, source: str) -> None:
    assert imported(json.loads(document)) == source


LONG = [
    ({"type": "string", "pattern": "a" * 2_000}, "#/pattern", "characters"),
    ({"enum": list(range(1_001))}, "#/enum", "the limit is 1000"),
    ({"enum": ["x" * 70_000]}, "#/enum", "the limit is 64000"),
]


@pytest.mark.parametrize(
    ("document", "pointer", "reason"),
    [*cases_of(HERE / "refused-schemas.md"), *((json.dumps(document), *rest) for document, *rest in LONG)],
)
def test_what_cannot_be_enforced_is_refused_with_its_pointer(document: str, pointer: str, reason: str) -> None:
    with pytest.raises(NotExpressible) as refusal:
        type_of_schema(document)
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
        json.dumps({"properties": {f"p{n}": {} for n in range(2_500)}, "patternProperties": {k: {} for k in "p0123"}}),
        json.dumps({"required": [f"p{n}" for n in range(5_000)], "propertyNames": {"anyOf": [{"pattern": "x"}] * 90}}),
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


@pytest.mark.parametrize(("document", "notes"), cases_of(HERE / "schema-notes.md"))
def test_what_a_type_is_narrower_in_is_noted(document: str, notes: str) -> None:
    assert [str(note) for note in type_of_schema(document).notes] == notes.split("<br>")


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


def test_a_tree_ends_where_a_branch_is_left_out() -> None:
    found = type_of_schema('{"type":"object","properties":{"left":{"$ref":"#"}}}')
    left = t.Field("left", t.Union((t.Named("Schema"), t.Null())), default=t.ABSENT)
    assert found.type == t.Named("Schema") and found.types == {"Schema": t.Object((left,))}


def test_a_branch_is_left_out_if_only_the_tree_around_it_may_be_null() -> None:
    left = {"$ref": "#/$defs/node"}
    node = {"type": ["object", "null"], "properties": {"left": left, "right": {"anyOf": [left, {"type": "null"}]}}}
    found = type_of_schema(json.dumps({**left, "$defs": {"node": node}}))
    either = t.Union((t.Named("Node"), t.Null()))
    fields = (t.Field("left", either, default=t.ABSENT), t.Field("right", either))
    assert found.types == {"Node": t.Union((t.Object(fields, name="Node"), t.Null()))}


@pytest.mark.parametrize("default", [[], [3], [{}]])
def test_a_branch_has_a_default_only_if_no_tree_is_in_it(default: list[object]) -> None:
    """Whether a tree fits is not known before all of its type is."""
    trees = {"type": "array", "items": {"$ref": "#"}, "default": default}
    document = json.dumps({"type": "object", "properties": {"all": trees}, "additionalProperties": False})
    kept = None if default else t.Default("[]")
    found = type_of_schema(document)
    assert found.types == {"Schema": t.Object((t.Field("all", t.Array(t.Named("Schema")), default=kept),))}
    assert [note.text for note in found.notes] == [
        "its default does not fit its type; the key is always written and read"
    ] * bool(default)
    from_schema(document)


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
        "title": "Order", "type": "object", "required": ["name", "size", "when"], "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "maxLength": 5, "description": "who"},
            "size": {"enum": ["S", "L", None]},
            "when": {"type": "string", "format": "date"},
            "n": {"type": "integer", "minimum": 0, "maximum": 9, "default": 3},
        },
    }  # fmt: skip


def test_a_document_inside_a_type_keeps_its_references_to_itself() -> None:
    inner = '{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"null"}}}'
    type = t.Tuple((t.Schema(inner), t.Named("T")))
    text = schema_text(type, {"T": t.Null()})
    assert type_of_schema(text).type == t.Tuple((t.Schema(inner), t.Null()))
