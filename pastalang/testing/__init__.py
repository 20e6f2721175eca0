"""Property-test your own programs with Hypothesis. Needs no model and no tokenizer: `pip install pastalang[test]`.

Draw cases with these strategies:

programs()        random checked programs of one template
plans(sources)    plans of your programs, or of random ones, in every mode and overrun policy
runs(plan)        outcomes that the plan allows: every choice, and short lists and values (`max_items`, `max_draws`)
schedules(plan)   which branches pause in which forward pass, and how many take part in one

Then check them. Each check fails with a sentence about what does not hold:

check_plan(plan)                                       every rule of the planner
check_schedule_changes_nothing(plan, run, schedule)    no schedule changes what is drawn, or what a draw sees
check_cells(plan, run, schedule)                       nothing is fed twice, and memory never exceeds what is written

For checks of your own:

sees(program, value, other)        whether a value may see anything of another: `not sees(plan, "headline", "price")`
sees_all(program, value, other)    whether it sees all of it in every run: `sees_all(plan, "headline", "brand")`
execute(plan, run, schedule)       a run under a schedule, with the views of every draw
named_views(plan, executed)        these views under the names of values and branches
"""

from pastalang.testing.runs import (
    Schedule,
    check_cells,
    check_plan,
    check_schedule_changes_nothing,
    execute,
    runs,
    schedules,
)
from pastalang.testing.sight import named_views, sees, sees_all
from pastalang.testing.strategies import plans, programs

__all__ = [
    "Schedule",
    "check_cells",
    "check_plan",
    "check_schedule_changes_nothing",
    "execute",
    "named_views",
    "plans",
    "programs",
    "runs",
    "schedules",
    "sees",
    "sees_all",
]
