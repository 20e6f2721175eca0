"""What users need to property-test their own programs and schedules. Needs Hypothesis.

programs()        random checked programs            check_plan(plan)
plans(sources)    their plans, in every mode         check_passes(plan, run)
runs(plan)        what a run might come to           check_schedule_changes_nothing(plan, run, schedule)
schedules(plan)   who rests in which pass            check_cells(plan, run, schedule)
"""

from pastalang.testing.checks import check_cells, check_passes, check_plan, check_schedule_changes_nothing
from pastalang.testing.runs import Schedule, execute, runs, schedules
from pastalang.testing.strategies import plans, programs

__all__ = [
    "Schedule",
    "check_cells",
    "check_passes",
    "check_plan",
    "check_schedule_changes_nothing",
    "execute",
    "plans",
    "programs",
    "runs",
    "schedules",
]
