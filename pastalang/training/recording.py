"""Record training rows by running the scheduler.

The steps are those of decoding, with a teacher in the place of the sampler. So tokens, positions and visibility are
those of decoding in every mode, and exactly the tokens that the model would have to draw carry a label. The teacher
uses the guides that constrain the model, so a token that a guide forces is never taught.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.failures import InputError
from pastalang.plan.branches import Mode
from pastalang.runtime.answer import answers_of
from pastalang.runtime.attention.views import Views
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.errors import RunError
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.sampling.sampler import Sample
from pastalang.runtime.scheduler.scheduler import PendingSample, ScheduleFilter, Scheduler
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.step import StepBatch
from pastalang.training.answer import Answer, answer_of
from pastalang.training.errors import BadRow
from pastalang.training.teacher import Teacher, is_thinking
from pastalang.values.json import JsonValue, parse_json, same_json

Numbers: TypeAlias = NDArray[np.int32]
Sees: TypeAlias = NDArray[np.bool_]
Packed: TypeAlias = NDArray[np.uint8]

IGNORED = -100  # a label that costs nothing
CELLS = 1 << 14
FAR = 1 << 30  # positions are checked against the model when it is known


@dataclass(frozen=True, slots=True)
class TaughtToken:
    """One drawn token: the logits at `place` have to predict `token`; the guide allows `allowed`.

    `is_absent`: the right value is null. `absent` is the first token of null.
    """

    field: str
    items: tuple[int, ...]
    place: int
    token: int
    allowed: TokenMask | None
    is_absent: bool
    absent: int


@dataclass(frozen=True, slots=True)
class Writer:
    """The branch of a token, by its name, and the place of the token that it follows, in its branch or in the parent.

    `after` is -1 for the first token of a row.
    """

    branch: str
    after: int


@dataclass(frozen=True, eq=False)
class TrainingRow:
    """One row: `tokens`, `positions`, `labels` are (length,); `sees` is (length, length), packed to bits.

    `sees_near` is the same for layers with a window; None if every path is shorter than the window. `writers` has the
    branch of every token, if the recording was to say so.
    """

    tokens: Numbers
    positions: Numbers
    labels: Numbers
    sees: Packed
    taught: tuple[TaughtToken, ...]
    mode: Mode
    passes: int
    origin: str
    sees_near: Packed | None = None
    writers: tuple[Writer, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def visible(self) -> Sees:
        return self._unpacked(self.sees)

    @property
    def near(self) -> Sees:
        """What layers with a window see."""
        return self.visible if self.sees_near is None else self._unpacked(self.sees_near)

    def _unpacked(self, packed: Packed) -> Sees:
        bits: Sees = np.unpackbits(packed, axis=1, count=len(self)).astype(np.bool_)
        return bits


def record(
    plan: BoundPlan,
    vocabulary: Tokens,
    inputs: Mapping[str, Any],
    value: JsonValue,
    *,
    origin: str = "",
    thought: JsonValue = None,
    window: int | None = None,
    with_writers: bool = False,
    schedule_filter: ScheduleFilter | None = None,
) -> TrainingRow:
    """`value` is exact JSON, as `parse_json` gives it. Raises `BadRow`. `window`: of the model's sliding layers.

    `schedule_filter` is for tests of schedules.
    """
    try:
        bound = bind_inputs(plan.plan, inputs)
        answer = answer_of(plan.plan, value, bound, thought=thought)
        run = _Lesson(plan, vocabulary, bound, answer, schedule_filter, window, with_writers=with_writers)
        return run.sequence(origin)
    except BadRow as problem:
        raise problem.at(origin) from None
    except InputError as problem:
        raise BadRow(str(problem), origin=origin) from problem


Drawn: TypeAlias = Mapping[tuple[str, tuple[int, ...]], Sequence[int]]  # what each branch drew, by its name and items


def record_again(
    plan: BoundPlan, inputs: Mapping[str, Any], drawn: Drawn, *, origin: str = "", window: int | None = None
) -> TrainingRow:
    """A run that has been made, from what its branches drew. Its labels are these tokens."""
    return _Replay(plan, bind_inputs(plan.plan, inputs), drawn, window).sequence(origin)


class _Run:
    """Decodes a request whose tokens somebody else knows."""

    def __init__(
        self,
        plan: BoundPlan,
        inputs: Mapping[str, Any],
        schedule_filter: ScheduleFilter | None,
        window: int | None,
        *,
        with_writers: bool = False,
    ) -> None:
        self._writers = Writers() if with_writers else None
        self._recording = Recording(CELLS, window)
        self._request = RequestState(plan, inputs, number=0)
        self._scheduler = Scheduler(cells=CELLS, max_position=FAR, schedule_filter=schedule_filter)
        self._taught: list[TaughtToken] = []
        self._labels: dict[int, int] = {}

    def token(self, branch: BranchState) -> int:
        raise NotImplementedError

    def note(self, branch: BranchState, place: int, token: int) -> None:
        """Called for each token, before the branch has it."""

    def check(self) -> None:
        """Called when all is decoded."""

    def sequence(self, origin: str) -> TrainingRow:
        self._scheduler.submit(self._request)
        while not self._request.is_over:
            self._step()
        if self._request.error is not None:
            raise _translate_json_error(self._request.error)
        self.check()
        recording = self._recording
        labels = np.full(len(recording.tokens), IGNORED, dtype=np.int32)
        labels[list(self._labels)] = list(self._labels.values())
        return TrainingRow(
            tokens=np.array(recording.tokens, dtype=np.int32),
            positions=np.array(recording.positions, dtype=np.int32),
            labels=labels,
            sees=np.packbits(recording.visible(), axis=1),
            sees_near=np.packbits(recording.near(), axis=1) if recording.is_windowed else None,
            taught=tuple(self._taught),
            mode=self._request.plan.mode,
            passes=self._request.counts.last_draw,
            origin=origin,
            writers=() if self._writers is None else tuple(self._writers.found),
        )

    def _step(self) -> None:
        step = self._scheduler.schedule()
        if step is not None:
            places = self._recording.feed(step.batch)
            if self._writers is not None:
                self._writers.feed(step.batch, self._request)
            pending = self._scheduler.commit()
            while pending:
                pending = self._scheduler.accept([(one, self._teach(one, places[one.row])) for one in pending])
        self._scheduler.end_step()

    def _teach(self, drawing: PendingSample, place: int) -> Sample:
        token = self.token(drawing.branch)
        if self._labels.get(place, token) != token:
            if self._writers is not None:
                self._writers.copy(place)
            place = self._recording.copy_of(place)
        self._labels[place] = token
        self.note(drawing.branch, place, token)
        return Sample(token, 0.0)


class _Replay(_Run):
    """What branches drew once is drawn again."""

    def __init__(self, plan: BoundPlan, inputs: Mapping[str, Any], drawn: Drawn, window: int | None) -> None:
        super().__init__(plan, inputs, None, window)
        self._left = {branch: iter(tokens) for branch, tokens in drawn.items()}

    def token(self, branch: BranchState) -> int:
        return next(self._left[branch.name, branch.items])


class _Lesson(_Run):
    """The tokens are those of the right answer."""

    def __init__(
        self,
        plan: BoundPlan,
        vocabulary: Tokens,
        inputs: Mapping[str, Any],
        answer: Answer,
        schedule_filter: ScheduleFilter | None,
        window: int | None,
        *,
        with_writers: bool,
    ) -> None:
        super().__init__(plan, inputs, schedule_filter, window, with_writers=with_writers)
        self._answer = answer
        self._teacher = Teacher(answer, vocabulary, plan.encoder)

    def token(self, branch: BranchState) -> int:
        return self._teacher.token(branch)

    def note(self, branch: BranchState, place: int, token: int) -> None:
        hole, decision = branch.pending.hole, branch.pending.decision
        field = hole.field.path if hole is not None else decision.field  # type: ignore[union-attr]
        items = branch.cursor.items
        is_absent = not is_thinking(branch) and self._answer.at(field, items) is None
        absent = self._teacher.first_of_null(branch)
        self._taught.append(TaughtToken(field, items, place, token, self._allowed(branch), is_absent, absent))

    def _allowed(self, branch: BranchState) -> TokenMask | None:
        hole, decision = branch.pending.hole, branch.pending.decision
        if hole is not None:
            return hole.allowed()
        assert decision is not None
        tokens = decision.allowed()
        return None if tokens is None else self._request.tokens.mask(tokens)

    def check(self) -> None:
        """Check that the run wrote the right answer: a limit may have cut it, or a spelling may mean another value."""
        try:
            answers, is_stacked = answers_of(self._request)
        except RunError as problem:
            raise _translate_json_error(problem) from problem
        for answer, thought in zip(answers, self._answer.thoughts, strict=False):
            if answer.thinking != thought:
                raise BadRow("`thinking` reaches its limit of tokens before it is closed: the thought would be cut")
        if self._request.plan.output is None:
            cut = [field.path for answer in answers for field in answer.fields if field.truncated]
            if cut:
                raise BadRow(f"`{cut[0]}` reaches its limit of tokens: the value would be cut")
            if self._request.plan.auto is not None:
                assert [answer.text for answer in answers] == self._answer.plain_texts
            return
        texts = [parse_json(answer.text) for answer in answers]
        if not same_json(texts if is_stacked else texts[0], self._answer.value):
            raise BadRow("the value cannot be written as the plan asks: another one comes out")


def _translate_json_error(error: RunError) -> BadRow:
    return BadRow(error.reason if not error.field else f"`{error.field}`: {error.reason}")


class Writers:
    """Keeps the branch of every token that decoding feeds, in their order."""

    def __init__(self) -> None:
        self.found: list[Writer] = []
        self._places: dict[BranchState, list[int]] = {}

    def feed(self, batch: StepBatch, request: RequestState) -> None:
        branches = {branch.memory.row: branch for branch in request.branches if branch.memory.row is not None}
        for run in batch.runs:
            branch = branches[run.row]
            places = self._places.setdefault(branch, [])
            for _ in range(run.count):
                after = places[-1] if places else self._forked_after(branch)
                places.append(len(self.found))
                self.found.append(Writer(branch.spec.name, after))

    def copy(self, place: int) -> None:
        self.found.append(self.found[place])

    def _forked_after(self, branch: BranchState) -> int:
        source = branch.sequence.source
        return -1 if source is None else self._places[source.branch][source.index]


class Recording:
    """Keeps the tokens that decoding feeds, in their order, with what each of them sees. Computes nothing."""

    def __init__(self, cells: int, window: int | None) -> None:
        self._views = Views(cells)
        self._window = window
        self._near: dict[int, Numbers] = {}  # of a token whose path is longer than the window: the last ones of it
        self._in_cell: Numbers = np.zeros(cells, dtype=np.int32)  # which recorded token a cell holds
        self._seen: list[Numbers] = []  # of each token: the recorded tokens that it sees, itself last
        self.tokens: list[int] = []
        self.positions: list[int] = []

    def feed(self, batch: StepBatch) -> tuple[int, ...]:
        """Keep a step. For every row of logits that the step asks for, the recorded token that they follow."""
        first = len(self.tokens)
        visibility = self._views.prepare(batch)
        self._in_cell[np.array(batch.cells, dtype=np.intp)] = np.arange(first, first + len(batch), dtype=np.int32)
        self._seen += [self._in_cell[np.flatnonzero(order)] for order in visibility.order]
        if self._window is not None:
            for index in np.flatnonzero(visibility.counts > self._window):
                order = visibility.order[index]
                self._near[first + int(index)] = self._in_cell[np.flatnonzero(order > order.max() - self._window)]
        self.tokens += batch.tokens
        self.positions += batch.positions
        self._views.commit(batch, visibility)
        return tuple(first + index for index in batch.wanted)

    def copy_of(self, token: int) -> int:
        """A second copy of a recorded token that no other token sees, for logits that need two labels."""
        place = len(self.tokens)
        seen = self._seen[token]
        self._seen.append(np.append(seen[seen != token], np.int32(place)))
        if (near := self._near.get(token)) is not None:
            self._near[place] = np.append(near[near != token], np.int32(place))
        self.tokens.append(self.tokens[token])
        self.positions.append(self.positions[token])
        return place

    def visible(self) -> Sees:
        """(length, length): whether a token (row) sees another one (column)."""
        return self._as_matrix(self._seen)

    def near(self) -> Sees:
        """The same for layers with a window: the last tokens of each path."""
        return self._as_matrix([self._near.get(token, seen) for token, seen in enumerate(self._seen)])

    @property
    def is_windowed(self) -> bool:
        return bool(self._near)

    def _as_matrix(self, seen: Sequence[Numbers]) -> Sees:
        matrix = np.zeros((len(self.tokens), len(self.tokens)), dtype=np.bool_)
        for token, others in enumerate(seen):
            matrix[token, others] = True
        return matrix
