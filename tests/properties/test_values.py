"""One meaning, many spellings: a type, its JSON Schema, its source and its Pydantic model take the same values."""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, create_model

from pastalang import NotExpressible, check_source
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.values.conversion import Converted
from pastalang.values.fit import document_mismatches, find_mismatches, read, to_python, without_absent
from pastalang.values.json import JsonValue, NotJson, parse_json, write_json
from pastalang.values.pydantic.from_core import type_of_model
from pastalang.values.pydantic.to_model import model_of
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.to_schema import schema_text
from pastalang.values.to_source import program_source
from tests.properties.hole_types import ANY_VALUE, NAMED, TYPES, near

TYPES_AND_VALUES = TYPES.flatmap(lambda type: st.tuples(st.just(type), st.lists(near(type), min_size=1, max_size=5)))


def takes(model: type[BaseModel], value: JsonValue) -> bool:
    try:
        model.model_validate_json(write_json(value))
    except ValidationError:
        return False
    return True


def through_source(found: Converted) -> Converted:
    """The type as the checker reads it from the text that we write for it."""
    text = program_source(found, name="record")
    program, diagnostics = check_source(text)
    problems = [finding for finding in diagnostics if finding.is_error]
    assert program is not None and not problems, (text, problems)
    body = program.only_template.messages[-1].body
    assert isinstance(body, JsonBody)
    return Converted(body.type, program.types)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


@given(ANY_VALUE)
def test_writing_and_reading_json_gives_the_value_back(value: JsonValue) -> None:
    assert parse_json(write_json(value)) == value


@given(st.text(alphabet='[]{}",:0123456789.-+eE truefalsn\\u\n', max_size=12))
def test_what_is_read_is_what_the_standard_library_reads_and_less(text: str) -> None:
    try:
        value = parse_json(text)
    except NotJson:
        return
    assert json.loads(text) == value or "." in text or "e" in text.lower()


@given(TYPES_AND_VALUES)
def test_a_type_takes_what_its_json_schema_takes(example: tuple[t.Type, list[JsonValue]]) -> None:
    type, values = example
    validator = Draft202012Validator(json.loads(schema_text(type, NAMED)))
    for value in values:
        text = write_json(value)
        assert read(text, type, NAMED).fits == validator.is_valid(json.loads(text)), text


@given(TYPES_AND_VALUES)
def test_a_value_that_fits_has_a_python_value(example: tuple[t.Type, list[JsonValue]]) -> None:
    type, values = example
    for value in values:
        if not find_mismatches(type, value, NAMED):
            to_python(type, value, NAMED)


# ── the same type in other words ─────────────────────────────────────────────────────────────────────────


@given(TYPES_AND_VALUES)
def test_json_schema_and_back_keeps_the_meaning(example: tuple[t.Type, list[JsonValue]]) -> None:
    type, values = example
    again = type_of_schema(schema_text(type, NAMED))
    for value in values:
        assert bool(find_mismatches(type, value, NAMED)) == bool(find_mismatches(again.type, value, again.types)), value


@given(TYPES_AND_VALUES)
def test_a_type_and_its_pydantic_model_take_the_same_values(example: tuple[t.Type, list[JsonValue]]) -> None:
    type, values = example
    model = model_of(type, NAMED)
    for value in values:
        assert takes(model, value) == (not find_mismatches(type, value, NAMED)), value


@given(TYPES_AND_VALUES)
def test_source_and_back_keeps_the_meaning(example: tuple[t.Type, list[JsonValue]]) -> None:
    type, values = example
    # An answer with nothing to decide is refused, so there is always one thing to decide beside the type.
    again = through_source(Converted(t.Object((t.Field("value", type), t.Field("word", t.String()))), NAMED))
    for value in values:
        record: JsonValue = {"value": value, "word": ""}
        assert bool(find_mismatches(type, value, NAMED)) == bool(find_mismatches(again.type, record, again.types)), (
            value
        )


# ── Pydantic models ──────────────────────────────────────────────────────────────────────────────────────


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["leaf"]
    size: int = Field(ge=0, le=3)


