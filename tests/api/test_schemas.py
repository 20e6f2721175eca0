"""JSON Schemas in, values that a validator accepts out; and the schema of an answer."""

from __future__ import annotations

import json
from typing import Any, NotRequired

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, model_validator
from typing_extensions import TypedDict

import pastalang
from tests.api.engines import WARM, hashing, json_program, writing

SCHEMAS: dict[str, Any] = {
    "record": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 6},
            "size": {"enum": ["S", "M", "L", None]},
            "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
        },
        "required": ["name", "size", "count"],
        "additionalProperties": False,
    },
    "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    "unique": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 2, "maxItems": 3},
    "tuple": {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": 3}], "items": False, "minItems": 2},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$", "maxLength": 8},
    "number": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.25},
    "date": {"type": "string", "format": "date"},
    "any of": {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 3, "maximum": 5}]},
    "one of": {"oneOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}]},
    "all of": {"allOf": [{"type": "integer", "minimum": 2}, {"maximum": 4}]},
    "not": {"enum": ["a", "b", "c"], "not": {"const": "a"}},
    "map": {
        "type": "object", "propertyNames": {"pattern": "^[a-z]{1,3}$"}, "additionalProperties": {"type": "boolean"},
        "minProperties": 1, "maxProperties": 2,
    },
    "keys": {
        "type": "object", "properties": {"ax": {"type": "integer"}, "b": {"type": "boolean"}, "c": {}},
        "required": ["ay"], "propertyNames": {"pattern": "^[ab]"}, "patternProperties": {"^a": {"enum": [3, "x"]}},
        "minProperties": 3,
    },
    "left out": {
        "type": "object", "additionalProperties": False, "required": ["a"], "properties": {
            "b": {"type": "integer"}, "a": {"type": "array", "minItems": 2, "maxItems": 2, "items": {
                "type": "object", "properties": {"c": {"enum": ["x", "y"]}}, "additionalProperties": False,
            }}, "d": {"type": "string", "maxLength": 3}, "e": {"type": ["boolean", "null"]},
        },
    },
    "a tree": {
        "type": "object", "additionalProperties": False, "required": ["n"], "properties": {
            "n": {"type": "boolean"}, "left": {"$ref": "#"}, "right": {"$ref": "#"},
        },
    },
    "optional": {"properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "required": ["a"]},
    "reference": {"$ref": "#/$defs/tree", "$defs": {"tree": {
        "type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
        "required": ["left"], "additionalProperties": False,
    }}},
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_answer_is_valid_under_its_schema(name: str) -> None:
    schema = SCHEMAS[name]
    program = pastalang.from_schema(json.dumps(schema))
    for seed in range(3):
        result = hashing(seed).run(program, text="Go.", sampling=WARM, seed=seed, on_truncated="keep")
        jsonschema.Draft202012Validator(schema).validate(json.loads(result.text))
    assert str(pastalang.from_schema(schema).templates) == str(program.templates)


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name not in ("not", "one of")])
def test_a_schema_survives_the_way_through_a_program(name: str) -> None:
    """What the answer's own schema accepts, the schema it was made from accepts too."""
    program = pastalang.from_schema(json.dumps(SCHEMAS[name]))
    again = json.loads(json.dumps(pastalang.schema_of(program), default=float))
    result = hashing(1).run(program, text="Go.", sampling=WARM, on_truncated="keep")
    jsonschema.Draft202012Validator(again).validate(json.loads(result.text))


def test_a_schema_as_a_dict_is_a_type() -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "number", "maximum": 0.1}}}
    engine = writing({'"n": ': "0.1"})
    assert engine.extract(schema, "Go.", examples=[("Zero.", {"n": 0.0})]) == {"n": 0.1}
    assert engine.extract(schema, "Go. " * 40, window=80, details=True).value == {"n": 0.1}
    assert [one.value for one in pastalang.extract_many(schema, ["Go.", "Go."], model=engine)] == [{"n": 0.1}] * 2
    assert [partial.final for partial in engine.stream_model(schema, "Go.")] == [None, {"n": 0.1}]


class Sized(TypedDict):
    c: bool
    b: NotRequired[int]


