"""Lessons: a template's plans, its inputs and the right value. A `Recorder` turns lessons into training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pastalang.failures import PastaError
from pastalang.plan.branches import Hole, Mode, Overrun
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.program import Program
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.tagged_text import TaggedTextGuides
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.result import Result
from pastalang.training.errors import BadData
from pastalang.training.recording import Drawn, TrainingRow, record, record_again
from pastalang.values.json import JsonValue


@dataclass(frozen=True, slots=True)
class Lesson:
    """`category` groups lessons with the same fields, for scores. `thought`: before the answer, where one thinks."""

    plan: Callable[[Mode], Plan]
    inputs: Mapping[str, Any]
    value: JsonValue
    origin: str
    category: str = ""
    thought: JsonValue = None


class Recorder:
    """Records lessons with one tokenizer. Plans and guides are compiled once and kept.

    `window` is that of the model's sliding layers: how many tokens of its path a token attends to there.
    """

    def __init__(self, tokenizer: Any, *, limit: int = 256, window: int | None = None) -> None:
        self._encoder = Encoder(tokenizer)
        encode = self._encoder.text
        self._tokens = Tokens(vocabulary_of(tokenizer, ends=self._encoder.ends, encode=encode))
        self._guides = TaggedTextGuides(self._tokens, self._encoder, GuideCache(self._tokens))
        self._plans: dict[int, tuple[Plan, BoundPlan]] = {}  # by the id of the plan as it was built
        self._limit = limit
        self._window = window

    def rows(self, lessons: Iterable[Lesson], modes: Iterable[Mode]) -> list[list[TrainingRow]]:
        """For every lesson, its row in each of the modes. Raises `BadRow` for the first that cannot be taught."""
        wanted = tuple(modes)
        return [[self.row(lesson, mode) for mode in wanted] for lesson in lessons]

    def row(self, lesson: Lesson, mode: Mode, *, with_writers: bool = False) -> TrainingRow:
        plan = self._bound(lesson.plan(mode))
        _refuse_threads(plan.plan)
        return record(
            plan, self._tokens, lesson.inputs, lesson.value, origin=lesson.origin, thought=lesson.thought,
            window=self._window, with_writers=with_writers,
        )  # fmt: skip

    def again(self, plan: Plan, inputs: Mapping[str, Any], drawn: Drawn, *, origin: str) -> TrainingRow:
        """A run that has been made, from what its branches drew."""
        return record_again(self._bound(plan), inputs, drawn, origin=origin, window=self._window)

    def _bound(self, plan: Plan) -> BoundPlan:
        known = self._plans.get(id(plan))
        if known is None or known[0] is not plan:
            if len(self._plans) >= self._limit:
                self._plans.clear()
            known = self._plans[id(plan)] = plan, BoundPlan(plan, self._encoder, self._guides)
        return known[1]


def drawn_of(result: Result | PastaError) -> Drawn:
    """What each branch drew. Nothing of a run that failed."""
    if isinstance(result, PastaError):
        return {}
    lanes = {lane.id: (lane.name, lane.items) for lane in result.trace.lanes}
    found: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for one in result.trace.drawn:
        found.setdefault(lanes[one.lane], []).append(one.token)
    return found


def _refuse_threads(plan: Plan) -> None:
    """Raises `BadData` if the model opens threads in a text among other values: rows have no place for their tags."""
    texts = [part for _, _, part in walk_plan(plan) if isinstance(part, Hole) and part.threads is not None]
    if texts and plan.auto is None:
        tags = texts[0].auto
        assert tags is not None
        raise BadData(
            f"`{texts[0].field}` is a text of auto({tags.value}) among other values, which cannot be trained on: train"
            f" threads with a program of `assistant auto({tags.value})`, and the other values with one without it"
        )


def planner(
    program: Program, template: str | None = None, overrun: Overrun = Overrun.CONTINUE
) -> Callable[[Mode], Plan]:
    """The plans of a template, each built on first use."""
    chosen = program.only_template if template is None else program.templates[template]
    known: dict[Mode, Plan] = {}

    def plan(mode: Mode) -> Plan:
        if mode not in known:
            known[mode] = build_plan(chosen, program, mode=mode, overrun=overrun)
        return known[mode]

    return plan
