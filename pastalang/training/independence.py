"""What values written at the same time lose by not seeing one another, by a model's own measure.

    recorded   prompt  1. AAAA  2. BBBB           B sees A
    a copy                         BBBB           at the same positions, and it does not see A

Both are in one forward pass: the row, and after it copies of the tokens that would see less. So the two differ in what
is seen and in nothing else. What the model finds about as likely in both is independent of the rest.

threads of a text    the text as it stands, and as threads would see it. It has no tags, so any language model can
                     measure, also one that was never trained for threads
fields of a value    a field is measured where it would stand if it waited for everything before it. An `after` is
                     advised only if the program that has it, recorded as it would be decoded, makes the field likelier
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.failures import PastaError
from pastalang.plan.branches import WHOLE, BranchId, Form, Hole, Mode
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.structure import fields_of, joined_in
from pastalang.plan.views import joined_view
from pastalang.plan.waits import ITEM, Pattern, Wait, name_of, possible_waits, with_waits, written
from pastalang.program.program import JsonBody, Program, Template
from pastalang.program.types import AutoPolicy
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.tagged_text import Begin
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.reference import attention_of
from pastalang.runtime.models.step_attention import ATTENTION
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.training.answer import ThreadText, read_thread_text
from pastalang.training.batches import collate, logits_of, window_of
from pastalang.training.data import Asked, Parts, Row
from pastalang.training.errors import BadRow, BadRows
from pastalang.training.labels import Labelled, ModelTeacher, labelled
from pastalang.training.metrics import Interval, interval_of_mean
from pastalang.training.recording import Lesson, Numbers, Recorder, TaughtToken, TrainingRow
from pastalang.values.paths import is_mark, path_text, steps_of

Hidden: TypeAlias = frozenset[int]  # places of a row


@dataclass(frozen=True, slots=True)
class Query:
    """How likely is `token` after `place`, among the `allowed` tokens? None allows all."""

    place: int
    token: int
    allowed: TokenMask | None = None


class Copies:
    """A row, and after it copies of its tokens that do not see some others. `window`: of the model's sliding layers."""

    def __init__(self, row: TrainingRow, *, window: int | None = None) -> None:
        self._row, self._window = row, window
        self._seen: list[Numbers] = [np.flatnonzero(line).astype(np.int32) for line in row.visible]
        self._near: dict[int, Numbers] = {}
        self._sources = list(range(len(row)))
        self._known: dict[tuple[int, Hidden], int] = {}

    def place(self, token: int, hidden: Hidden) -> int:
        """The place of a token that sees nothing hidden, and nothing that has seen it."""
        if hidden.isdisjoint(self._seen[token].tolist()):
            return token
        if (token, hidden) not in self._known:
            others = [self.place(int(one), hidden) for one in self._seen[token] if one != token and one not in hidden]
            place = self._known[token, hidden] = len(self._sources)
            self._sources.append(token)
            self._seen.append(np.array([*others, place], dtype=np.int32))
            if self._window is not None and len(others) >= self._window:
                nearest = sorted(others, key=lambda one: int(self._row.positions[self._sources[one]]))
                self._near[place] = np.array([*nearest[len(others) + 1 - self._window :], place], dtype=np.int32)
        return self._known[token, hidden]

    def row(self) -> TrainingRow:
        """All of it as one row, without labels."""
        sees = self._matrix(self._seen)
        near = None
        if self._row.sees_near is not None or self._near:
            recorded = [np.flatnonzero(line).astype(np.int32) for line in self._row.near]
            near = self._matrix(
                [*recorded, *(self._near.get(n, self._seen[n]) for n in range(len(recorded), len(sees)))]
            )
        return replace(
            self._row, tokens=self._row.tokens[self._sources], positions=self._row.positions[self._sources],
            labels=self._row.labels[self._sources], sees=np.packbits(sees, axis=1), taught=(), writers=(),
            sees_near=None if near is None else np.packbits(near, axis=1),
        )  # fmt: skip

    def _matrix(self, seen: Sequence[Numbers]) -> NDArray[np.bool_]:
        matrix = np.zeros((len(seen), len(seen)), dtype=np.bool_)
        for place, others in enumerate(seen):
            matrix[place, others] = True
        return matrix


def log_likelihoods(model: Any, row: TrainingRow, asked: Sequence[Query]) -> NDArray[np.float64]:
    """In nats, in the order of `asked`."""
    if not asked:
        return np.zeros(0)
    places = sorted({one.place for one in asked})
    where = torch.zeros(1, len(row), dtype=torch.bool)
    where[0, places] = True
    with torch.inference_mode():
        batch = collate([[row]], len(row)).to(next(model.parameters()).device)
        logits = logits_of(model, batch, where=where.to(batch.tokens.device)).double().cpu().numpy()
    index = {place: number for number, place in enumerate(places)}
    return np.array([_log_likelihood(logits[index[one.place]], one) for one in asked])


def _log_likelihood(logits: NDArray[np.float64], asked: Query) -> float:
    among = logits
    if asked.allowed is not None:
        bits = np.unpackbits(asked.allowed.view(np.uint8), bitorder="little")[: len(logits)].astype(np.bool_)
        among = logits[: len(bits)][bits]
    highest = among.max()
    return float(logits[asked.token] - highest - np.log(np.exp(among - highest).sum()))


