"""A nested value is marked as truncated if the limit ended it, and only then."""

from __future__ import annotations

import json

import pytest

import pastalang
from pastalang import build_plan
from pastalang.plan.branches import Form, Hole
from pastalang.plan.structure import walk_plan
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import tokens_of
from tests.properties.vocabularies import plain_bytes

TYPES = {
    "texts": ("[string](max_tokens=40)", '["a", ', '["a", "b"]'),
    "one long text": ("[string](max_tokens=40)", '["' + "x" * 99, '["xxx"]'),
    "numbers": ("[integer](max_tokens=40)", "[5, ", "[5, 6]"),
    "lists": ("[[integer]](max_tokens=40)", "[[5], ", "[[5], []]"),
    "different texts": ("[string](max_tokens=40, unique=true)", '["' + "x" * 99, '["a", "b"]'),
    "a map": ("{string: integer}(max_tokens=40)", '{"' + "k" * 99, '{"k": 1}'),
    "anything": ("any(max=40)", '[{"a": [' + "1, " * 99, '{"a": [1]}'),
    "a schema": ('schema("""{"type": "array", "items": {"type": "integer"}}""", max_tokens=40)', "[5, ", "[5, -0]"),
    "a number in a list": ("[number](max_tokens=40)", "[" + "0.1, " * 99, "[0.5]"),
}


def written(source: str, text: str) -> State:
    """By a model that wants to write this, and takes the first token that it may where that is not to be."""
    program = pastalang.compile(f"template t()\nassistant json {{\n  f: {source}\n}}\n")
    hole = next(one for _, _, one in walk_plan(build_plan(program.only_template, program)) if isinstance(one, Hole))
    guide = compile_guide(hole.type, form=Form.JSON, follow="\n}", vocabulary=plain_bytes())
    state = guide.start(max_tokens=hole.max_tokens)
    while not state.is_finished:
        wanted = (text + "\n}").encode()[len(state.text) :][:1]
        allowed = tokens_of(state.allowed())
        state.advance(wanted[0] if wanted and wanted[0] in allowed else int(allowed[0]))
    return state


@pytest.mark.parametrize(("type", "endless", "short"), TYPES.values(), ids=TYPES)
def test_only_a_value_that_the_limit_ended_is_truncated(type: str, endless: str, short: str) -> None:
    cut = written(type, endless * 40)
    assert cut.truncated and json.loads(cut.text), cut.text
    whole = written(type, short)
    assert whole.text == short and not whole.truncated


@pytest.mark.parametrize("text", ["[5, -0, 7]", "[5, -0.0, 7]", "-0", "[1e9, 2E+5, 3e-7]"])
def test_numbers_that_readers_accept_are_written_unchanged(text: str) -> None:
    found = written("any(max=60)", text)
    assert found.text == text and not found.truncated


@pytest.mark.parametrize("type", ["any(max=200)", 'schema("{}", max_tokens=200)', 'schema("""{"type": "number"}""")'])
@pytest.mark.parametrize("text", ["1e400", "-1e999999", "7" * 90, "0." + "3" * 90, "1e-400"])
def test_numbers_that_no_reader_accepts_are_never_written(type: str, text: str) -> None:
    found = written(type, text)
    assert text.startswith(found.text.removesuffix("0")) and not found.truncated, found.text
    assert abs(json.loads(found.text)) < float("inf")
