"""Record training rows by running the scheduler.

A `Recorder` turns lessons (a template's plans, its inputs and the right value) into rows. The steps are those of
decoding, with a teacher in the place of the sampler, which draws the tokens that the tokenizer would write. So tokens,
positions and visibility are those of decoding in every mode, and exactly the tokens that the model would have to draw
carry a label. The teacher uses the guides that constrain the model, so a token that a guide forces is never taught.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.failures import InputError, PastaError
from pastalang.plan.branches import THREAD, Arm, Form, Hole, Mode, Overrun
from pastalang.plan.build import build_plan
from pastalang.plan.machine import Closing, Opening
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.program import Program
from pastalang.program.types import AutoPolicy
from pastalang.runtime.answer import answers_of
from pastalang.runtime.attention.views import Views
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import allows, tokens_of
from pastalang.runtime.constraints.tagged_text import TaggedTextGuides
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import RunError
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.result import Result
from pastalang.runtime.sampling.sampler import Sample
from pastalang.runtime.scheduler.hole import Decision, OpenHole
from pastalang.runtime.scheduler.known_text import option_tokens
from pastalang.runtime.scheduler.scheduler import PendingSample, ScheduleFilter, Scheduler
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.scheduler.transcript import Field
from pastalang.runtime.step import StepBatch
from pastalang.training.answer import Answer, answer_of, arm_for, spelled, stop_of, tags_apart
from pastalang.training.errors import BadData, BadRow
from pastalang.values.describe import counted
from pastalang.values.json import JsonValue, parse_json, same_json

Numbers: TypeAlias = NDArray[np.int32]
Sees: TypeAlias = NDArray[np.bool_]
Packed: TypeAlias = NDArray[np.uint8]

IGNORED = -100  # a label that costs nothing
CELLS = 1 << 14
_PLANS = 256  # that a recorder keeps
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
                for answer, right in zip(answers, self._answer.plain_texts, strict=True):
                    _check_text(answer.text, right)
            return
        texts = [parse_json(answer.text) for answer in answers]
        if not same_json(texts if is_stacked else texts[0], self._answer.value):
            raise BadRow("the value cannot be written as the plan asks: another one comes out")


def _check_text(written: str, right: str) -> None:
    """Raises `BadRow` if a tokenizer changes a text, as one does that joins letters with their accents."""
    if written != right:
        at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(written, right, strict=False)))
        raise BadRow(f"value: the tokenizer writes {written[at:][:20]!a}, not {right[at:][:20]!a}")


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


# ── the teacher ───────────────────────────────────────────────────────────────────────────────────────


class Teacher:
    """Draws the right tokens of one run. Raises `BadRow` if the answer cannot be written as the plan asks."""

    def __init__(self, answer: Answer, tokens: Tokens, encoder: Encoder) -> None:
        self._answer = answer
        self._tokens = tokens
        self._encoder = encoder
        self._ways: dict[int, tuple[int, tuple[int, ...]]] = {}  # of a field: bytes left, tokens that write them
        self._tagged: dict[int, tuple[int, ...]] = {}  # of a field with tags: all its tokens

    def token(self, branch: BranchState) -> int:
        hole = branch.pending.hole
        if hole is None:
            return self._in_decision(branch)
        auto = None if is_thinking(branch) else branch.request.plan.auto
        return self._in_hole(hole) if auto is None else self._in_tagged_text(hole, auto)

    def first_of_null(self, branch: BranchState) -> int:
        """The token that null would begin with here: a space before it may be part of that token."""
        hole, decision = branch.pending.hole, branch.pending.decision
        if hole is not None:
            return self._encoder.text(f"{hole.lead}null")[0]
        options = () if decision is None else decision.draw.options
        arms = (option for option in options if isinstance(option, Arm) and option.lead.strip() == "null")
        tokens = next((found for arm in arms if (found := option_tokens(arm, self._encoder))), None)
        return (tokens or self._encoder.text("null"))[0]

    # ── holes ────────────────────────────────────────────────────────────────────────────────────────────

    def _in_hole(self, hole: OpenHole) -> int:
        field = hole.field
        is_thought = hole.hole.form is Form.THOUGHT
        value = self._answer.thought(field.items) if is_thought else self._answer.at(field.path, field.items)
        text = spelled(value, hole.hole)
        target = (hole.lead + text + stop_of(hole.hole)).encode()
        token, allowed = self._next(hole, target), hole.allowed()
        if allows(allowed, token):
            return token
        written = len(self._tokens.canonical(text.encode()) or ())
        if written >= hole.hole.max_tokens:
            raise BadRow(
                f"`{field.path}` cannot be written as {_short(text)}: it takes {counted(written, 'token')}, "
                f"and the limit is {hole.hole.max_tokens}"
            )
        other = self._longest(hole, target, allowed)
        if other is None:
            raise BadRow(f"`{field.path}` cannot be written as {_short(text)}")
        return other

    def _next(self, hole: OpenHole, target: bytes) -> int:
        """The token that the tokenizer would write next, given the value and the text that follows it."""
        spelling = self._tokens.vocabulary.spelling
        known = b"".join(spelling[token] or b"" for token in hole.field.decoding.tokens)
        if not target.startswith(known):
            raise BadRow(f"`{hole.field.path}` has to begin with {_short(known.decode('utf-8', 'replace'))}")
        rest = target[len(known) :]
        if not rest:
            return min(self._encoder.ends)
        left, way = self._ways.get(id(hole.field), (-1, ()))
        if left != len(rest):
            way = self._tokens.canonical(rest) or ()
        if not way:
            raise BadRow(f"`{hole.field.path}` cannot be spelled with the tokens of this model")
        self._ways[id(hole.field)] = (len(rest) - len(spelling[way[0]] or b""), way[1:])
        return way[0]

    def _longest(self, hole: OpenHole, target: bytes, allowed: TokenMask) -> int | None:
        """The allowed token that writes most of the remaining text."""
        spelling = self._tokens.vocabulary.spelling
        rest = target[len(b"".join(spelling[token] or b"" for token in hole.field.decoding.tokens)) :]
        fitting = [token for token in tokens_of(allowed).tolist() if rest.startswith(spelling[token] or b"\xff")]
        return max(fitting, key=lambda token: len(spelling[token] or b""), default=None)

    # ── texts with threads ───────────────────────────────────────────────────────────────────────────────

    def _in_tagged_text(self, hole: OpenHole, auto: AutoPolicy) -> int:
        field = hole.field
        if id(field) not in self._tagged:
            text = self._answer.at(field.path, field.items)
            assert isinstance(text, str)
            self._tagged[id(field)] = tokens_with_tags(text, auto, self._encoder, in_thread=field.path == THREAD)
        tokens = self._tagged[id(field)]
        if len(tokens) > hole.hole.max_tokens:
            raise BadRow(
                f"`{_name_of(field)}` takes {counted(len(tokens), 'token')} with its tags, and the limit is "
                f"{hole.hole.max_tokens}"
            )
        token = tokens[len(field.decoding.tokens)]
        if not allows(hole.allowed(), token):
            written = self._encoder.decode(tokens[: len(field.decoding.tokens) + 1])
            raise BadRow(f"`{_name_of(field)}` cannot be written with the tokens of this model, at ...{written[-40:]}")
        return token

    # ── decisions ────────────────────────────────────────────────────────────────────────────────────────

    def _in_decision(self, branch: BranchState) -> int:
        decision = branch.pending.decision
        assert decision is not None, "a branch that draws has a hole or a decision"
        wanted, depth = self._wanted(branch, decision), decision.depth
        return min(self._encoder.ends) if wanted is None or depth >= len(wanted) else wanted[depth]

    def _wanted(self, branch: BranchState, decision: Decision) -> tuple[int, ...] | None:
        """The tokens of the option to take; None for the end of the turn."""
        draw, items = decision.draw, branch.cursor.items
        assert not isinstance(draw.segment, Hole), "decisions are made by choices and repeats"
        value = self._answer.at(draw.segment.field, items)
        match draw.options:
            case (Opening(item=done) as opening, Closing(repeat=repeat) as closing):
                if not isinstance(value, list) or not repeat.minimum <= len(value) <= repeat.maximum:
                    raise BadRow(f"`{repeat.field}` has to be a list of {repeat.minimum} to {repeat.maximum} items")
                return option_tokens(opening if done < len(value) else closing, self._encoder)
            case arms:
                arm = arm_for(value, [arm for arm in arms if isinstance(arm, Arm)])
                if arm is None:
                    raise BadRow(f"no way of writing `{draw.segment.field}` begins like its value")
                return option_tokens(arms[arm], self._encoder)


def is_thinking(branch: BranchState) -> bool:
    hole = branch.pending.hole
    return hole is not None and hole.hole.form is Form.THOUGHT


def tokens_with_tags(text: str, auto: AutoPolicy, encoder: Encoder, *, in_thread: bool) -> tuple[int, ...]:
    """The tokens of a text with tags, or of a thread, and of what ends it. Tags are tokenized on their own."""
    if in_thread:
        closing = encoder.control("</async>") if auto is AutoPolicy.PASTA else (_end_of_turn(encoder),)
        return (*encoder.text(text), *closing)
    parts = tags_apart(text, auto)
    tokens = [encoder.control(part) if is_tag else encoder.text(part) for part, is_tag in parts if part]
    return (*(token for part in tokens for token in part), _end_of_turn(encoder))


def _end_of_turn(encoder: Encoder) -> int:
    own = encoder.tokenizer.eos_token_id
    return own if own in encoder.ends else min(encoder.ends)


def _name_of(field: Field) -> str:
    return f"thread {field.items[-1] + 1}" if field.path == THREAD else field.path


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


# ── lessons ───────────────────────────────────────────────────────────────────────────────────────────


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

    def __init__(self, tokenizer: Any, *, window: int | None = None) -> None:
        self._encoder = Encoder(tokenizer)
        encode = self._encoder.text
        self._tokens = Tokens(vocabulary_of(tokenizer, ends=self._encoder.ends, encode=encode))
        self._guides = TaggedTextGuides(self._tokens, self._encoder, GuideCache(self._tokens))
        self._plans: dict[int, tuple[Plan, BoundPlan]] = {}  # by the id of the plan as it was built
        self._window = window

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
            if len(self._plans) >= _PLANS:
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
