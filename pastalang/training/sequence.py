"""A training row by running the scheduler: a plan, inputs and the right answer come in, a `Sequence` goes out.

The steps are those that decoding takes, with a teacher in the place of the sampler. So tokens, positions and who
sees whom are decoding's own, and every token that the model would have to draw is a label, nothing else is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pastalang.errors import InputError
from pastalang.plan.plan import Mode
from pastalang.runtime.answer import answers_of
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.sampler import Choice
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.errors import RunError
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.scheduler import PendingSample, ScheduleFilter, Scheduler
from pastalang.training.answer import Answer, answer_of
from pastalang.training.batch import IGNORED
from pastalang.training.errors import BadRow
from pastalang.training.recording import Numbers, Recording, Sees
from pastalang.training.teacher import Teacher
from pastalang.values.json_text import JsonValue, parse_json, same_json

CELLS = 1 << 14
FAR = 1 << 30  # positions are checked against the model when it is known


@dataclass(frozen=True, slots=True)
class Taught:
    """One token to be drawn: the logits at `place` have to give `token`; `allowed` is what the guide lets through.

    `is_absent`: the right value is null. `absent` is the token with which null begins.
    """

    field: str
    items: tuple[int, ...]
    place: int
    token: int
    allowed: TokenMask | None
    is_absent: bool
    absent: int


@dataclass(frozen=True, eq=False)
class Sequence:
    """One row: `tokens`, `positions`, `labels` are (length,); `sees` is (length, length), packed to bits."""

    tokens: Numbers
    positions: Numbers
    labels: Numbers
    sees: np.ndarray[Any, np.dtype[np.uint8]]
    taught: tuple[Taught, ...]
    mode: Mode
    passes: int
    origin: str

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def visible(self) -> Sees:
        bits: Sees = np.unpackbits(self.sees, axis=1, count=len(self)).astype(np.bool_)
        return bits


def record(
    plan: BoundPlan,
    vocabulary: Tokens,
    inputs: Mapping[str, Any],
    value: JsonValue,
    *,
    origin: str = "",
    schedule_filter: ScheduleFilter | None = None,
) -> Sequence:
    """`value` is exact JSON, as `parse_json` gives it. Raises `BadRow`. `schedule_filter` is for tests of schedules."""
    try:
        bound = bind_inputs(plan.plan, inputs)
        answer = answer_of(plan.plan, value, bound)
        return _Run(plan, vocabulary, bound, answer, schedule_filter).sequence(origin)
    except BadRow as problem:
        raise problem.at(origin) from None
    except InputError as problem:
        raise BadRow(str(problem), origin=origin) from problem


class _Run:
    def __init__(
        self,
        plan: BoundPlan,
        vocabulary: Tokens,
        inputs: Mapping[str, Any],
        answer: Answer,
        schedule_filter: ScheduleFilter | None,
    ) -> None:
        self._answer = answer
        self._teacher = Teacher(answer, vocabulary, plan.encoder)
        self._recording = Recording(CELLS)
        self._request = RequestState(plan, inputs, number=0)
        self._scheduler = Scheduler(cells=CELLS, max_position=FAR, schedule_filter=schedule_filter)
        self._taught: list[Taught] = []
        self._labels: dict[int, int] = {}
        self._absent = plan.encoder.text("null")[0]

    def sequence(self, origin: str) -> Sequence:
        self._scheduler.submit(self._request)
        while not self._request.is_over:
            self._step()
        if self._request.error is not None:
            raise _in_our_words(self._request.error)
        self._check()
        recording = self._recording
        labels = np.full(len(recording.tokens), IGNORED, dtype=np.int32)
        labels[list(self._labels)] = list(self._labels.values())
        return Sequence(
            tokens=np.array(recording.tokens, dtype=np.int32),
            positions=np.array(recording.positions, dtype=np.int32),
            labels=labels,
            sees=np.packbits(recording.visible(), axis=1),
            taught=tuple(self._taught),
            mode=self._request.plan.mode,
            passes=self._request.last_draw,
            origin=origin,
        )

    def _step(self) -> None:
        step = self._scheduler.schedule()
        if step is not None:
            places = self._recording.feed(step.batch)
            pending = self._scheduler.commit()
            while pending:
                pending = self._scheduler.accept([(one, self._teach(one, places[one.row])) for one in pending])
        self._scheduler.end_step()

    def _teach(self, drawing: PendingSample, place: int) -> Choice:
        branch = drawing.branch
        token = self._teacher.token(branch)
        if self._labels.get(place, token) != token:
            place = self._recording.copy_of(place)
        self._labels[place] = token
        field = branch.hole.field.path if branch.hole is not None else branch.decision.field  # type: ignore[union-attr]
        items = _items(branch)
        is_absent = self._answer.at(field, items) is None
        self._taught.append(Taught(field, items, place, token, self._allowed(branch), is_absent, self._absent))
        return Choice(token, 0.0)

    def _allowed(self, branch: BranchState) -> TokenMask | None:
        if branch.hole is not None:
            return branch.hole.allowed()
        assert branch.decision is not None
        tokens = branch.decision.allowed()
        return None if tokens is None else self._request.tokens.mask(tokens)

    def _check(self) -> None:
        """What was written is what was given: a limit may have cut it, a spelling may mean something else."""
        try:
            answers, is_stacked = answers_of(self._request)
        except RunError as problem:
            raise _in_our_words(problem) from problem
        if self._request.plan.output is None:
            cut = [field.path for answer in answers for field in answer.fields if field.truncated]
            if cut:
                raise BadRow(f"`{cut[0]}` reaches its limit of tokens: the value would be cut")
            return
        texts = [parse_json(answer.text) for answer in answers]
        if not same_json(texts if is_stacked else texts[0], self._answer.value):
            raise BadRow("the value cannot be written as the plan asks: another one comes out")


def _items(branch: BranchState) -> tuple[int, ...]:
    """Of the field; a list that goes on or stops is not yet inside an item."""
    frame = branch.frames[-1]
    is_between = branch.decision is not None and frame.repeat is not None and frame.index >= len(frame.segments)
    return branch.items_here()[:-1] if is_between else branch.items_here()


def _in_our_words(error: RunError) -> BadRow:
    return BadRow(error.reason if not error.field else f"`{error.field}`: {error.reason}")
