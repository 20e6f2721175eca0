"""The rules that every plan obeys. Run on every plan that is built; a broken rule is a mistake of ours."""

from __future__ import annotations

from pastalang.plan.plan import Plan


def verify(plan: Plan) -> None:
    assert plan.branches[0].parent is None