class Branch(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["branch"]
    parts: list[Leaf | Branch] = Field(max_length=2)


def lengths(low: int | None, high: int | None) -> Any:
    return Field(min_length=low, max_length=high)


SPAN = st.tuples(st.none() | st.integers(0, 2), st.none() | st.integers(3, 4))
FIELD_SCALARS: st.SearchStrategy[Any] = st.one_of(
    SPAN.map(lambda span: Annotated[str, lengths(*span)]),
    st.sampled_from(["^[a-z]{1,3}$", "a|b", "^A-[0-9]+", "x$"]).map(
        lambda pattern: Annotated[str, Field(pattern=pattern)]
    ),
    SPAN.map(lambda span: Annotated[int, Field(ge=span[0], lt=span[1])]),
    SPAN.map(lambda span: Annotated[float, Field(gt=span[0], le=span[1])]),
    st.integers(1, 4).map(lambda step: Annotated[int, Field(multiple_of=step)]),
    st.sampled_from(
        [
            *(bool, int, float, str, datetime.date, datetime.time, datetime.datetime, uuid.UUID, Color, Any, Leaf),
            *(Branch, Literal["a", "ab", 3], Annotated[Union[Leaf, Branch], Field(discriminator="kind")]),  # noqa: UP007
        ]
    ),
)


def field_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(inner, SPAN).map(lambda given: Annotated[list[given[0]], lengths(*given[1])]),  # type: ignore[name-defined]
        inner.map(lambda item: Optional[item]),  # noqa: UP045
        st.tuples(inner, inner).map(lambda items: tuple[items]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda arms: Union[arms]),  # noqa: UP007
        inner.map(lambda value: dict[str, value]),  # type: ignore[valid-type]
    )


FIELDS = st.recursive(FIELD_SCALARS, field_containers, max_leaves=4)


@st.composite
def models(draw: st.DrawFn) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for at, annotation in enumerate(draw(st.lists(FIELDS, min_size=1, max_size=4))):
        alias = draw(st.sampled_from([None, f"key-{at}", f"Key {at}"]))
        optional = draw(st.booleans())
        about = Field(default=None, alias=alias) if optional else Field(alias=alias)
        fields[f"field_{at}"] = (Optional[annotation] if optional else annotation, about)  # noqa: UP045
    return create_model("Record", __config__=ConfigDict(extra="forbid"), **fields)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(models(), st.data())
def test_a_model_its_type_its_source_and_its_model_again_take_the_same_values(
    model: type[BaseModel], data: st.DataObject
) -> None:
    found = type_of_model(model)
    written = through_source(found)
    again = model_of(written.type, written.types, name="Again")
    for value in data.draw(st.lists(near(found.type, found.types), min_size=1, max_size=4)):
        assume(not _is_read_in_several_spellings(value))
        fits = not find_mismatches(found.type, value, found.types)
        assert fits == (not find_mismatches(written.type, value, written.types)), value
        assert fits == takes(again, value), value
        assert fits == takes_strictly(model, value), value


def takes_strictly(model: type[BaseModel], value: JsonValue) -> bool:
    """Without Pydantic's conversions: there `"1"` is an integer too, which no type of ours says."""
    try:
        model.model_validate_json(write_json(value), strict=True)
    except ValidationError:
        return False
    return True


def _is_read_in_several_spellings(value: JsonValue) -> bool:
    """UUIDs in capitals: Pydantic takes them, our types know one spelling. Recorded in docs/pydantic.md."""
    return "ABCDEF" in write_json(value)


@given(st.data())
def test_a_carried_schema_is_read_by_the_validator(data: st.DataObject) -> None:
    document = '{"allOf":[{"type":"integer"},{"minimum":2}]}'
    value = data.draw(near(t.Integer()))
    assert bool(document_mismatches(document, value)) == bool(find_mismatches(t.Integer(minimum=2), value))


# ── hostile documents ────────────────────────────────────────────────────────────────────────────────────

