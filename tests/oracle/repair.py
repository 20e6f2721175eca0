"""Repair: run the plan of a finished answer again, round by round, until each answer is valid or attempts run out.

Every stacked document is repaired as if it were alone. The rounds of all documents begin together.

A round    1  compares the unsure fields with what they were before; those that are not surer are put back
           2  decodes the fields again that the validator objects to, or else those that are unsure
           3  if there are none, decodes every branch again from where it joined something newer than it has seen

old  … "brand": "Foo"               repeated, up to the field that is decoded again
new  … "brand": the lead … "Bar"    and new from there on
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pastalang import Problem
from pastalang.plan.branches import Form, Placement
from pastalang.program import types as t
from pastalang.program.visit import arms_of
from pastalang.runtime.repair.validation import Objection, Policy, judge
from pastalang.values.json import Node, places_of
from pastalang.values.json import Place as Span
from pastalang.values.lengths import closed_texts
from pastalang.values.paths import path_text
from tests.oracle.answer import Field, Layout, layout_of, layouts_of
from tests.oracle.branch import BranchState, Key, Lead
from tests.oracle.run import Again, Run

_BEFORE_VALUE = re.compile(r'"([^"\\]|\\.)*": ')


@dataclass(frozen=True, eq=False)
class Target:
    """A part of the answer that can be decoded again. `key` is the same in every attempt."""

    key: Key
    layout: Layout
    span: Span
    branch: BranchState
    field: Field | None

    @property
    def text(self) -> str:
        return self.layout.text[self.span.start : self.span.end]

    @property
    def confidence(self) -> float:
        """The probability of a value that is right or wrong as a whole; of others the geometric mean of their draws."""
        if self.field is None:
            return 1.0
        type, types = self.field.hole.type, dict(self.layout.plan.types)
        whole = (t.Literal, t.Boolean, t.Null, t.Integer, t.Number, t.Temporal, t.Uuid)
        is_whole = all(isinstance(arm, whole) for arm in arms_of(type, types))
        is_whole |= self.field.text in closed_texts(type, types, quoted=self.field.hole.form is Form.JSON)
        draws = 1 if is_whole else max(1, self.field.draws)
        return math.exp(math.fsum(self.field.log_probabilities) / draws)


def field_targets(layout: Layout) -> list[Target]:
    return [
        Target((one.hole.field, one.items), layout, span, layout.writers[id(one)], one)
        for one, span in layout.fields
        if not one.hole.is_thread
    ]


def targets_of(layout: Layout, objection: Objection) -> list[Target]:
    """The parts to decode again for an objection. There are none if its value is only fixed text."""
    value = places_of(layout.text).at(objection.path)
    found: dict[Key, Target] = {}
    for part in _parts_read(value, objection):
        for target in _writers(layout, part.place):
            found[target.key] = target
    return list(found.values())


def _parts_read(value: Node, objection: Objection) -> list[Node]:
    return [value.parts[key] for key in objection.fields if key in value.parts] or [value]


def _writers(layout: Layout, value: Span) -> list[Target]:
    around = [target for target in _branches_of(layout) if target.span.contains(value)]
    holes = [target for target in field_targets(layout) if target.span.touches(value)]
    whole = [target for target in around if target.span == value]
    if whole and not any(hole.span == value for hole in holes):
        return whole[:1]
    return holes or sorted(around, key=lambda target: target.span.end - target.span.start)[:1]


def _branches_of(layout: Layout) -> Iterator[Target]:
    """Inner branches first. If a branch writes its key itself, its value begins after the key."""
    for author, span in layout.branches:
        assert isinstance(author, BranchState)
        if author.decides:
            key = _BEFORE_VALUE.match(layout.text, span.start, span.end)
            value = Span(key.end() if key else span.start, span.end)
            yield Target((author.spec.name, author.items), layout, value, author, None)


@dataclass(frozen=True, eq=False)
class Failure:
    """An objection to a value, and the parts of the answer to decode again for it."""

    objection: Objection
    targets: Sequence[Target]


class Repair:
    """`models` holds an instance for each answer that is valid, `problems` the objections that remain."""

    def __init__(self, run: Run, policy: Policy) -> None:
        self._run = run
        count = len(layouts_of(run.request.plan, run.branches[0]))
        self._answers = [_AnswerRepair(run, policy, number) for number in range(count)]

    @property
    def models(self) -> list[Any]:
        return [one.model for one in self._answers]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for one in self._answers for problem in one.problems)

    @property
    def attempts(self) -> int:
        return sum(one.attempts for one in self._answers)

    def starts_round(self) -> bool:
        """Begin the next run. Returns False if nothing is decoded again."""
        again = Again({one.instance: one for one in self._run.branches})
        rounds = [one.starts_round(again) for one in self._answers]  # of all of them
        if any(rounds):
            self._run.begin(again)
        return any(rounds)


class _AnswerRepair:
    """The repair of one answer. `document` is its number."""

    def __init__(self, run: Run, policy: Policy, document: int) -> None:
        self._run = run
        self._policy = policy
        self._document = document
        self.attempts = 0
        self._is_done = False
        self._most = 0  # how often a field may be decoded again for the objections of this round
        self._tried: Counter[Key] = Counter()
        self._failing: Sequence[Failure] = ()
        self._doubted: Sequence[Target] = ()
        self.model: Any = None
        self.problems: tuple[Problem, ...] = ()

    def starts_round(self, again: Again) -> bool:
        self._is_done = self._is_done or not self._decodes_again(again)
        return not self._is_done

    def _decodes_again(self, again: Again) -> bool:
        # With a stack, the root belongs to no answer.
        stacked = (self._document,) if self._run.stacks else ()
        self._live = [one for one in self._run.branches if one.document == stacked]
        self._count()
        failures = self._validate()
        if self._puts_back(failures, again):
            return True
        failures = [one for one in failures if not any(target.branch.is_stale for target in one.targets)]
        is_lost = any(all(self._tried[key] >= self._most for key in _keys(one)) for one in failures)
        if is_lost and not self._policy.keep_invalid:
            self._give_up(failures)
            return False
        leads = list(self._leads(self._apart(self._wanted(failures))))
        for target, lead in leads:
            again.leads.setdefault(target.branch.instance, []).append(lead)
        if leads:
            return True
        if any(one.is_stale for one in self._live):
            again.settled.add(stacked)
            return True
        self._give_up(failures)
        return False

    def _count(self) -> None:
        reached = {one.lead.key for one in self._live if one.lead is not None}
        along = {key for one in self._failing if reached & set(_keys(one)) for key in _keys(one)}
        self._tried.update(reached | {key for key in along if self._tried[key] < self._most})
        self.attempts += len(reached)

    # ── validation ───────────────────────────────────────────────────────────────────────────────────────

    def _validate(self) -> list[Failure]:
        self._layout = layout_of(self._run.request.plan, self._run.branches[0], self._document)
        self._layout.writers = {id(field): one for one in self._live for field in one.fields}
        self._most = self._policy.checks if self._layout.mismatches else self._policy.repair
        found, objections = judge(self._layout, self._policy.model)
        self.model = None if objections else found
        return [Failure(one, targets_of(self._layout, one)) for one in objections]

    def _give_up(self, failures: Iterable[Failure]) -> None:
        self.problems = tuple(map(self._problem, failures))
        for failure in failures:
            for target in failure.targets:
                if target.field is not None:
                    target.field.problem = failure.objection.reason

    def _problem(self, failure: Failure) -> Problem:
        path, text = failure.objection.path, self._layout.text
        value = places_of(text).at(path).place
        attempts = 1 + max((self._tried[key] for key in _keys(failure)), default=0)
        return Problem(
            path_text(path), failure.objection.reason, text[value.start : value.end], attempts, self._document
        )  # fmt: skip

    # ── what is decoded again ────────────────────────────────────────────────────────────────────────────

    def _wanted(self, failures: Sequence[Failure]) -> list[tuple[Target, str]]:
        """The targets to decode again, each with the comment on what it was."""
        objected: dict[Key, tuple[Target, str]] = {}
        for failure in failures:
            comment = f"not accepted: {_on_one_line(failure.objection.reason, 160)}"
            for target in failure.targets:
                if self._tried[target.key] < self._most:
                    objected.setdefault(target.key, (target, comment))
        self._failing = failures
        self._doubted = [] if objected else self._unsure()
        return [*objected.values(), *((target, "not sure, once more:") for target in self._doubted)]

    def _unsure(self) -> list[Target]:
        policy = self._policy
        return [
            target
            for target in field_targets(self._layout)
            if target.confidence < (policy.retry_below or 0.0)
            and self._tried[target.key] < policy.retries
            and not target.branch.is_stale
        ]

    def _apart(self, wanted: Sequence[tuple[Target, str]]) -> list[tuple[Target, str]]:
        """Without those in branches that have joined other ones of these, directly or through others."""
        found = []
        for target, comment in wanted:
            others = {one.branch for one, _ in wanted if one.branch is not target.branch}
            if not any(self._waits_for(target.branch, one) for one in others):
                found.append((target, comment))
        return found

    def _waits_for(self, branch: BranchState, other: BranchState) -> bool:
        """Whether it, or a branch that it began in, has joined the other one or what began there."""
        came_from = {other, *_descendants([other])}
        reached: set[BranchState] = set()
        while True:
            late = [
                one
                for one in self._live
                if any(joined in came_from | reached and joined not in one.forked for joined in one.joined)
            ]
            now = {*late, *_descendants(late)}
            if now == reached:
                return branch in now
            reached = now

    def _leads(self, wanted: Iterable[tuple[Target, str]]) -> Iterator[tuple[Target, Lead]]:
        """A joined branch with a lead is longer than its gap, so it moves behind the whole answer. Without gaps it
        stays where it is."""
        free = 1 + max(token.position for one in self._live for token in one.path)
        for target, comment in wanted:
            text, branch = _lead(target, comment), target.branch
            is_moved = branch.spec.id in self._run.joined and self._run.request.plan.placement is Placement.GAPS
            field = None if target.field is None else target.key
            yield target, Lead(target.key, field, text, free if is_moved else None)
            if is_moved:
                free += len(self._run.request.encoder.text(text)) + branch.spec.reserve

    # ── unsure fields ────────────────────────────────────────────────────────────────────────────────────

    def _puts_back(self, failures: Iterable[Failure], again: Again) -> bool:
        """Repeat what a field was before that is not surer now, and everything after it. Says whether there is any."""
        now = {target.key: target for target in field_targets(self._layout)}
        refused = {key for failure in failures for key in _keys(failure)}
        live = {one.instance: one for one in self._live}
        put_back: list[BranchState] = []
        for before in self._doubted:
            branch, after = live.get(before.branch.instance), now.get(before.key)
            if branch is None or branch.lead is None or branch.lead.key != before.key:
                continue
            if after is None or before.key in refused or not _is_surer(after, before):
                put_back.append(branch)
        self._doubted = ()
        for branch in put_back:
            for one in (branch, *_begun_anew(branch)):
                again.before.pop(one.instance)
        assert self._run.again is not None or not put_back
        for branch in put_back:
            before = self._run.again.before[branch.instance]
            for old in (before, *_descendants([before])):
                again.before.setdefault(old.instance, old)
        return bool(put_back)


def _descendants(branches: Iterable[BranchState]) -> Iterator[BranchState]:
    for branch in branches:
        yield from branch.forked
        yield from _descendants(branch.forked)


def _begun_anew(branch: BranchState) -> Iterator[BranchState]:
    """The branches that are new because it is new."""
    for one in branch.forked:
        if one.since == one.run and one.lead is None:
            yield one
            yield from _begun_anew(one)


def _keys(failure: Failure) -> list[Key]:
    return [target.key for target in failure.targets]


def _is_surer(after: Target, before: Target) -> bool:
    """The same value again is not surer, whatever its probability."""
    return after.text != before.text and after.confidence > before.confidence


def _lead(target: Target, comment: str) -> str:
    """The text before a retake: the old value, a comment on it, and the start of its line."""
    text, span = target.layout.text, target.span
    key = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    return f"{_on_one_line(target.text, 80)} // {comment}\n{key}"


def _on_one_line(text: str, limit: int) -> str:
    flat = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return flat if len(flat) <= limit else f"{flat[: limit - 1].rstrip()}…"
