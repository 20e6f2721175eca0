"""A plan in two lines: what it writes, and how many passes that takes. This is the `repr` of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.plan.dependencies import critical_path
from pastalang.plan.plan import Hole, Placement, Plan
from pastalang.plan.run_bounds import totals_of
from pastalang.plan.structure import fields_of
from pastalang.plan.token_bounds import Lengths
from pastalang.values.describe import counted

SHOWN_FIELDS = 6
LONGEST_NAME = 40
MOST_BRANCHES = 500  # of a larger plan the passes are left out: a `repr` must not keep anybody waiting


def summarise(plan: Plan) -> str:
    how = plan.mode.value if plan.placement is Placement.GAPS else f"{plan.mode.value}, {plan.placement.value}"
    shown = f"{_cut(plan.template)}, {how}: {_listed(_fields(plan))}"
    return f"<Plan {shown}\n {', '.join(_figures(plan))}>"


def _figures(plan: Plan) -> Iterator[str]:
    count = len(plan.branches)
    yield f"{count:,} branch" if count == 1 else f"{count:,} branches"
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


def _listed(names: list[str]) -> str:
    if not names:
        return "nothing is decoded"
    rest = len(names) - SHOWN_FIELDS
    return ", ".join(names[:SHOWN_FIELDS]) + (f" and {rest:,} more" if rest > 0 else "")


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
