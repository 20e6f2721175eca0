"""The error of an answer that a validator still objects to when all attempts are used up."""

from __future__ import annotations

from pastalang.plan.plan import Plan
from pastalang.runtime.errors import Problem, RunError
from pastalang.runtime.result import Result


class Invalid(RunError):
    """`result` is the whole run with its last values: usage, text, fields and their attempts."""

    code = "invalid"

    def __init__(self, problems: tuple[Problem, ...], *, plan: Plan, result: Result) -> None:
        self.problems = problems
        self.result = result
        listed = "; ".join(map(str, problems))
        super().__init__(f"the answer is not valid: {listed}", plan=plan)
        self.field = problems[0].where
