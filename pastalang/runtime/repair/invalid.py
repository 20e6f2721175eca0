"""The error of an answer that a validator still objects to when all attempts are used up."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.plan.plan import Plan
from pastalang.runtime.errors import RunError
from pastalang.runtime.result import Result


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` as in `lines[2].total`, empty for the whole answer; `text` is the last one; `document` counts from 0."""

    where: str
    reason: str
    text: str
    attempts: int
    document: int = 0

    def __str__(self) -> str:
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return f"{self.where or 'the answer'}: {self.reason} (decoded {times}, last as {_short(self.text)})"


class Invalid(RunError):
    """`result` is the whole run with its last values: usage, text, fields and their attempts."""

    code = "invalid"

    def __init__(self, problems: tuple[Problem, ...], *, plan: Plan, result: Result) -> None:
        self.problems = problems
        self.result = result
        listed = "; ".join(map(str, problems))
        super().__init__(f"the answer is not valid: {listed}", plan=plan)
        self.field = problems[0].where


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
