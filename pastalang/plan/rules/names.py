"""What things are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pastalang.plan.plan import Choose, Each, Hole, Plan, Repeat
from pastalang.plan.structure import walk_plan


def fields_have_names_of_their_own(plan: Plan) -> Iterator[str]:
    fields = Counter(
        segment.field for _, _, segment in walk_plan(plan) if isinstance(segment, Hole | Choose | Repeat)
    )  # fmt: skip
    yield from (f"{count} fields are called {name!r}" for name, count in fields.items() if count > 1)


def branches_have_names_of_their_own(plan: Plan) -> Iterator[str]:
    names = Counter(branch.name for branch in plan.branches)
    yield from (f"{count} branches are called {name!r}" for name, count in names.items() if count > 1)


def a_list_that_is_gone_through_exists(plan: Plan) -> Iterator[str]:
    fields = {segment.field for _, _, segment in walk_plan(plan) if isinstance(segment, Hole | Repeat | Choose)}
    for _, _, segment in walk_plan(plan):
        match segment:
            case Each(over=over, over_hole=True) | Repeat(over=str() as over, over_hole=True):
                if not any(over == field or over.startswith(f"{field}.") for field in fields):
                    yield f"nothing writes the list {over!r}"
            case _:
                pass
