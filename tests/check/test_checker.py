"""The checker as a whole: what a right program becomes."""

from __future__ import annotations

import pytest

from pastalang import ProgramError, compile
from pastalang.program import types as t
from pastalang.program.program import JsonBody, TextBody

PRODUCT = '''
type Size = { width: number(min=0), unit: "cm" | "in" }

template product(title: text)
user """Title: {title}"""
assistant json {
  brand: string(max=12) | null
  size: Size | null
  headline: string(max=24) after brand
}
'''


def test_a_named_type_is_written_out_where_it_is_used() -> None:
    body = compile(PRODUCT).only_template.messages[-1].body
    assert isinstance(body, JsonBody) and isinstance(body.type, t.Object)
    size = body.type.fields[1].type
    assert isinstance(size, t.Union) and isinstance(size.arms[0], t.Object)
    assert [field.key for field in size.arms[0].fields] == ["width", "unit"]


def test_a_recursive_type_stays_a_name() -> None:
    program = compile("type Tree = {children: [Tree](max=3)}\ntemplate t()\nassistant json Tree")
    body = program.only_template.messages[-1].body
    assert isinstance(body, JsonBody) and body.type == t.Named("Tree")
    assert isinstance(program.types["Tree"], t.Object)


def test_all_problems_of_a_file_come_at_once() -> None:
    with pytest.raises(ProgramError) as caught:
        compile("template t(a: text)\nassistant json {x: strin, x: number(min=2, max=1), y: date after z}")
    assert [one.code for one in caught.value.diagnostics] == [
        "input-never-used",
        "unknown-name",
        "duplicate-field",
        "contradictory-limits",
        "unknown-name",
    ]


def test_the_spans_of_fields_reach_into_named_types() -> None:
    program = compile(PRODUCT)
    assert program.source.slice(program.spans["product.size.width"]) == "width: number(min=0)"
    assert program.source.slice(program.spans["product.brand"]) == "brand: string(max=12) | null"


def test_checking_twice_gives_equal_programs() -> None:
    one, other = compile(PRODUCT), compile(PRODUCT)
    assert (one.types, one.templates, one.spans) == (other.types, other.templates, other.spans)
    assert hash(one.only_template) == hash(other.only_template)


def test_a_sync_names_what_it_waits_for() -> None:
    text = 'template t()\nassistant text """\n{async a: string} {async b: string} {sync} so: {c: string}\n"""'
    body = compile(text).only_template.messages[-1].body
    assert isinstance(body, TextBody)
    assert [piece.names for piece in body.pieces if hasattr(piece, "names")] == [("a", "b")]
