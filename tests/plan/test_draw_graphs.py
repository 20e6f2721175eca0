"""Plans as Mermaid and DOT: parsed back, they say the same branches, forks and joins; no name can break out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pastalang import Plan
from pastalang.plan.draw.graphs import draw_dot, draw_mermaid, edges_of
from pastalang.plan.draw.timeline_builder import build_timeline
from tests.plan import samples
from tests.plan.test_draw_svg import HOSTILE, PLANS

HOSTILE_PLANS = {name: samples.wide(4, name=text) for name, text in HOSTILE.items()}
ALL = {**PLANS, **HOSTILE_PLANS}

# The part of DOT that a lexer needs: strings with escapes, identifiers, numbers, arrows, marks.
DOT_TOKEN = re.compile(r'\s*(?:("(?:[^"\\\n]|\\.)*")|([A-Za-z_]\w*)|(\d+)|(->)|([{}\[\];=,]))')
MERMAID_LINE = re.compile(
    r'  b\d+\["[^"<>\[\]{}|`]*<br/>[^"<>\[\]{}|`]*"\](?::::critical)?'
    r'|  b\d+ -->(?:\|"[^"<>\[\]{}|`]*"\|)? b\d+'
    r"|  b\d+ -\. join \.-> b\d+"
    r"|  classDef critical [^\"]*;"
)


def dot_tokens(text: str) -> Iterator[str]:
    position = 0
    while text[position:].strip():
        match = DOT_TOKEN.match(text, position)
        assert match, f"no token of DOT: {text[position : position + 40]!r}"
        yield match[0].strip()
        position = match.end()


def drawn_edges(plan: Plan) -> list[tuple[str, str]]:
    return [(f"b{edge.start}", f"b{edge.end}") for edge in edges_of(build_timeline(plan))]


@pytest.mark.parametrize("plan", ALL.values(), ids=ALL.keys())
def test_dot_consists_of_statements_about_branches_forks_and_joins(plan: Plan) -> None:
    tokens = list(dot_tokens(draw_dot(plan)))
    assert tokens[0] == "digraph"
    assert tokens[2] == "{"
    assert tokens[-1] == "}"
    assert tokens.count("[") == tokens.count("]") == 2 + len(plan.branches) + len(drawn_edges(plan))
    arrows = [index for index, token in enumerate(tokens) if token == "->"]
    assert [(tokens[index - 1], tokens[index + 1]) for index in arrows] == drawn_edges(plan)


@pytest.mark.parametrize("plan", ALL.values(), ids=ALL.keys())
def test_every_line_of_mermaid_is_a_box_an_arrow_or_a_style(plan: Plan) -> None:
    first, *lines = draw_mermaid(plan).splitlines()
    assert first == "flowchart LR"
    assert [line for line in lines if not MERMAID_LINE.fullmatch(line)] == []
    arrows = [tuple(re.findall(r"\bb\d+\b", line.replace("<br/>", ""))) for line in lines if "->" in line]
    assert arrows == drawn_edges(plan)


def test_mermaid_writes_what_it_could_misread_as_codes() -> None:
    assert '"say #34;cheese#34; #38; #39;smile#39; 1<br/>' in draw_mermaid(HOSTILE_PLANS["quotes"])


def test_dot_escapes_quotes_and_backslashes() -> None:
    drawn = draw_dot(samples.wide(1, name='a"b\\n{}'))
    assert r'label="a\"b\\n1\nstring · 11"' in drawn


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_the_same_plan_gives_the_same_bytes(plan: Plan) -> None:
    assert draw_dot(plan) == draw_dot(plan)
    assert draw_mermaid(plan) == draw_mermaid(plan)