# ── threads of a text ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Loss:
    """Of one thread, in nats for each of its tokens: how much less likely it is without the others."""

    thread: int
    tokens: int
    nats: float


class Grader:
    """Measures answers with the model that will write them, or with any other one that has the same tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, plan: Plan) -> None:
        assert plan.auto is not None
        self._model, self._plan, self._policy = model.eval(), plan, plan.auto
        self._window = window_of(model)
        self._recorder = Recorder(tokenizer, window=self._window)
        self._spelling = vocabulary_of(tokenizer, ends=Encoder(tokenizer).ends).spelling

    def losses(self, row: Row, tagged: str) -> list[Loss]:
        """`tagged` is the answer of the row, with its threads. Threads that cannot see fewer than all are left out."""
        read = read_thread_text(tagged, self._policy)
        lesson = Lesson(lambda _: self._plan, row.inputs, read.plain, row.origin, thought=row.thought)
        plain = self._recorder.row(lesson, Mode.STRICT)
        return self._measured(plain, self._owners(plain, read), _visible_threads(read, self._policy))

    def _owners(self, plain: TrainingRow, read: ThreadText) -> list[int]:
        """For each token of the row the thread that writes it, -1 for the text. A token on a border is the thread's."""
        answer = [taught.token for taught in plain.taught]
        ends = list(accumulate(len(self._spelling[token] or b"") for token in answer))
        spans = [tuple(len(read.plain[:at].encode()) for at in span) for span in read.spans]
        owners = [-1] * (len(plain) - len(answer) + 1)
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            owners.append(next((n for n, (first, last) in enumerate(spans) if begin < last and end > first), -1))
        return owners[: len(plain)]

    def _measured(self, plain: TrainingRow, owners: Sequence[int], visible: Sequence[frozenset[int]]) -> list[Loss]:
        copies = Copies(plain, window=self._window)
        asked: list[tuple[int, Query, Query]] = []
        for thread, others in enumerate(visible):
            may_see = [owner in (-1, thread) or owner in others for owner in owners]
            tokens = [place for place, owner in enumerate(owners) if owner == thread]
            if not tokens or all(may_see[: tokens[0]]):
                continue
            hidden = frozenset(place for place, may in enumerate(may_see) if not may)
            for token in tokens:
                label = int(plain.tokens[token])
                before = next(place for place in range(token - 1, -1, -1) if may_see[place])
                asked.append((thread, Query(token - 1, label), Query(copies.place(before, hidden), label)))
        scores = log_likelihoods(self._model, copies.row(), [one for _, *pair in asked for one in pair])
        lost: dict[int, list[float]] = {}
        for (thread, *_), whole, apart in zip(asked, scores[0::2], scores[1::2], strict=True):
            lost.setdefault(thread, []).append(float(whole - apart))
        return [Loss(thread, len(each), float(np.mean(each))) for thread, each in lost.items()]


def _visible_threads(read: ThreadText, policy: AutoPolicy) -> list[frozenset[int]]:
    """For each thread, those that its text had waited for when it began."""
    found, begun, waited = list[frozenset[int]](), 0, frozenset[int]()
    for _, tag in read.tags:
        if isinstance(tag, Begin):
            found.append(waited if policy is AutoPolicy.PASTA else frozenset())
            begun += 1
        else:
            waited = frozenset(range(begun))
    return found


# ── fields of a value ────────────────────────────────────────────────────────────────────────────────────────


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
    """Waits that fix what is lost: one after another the best, as long as each is worth it.

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
    rows: Sequence[Row | Asked], model: Any, tokenizer: Any, plan: Plan, *, cells: int = 8192
) -> list[Row | BadRow]:
    """Rows without answers get the model's own. `plan` says how it decodes; from left to right, nothing is unseen."""
    parts = Parts(plan)
    with attention_of(model, ATTENTION):
        engine = Engine(TransformersModel(model, cells=cells), tokenizer, prefix_cells=0)
        teacher = ModelTeacher(engine, plan, {"any_mode": True})
        own = labelled([row for row in rows if isinstance(row, Asked)], plan, teacher, 0.0)
        return [_with_answer(parts, row, next(own)) if isinstance(row, Asked) else row for row in rows]


def _with_answer(parts: Parts, row: Asked, own: Labelled) -> Row | BadRow:
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
        asked = [Query(one.place, one.token, one.allowed) for one in taught]
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
        copies, asked = Copies(row, window=window_of(self.work.model)), list[Query]()
        for waits in sets:
            shown = self.sight.joined.union(*(self.sight.shown_by(wait) for wait in waits))
            asked += [
                Query(copies.place(one.place, _hidden(row, one.place, shown)), one.token, one.allowed) for one in taught
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
    joins = {branch.id: joined_in(branch.segments) for branch in plan.branches}
    view = joined_view(branches, starts, joins)
    return frozenset(plan.branch(id).name for id, until in view.items() if until == WHOLE and id not in branches)


def _drawing(plan: Plan) -> Iterator[tuple[BranchId, Pattern]]:
    """The fields that the model draws, and the branches that write them."""
    for branch, _, segment in fields_of(plan):
        if not (isinstance(segment, Hole) and segment.form is Form.THOUGHT):
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
