"""The slowest run of a plan: every hole as long as its limit, every list as long as it may be."""

from __future__ import annotations

from pastalang import Plan
from pastalang.plan.branches import ROOT, BranchId, Choose, Each, Fork, Hole, Instance, Repeat, Segment
from pastalang.plan.run_log import Drawn, RunLog
from pastalang.plan.token_bounds import decision_draws
from tests.plan.given_runs import Chosen, Decision, Items, Outcome, Outcomes, given_run

MOST_ITEMS = 6  # of a list that data gives


def slowest_run(plan: Plan, *, arm: int) -> RunLog:
    """Every choice takes its arm number `arm` (or its last one), in as many draws as that can need."""
    runs: dict[Instance, Outcomes] = {}
    _add(plan, ROOT, (), arm, runs)
    return given_run(plan, runs)


def _add(plan: Plan, id: BranchId, items: tuple[int, ...], arm: int, runs: dict[Instance, Outcomes]) -> None:
    outcomes: list[Outcome] = []

    def go(segments: tuple[Segment, ...], items: tuple[int, ...]) -> None:
        for segment in segments:
            match segment:
                case Hole():
                    outcomes.append(Drawn.plain(segment.max_tokens))
                case Fork():
                    _add(plan, segment.branch, items, arm, runs)
                case Each():
                    count = min(segment.maximum, MOST_ITEMS)
                    outcomes.append(Items(count))
                    for item in range(count):
                        _add(plan, segment.branch, (*items, item), arm, runs)
                case Choose():
                    taken = min(arm, len(segment.arms) - 1)
                    outcomes.append(Chosen(taken, Drawn.plain(decision_draws(len(segment.arms)).high)))
                    go(segment.arms[taken].segments, items)
                case Repeat(over=None):
                    for item in range(segment.maximum):
                        outcomes.append(Decision(True, Drawn.plain(int(item >= segment.minimum))))
                        go(segment.body, (*items, item))
                    outcomes.append(Decision(False, Drawn.plain(0)))
                case Repeat():
                    outcomes.append(Items(segment.maximum))
                    for item in range(segment.maximum):
                        go(segment.body, (*items, item))
                case _:
                    pass

    go(plan.branch(id).segments, items)
    runs[Instance(id, items)] = Outcomes(tuple(outcomes))
