"""What the fields of a JSON answer lose by not seeing one another, and which `after` would mend it.

rows ── recorded with a field after all that it could wait for ── the same without some of these ── losses ── advice

A field is measured where it would stand if it waited for everything before it. What it does not see is hidden from
copies of its tokens, as its branch would not see it, so a loss is about what is seen and not about where tokens stand.
An `after` is advised only if the program that has it, recorded as it would be decoded, makes the field likelier.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.errors import PastaError
from pastalang.plan.build import build_plan
from pastalang.plan.plan import WHOLE, BranchId, Choose, Form, Hole, Mode, Plan, Repeat
from pastalang.plan.structure import joins_of, walk_plan
from pastalang.plan.views import joined_view
from pastalang.plan.waits import ITEM, Pattern, Wait, name_of, possible_waits, with_waits, written
from pastalang.program.program import JsonBody, Program, Template
from pastalang.runtime.attention.attention import ATTENTION
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.reference import attention_of
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.training.data import Asked as Question
from pastalang.training.data import Parts, Row
from pastalang.training.errors import BadRow, BadRows
from pastalang.training.forward import window_of
from pastalang.training.labels import Labelled, ModelTeacher, labelled
from pastalang.training.lessons import Recorder
from pastalang.training.likelihood import Asked, Copies, Hidden, Interval, interval_of_mean, log_likelihoods
from pastalang.training.recording import TaughtToken, TrainingRow
from pastalang.values.paths import is_mark, path_text, steps_of

Waits: TypeAlias = frozenset[Wait]
Scores: TypeAlias = NDArray[np.float64]  # in nats a value, of each row in which the model draws the field
OnDone: TypeAlias = Callable[[int, int], None]  # is called with the number of fields that are done, and of all

LEAST: Final = 0.1  # nats a value: what is smaller is not worth waiting for


@dataclass(frozen=True, slots=True)
class Lost:
    """Nats a value that the field loses by not seeing `unseen`. `after` is the wait that would show it."""

    unseen: str
    after: str
    nats: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Advice:
    """`now` and `then`: the nats that a value costs as the program is, and with `after`; `gain` is the difference."""

    after: str
    now: float
    then: float
    gain: Interval


@dataclass(frozen=True, slots=True)
class FieldLosses:
    """One field, such as `lines[].total`, in `rows` rows. `together`: what it loses by seeing none of the others."""

    field: str
    rows: int
    lost: tuple[Lost, ...]
    together: Lost | None
    advice: Advice | None


def field_losses(
    model: Any, tokenizer: Any, program: Program, rows: Sequence[Row], *, template: str | None = None,
    least: float = LEAST, on_done: OnDone = lambda done, of: None,
) -> list[FieldLosses]:  # fmt: skip
    """Every field of the answer, in the order in which it is written. Raises `BadRows` for rows that do not fit.

    `least` is what a loss has to exceed, with 95 % of its resampled means, to be worth an `after`.
    """
    chosen = program.only_template if template is None else program.templates[template]
    assert isinstance(chosen.messages[-1].body, JsonBody), "the answer is JSON"
    model.eval()
    work = _Work(model, Recorder(tokenizer, window=window_of(model)), program, chosen, rows)
    work.check()
    patterns = list(_patterns(work.plan))
    found = []
    for number, pattern in enumerate(patterns, start=1):
        found.append(_losses(work, pattern, least))
        on_done(number, len(patterns))
    return found


def _losses(work: _Work, pattern: Pattern, least: float) -> FieldLosses:
    field = work.field(pattern)
    everything, alone = frozenset(field.waits), [frozenset([wait]) for wait in field.waits]
    scores = field.scores([frozenset(), everything, *alone])
    rows = sum(bool(_taught(row, pattern)) for row in work.now)
    if not rows or not field.waits:
        return FieldLosses(name_of(pattern), rows, (), None, None)
    now, whole, *others = scores
    lost = [_lost([wait], score - now) for wait, score in zip(field.waits, others, strict=True)]
    together = _lost(field.waits, whole - now)
    waits = _fewest(field, now, whole, least)
    advice = _tried(work, pattern, waits, least) if waits else None
    return FieldLosses(name_of(pattern), rows, tuple(lost), together, advice)


def _lost(waits: Sequence[Wait], gains: Scores) -> Lost:
    unseen = ", ".join(path_text((*pattern[:-1], key)) for pattern, key in waits)
    return Lost(unseen, written(waits), float(gains.mean()), interval_of_mean(gains.tolist()))


def _fewest(field: _Field, now: Scores, whole: Scores, least: float) -> list[Wait]:
    """Waits that mend what is lost: one after another the best, as long as each is worth it.

    What only several fields together say is found from the other end: all waits, without those that add nothing.
    """
    chosen: list[Wait] = []
    so_far = now
    while rest := [wait for wait in field.waits if wait not in chosen]:
        scores = field.scores([frozenset([*chosen, wait]) for wait in rest])
        best, wait = max(zip(scores, rest, strict=True), key=lambda one: float(one[0].mean()))
        if not _is_worth(best - so_far, least):
            break
        chosen, so_far = [*chosen, wait], best
    if not _is_worth(whole - so_far, least):
        return [wait for wait in field.waits if wait in chosen]
    return _needed(field, whole, least)


def _needed(field: _Field, whole: Scores, least: float) -> list[Wait]:
    chosen = list(field.waits)
    while len(chosen) > 1:
        without = [[one for one in chosen if one != wait] for wait in chosen]
        scores = field.scores([frozenset(some) for some in without])
        best, some = max(zip(scores, without, strict=True), key=lambda one: float(one[0].mean()))
        if float((whole - best).mean()) > least:
            break
        chosen = some
    return chosen


def _tried(work: _Work, pattern: Pattern, waits: Sequence[Wait], least: float) -> Advice | None:
    """The advice, if the program that has these waits makes the field likelier as it would be decoded."""
    now, then = work.decoded(work.now, pattern), work.decoded(work.recorded(work.waiting(waits)), pattern)
    if not _is_worth(then - now, least):
        return None
    gains = interval_of_mean((then - now).tolist())
    return Advice(written(waits), -float(now.mean()), -float(then.mean()), gains)


def _is_worth(gains: Scores, least: float) -> bool:
    return interval_of_mean(gains.tolist())[0] > least


def with_own_answers(
    rows: Sequence[Row | Question], model: Any, tokenizer: Any, plan: Plan, *, cells: int = 8192
) -> list[Row | BadRow]:
    """Rows without answers get the model's own. `plan` says how it decodes; from left to right, nothing is unseen."""
    parts = Parts(plan)
    with attention_of(model, ATTENTION):
        engine = Engine(TransformersModel(model, cells=cells), tokenizer, prefix_cells=0)
        teacher = ModelTeacher(engine, plan, {"any_mode": True})
        own = labelled([row for row in rows if isinstance(row, Question)], plan, teacher, 0.0)
        return [_with_answer(parts, row, next(own)) if isinstance(row, Question) else row for row in rows]


