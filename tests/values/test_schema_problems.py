"""A document that becomes one hole is checked before the grammar engine reads it."""

from __future__ import annotations

import pytest

from pastalang.check.built_in_types import document_problem
from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import GuideError
from pastalang.values.json import JsonValue, write_json
from pastalang.values.schema.split import split_text
from tests.properties.vocabularies import plain_bytes
from tests.work import counted

OPTIONAL_TREE: JsonValue = {"type": "object", "properties": {"left": {"$ref": "#"}}}


@pytest.mark.parametrize(
    "document",
    [
        True,
        {},
        {"x-mine": {"not": 1}, "_format": "x", "format": "colour"},
        {"type": "string"},
        OPTIONAL_TREE,
        {"allOf": [{"minLength": 1}, {"pattern": "a"}], "uniqueItems": False},
        {"items": {"contains": {}}, "prefixItems": [{"not": {"type": "null"}}], "uniqueItems": True},
    ],
)
def test_a_document_that_can_be_enforced_has_no_problem(document: JsonValue) -> None:
    assert document_problem(document) is None


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (False, "#: `false` accepts no value"),
        ({"$ref": "#"}, "#/$ref: `#` refers to itself"),
        ({**OPTIONAL_TREE, "required": ["left"]}, "#: requires itself, so no value can end"),  # type: ignore[dict-item]
        ({"items": {"divisibleBy": 2}}, "#/items/divisibleBy: is a keyword of an old draft; use `multipleOf`"),
        ({"anyOf": [{"format": "idn-email"}]}, "#/anyOf/0/format: the format idn-email cannot be enforced"),
        ({"formatMinimum": "2024"}, "#/formatMinimum: is not a keyword of JSON Schema; use `pattern`"),
        ({"items": {"minimun": 1}}, "#/items/minimun: is not a keyword; did you mean `minimum`?"),
        ({"items": {"minLength": -1}}, "#/items/minLength: must be a whole number that is not negative, not -1"),
        ({"pattern": "(?!a)"}, "#/pattern: the pattern `(?!a)` cannot be enforced while decoding: look-around"),
    ],
)  # fmt: skip
def test_the_first_problem_is_reported_with_its_pointer(document: JsonValue, problem: str) -> None:
    assert str(document_problem(document)) == problem


def _fields(target: str, names: str) -> JsonValue:
    return {"type": "object", "required": [*names], "properties": {name: {"$ref": target} for name in names}}


def _nested(levels: int, arms: int) -> JsonValue:
    inner: JsonValue = {"minimum": 1}
    for level in range(levels):
        inner = {"oneOf": [{"properties": {f"p{level}{arm}": inner}} for arm in range(arms)]}
    return inner


_WAYS: list[JsonValue] = [{"required": ["x"]}, {"required": ["y"]}, {"required": ["z"]}]
_TREES: dict[str, JsonValue] = {"a": _fields("#/$defs/a", "abcdefgh"), "b": _fields("#/$defs/b", "abcdefgh")}
_MESH: dict[str, JsonValue] = {
    f"a{n}": {"oneOf": [_fields(f"#/$defs/a{other}", f"{other}") for other in range(9)]} for n in range(9)
}
_CHAIN: dict[str, JsonValue] = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(3_000)}
_ONES: list[JsonValue] = [{"required": [name]} for name in ("min", "minimum", "least")]
_NEITHER: JsonValue = {"not": {"oneOf": [*_ONES, {"required": ["min", "minimum", "least"]}]}}
_SCALES: JsonValue = {
    "type": "object",
    "properties": {
        f"p{n}": {"oneOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9]+$"}]} for n in range(9)
    },
    "allOf": [{"oneOf": [*_ONES, _NEITHER]}, {"oneOf": [{"required": ["max"]}, {"required": ["most"]}, _NEITHER]}],
}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"items": {"allOf": [{"anyOf": _WAYS} for _ in range(12)]}}, "#/items: has more than 200,000 parts"),
        ({"$ref": "#/$defs/a0", "$defs": {**_CHAIN, "a3000": {}}}, "#/$ref: leads through more than 64 references"),
        ({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": _TREES}, "#: requires itself"),
        (_nested(5, 4), None),
        (_SCALES, None),
        ({"$ref": "#/$defs/a0", "$defs": _MESH}, None),
    ],
    ids=["alternatives", "references", "two trees", "alternatives inside others", "keys that exclude others", "a mesh"],
)  # fmt: skip
def test_no_schema_takes_more_than_a_bounded_number_of_steps(document: JsonValue, problem: str | None) -> None:
    """Whether it can be enforced or not. Some of these took minutes, and one a crash of the grammar engine."""

    def compiled() -> str | None:
        if (mismatch := document_problem(document)) is not None:
            return str(mismatch)
        text = write_json(document)
        assert len(write_json(split_text(text).enforced)) < 500_000
        try:
            compile_guide(t.Schema(text), form=Form.JSON, follow="", vocabulary=plain_bytes())
        except GuideError as refused:
            assert "panic" not in str(refused)
        return None

    found, calls = counted(compiled)
    assert (found is None) == (problem is None) and (found or "").startswith(problem or "")
    assert calls < 2_000_000
