"""Repair: decode branches of a finished run again, round by round, until each answer is valid or attempts run out.

Every stacked document is repaired as if it were alone. The rounds of all documents begin together.

A round    1  compares the unsure fields with their retakes, and keeps the surer of each two
           2  decodes the fields again that the validator objects to or that are unsure, all at once
           3  if there are none, decodes every branch again that has joined a field which has changed

old  … "brand": ┬ "Foo"              leaves the answer, with all branches forked after the checkpoint
new             └ the lead … "Bar"   sees what the old branch saw at the checkpoint, and its own lead
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pastalang import Problem
from pastalang.plan.branches import Form, Placement
from pastalang.program import types as t
from pastalang.program.visit import arms_of
from pastalang.runtime.binding.spaced import leading_space_of, opening_quote
from pastalang.runtime.repair.policy import Policy
from pastalang.runtime.repair.validation import Objection, judge
from pastalang.values.json import Node, places_of
from pastalang.values.json import Place as Span
from pastalang.values.lengths import closed_texts
from pastalang.values.paths import path_text
from tests.oracle.answer import Field, Layout, layout_of, layouts_of
from tests.oracle.branch import BranchState, Checkpoint, Replay
from tests.oracle.run import Run

Key: TypeAlias = tuple[str, tuple[int, ...]]
_BEFORE_VALUE = re.compile(r'"([^"\\]|\\.)*": ')


@dataclass(frozen=True, eq=False)
class Target:
    """A part of the answer that can be decoded again. `key` is the same in every attempt."""

    key: Key
    layout: Layout
    span: Span
    checkpoint: Checkpoint
    field: Field | None

    @property
    def branch(self) -> BranchState:
        return self.checkpoint.branch.latest

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
        Target((one.hole.field, one.items), layout, span, one.checkpoint, one)
        for one, span in layout.fields
        if one.checkpoint is not None
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
        if author.first_checkpoint is not None:
            key = _BEFORE_VALUE.match(layout.text, span.start, span.end)
            value = Span(key.end() if key else span.start, span.end)
            yield Target((author.spec.name, author.items), layout, value, author.first_checkpoint, None)


@dataclass(frozen=True, eq=False)
class Retake:
    """`new` replaces `old` and all of `hidden` in the answer."""

    checkpoint: Checkpoint
    old: BranchState
    new: BranchState
    hidden: tuple[BranchState, ...]


def branches_after(checkpoint: Checkpoint) -> list[BranchState]:
    """The branches that depend on a checkpoint: its own, and those forked after it."""
    branch = checkpoint.branch.latest
    return [branch, *_descendants(branch.forked[checkpoint.forked :])]


def _descendants(forked: Iterable[BranchState]) -> Iterator[BranchState]:
    for child in forked:
        yield child.latest
        yield from _descendants(child.latest.forked)


def all_branches_after(checkpoints: Iterable[Checkpoint]) -> set[BranchState]:
    return {one for checkpoint in checkpoints for one in branches_after(checkpoint)}


def joiners_of(live: Sequence[BranchState], replaced: set[BranchState]) -> list[Checkpoint]:
    """The first joins of other branches with any of these, or with branches that are decoded again because of them.

    A branch that is decoded again because of another join is left out. `live` are the branches of the answer.
    """
    found: Mapping[BranchState, Checkpoint] = {}
    while True:
        gone = replaced | all_branches_after(found.values())
        first = {one: _first_join(one, gone) for one in live if one not in replaced}
        now = {one: checkpoint for one, checkpoint in first.items() if checkpoint is not None}
        if now.keys() == found.keys() and all(now[one] is found[one] for one in now):
            return [checkpoint for one, checkpoint in now.items() if not _comes_with_another(one, now)]
        found = now


def _first_join(branch: BranchState, gone: set[BranchState]) -> Checkpoint | None:
    return next((checkpoint for checkpoint in branch.checkpoints if not gone.isdisjoint(checkpoint.joined)), None)


def _comes_with_another(branch: BranchState, checkpoints: Mapping[BranchState, Checkpoint]) -> bool:
    return any(
        other is not branch and branch in branches_after(checkpoint) for other, checkpoint in checkpoints.items()
    )


def rewind_to(run: Run, live: Sequence[BranchState], leads: Sequence[tuple[Checkpoint, str]]) -> list[Retake]:
    """Decode again from each checkpoint, after its lead. All new branches exist before the first one is written.

    A joined branch with a lead is longer than its gap, so it moves to positions after the whole answer, whose branches
    are `live`. Without gaps it stays where it is.
    """
    free = 1 + max(token.position for one in live for token in one.path)
    retakes = []
    for checkpoint, text in leads:
        given = text.removesuffix(leading_space_of(checkpoint.segment))
        lead = run.request.encoder.text(given + opening_quote(checkpoint.segment) if text else "")
        has_gap = run.request.plan.placement is Placement.GAPS
        is_moved = bool(text) and checkpoint.branch.spec.id in run.joined and has_gap
        retakes.append(_retake(run, checkpoint, lead, free if is_moved else checkpoint.position))
        new = retakes[-1].new
        free = max(free, new.position + len(lead) + new.spec.reserve)
    return retakes


def _retake(run: Run, checkpoint: Checkpoint, lead: tuple[int, ...], position: int) -> Retake:
    old = checkpoint.branch.latest
    hidden = tuple(one for one in branches_after(checkpoint) if one is not old)
    new = BranchState(
        old.spec, old.loops, old.draw_items, checkpoint.path, position, old.names, checkpoint.sees, run.passes,
        replay=Replay(checkpoint, lead), own_before=checkpoint.own,
    )  # fmt: skip
    run.add(new)
    old.replaced_by = new
    for one in (old, *hidden):
        one.is_hidden = True
    return Retake(checkpoint, old, new, hidden)


def undo(retake: Retake) -> None:
    """The old branch, and all branches hidden with it, are part of the answer again."""
    for one in (retake.new, *_descendants(retake.new.forked[retake.checkpoint.forked :])):
        one.is_hidden = True
    for one in (retake.old, *retake.hidden):
        one.is_hidden = False
    retake.old.replaced_by = None


@dataclass(frozen=True, eq=False)
class Failure:
    """An objection to a value, and the parts of the answer to decode again for it."""

    objection: Objection
    targets: Sequence[Target]


class Repair:
    """`models` holds an instance for each answer that is valid, `problems` the objections that remain."""

    def __init__(self, run: Run, policy: Policy) -> None:
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
        """Prepare the next round. Returns False if nothing is decoded again."""
        rounds = [one.starts_round() for one in self._answers]  # of all of them
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
        self._doubts: list[tuple[Target, Retake]] = []
        self._replaced: set[BranchState] = set()  # a branch that has joined one of these is out of date
        self.model: Any = None
        self.problems: tuple[Problem, ...] = ()

    @property
    def _live(self) -> list[BranchState]:
        """The branches of this answer. With a stack, the root belongs to none."""
        return [one for one in self._run.live if one.document in ((), (self._document,))]

    def starts_round(self) -> bool:
        self._is_done = self._is_done or not self._decodes_again()
        return not self._is_done

    def _decodes_again(self) -> bool:
        failures = self._validate()
        if self._resolve_doubts(failures):
            failures = self._validate()
        late = joiners_of(self._live, self._replaced)
        waiting = all_branches_after(late)  # they are validated when they have been decoded again
        failures = [one for one in failures if waiting.isdisjoint(target.branch for target in one.targets)]
        is_lost = any(all(self._tried[key] >= self._most for key in _keys(one)) for one in failures)
        if is_lost and not self._policy.keep_invalid:
            self._give_up(failures)
            return False
        if self._retake_fields(failures, waiting):
            return True
        if late:
            rewind_to(self._run, self._live, [(checkpoint, "") for checkpoint in late])
            return True
        self._give_up(failures)
        return False

    # ── validation ───────────────────────────────────────────────────────────────────────────────────────

    def _validate(self) -> list[Failure]:
        self._layout = layout_of(self._run.request.plan, self._run.branches[0], self._document)
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

    # ── retakes ──────────────────────────────────────────────────────────────────────────────────────────

    def _retake_fields(self, failures: Iterable[Failure], waiting: set[BranchState]) -> bool:
        objected: dict[Key, tuple[Target, str]] = {}
        for failure in failures:
            for target in failure.targets:
                if self._tried[target.key] < self._most:
                    objected.setdefault(target.key, (target, failure.objection.reason))
        failing = self._apart([target for target, _ in objected.values()])
        unsure = [one for one in self._unsure(waiting) if one.key not in objected]
        apart = [one for one in self._apart([*failing, *unsure]) if one not in failing]
        branches = {target.branch for target in failing}
        doubted = [one for one in apart if branches.isdisjoint(branches_after(one.checkpoint))]
        leads = [_lead(one, f"not accepted: {_on_one_line(objected[one.key][1], 160)}") for one in failing]
        leads += [_lead(one, "not sure, once more:") for one in doubted]
        gone = all_branches_after(target.checkpoint for target in failing)
        retakes = rewind_to(
            self._run, self._live, list(zip((one.checkpoint for one in (*failing, *doubted)), leads, strict=True))
        )
        self._replaced |= gone
        first = {target.key for target in failing}
        along = {key for one in failures if first & set(_keys(one)) for key in _keys(one) if key in objected}
        self._tried.update({*first, *along, *(target.key for target in doubted)})
        self.attempts += len(failing) + len(doubted)
        self._doubts = list(zip(doubted, retakes[len(failing) :], strict=True))
        return bool(retakes)

    def _unsure(self, waiting: set[BranchState]) -> list[Target]:
        policy = self._policy
        return [
            target
            for target in field_targets(self._layout)
            if target.confidence < (policy.retry_below or 0.0)
            and self._tried[target.key] < policy.retries
            and target.branch not in waiting
        ]

    def _apart(self, targets: Sequence[Target]) -> list[Target]:
        """Without the targets that are decoded again anyway, because another one is."""
        return [one for one in targets if not any(self._comes_with(one, other) for other in targets)]

    def _comes_with(self, one: Target, other: Target) -> bool:
        if one.branch is other.branch:
            return other.span.start < one.span.start
        seen = set(branches_after(other.checkpoint))
        return one.branch in seen | all_branches_after(joiners_of(self._live, seen))

    # ── unsure fields ────────────────────────────────────────────────────────────────────────────────────

    def _resolve_doubts(self, failures: Iterable[Failure]) -> bool:
        """Keep the surer of each old value and its retake. Returns whether any retake was undone."""
        now = {target.key: target for target in field_targets(self._layout)}
        refused = {key for failure in failures for key in _keys(failure)}
        was_undone = False
        for before, retake in self._doubts:
            after = now.get(before.key)
            if after is None or before.key in refused or not _is_surer(after, before):
                undo(retake)
                was_undone = True
            else:
                self._replaced.update((retake.old, *retake.hidden))
        self._doubts = []
        return was_undone


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
