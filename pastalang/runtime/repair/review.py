"""Reviews finished answers in rounds, until each answer is accepted or no attempts are left.

answer complete ── validate ──┬── all valid, nothing out of date ──> done
      ^                       ├── fields fail, attempts are left ──> decode those fields again, in the same passes
      └───────────────────────┴── fields have changed ──> decode the branches that joined them again

A field that fails is *repaired*: the new value replaces the old one. A field that is only unsure is *retried*: the
value with the higher probability stays.

Stacked documents share the passes of a round and nothing else: each is reviewed as if it were alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pastalang.runtime.answer import Layout, documents_of, layout_of
from pastalang.runtime.errors import Problem
from pastalang.runtime.events import FieldAgain
from pastalang.runtime.repair.policy import Policy
from pastalang.runtime.repair.targets import Key, Target, field_targets, repair_text, retry_text, targets_of
from pastalang.runtime.repair.validation import Objection, judge
from pastalang.runtime.scheduler.rewind import Retake, branches_after, joiners_of, latest, rewind_to, undo
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.scheduler.transcript import Author, Field
from pastalang.values.json import places_of
from pastalang.values.paths import path_text


@dataclass(frozen=True, slots=True)
class Failure:
    """An objection to an answer, and the fields that have to be decoded again for it."""

    objection: Objection
    targets: tuple[Target, ...]

    @property
    def keys(self) -> set[Key]:
        return {target.key for target in self.targets}


@dataclass(frozen=True, slots=True)
class Retry:
    """An unsure field that is being decoded again. `replaced` are the branches that the new ones stand for."""

    target: Target
    before: Field
    retake: Retake
    replaced: frozenset[BranchState]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A field to decode again, the text that is forced before it, and the reason for the caller."""

    target: Target
    text: str
    reason: str


@dataclass(slots=True)
class Review:
    """The reviewer of one request; see `scheduler.state.Reviewer`.

    In the end every answer either has a valid instance in `models`, or something in `problems` says what is wrong.
    """

    policy: Policy
    _answers: list[AnswerReview] = field(default_factory=list)

    @property
    def models(self) -> tuple[Any, ...]:
        return tuple(one.model for one in self._answers)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for one in self._answers for problem in one.problems)

    @property
    def attempts(self) -> int:
        """Repairs and retries. A branch that is decoded again only because it joined one does not count."""
        return sum(one.attempts for one in self._answers)

    @property
    def undoable(self) -> Iterator[BranchState]:
        """What retries have taken out of the answers, until it is known whether they are kept."""
        for retry in (retry for one in self._answers for retry in one.retries):
            yield from (retry.retake.old, *retry.retake.hidden)

    def review(self, request: RequestState) -> bool:
        """Starts the next round. Returns whether there is anything to decode."""
        documents, _ = documents_of(request)
        if not self._answers:
            self._answers = [AnswerReview(self.policy, number) for number in range(len(documents))]
        rounds = [one.review(document) for one, document in zip(self._answers, documents, strict=True)]
        return any(rounds)


