"""A document that becomes one hole is checked before the grammar engine reads it."""

from __future__ import annotations

import pytest

from pastalang.check.schemas import document_problem
from pastalang.values.json import JsonValue

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
        ({"items": {"minimun": 1}}, "#/items/minimun: is not a keyword; did you mean `minimum`?"),
        ({"items": {"minLength": -1}}, "#/items/minLength: must be a whole number that is not negative"),
        ({"pattern": "(?!a)"}, "#/pattern: the pattern `(?!a)` cannot be enforced while decoding: look-around"),
    ],
)  # fmt: skip
def test_the_first_problem_is_reported_with_its_pointer(document: JsonValue, problem: str) -> None:
    assert str(document_problem(document)) == problem
