"""What must hold for a plan, a run and a schedule, as functions that fail with a sentence."""

from __future__ import annotations

from pastalang.plan.outcomes import RunOutcomes
from pastalang.plan.passes import passes_taken
from pastalang.plan.plan import Plan
from pastalang.plan.run_actions import actions_of
from pastalang.plan.simulate import simulate
from pastalang.plan.verify import breaches
from pastalang.testing.runs import Schedule, execute


def check_plan(plan: Plan) -> None:
    """Every rule of `plan.verify` holds."""
    found = list(breaches(plan))
    assert not found, found


def check_schedule_changes_nothing(plan: Plan, run_outcomes: RunOutcomes, schedule: Schedule) -> None:
    """Whatever the schedule: it ends, draws the same tokens, and each draw sees what it sees without waiting."""
    freely = simulate(plan, run_outcomes, keep_views=True)
    slowly = execute(plan, run_outcomes, schedule)
    assert slowly.draws == freely.draws, "a schedule drew more or fewer tokens"
    assert slowly.views == freely.views, "a draw saw something else under another schedule"
    assert slowly.passes >= freely.passes, "a schedule with pauses was faster than one without"


def check_passes(plan: Plan, run_outcomes: RunOutcomes) -> None:
    """The schedule that never waits takes exactly the passes that the arithmetic says."""
    taken, said = simulate(plan, run_outcomes).passes, passes_taken(plan, run_outcomes)
    assert taken == said, f"{taken} passes taken, {said} forecast"


def check_cells(plan: Plan, run_outcomes: RunOutcomes, schedule: Schedule) -> None:
    """Nothing is fed twice, and what lives at one time is never more than all that is written."""
    most = sum(script.tokens for script in actions_of(plan, run_outcomes).values())
    run = execute(plan, run_outcomes, schedule, keep_views=False)
    assert run.peak_cells <= run.fed <= most, f"{run.peak_cells} cells at once, {run.fed} fed, {most} written"
