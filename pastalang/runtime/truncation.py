"""Values that their limit has ended, and what is said about them: an error, or a warning once per call."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pastalang.errors import TruncationWarning
from pastalang.program.types import OnTruncated
from pastalang.runtime.errors import RunError
from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.plan.plan import Plan
    from pastalang.runtime.result import Result

_SHOWN = 6  # fields in one message
_ADVICE = 'raise their limits, or set `on_truncated` to "keep", "null" or "raise"'


@dataclass(frozen=True, slots=True)
class Truncation:
    """A value that ended at its limit, or a list that ended at a number of items that the planner chose.

    path, where   the field, such as `lines[].name`, and the value, such as `lines[2].name`
    limit, unit   such as 24 and "token", or 8 and "item"
    became        "keep", "null" or "raise"; None if nothing is set, so that it is kept and warned of
    """

    path: str
    where: str
    limit: int
    unit: str
    became: OnTruncated | None

    def __str__(self) -> str:
        return f"{self.where} ({counted(self.limit, self.unit)})"


class Truncated(RunError):
    """A value ended at its limit, and the program or the call asks for an error. `result` is the run with its value."""

    code = "truncated"

    def __init__(self, truncations: Sequence[Truncation], *, plan: Plan, result: Result) -> None:
        self.truncations = tuple(truncations)
        self.result = result
        super().__init__(f"cut at its limit: {_listed(map(str, truncations))}", plan=plan)
        self.field = truncations[0].where


def advice_on(truncations: Iterable[Truncation]) -> str:
    """What a caller is told who set nothing; empty if there is nothing to say."""
    counts = Counter(f"{one.path} ({counted(one.limit, one.unit)})" for one in truncations if one.became is None)
    cut = [field if count == 1 else f"{field} {count:,} times" for field, count in counts.items()]
    return f"values were cut at their limits: {_listed(cut)}; {_ADVICE}" if cut else ""


def warn(truncations: Iterable[Truncation]) -> None:
    """One warning, at the line that called the package."""
    text = advice_on(truncations)
    if text:
        warnings.warn(text, TruncationWarning, stacklevel=_frames_of_the_package())


def _frames_of_the_package() -> int:
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pastalang":
        frame, level = frame.f_back, level + 1
    return level


def _listed(parts: Iterable[str]) -> str:
    shown = list(parts)
    rest = len(shown) - _SHOWN
    return ", ".join(shown[:_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")