def _with_answer(parts: Parts, row: Question, own: Labelled) -> Row | BadRow:
    if not own.is_kept:
        return BadRow(own.answer.problem or own.answer.status, origin=row.origin)
    try:
        return parts.row(row.origin, own.row)
    except BadRow as problem:
        return problem


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Work:
    model: Any
    recorder: Recorder
    program: Program
    template: Template
    rows: Sequence[Row]

    @cached_property
    def plan(self) -> Plan:
        return self.plan_of(self.program)

    def plan_of(self, program: Program) -> Plan:
        return build_plan(program.templates[self.template.name], program, mode=Mode.STRICT)

    def waiting(self, waits: Iterable[Wait]) -> Program:
        return with_waits(self.program, self.template, list(waits))

    def recorded(self, program: Program) -> list[TrainingRow]:
        plan = self.plan_of(program)
        return [self._recorded(row, plan) for row in self.rows]

    def _recorded(self, row: Row, plan: Plan) -> TrainingRow:
        return self.recorder.row(row.lesson(lambda _: plan), Mode.STRICT, with_writers=True)

    @cached_property
    def now(self) -> list[TrainingRow]:
        """The rows as the program is."""
        return self.recorded(self.program)

    def check(self) -> None:
        """Raises `BadRows`."""
        problems = list(filter(None, map(self._problem, self.rows)))
        if problems:
            raise BadRows(problems, rows=len(self.rows))

    def _problem(self, row: Row) -> BadRow | None:
        try:
            self._recorded(row, self.plan)
        except BadRow as problem:
            return problem
        return None

    def field(self, pattern: Pattern) -> _Field:
        plan = self.plan
        sight = _Sight.of(plan, pattern)
        waits = [wait for wait in possible_waits(self.template, pattern) if sight.shown_by(wait) and self._fits(wait)]
        while waits and not self._fits(*waits):  # such as a plan that all of them together make too long
            waits.pop()
        waits.reverse()
        rows = self.recorded(self.waiting(waits)) if waits else []
        return _Field(self, pattern, tuple(waits), sight, rows)

    def _fits(self, *waits: Wait) -> bool:
        try:
            self.plan_of(self.waiting(waits))
        except PastaError:
            return False
        return True

    def decoded(self, rows: Sequence[TrainingRow], pattern: Pattern) -> Scores:
        """The field as it was recorded."""
        scores = [self._of_row(row, _taught(row, pattern)) for row in rows]
        return np.array([score for score in scores if score is not None])

    def _of_row(self, row: TrainingRow, taught: Sequence[TaughtToken]) -> float | None:
        if not taught:
            return None
        asked = [Asked(one.place, one.token, one.allowed) for one in taught]
        return float(log_likelihoods(self.model, row, asked).sum() / _count(taught))


