"""What templates take. A forecast is made once for a text, in a thread of its own where nobody may wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Final

from pastalang.plan.branches import Hole
from pastalang.plan.build import build_plan
from pastalang.plan.builder import PlanError
from pastalang.plan.dependencies import critical_path
from pastalang.plan.forecast import totals_of
from pastalang.plan.plan import Plan
from pastalang.plan.structure import fields_of
from pastalang.plan.token_bounds import Lengths
from pastalang.program.program import Program
from pastalang.values.describe import counted
from pastalang.values.paths import is_mark, steps_of

_MOST_BRANCHES: Final = 500  # of a larger plan only the values are counted
_KEPT: Final = 500
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Forecast:
    """`text` is None if there is no plan. `limits` are the tokens that the values of a name take at most."""

    text: str | None
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A template, and all the text that its plan depends on."""

    name: str
    texts: tuple[str, ...]
    program: Program


class Forecasts:
    """Those that have been made. `made` counts them."""

    def __init__(self) -> None:
        self.made = 0
        self._known: dict[tuple[str, ...], Forecast] = {}  # the oldest ones first
        self._wanted: dict[str, tuple[Sequence[Question], Callable[[], None]]] = {}
        self._shown: dict[str, set[tuple[str, ...]]] = {}  # what is asked of each place, which is never dropped
        self._lock = Lock()
        self._beside = ThreadPoolExecutor(1, "forecasts")

    def known(self, question: Question) -> Forecast | None:
        with self._lock:
            return self._known.get(question.texts)

    def answer(self, question: Question) -> Forecast:
        """The forecast, made now if it is not known."""
        found = self.known(question)
        if found is None:
            found = make_forecast(question)
            with self._lock:
                self.made += 1
                self._known[question.texts] = found
                self._drop()
        return found

    def show(self, place: str, questions: Sequence[Question]) -> None:
        """A place shows the answers to these; to none of them once it is closed."""
        with self._lock:
            self._shown[place] = {one.texts for one in questions}
            self._drop()

    def _drop(self) -> None:
        shown = set[tuple[str, ...]]().union(*self._shown.values())
        for texts in [one for one in self._known if one not in shown][: max(0, len(self._known) - _KEPT)]:
            del self._known[texts]

    def want(self, place: str, questions: Sequence[Question], tell: Callable[[], None]) -> None:
        """Make forecasts beside everything else, then `tell`. They replace those that this place still wants."""
        with self._lock:
            self._wanted[place] = (questions, tell)
        self._beside.submit(self._make_wanted, place)

    def _make_wanted(self, place: str) -> None:
        with self._lock:
            questions, tell = self._wanted.pop(place, ((), None))
        for question in questions:
            try:
                self.answer(question)
            except Exception:  # a mistake of ours: one template has no forecast, and the others have theirs
                _LOG.exception("no forecast of %s", question.name)
                with self._lock:
                    self._known[question.texts] = Forecast(None, {})
        if tell is not None:
            tell()


def make_forecast(question: Question) -> Forecast:
    try:
        plan = build_plan(question.program.templates[question.name], question.program)
    except PlanError:
        return Forecast(None, {})
    limits: dict[str, int] = {}
    for _, _, segment in fields_of(plan):
        if isinstance(segment, Hole):
            for name in [step for step in steps_of(segment.field) if not is_mark(step)][-1:]:
                limits[name] = max(segment.max_tokens, limits.get(name, 0))
    return Forecast(_text(plan), limits)


def _text(plan: Plan) -> str:
    """Such as "8 values, 24 passes, 3.1x": everything at its limit, next to one value after another."""
    values = sum(not (isinstance(one, Hole) and one.is_thread) for _, _, one in fields_of(plan))
    if len(plan.branches) > _MOST_BRANCHES:
        return counted(values, "value")
    passes, draws = critical_path(plan, Lengths()).length, totals_of(plan, Lengths()).draws.high
    return f"{counted(values, 'value')}, {counted(passes, 'pass')}, {draws / max(1, passes):.1f}x"