@dataclass(slots=True)
class AnswerReview:
    """Reviews one answer. `document` is its number in a stack."""

    policy: Policy
    document: int
    model: Any = None
    problems: tuple[Problem, ...] = ()
    attempts: int = 0
    retries: list[Retry] = field(default_factory=list)
    _is_over: bool = False
    _most: int = 0  # how often a field may be decoded again for the objections of this round
    _tried: Counter[Key] = field(default_factory=Counter)
    # Branches that are no longer in the answer. Branches that joined them are out of date.
    _replaced: set[BranchState] = field(default_factory=set)

    def review(self, document: Author) -> bool:
        """Starts the next round of the answer that began with `document`. Returns whether there is one."""
        self._is_over = self._is_over or not self._starts_round(document)
        return not self._is_over

    def _starts_round(self, document: Author) -> bool:
        layout = layout_of(document)
        failures = self._validate(layout)
        if self._resolve_retries(layout, failures):
            layout = layout_of(document)
            failures = self._validate(layout)
        outdated = joiners_of(self._replaced)
        stale = {one for point in outdated.values() for one in branches_after(point)}
        failures = [one for one in failures if stale.isdisjoint(_branches(one.targets))]
        if not self.policy.keep_invalid and not all(map(self._is_repairable, failures)):
            self._give_up(layout, failures)
            return False
        if self._decode_again(layout, failures, stale):
            return True
        if outdated:
            rewind_to([(point, "") for point in outdated.values()])
        else:
            self._give_up(layout, failures)
        return bool(outdated)

    def _validate(self, layout: Layout) -> list[Failure]:
        self.model = None
        self._most = self.policy.checks if layout.mismatches else self.policy.repair
        found, objections = judge(layout, self.policy.model)
        if not objections:
            self.model = found
            return []
        tree = places_of(layout.answer.text)
        return [Failure(one, targets_of(layout, tree, one)) for one in objections]

    # ── what is decoded again ────────────────────────────────────────────────────────────────────────────

    def _decode_again(self, layout: Layout, failures: list[Failure], stale: set[BranchState]) -> bool:
        """Rewinds the failing and the unsure fields. Returns whether there are any."""
        wrong = self._to_repair(layout, failures)
        unsure = self._to_retry(layout, stale) if self.policy.retry_below is not None else {}
        repaired = _independent([attempt.target for attempt in wrong.values()])
        unsure_targets = [target for key, target in unsure.items() if key not in wrong]
        retried = [one for one in _independent([*repaired, *unsure_targets]) if one not in repaired]
        # An unsure field that a failing one depends on waits until the failing one is right.
        retried = [one for one in retried if set(branches_after(one.checkpoint)).isdisjoint(_branches(repaired))]
        attempts = [wrong[target.key] for target in repaired]
        attempts += [Attempt(one, retry_text(layout.answer.text, one.place), "unsure") for one in retried]
        replaced = {attempt.target.key: frozenset(branches_after(attempt.target.checkpoint)) for attempt in attempts}
        # The fields of one objection share its attempts: those that follow in the same branch are decoded again too.
        first = {target.key for target in repaired}
        along = {key for one in failures if not first.isdisjoint(one.keys) for key in one.keys & wrong.keys()}
        self._tried.update({*first, *along, *(target.key for target in retried)})
        self.attempts += len(attempts)
        for attempt in attempts:
            events = attempt.target.checkpoint.branch.request.events
            events.report(FieldAgain(attempt.target.name, attempt.target.items, attempt.reason))
        retakes = rewind_to([(attempt.target.checkpoint, attempt.text) for attempt in attempts])
        for target in repaired:
            self._replaced |= replaced[target.key]
        for target, retake in zip(retried, retakes[len(repaired) :], strict=True):
            assert target.field is not None
            self.retries.append(Retry(target, target.field, retake, replaced[target.key]))
        return bool(retakes)

    def _to_repair(self, layout: Layout, failures: list[Failure]) -> dict[Key, Attempt]:
        """The failing fields that have attempts left."""
        wrong: dict[Key, Attempt] = {}
        for failure in failures:
            for target in failure.targets:
                if self._tried[target.key] < self._most:
                    reason = failure.objection.reason
                    text = repair_text(layout.answer.text, target.place, reason)
                    wrong.setdefault(target.key, Attempt(target, text, reason))
        return wrong

    def _to_retry(self, layout: Layout, stale: set[BranchState]) -> dict[Key, Target]:
        """The unsure fields that have attempts left."""
        threshold = self.policy.retry_below or 0.0
        return {
            target.key: target
            for target in field_targets(layout)
            if target.field is not None
            and _confidence(target.field, target.checkpoint.branch) < threshold
            and self._tried[target.key] < self.policy.retries
            and stale.isdisjoint(_branches([target]))
        }

    # ── what stays ───────────────────────────────────────────────────────────────────────────────────────

    def _resolve_retries(self, layout: Layout, failures: list[Failure]) -> bool:
        """Keeps the surer value of each retried field, unless a validator objects to it.

        A retry that gives the same value again is undone, whatever its probability. Returns whether one was undone.
        """
        retries, self.retries = self.retries, []
        now = {target.key: target.field for target in field_targets(layout)}
        refused = {target.key for failure in failures for target in failure.targets}
        was_undone = False
        for retry in retries:
            field = now.get(retry.target.key)
            if field is None or retry.target.key in refused or not _is_surer(field, retry):
                again = FieldAgain(retry.target.name, retry.target.items, "it stays as it was")
                retry.retake.new.request.events.report(again)
                undo(retry.retake)
                was_undone = True
            else:
                self._replaced |= retry.replaced
        return was_undone

    def _is_repairable(self, failure: Failure) -> bool:
        return any(self._tried[target.key] < self._most for target in failure.targets)

    def _give_up(self, layout: Layout, failures: list[Failure]) -> None:
        """Ends the review: the remaining failures become problems of the result."""
        for failure in failures:
            for target in failure.targets:
                if target.field is not None:
                    target.field.problem = failure.objection.reason
        self.problems = tuple(self._problem(layout, failure) for failure in failures)

    def _problem(self, layout: Layout, failure: Failure) -> Problem:
        node = places_of(layout.answer.text).at(failure.objection.path)
        return Problem(
            path_text(failure.objection.path),
            failure.objection.reason,
            layout.answer.text[node.place.start : node.place.end],
            1 + max((self._tried[target.key] for target in failure.targets), default=0),
            self.document,
        )


def _independent(targets: Sequence[Target]) -> list[Target]:
    """Without the targets that are decoded again anyway, because another target is."""
    invalidated = {target.key: _invalidated(target) for target in targets}
    return [one for one in targets if not any(_covers(other, one, invalidated[other.key]) for other in targets)]


def _invalidated(target: Target) -> set[BranchState]:
    """The branches that decoding a target again replaces."""
    own = set(branches_after(target.checkpoint))
    return own | {one for point in joiners_of(own).values() for one in branches_after(point)}


def _covers(other: Target, one: Target, invalidated: set[BranchState]) -> bool:
    if latest(other.checkpoint.branch) is latest(one.checkpoint.branch):
        return other.place.start < one.place.start
    return latest(one.checkpoint.branch) in invalidated


def _branches(targets: Iterable[Target]) -> set[BranchState]:
    return {latest(target.checkpoint.branch) for target in targets}


def _is_surer(field: Field, retry: Retry) -> bool:
    before, branch = retry.before, retry.target.checkpoint.branch
    return field.whole_text != before.whole_text and _confidence(field, branch) > _confidence(before, branch)


def _confidence(field: Field, branch: BranchState) -> float:
    averaged = field.draws_averaged(dict(branch.request.plan.types))
    return math.exp(math.fsum(field.decoding.log_probabilities) / averaged)
