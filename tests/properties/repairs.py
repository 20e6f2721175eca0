"""Strategies for answers that are decoded again: programs in which values wait, nest and repeat, and cases of these."""

from __future__ import annotations

from hypothesis import strategies as st

import pastalang
from tests.properties.cases import SEEDS, TEXTS, Case, planned, samplings
from tests.properties.models import KINDS, WORDS
from tests.properties.wishes import wishes

VALUES = (
    "string(max=4)",
    "integer(0..99)",
    '"tv" | "phone" | null',
    "{ x: integer(0..9), y: string(max=3) } | null",
    "{ x: integer(0..9), y: { z: integer(0..9) } }",
    "[{ n: string(max=3), m: integer(0..9), s: integer(0..9) after m }](max=3)",
    '["a" | "b"](max=3, max_tokens=20)',
)
LIST = """l: [{ n: integer(0..2), m: integer(0..9) }](1..4)
  w: string(max=3) after l"""
LIST_WITH_WAITS = """l: [{ n: integer(0..2), m: integer(0..9), s: integer(0..3) after m }](1..4)
  w: string(max=3) after l
  q: integer(0..9) after w"""
GROUP = """sequential { a: integer(0..9), o: { x: integer(0..9) } | null, b: integer(0..5), c: integer(7..7) }
  w: integer(0..9) after c"""
OBJECT = """o: { x: integer(0..9), l: [{ n: integer(0..2), m: integer(0..9) }](1..3), y: integer(0..9) after x } | null
  w: string(max=3) after o"""
FORWARD = """w: integer(0..99) after v
  o: { p: integer(0..9) after u, t: string(max=3), u: integer(0..2) } after v
  v: integer(0..9)"""
SHAPES = (LIST, LIST_WITH_WAITS, GROUP, OBJECT, FORWARD)


def program(fields: str) -> pastalang.Program:
    return pastalang.compile(f'template t()\nuser """\nGo.\n"""\nassistant json {{\n  {fields}\n}}\n')


def stack(fields: str) -> pastalang.Program:
    return pastalang.compile(
        f'template t(each title: text)\nuser """\n{{title}}\n"""\nassistant json {{\n  {fields}\n}}\n'
    )


@st.composite
def fields(draw: st.DrawFn) -> str:
    """Members of an object, some of which wait for others, some of which stand in a group."""
    count = draw(st.integers(1, 5))
    lines: list[str] = []
    for number in range(count):
        waits = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=2)) if number else []
        after = f" after {', '.join(f'f{one}' for one in waits)}" if waits else ""
        lines.append(f"f{number}: {draw(st.sampled_from(VALUES))}{after}")
    if draw(st.booleans()):
        lines.append("sequential { g0: integer(0..99), g1: string(max=3), g2: integer(0..9) }")
    return "\n  ".join(lines)


@st.composite
def repaired_cases(draw: st.DrawFn, *, stacked: bool = False) -> Case:
    """A share of everything is objected to, so there are several rounds in most of them."""
    plan = draw(planned(st.one_of(st.sampled_from(SHAPES), fields()).map(stack if stacked else program)))
    inputs = {"title": draw(st.lists(TEXTS, min_size=2, max_size=4))} if stacked else {}
    kind, words = draw(st.sampled_from(KINDS)), draw(st.sampled_from(sorted(WORDS)))
    return Case(plan, (inputs,), draw(SEEDS), draw(samplings()), kind, words, draw(wishes()))
