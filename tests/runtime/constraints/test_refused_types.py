"""Types and limits that no guide can enforce are refused before anything is decoded, with the place in a schema."""

from __future__ import annotations

import json
import re

import pytest

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import GuideError, NoEndingFits
from tests.runtime.constraints.test_guides import DIGITS, TOKENS, start
from tests.work import calls_of


def test_a_limit_below_the_shortest_value_is_refused_beforehand() -> None:
    with pytest.raises(NoEndingFits):
        start(t.Uuid(), limit=10)


@pytest.mark.parametrize(
    "type",
    [t.Array(t.Union((DIGITS, t.Anything()))), t.Tuple((DIGITS, t.Array(t.Integer())))],
    ids=["beside anything", "beside another array"],
)
def test_items_that_differ_are_refused_by_name_where_they_cannot_be_told_apart(type: t.Type) -> None:
    with pytest.raises(GuideError, match="differ"):
        compile_guide(type, form=Form.JSON, follow="", vocabulary=TOKENS)


@pytest.mark.parametrize(
    "type",
    [
        t.Schema('{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"]}}}'),
        t.Named("endless"),
    ],
)  # fmt: skip
def test_a_type_that_requires_itself_is_refused_at_once(type: t.Type) -> None:
    endless = t.Object((t.Field("next", t.Named("endless")),))

    def compile() -> None:
        with pytest.raises(GuideError, match="requires itself"):
            compile_guide(type, form=Form.JSON, follow="", vocabulary=TOKENS, types={"endless": endless})

    assert calls_of(compile) < 100_000


def test_a_hostile_schema_is_refused_with_its_place() -> None:
    with pytest.raises(GuideError, match="/properties/a"):
        start(t.Schema('{"type":"object","properties":{"a":{"type":"string","pattern":"((a{0,100}){0,100}){0,100}"}}}'))


_EMPTY = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 4}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (_EMPTY, "/properties/a"),
        ({"type": "array", "items": _EMPTY, "minItems": 1}, "/items/properties/a"),
        ({"$defs": {"n/m": {"multipleOf": 0, "type": "number"}}, "$ref": "#/$defs/n~1m"}, "/$defs/n~1m"),
    ],
)  # fmt: skip
def test_what_the_grammar_refuses_is_refused_with_its_place(schema: dict[str, object], place: str) -> None:
    with pytest.raises(GuideError, match=f"at `{re.escape(place)}"):
        start(t.Schema(json.dumps(schema)))


@pytest.mark.parametrize("type", [t.Schema("[" * 200), t.Regex("a" * 2_000), t.String(pattern="(?=a)")])
def test_what_cannot_be_read_is_refused(type: t.Type) -> None:
    with pytest.raises(GuideError):
        start(type)