def test_a_key_that_is_not_given_is_left_out(tmp_path: Any) -> None:
    """In the value, in the text, and for the validator; a field says how sure the model was."""
    program = pastalang.from_schema(json.dumps(SCHEMAS["left out"]))
    engine = writing({'"b": ': "null", '"c": ': "null", '"d": ': "null", '"e": ': "null"})
    seen: list[Any] = []

    class Any_(BaseModel):
        model_config = ConfigDict(extra="allow")

        @model_validator(mode="before")
        @classmethod
        def see(cls, given: Any) -> Any:
            seen.append(given)
            return given

    for mode in ("strict", "sequential"):
        result = engine.run(program, text="Go.", model=Any_, mode=mode, on_truncated="keep")
        assert json.loads(result.text) == seen[-1] == result.exact == {"a": [{}, {}], "e": None}
        assert result.text == "".join(one.text for answer in result.answers for one in answer.stretches)
        places = {field.where: result.text[slice(*field.span)] for field in result.fields}
        assert places["b"] == places["d"] == "" and places["e"] == "null" and result.field("b").confidence > 0
    assert engine.run(program, text="Go.").value == {"a": [{}, {}], "e": None}
    assert writing({'"b": ': "null", '"c": ': "true"}).extract(Sized, "Go.") == {"c": True}
    assert '"b"' not in str(pastalang.schema_of(program)["required"])
    (tmp_path / "t.pasta").write_text("template t()\nassistant json { b: integer = absent, c: boolean }\n", "utf-8")
    with pytest.raises(pastalang.PastaError, match="the model writes null for a key that is left out"):
        pastalang.load(tmp_path / "t.pasta")


def test_a_schema_can_stand_in_a_program(tmp_path: Any) -> None:
    (tmp_path / "size.json").write_text(json.dumps({"enum": ["S", "M"]}), encoding="utf-8")
    (tmp_path / "t.pasta").write_text('template t()\nassistant json { size: schema("size.json") }\n', encoding="utf-8")
    assert writing({'"size": ': '"M"'}).run(tmp_path / "t.pasta").value == {"size": "M"}
    inline = json_program('  size: schema("""{"type": "integer", "minimum": 4, "maximum": 5}""")')
    assert hashing().run(inline).value["size"] in (4, 5)


def test_the_schema_of_an_answer_is_exact() -> None:
    schema = pastalang.schema_of(
        json_program('  a: number(min=0, max=0.1)\n  b: "x" | "y" | null\n  c: [boolean](max=3)')
    )
    written = json.loads(json.dumps(schema, default=float))
    assert list(written["properties"]) == ["a", "b", "c"] and written["additionalProperties"] is False
    valid = jsonschema.Draft202012Validator(written).is_valid
    assert valid({"a": 0.1, "b": None, "c": [True]})
    assert not valid({"a": 0.2, "b": None, "c": []}) and not valid({"a": 0, "b": "z", "c": []}) and not valid({"a": 0})


REFUSED = [
    ('{"type": "strnig"}', "strnig"),
    ('{"propertys": {}}', "properties"),
    ('{"type": "string", "pattern": "(?=a)"}', "look"),
    ('{"$ref": "https://elsewhere.org/a.json"}', "elsewhere"),
    ('{"$ref": "#/$defs/a"}', "a"),
    ('{"type": "object"', "JSON"),
    ('{"minimum": 5, "maximum": 1, "type": "integer"}', "no integer lies between the bounds"),
]


@pytest.mark.parametrize(("schema", "said"), REFUSED, ids=[schema for schema, _ in REFUSED])
def test_a_schema_that_cannot_be_kept_is_refused_by_name(schema: str, said: str) -> None:
    with pytest.raises(pastalang.PastaError, match=said):
        pastalang.from_schema(schema)


def test_steps_that_narrow_a_schema_are_noted() -> None:
    assert pastalang.from_schema('{"type": "object", "properties": {"a": {"type": "boolean"}}}').notes


def test_running_text_has_no_schema_and_no_model() -> None:
    text = pastalang.compile('template t()\nassistant text """{a: string(max=3)}"""')
    with pytest.raises(pastalang.InputError, match="running text"):
        pastalang.schema_of(text)
    with pytest.raises(pastalang.InputError, match="running text"):
        pastalang.model_of(text)


def test_of_several_templates_one_is_named() -> None:
    two = pastalang.compile("template one()\nassistant json {a: boolean}\ntemplate two()\nassistant json {b: boolean}")
    assert list(pastalang.model_of(two, template="two").model_fields) == ["b"]
    with pytest.raises(pastalang.InputError, match="several templates"):
        pastalang.schema_of(two)
