"""A plan as callers have it: its data, its graph, itself in two lines, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pastalang.diagnostics.suggest import first_of
from pastalang.plan.branches import Hole, Placement, PlanData
from pastalang.plan.dependencies import critical_path, dependency_graph
from pastalang.plan.draw.svg import draw_svg
from pastalang.plan.forecast import totals_of
from pastalang.plan.structure import fields_of
from pastalang.plan.token_bounds import Lengths
from pastalang.values.describe import counted

if TYPE_CHECKING:
    import networkx

SHOWN_FIELDS = 6
LONGEST_NAME = 40
MOST_BRANCHES = 500  # of a larger plan the passes are left out: a `repr` must not keep anybody waiting


class Plan(PlanData):
    """The compiled template. It can be printed, drawn, saved and compared."""

    def graph(self) -> networkx.DiGraph:
        """What needs what, as a `networkx.DiGraph` for analysis, drawing and export.

        The nodes are the paths of fields ("brand", "items[].price"), the fields that are choices or lists, the ends of
        lists ("end of items"), and the names of branches that are not fields (`async` blocks, fan-outs). A loop appears
        once, as the pattern of one item. An edge leads from A to B if B needs A: directly, or with nothing but forced
        text between them.

        Every node has the attributes `kind` ("value", "thought", "choice", "list", "end" or "branch"), `branch` (where
        it is written; "main" is the root), `wave` (how many values have to be written one after another until it is
        known, its own included) and `critical` (whether it is on the longest path, with every value at its limit).
        Fields have a `type` in words, and values and thoughts their `max_tokens`.

        It is the graph that the planner itself works on, so it is frozen: change a `copy()` of it.
        """
        return dependency_graph(self)

    def __repr__(self) -> str:
        how = self.mode.value if self.placement is Placement.GAPS else f"{self.mode.value}, {self.placement.value}"
        shown = f"{_cut(self.template)}, {how}: {first_of(_fields(self), SHOWN_FIELDS) or 'nothing is decoded'}"
        return f"<Plan {shown}\n {', '.join(_figures(self))}>"

    def _repr_html_(self) -> str:
        """The drawing of the plan, for notebooks."""
        return draw_svg(self)


def _figures(plan: Plan) -> Iterator[str]:
    count = len(plan.branches)
    yield counted(count, "branch")
    if count > MOST_BRANCHES:
        return
    try:
        passes, draws = critical_path(plan, Lengths()).length, totals_of(plan, Lengths()).draws.high
    except (AssertionError, LookupError, RecursionError):
        yield "broken: `verify` says why"  # a plan made by hand, which must still print while it is being repaired
        return
    yield f"at most {counted(passes, 'pass')}" + (
        f" instead of {draws:,} one value after another" if draws > passes else ""
    )


def _fields(plan: Plan) -> list[str]:
    decided = [segment for _, _, segment in fields_of(plan)]
    return [_cut(one.field) for one in decided if not (isinstance(one, Hole) and one.is_thread)]


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
