"""What plans, programs and templates print, in a terminal and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pastalang
from pastalang import Mode, Plan
from pastalang.plan.branches import Fork
from pastalang.plan.draw.svg import draw_svg
from pastalang.program import types as t
from tests.plan.programs import field, hole, json_body, plan_of, text, text_body

SOURCE = '''
type Size = {width: number, height: number}

template product(title: text, each review: text)
user """{title}: {review}"""
assistant json {brand: string(max=12), size: Size, headline: string(max=24) after brand}

template note()
user """Go."""
assistant text """Dear {name: string(max=4)}, {words: string(max=9)}"""
'''
PROGRAM = pastalang.compile(SOURCE, name="shop.pasta")


def plan_named(name: str, mode: Mode = Mode.STRICT) -> Plan:
    return pastalang.build_plan(PROGRAM.templates[name], PROGRAM, mode=mode)


def test_a_program_prints_its_file_and_what_it_declares() -> None:
    assert repr(PROGRAM) == (
        "<Program shop.pasta: templates product, note; type Size\n"
        " product(title, each review), JSON with brand, size, headline\n note(), text with name, words>"
    )


def test_a_template_prints_its_inputs_and_what_is_decoded() -> None:
    assert (
        repr(PROGRAM.templates["product"]) == "<Template product(title, each review), JSON with brand, size, headline>"
    )
    assert repr(PROGRAM.templates["note"]) == "<Template note(), text with name, words>"


def test_a_plan_prints_its_fields_and_what_it_saves() -> None:
    assert repr(plan_named("product")) == (
        "<Plan product, strict: brand, size.width, size.height, headline\n"
        " 6 branches, at most 36 passes instead of 60 one value after another>"
    )


def test_a_plan_that_saves_nothing_prints_its_passes_alone() -> None:
    plan = plan_named("note", Mode.SEQUENTIAL)
    assert repr(plan) == "<Plan note, sequential: name, words\n 1 branch, at most 13 passes>"


def test_many_and_long_names_are_cut() -> None:
    plan = plan_of(json_body(*[field(f"a_field_with_the_longest_name_of_them_all_{n}") for n in range(900)]))
    assert "a_field_with_the_longest_name_of_them_a… and 894 more\n 901 branches>" in repr(plan)
    assert len(repr(plan)) < 400


def test_a_broken_plan_still_prints() -> None:
    plan = plan_named("product")
    root = plan.branches[0]
    forks = tuple(segment for segment in root.segments if not isinstance(segment, Fork))
    broken = replace(plan, branches=(replace(root, segments=(*forks, *root.segments[-1:])), *plan.branches[2:]))
    assert "broken" in repr(broken)


def test_a_notebook_shows_the_drawing_of_a_plan() -> None:
    plan = plan_named("product")
    assert plan._repr_html_() == draw_svg(plan)


def test_a_drawing_in_a_notebook_is_data_and_never_markup() -> None:
    hostile = '</title><script>alert("&")</script>'
    json_plan = plan_of(json_body(field(hostile, t.Literal(hostile)), field(f"{hostile} 2")))
    text_plan = plan_of(text_body(text(hostile), hole("it")))
    for plan in (replace(json_plan, template=hostile), text_plan):
        drawn = plan._repr_html_()
        assert "<script" not in drawn
        ElementTree.fromstring(drawn)
