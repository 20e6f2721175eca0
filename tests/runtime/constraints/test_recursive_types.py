"""Types that name one another in any way cost work in proportion to their text, and every walk over them ends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import build_plan, check_source
from pastalang.plan.branches import Form, Hole
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import GuideError
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.values.lengths import first_characters
from pastalang.values.one_hole import ambiguous_items, unique_places
from tests.work import calls_of

TOKENS = Tokens(vocabulary_of(byte_tokenizer()))
COUNT = 10  # of types; a walk that follows every path between so many never ends
CALLS_PER_LINK = 3_000
LINKS = ("{} | null", "[{}]", "[{}](unique=true)", "{{string: {}}}", "[{} | null, {} | null]", "{{ x: {} }} | null")
SHAPES = ("{{ {} }}", "[{}]", "{}")


@st.composite
def circles(draw: st.DrawFn) -> tuple[str, int]:
    """A program whose types all name one another, and how many such links it has."""
    lines = []
    for number in range(COUNT):
        shape = draw(st.sampled_from(SHAPES))
        links = [draw(st.sampled_from(LINKS)).replace("{}", f"T{other}").format() for other in range(COUNT)]
        if shape == SHAPES[0]:
            inside = ", ".join(f"k{other}: {link}" for other, link in enumerate(links))
        else:  # without an object or a list around it, a type names only those after it, or itself inside a list
            names = range(number + 1, COUNT) if shape == SHAPES[2] else range(COUNT)
            inside = " | ".join(dict.fromkeys([f"[T{number}]", "null", *(f"T{other}" for other in names)]))
        lines.append(f"type T{number} = " + shape.format(inside))
    body = 'template x(q: text)\n\nuser """\n{q}\n"""\nassistant json { a: T0, b: [T1], c: boolean }\n'
    return "\n".join([*lines, "", body]), COUNT * COUNT


@settings(max_examples=6)
@given(circles())
def test_the_work_for_types_that_name_one_another_follows_their_text(drawn: tuple[str, int]) -> None:
    text, links = drawn
    calls_of(
        lambda: _compile("template x(q: text)\nuser {}\nassistant json {{ a: [integer] }}".format('"""\n{q}\n"""'))
    )
    assert calls_of(lambda: _compile(text)) < CALLS_PER_LINK * links


def _compile(text: str) -> None:
    """Check, plan, and make the guides, or the reason why there are none."""
    program, _ = check_source(text)
    if program is None:
        return
    plan = build_plan(program.templates["x"], program)
    for hole in (part for branch in plan.branches for part in branch.segments if isinstance(part, Hole)):
        try:
            compile_guide(hole.type, form=Form.JSON, follow=",", vocabulary=TOKENS, types=dict(plan.types))
        except GuideError:
            continue


@pytest.mark.parametrize("link", ["{} | null", "[{}]", "[{}](unique=true)"])
def test_objects_that_refer_to_one_another_have_values(link: str) -> None:
    fields = [", ".join(f"k{other}: {link.format(f'T{other}')}" for other in range(4)) for _ in range(4)]
    text = "\n".join(f"type T{number} = {{ {inside} }}" for number, inside in enumerate(fields))
    program, found = check_source(f'{text}\n\ntemplate x()\nuser """\nHi\n"""\nassistant json T0\n')
    assert program is not None, found
    assert compile_guide(t.Named("T0"), form=Form.JSON, follow="", vocabulary=TOKENS, types=program.types).shortest < 80


def test_items_differ_inside_recursive_types() -> None:
    node = t.Object((t.Field("tags", t.Array(t.Boolean(), unique=True)), t.Field("below", t.Array(t.Named("Node")))))
    types = {"Node": node}
    places = unique_places(t.Named("Node"), types)
    for depth in range(3):
        around = ("below", None) * depth
        assert places.must_differ((*around, "tags")) and not places.must_differ((*around, "below"))
    guide = compile_guide(t.Named("Node"), form=Form.JSON, follow="", vocabulary=TOKENS, types=types)
    right = {"tags": [True, False], "below": [{"tags": [True], "below": []}]}
    assert guide.takes(json.dumps(right))
    assert not guide.takes(json.dumps(right).replace("[true]", "[true, true]"))


def test_keys_of_an_object_and_of_a_map_may_stand_at_the_same_place() -> None:
    unique, plain = t.Array(t.Boolean(), unique=True), t.Array(t.Boolean())
    named = t.Object((t.Field("a", unique),))
    assert ambiguous_items(t.Tuple((named, t.Object((t.Field("b", plain),))))) is None
    assert ambiguous_items(t.Tuple((named, t.Map(unique)))) is None
    assert "items may repeat may stand as well" in str(ambiguous_items(t.Tuple((named, t.Map(plain)))))


def test_a_type_begins_as_its_alternatives_do() -> None:
    types: dict[str, t.Type] = {f"T{n}": t.Union((t.Named(f"T{n + 1}"), t.Named(f"T{n + 2}"))) for n in range(60)}
    types |= {"T60": t.Boolean(), "T61": t.Null()}
    assert first_characters(t.Named("T0"), types) == frozenset("tfn")
