"""The pieces of a plan with what each of them needs."""

from __future__ import annotations

import networkx

from pastalang.plan.branches import WHOLE
from pastalang.plan.dependencies import Piece, heaviest_path, pieces_of
from tests.plan.programs import field, json_body, named, plan_of

DIAMOND = networkx.DiGraph([("plan", "food"), ("plan", "sights"), ("food", "summary"), ("sights", "summary")])


def test_the_critical_path_is_the_heaviest_way_through() -> None:
    found = heaviest_path(DIAMOND, {"plan": 5, "food": 7, "sights": 9, "summary": 4})
    assert (found.length, found.names) == (18, ("plan", "sights", "summary"))


def test_without_pieces_the_critical_path_is_empty() -> None:
    assert heaviest_path(networkx.DiGraph(), {}).length == 0


def test_a_value_needs_its_key_and_what_it_waits_for_and_nothing_else() -> None:
    plan = plan_of(json_body(field("a"), field("b"), field("c", after=("a",))))
    a, b, c = (named(plan, name).id for name in "abc")
    before = networkx.ancestors(networkx.DiGraph(pieces_of(plan)[1]), Piece(c, (2,)))
    assert Piece(a, (0,)) in before and Piece(a, WHOLE) in before
    assert Piece(b, (0,)) not in before
