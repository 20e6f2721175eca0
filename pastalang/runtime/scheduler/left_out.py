"""A hole that no value fits into: it comes in, the field is null and says why; or the problem is the caller's."""

from __future__ import annotations

from pastalang.plan.plan import Form, Hole
from pastalang.runtime.decode.guide import NoEndingFits
from pastalang.runtime.leads import given_to
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.event_log import report_value
from pastalang.runtime.scheduler.transcript import Field
from pastalang.values.fits import value_fits


def leave_out(branch: BranchState, field: Field, hole: Hole, problem: NoEndingFits) -> None:
    """Raises the problem where the value may not be null."""
    request = branch.request
    if hole.form is not Form.JSON or value_fits(hole.type, None, dict(request.plan.types)):
        raise problem
    tokens = request.tokens.encoder.text(given_to(hole) + "null")
    field.text, field.problem, field.is_done = "null", str(problem), True
    field.tokens, field.log_probabilities = list(tokens), [0.0] * len(tokens)
    field.tally.force(len(tokens))
    branch.append(tokens)
    branch.outcomes.append(field.tally.drawn)
    report_value(branch, field.path, field.items, field.text)
    branch.frames[-1].index += 1
