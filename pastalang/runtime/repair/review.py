"""The rounds of a repair: a request with nothing left to draw comes in; branches are taken up again, or it is done.

answer complete ── validate ──┬── nothing to object to, nobody out of date ──> done
      ^                       ├── fields fail, attempts are left ──> those fields again, all in the same passes
      └───────────────────────┴── fields have changed ──> whoever had waited for them, again
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from pastalang.runtime.answer import Layout, layouts_of
from pastalang.runtime.errors import Problem
from pastalang.runtime.events import FieldAgain
from pastalang.runtime.repair.policy import Policy
from pastalang.runtime.repair.targets import Key, Target, field_targets, repair_text, retry_text, targets_of
from pastalang.runtime.repair.validation import Objection, validate
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.rewind import Retake, branches_after, joiners_of, latest, rewind_to, undo
from pastalang.runtime.scheduler.transcript import Field
from pastalang.values.json import places_of
from pastalang.values.mismatch import path_text


@dataclass(frozen=True, slots=True)
class Failure:
    """An objection to one answer, and who has to be decoded again for it."""

    document: int
    sheet: Layout
    objection: Objection
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """A field that is decoded again because it was unsure; the surer one of the two stays."""

    target: Target
    before: Field
    again: Retake
    gone: frozenset[BranchState]


@dataclass(slots=True)
class Review:
    """See `scheduler.request.Reviewer`. `models` are the instances if all is valid, else `problems` says why not."""

    policy: Policy
    models: tuple[BaseModel, ...] = ()
    problems: tuple[Problem, ...] = ()
    attempts: int = 0  # fields decoded again for a reason of their own
    _sheets: tuple[Layout, ...] = ()
    _tried: Counter[Key] = field(default_factory=Counter)
    _doubts: list[Retry] = field(default_factory=list)
    _replaced: set[BranchState] = field(default_factory=set)  # out of the answer; who has joined them is out of date

    def review(self, request: RequestState) -> bool:
        failures = self._judge(request)
        if self._settle_doubts(failures):
            failures = self._judge(request)
        outdated = joiners_of(request, self._replaced)
        late = {one for point in outdated.values() for one in branches_after(point)}
        failures = [one for one in failures if late.isdisjoint(_branches(one.targets))]
        if not self.policy.keep_invalid and not all(map(self._is_repairable, failures)):
            self._give_up(failures)
            return False
        if self._decode_again(request, failures, late):
            return True
        if outdated:
            rewind_to([(point, "") for point in outdated.values()])
        else:
            self._give_up(failures)
        return bool(outdated)

    def _judge(self, request: RequestState) -> list[Failure]:
        self._sheets, _ = layouts_of(request)
        self.models = ()
        if self.policy.model is None:
            return []
        failures: list[Failure] = []
        models: list[BaseModel] = []
        for document, sheet in enumerate(self._sheets):
            found = validate(self.policy.model, sheet.exact)
            if isinstance(found, BaseModel):
                models.append(found)
            else:
                tree = places_of(sheet.answer.text)
                failures += [Failure(document, sheet, one, targets_of(sheet, tree, one)) for one in found]
        if not failures:
            self.models = tuple(models)
        return failures

    # ── who is decoded again ─────────────────────────────────────────────────────────────────────────────

    def _decode_again(self, request: RequestState, failures: list[Failure], late: set[BranchState]) -> bool:
        """Says whether anybody is."""
        wrong = self._wrong(failures)
        unsure = self._unsure(late) if self.policy.retry_below is not None else {}
        chosen = _apart(request, [target for target, *_ in wrong.values()])
        doubted = [
            target
            for target in _apart(request, [*chosen, *(target for key, target in unsure.items() if key not in wrong)])
            if target not in chosen
        ]
        # An unsure field that a failing one depends on has its turn when that one is right.
        doubted = [one for one in doubted if set(branches_after(one.point)).isdisjoint(_branches(chosen))]
        texts = {target.key: wrong[target.key][1] for target in chosen}
        texts |= {one.key: retry_text(self._text(one), one.place) for one in doubted}
        gone = {target.key: frozenset(branches_after(target.point)) for target in (*chosen, *doubted)}
        for target in (*chosen, *doubted):
            self._tried[target.key] += 1
            self.attempts += 1
            reason = "unsure" if target in doubted else wrong[target.key][2]
            request.events.report(FieldAgain(target.name, target.items, reason))
        taken = rewind_to([(target.point, texts[target.key]) for target in (*chosen, *doubted)])
        for target in chosen:
            self._replaced |= gone[target.key]
        for target, again in zip(doubted, taken[len(chosen) :], strict=True):
            assert target.field is not None
            self._doubts.append(Retry(target, target.field, again, gone[target.key]))
        return bool(taken)

    def _wrong(self, failures: list[Failure]) -> dict[Key, tuple[Target, str, str]]:
        """Those with attempts left, what each is told, and why."""
        wrong: dict[Key, tuple[Target, str, str]] = {}
        for failure in failures:
            for target in failure.targets:
                if self._tried[target.key] < self.policy.repair:
                    reason = failure.objection.reason
                    told = repair_text(failure.sheet.answer.text, target.place, reason)
                    wrong.setdefault(target.key, (target, told, reason))
        return wrong

    def _unsure(self, late: set[BranchState]) -> dict[Key, Target]:
        threshold = self.policy.retry_below or 0.0
        return {
            target.key: target
            for sheet in self._sheets
            for target in field_targets(sheet)
            if target.field is not None
            and _confidence(target.field) < threshold
            and self._tried[target.key] < self.policy.retries
            and late.isdisjoint(_branches([target]))
        }

    def _text(self, target: Target) -> str:
        for sheet in self._sheets:
            if any(one is target.field for one, _ in sheet.fields):
                return sheet.answer.text
        raise AssertionError(f"`{target.name}` is in no answer")

    # ── who stays ────────────────────────────────────────────────────────────────────────────────────────

    def _settle_doubts(self, failures: list[Failure]) -> bool:
        """Keep the surer one of each two, unless a validator objects to it; a value that was only said again, with
        whatever probability, stays as it was. Says whether one was taken back."""
        doubts, self._doubts = self._doubts, []
        now = {target.key: target.field for sheet in self._sheets for target in field_targets(sheet)}
        refused = {target.key for failure in failures for target in failure.targets}
        was_taken_back = False
        for doubt in doubts:
            field = now.get(doubt.target.key)
            if field is None or doubt.target.key in refused or not _is_surer(field, doubt.before):
                again = FieldAgain(doubt.target.name, doubt.target.items, "it stays as it was")
                doubt.again.new.request.events.report(again)
                undo(doubt.again)
                was_taken_back = True
            else:
                self._replaced |= doubt.gone
        return was_taken_back

    def _is_repairable(self, failure: Failure) -> bool:
        return any(self._tried[target.key] < self.policy.repair for target in failure.targets)

    def _give_up(self, failures: list[Failure]) -> None:
        """Nothing more is decoded: what is left of the failures is the problem."""
        for failure in failures:
            for target in failure.targets:
                if target.field is not None:
                    target.field.problem = failure.objection.reason
        self.problems = tuple(self._problem(failure) for failure in failures)

    def _problem(self, failure: Failure) -> Problem:
        node = places_of(failure.sheet.answer.text).at(failure.objection.path)
        return Problem(
            path_text(failure.objection.path),
            failure.objection.reason,
            failure.sheet.answer.text[node.place.start : node.place.end],
            1 + max((self._tried[target.key] for target in failure.targets), default=0),
            failure.document,
        )


def _apart(request: RequestState, targets: Sequence[Target]) -> list[Target]:
    """Without those that are decoded again anyway because another one is: with it, or after it."""
    touched = {target.key: _touched(request, target) for target in targets}
    return [one for one in targets if not any(_covers(other, one, touched[other.key]) for other in targets)]


def _touched(request: RequestState, target: Target) -> set[BranchState]:
    gone = set(branches_after(target.point))
    return gone | {one for point in joiners_of(request, gone).values() for one in branches_after(point)}


def _covers(other: Target, one: Target, touched: set[BranchState]) -> bool:
    if latest(other.point.branch) is latest(one.point.branch):
        return other.place.start < one.place.start
    return latest(one.point.branch) in touched


def _branches(targets: Iterable[Target]) -> set[BranchState]:
    return {latest(target.point.branch) for target in targets}


def _is_surer(field: Field, before: Field) -> bool:
    return field.text != before.text and _confidence(field) > _confidence(before)


def _confidence(field: Field) -> float:
    return math.exp(math.fsum(field.log_probabilities))