@dataclass
class _Field:
    """A field and what it could wait for, recorded with all of these waits."""

    work: _Work
    pattern: Pattern
    waits: tuple[Wait, ...]
    sight: _Sight
    rows: Sequence[TrainingRow]
    known: dict[Waits, Scores] = field(default_factory=dict)

    def scores(self, sets: Sequence[Waits]) -> list[Scores]:
        """For each set of waits, the log-likelihood of the field in every row that has it."""
        new = [waits for waits in dict.fromkeys(sets) if waits not in self.known]
        if new:
            found = [scores for row in self.rows if (scores := self._of_row(row, new)) is not None]
            for number, waits in enumerate(new):
                self.known[waits] = np.array([scores[number] for scores in found])
        return [self.known[waits] for waits in sets]

    def _of_row(self, row: TrainingRow, sets: Sequence[Waits]) -> list[float] | None:
        taught = _taught(row, self.pattern)
        if not taught:
            return None
        copies, asked = Copies(row, window=window_of(self.work.model)), list[Asked]()
        for waits in sets:
            shown = self.sight.joined.union(*(self.sight.shown_by(wait) for wait in waits))
            asked += [
                Asked(copies.place(one.place, _hidden(row, one.place, shown)), one.token, one.allowed) for one in taught
            ]
        scores = log_likelihoods(self.work.model, copies.row(), asked).reshape(len(sets), len(taught))
        return [float(total) for total in scores.sum(axis=1) / _count(taught)]


def _hidden(row: TrainingRow, place: int, shown: frozenset[str]) -> Hidden:
    """What a token sees apart from its own path, from the branches that are shown, and from the paths to these."""
    seen = frozenset(np.flatnonzero(row.visible[place]).tolist())
    visible: set[int] = set()
    for start in (place, *(one for one in seen if row.writers[one].branch in shown)):
        while start >= 0 and start not in visible:
            visible.add(start)
            start = row.writers[start].after
    return seen - visible


@dataclass(frozen=True)
class _Sight:
    """The branches of a plan that a field waits for, and those of its own path. They are named.

    A field of a sequential group that waits leaves the group's branch, and waits for that one, too.
    """

    plan: Plan
    joined: frozenset[str]
    path: frozenset[str]

    @staticmethod
    def of(plan: Plan, pattern: Pattern) -> _Sight:
        own = {branch for branch, field in _drawing(plan) if field == pattern}
        names = frozenset(plan.branch(id).name for id in own)
        begun = (plan.branch(one.branch).name for id in own for one in plan.branch(id).view if one.until != WHOLE)
        path = names.union(begun)
        return _Sight(plan, (_joined(plan, own) - path) | names, path)

    def shown_by(self, wait: Wait) -> frozenset[str]:
        """The branches that the field would see with one more wait."""
        (*before, _), key = wait
        awaited = (*before, key)
        branches = {branch for branch, field in _drawing(self.plan) if field[: len(awaited)] == awaited}
        names = _joined(self.plan, branches) | {self.plan.branch(id).name for id in branches}
        return frozenset(names - self.joined - self.path)


def _joined(plan: Plan, branches: set[BranchId]) -> frozenset[str]:
    """The branches that these see whole."""
    starts = {branch.id: {one.branch: one.until for one in branch.view} for branch in plan.branches}
    joins = {branch.id: joins_of(branch.segments) for branch in plan.branches}
    view = joined_view(tuple(branches), starts, joins)
    return frozenset(plan.branch(id).name for id, until in view.items() if until == WHOLE and id not in branches)


def _drawing(plan: Plan) -> Iterator[tuple[BranchId, Pattern]]:
    """The fields that the model draws, and the branches that write them."""
    for branch, _, segment in walk_plan(plan):
        if isinstance(segment, Choose | Repeat) or (isinstance(segment, Hole) and segment.form is not Form.THOUGHT):
            yield branch.id, _pattern_of(segment.field)


def _patterns(plan: Plan) -> Iterator[Pattern]:
    yield from dict.fromkeys(pattern for _, pattern in _drawing(plan))


def _pattern_of(field: str) -> Pattern:
    steps = (step for step in steps_of(field) if not is_mark(step))
    return tuple(json.loads(step) if step.startswith('"') else step for step in steps)


def _taught(row: TrainingRow, pattern: Pattern) -> list[TaughtToken]:
    return [one for one in row.taught if _pattern_of(one.field) == pattern]


def _count(taught: Sequence[TaughtToken]) -> int:
    """How many values these tokens write: one for each item of the lists around the field."""
    loops = _pattern_of(taught[0].field).count(ITEM)
    deepest = min(len(one.items) for one in taught)
    stacked = max(deepest - loops, 0)
    return len({one.items[: loops + stacked] for one in taught})
