"""Checks of a plan, a run and a schedule. Each fails with a sentence about what does not hold."""

from __future__ import annotations

from pastalang.plan.plan import Plan
from pastalang.plan.run_log import RunLog, needed
from pastalang.plan.simulate import simulate
from pastalang.plan.verify import breaches
from pastalang.testing.runs import Schedule, execute
from pastalang.testing.sight import name_of


def check_plan(plan: Plan) -> None:
    """Check every rule that `plan.verify` states."""
    found = list(breaches(plan))
    assert not found, found


def check_schedule_changes_nothing(plan: Plan, run: RunLog, schedule: Schedule) -> None:
    """Check that a schedule changes neither the tokens that are drawn nor what each draw sees, and that it ends."""
    unhindered = simulate(plan, run, keep_views=True)
    scheduled = execute(plan, run, schedule)
    assert scheduled.draws == unhindered.draws, "a schedule drew more or fewer tokens"
    for (instance, draw), view in unhindered.views.items():
        where = f"token {draw + 1} of `{name_of(plan, instance)}`"
        assert scheduled.views[instance, draw] == view, f"{where} saw something else under another schedule"
    assert scheduled.passes >= unhindered.passes, "a schedule with pauses was faster than one without"


def check_cells(plan: Plan, run: RunLog, schedule: Schedule) -> None:
    """Check that no token is fed twice, and that the cells in use never exceed the tokens written."""
    most = sum(log.tokens for log in needed(plan, run).values())
    done = execute(plan, run, schedule, keep_views=False)
    assert done.peak_cells <= done.fed <= most, f"{done.peak_cells} cells at once, {done.fed} fed, {most} written"