KEYWORDS = [
    "type", "enum", "const", "items", "prefixItems", "properties", "required", "additionalProperties", "anyOf", "oneOf",
    "allOf", "not", "$ref", "$defs", "pattern", "format", "minimum", "maximum", "minLength", "maxItems", "uniqueItems",
    "patternProperties", "propertyNames", "multipleOf", "default", "title", "discriminator", "minItems", "$id",
    "minProperties", "maxProperties", "$dynamicAnchor",
]  # fmt: skip
SCHEMA_LIKE = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 3),
        st.sampled_from(["string", "object", "array", "integer", "#", "#/$defs/a", "#/properties/a", "^a$", "("]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300)
@given(SCHEMA_LIKE)
def test_no_document_makes_the_import_stumble(document: JsonValue) -> None:
    try:
        found = type_of_schema(write_json(document))
    except NotExpressible as refusal:
        assert all(problem.where.startswith("#") and problem.reason for problem in refusal.problems)
    else:
        find_mismatches(found.type, {"a": 1}, found.types)


KEYS = st.sampled_from(["a", "ab", "b", "x-1", "ß9", " ", "\x1c", ""])
SEARCHES = st.sampled_from(["^a", "b$", "^[a-z]+$", "^x-", r"^\w+$", r"\d", r"\W", r"^\S*$", "-|b", ".", "^$", "9"])
KINDS: list[Any] = [True, False, {}, {"type": "null"}, {"type": "integer"}, {"type": ["number", "null"]}]
KINDS += [{"type": "integer", "maximum": 2}, {"minimum": 0}, {"type": "integer", "default": 1}, {"enum": [1, None]}]
OF_KEYS = st.sampled_from([*KINDS, {"const": 1}, {"$ref": "#/$defs/d"}])
NAMES = SEARCHES.map(lambda search: {"pattern": search}) | st.sampled_from(
    [True, {"minLength": 2}, {"enum": ["a", "b"]}, {"not": {"const": "a"}}, {"$ref": "#/$defs/k"}]
)
RECORDS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(KEYS, OF_KEYS, max_size=4)},
    optional={
        "required": st.lists(KEYS, max_size=2, unique=True), "additionalProperties": OF_KEYS, "propertyNames": NAMES,
        "patternProperties": st.dictionaries(SEARCHES, OF_KEYS, max_size=2), "minProperties": st.integers(0, 3),
        "maxProperties": st.integers(0, 3), "$defs": st.just({"d": {"type": "integer"}, "k": {"maxLength": 1}}),
    },
)  # fmt: skip


@settings(max_examples=300)
@given(SCHEMA_LIKE | RECORDS | RECORDS, st.data())
def test_what_an_imported_type_takes_the_schema_takes(document: JsonValue, data: st.DataObject) -> None:
    try:
        found = type_of_schema(write_json(document))
    except NotExpressible:
        return
    for value in data.draw(st.lists(ANY_VALUE | near(found.type, found.types), max_size=4)):
        if not find_mismatches(found.type, value, found.types):
            read = without_absent(found.type, value, found.types)
            assert document_mismatches(write_json(document), read) == ()


@pytest.mark.long
@given(TYPES_AND_VALUES)
def test_all_spellings_agree_on_many_types(example: tuple[t.Type, list[JsonValue]]) -> None:
    test_a_type_takes_what_its_json_schema_takes.hypothesis.inner_test(example)  # type: ignore[attr-defined]
    test_json_schema_and_back_keeps_the_meaning.hypothesis.inner_test(example)  # type: ignore[attr-defined]
    test_a_type_and_its_pydantic_model_take_the_same_values.hypothesis.inner_test(example)  # type: ignore[attr-defined]
    test_source_and_back_keeps_the_meaning.hypothesis.inner_test(example)  # type: ignore[attr-defined]


def test_root_models_are_models_too() -> None:
    assert type_of_model(RootModel[list[int]]).type == t.Array(t.Integer())
    assert type_of_model(dict[str, Decimal]).type == t.Map(t.Number())
