"""Reviews finished answers, and runs the plan again until each answer is accepted or no attempts are left.

answer complete ── validate ──┬── all valid, nothing out of date ──> done
      ^                       ├── fields fail, attempts are left ──> a run in which these fields are decoded again
      └───────────────────────┴── fields have changed ──> a run in which the branches that joined them are, too

All else is repeated in these runs; see `scheduler.again`. A field that fails is *repaired*: the new value replaces the
old one. A field that is only unsure is *retried*, once nothing fails: the value with the higher probability stays.
A run that there is no room for is given up: the answer before it is repeated, and has no attempts left.

Stacked documents share the runs and nothing else: each is reviewed as if it were alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pastalang.plan.branches import Choose, Hole, Instance, Placement, Repeat
from pastalang.runtime.answer import Layout, documents_of, layout_of
from pastalang.runtime.errors import Problem, RunError
from pastalang.runtime.events import FieldAgain
from pastalang.runtime.repair.validation import Objection, Policy, judge
from pastalang.runtime.scheduler.state import Again, BranchState, Lead, RequestState
from pastalang.runtime.scheduler.transcript import Author, Field
from pastalang.runtime.scheduler.visibility import highest_seen
from pastalang.values.json import Node, Place, places_of
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
    def layouts(self) -> tuple[Layout, ...] | None:
        """Those of the answers as they are, if the last review has seen nothing wrong with them."""
        found = tuple(one.layout for one in self._answers if one.layout is not None)
        return found if len(found) == len(self._answers) else None

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for one in self._answers for problem in one.problems)

    @property
    def attempts(self) -> int:
        """Repairs and retries. A branch that is decoded again only because it joined one does not count."""
        return sum(one.attempts for one in self._answers)

    @property
    def given_up(self) -> int:
        """The repairs and retries that there was no room for."""
        return sum(one.given_up for one in self._answers)

    def review(self, request: RequestState) -> Again | None:
        """How the next run repeats this one; None if nothing is decoded again."""
        documents, _ = documents_of(request)
        if not self._answers:
            self._answers = [AnswerReview(self.policy, number) for number in range(len(documents))]
        again = Again(
            2 if request.again is None else request.again.number + 1, {one.instance: one for one in request.live}
        )
        rounds = [one.review(document, again) for one, document in zip(self._answers, documents, strict=True)]
        return again if any(rounds) else None

    def give_up(self, request: RequestState, why: RunError, documents: Collection[tuple[int, ...]]) -> Again:
        """How the last run is run once more, without what some documents decoded again; without that of all of them if
        none is named, or if these repeated everything."""
        last = request.again
        assert last is not None
        again = Again(last.number, dict(last.before), dict(last.leads), set(last.settled), dict(last.known))
        for one, document in zip(self._answers, documents_of(request)[0], strict=True):
            assert isinstance(document, BranchState)
            if not documents or document.document in documents:
                one.give_up(document, again, str(why))
        is_same = documents and (again.leads, again.settled) == (last.leads, last.settled)
        return self.give_up(request, why, ()) if is_same else again


@dataclass(slots=True)
class AnswerReview:
    """Reviews one answer. `document` is its number in a stack."""

    policy: Policy
    document: int
    model: Any = None
    problems: tuple[Problem, ...] = ()
    attempts: int = 0
    given_up: int = 0
    layout: Layout | None = None
    _no_room: str = ""  # why nothing is decoded again any more
    _whole: Mapping[Instance, BranchState] = field(default_factory=dict)  # the last answer with nothing out of date
    _whole_run: int = 1
    _since: set[Key] = field(default_factory=set)  # what was decoded again since then
    _is_over: bool = False
    _most: int = 0  # how often a field may be decoded again for the objections of this round
    _tried: Counter[Key] = field(default_factory=Counter)
    _failures: Sequence[Failure] = ()  # which the last run has decoded again
    _unsure: Sequence[Target] = ()  # which the last run has decoded again, as they were before

    def review(self, document: Author, again: Again) -> bool:
        """Says in `again` what of the answer that began with `document` is decoded again, and returns whether it is."""
        self.layout = None
        self._is_over = self._is_over or not self._goes_on(document, again)
        return not self._is_over

    def _goes_on(self, document: Author, again: Again) -> bool:
        assert isinstance(document, BranchState)
        live = {one.instance: one for one in document.request.live.beside(document)}
        decoded = [one.repeats.lead.key for one in live.values() if one.repeats.lead is not None]
        self._count(decoded)
        self._since.update(decoded)
        layout = layout_of(document)
        failures = self._validate(layout)
        undone = self._undone(layout, failures, live)
        if undone:
            self._take_back(undone, live, again)
            return True
        if not any(one.repeats.is_stale for one in live.values()):
            self._whole, self._whole_run, self._since = live, again.number - 1, set()
        failures = [one for one in failures if not any(target.branch.repeats.is_stale for target in one.targets)]
        if not self.policy.keep_invalid and not all(map(self._is_repairable, failures)):
            self._give_up(layout, failures)
            return False
        if attempts := self._attempts(layout, failures, live.values()):
            for target, lead in _leads(attempts, live.values()):
                again.leads.setdefault(target.branch.instance, []).append(lead)
            return True
        if any(one.repeats.is_stale for one in live.values()):
            again.settled.add(document.document)
            return True
        self.layout = None if failures else layout
        self._give_up(layout, failures)
        return False

    def _count(self, decoded: Sequence[Key]) -> None:
        """The fields of one objection share its attempts: what follows in the same branch is decoded again too."""
        first = set(decoded)
        along = {key for one in self._failures if not first.isdisjoint(one.keys) for key in one.keys}
        self._tried.update({*first, *(key for key in along if self._tried[key] < self._most)})
        self.attempts += len(decoded)

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

    def _attempts(self, layout: Layout, failures: list[Failure], live: Iterable[BranchState]) -> list[Attempt]:
        """The failing fields that have attempts left; if there are none, the unsure ones."""
        text = layout.answer.text
        wrong: dict[Key, Attempt] = {}
        for failure in failures:
            for target in failure.targets:
                if self._may_try(target, self._most):
                    reason = failure.objection.reason
                    wrong.setdefault(target.key, Attempt(target, repair_text(text, target.place, reason), reason))
        unsure = [] if wrong else self._to_retry(layout)
        attempts = _independent(
            [*wrong.values(), *(Attempt(one, retry_text(text, one.place), "unsure") for one in unsure)], live
        )
        self._failures, self._unsure = failures, unsure
        return attempts

    def _to_retry(self, layout: Layout) -> list[Target]:
        """The unsure fields that have attempts left."""
        threshold = self.policy.retry_below or 0.0
        return [
            target
            for target in field_targets(layout)
            if _confidence(target) < threshold
            and self._may_try(target, self.policy.retries)
            and not target.branch.repeats.is_stale
        ]

    # ── what stays ───────────────────────────────────────────────────────────────────────────────────────

    def _undone(self, layout: Layout, failures: list[Failure], live: Mapping[Instance, BranchState]) -> set[Instance]:
        """The branches whose retried field stays as it was: the other value is not surer, or a validator objects to it.

        A value that is the same again stays with the probability that it had.
        """
        unsure, self._unsure = self._unsure, ()
        now = {target.key: target for target in field_targets(layout)}
        refused = {target.key for failure in failures for target in failure.targets}
        undone: set[Instance] = set()
        for before in unsure:
            branch, after = live.get(before.branch.instance), now.get(before.key)
            if branch is None or branch.repeats.lead is None or branch.repeats.lead.key != before.key:
                continue  # it was decoded again with another one
            if after is None or before.key in refused or not _is_surer(after, before):
                branch.request.events.report(FieldAgain(before.name, before.items, "it stays as it was"))
                undone.add(branch.instance)
        return undone

    def _take_back(self, undone: set[Instance], live: Mapping[Instance, BranchState], again: Again) -> None:
        """The next run repeats what these branches were before the last one, and what began in them."""
        last = next(iter(live.values())).request.again
        assert last is not None
        for instance, one in live.items():
            if one.repeats.since == last.number and _cause(one) in undone:
                del again.before[instance]
        for instance, old in last.before.items():
            if instance not in again.before and _is_inside(old, undone):
                again.before[instance] = old
                again.known[instance] = live[instance].repeats.kept if instance in live else 0

    def _is_repairable(self, failure: Failure) -> bool:
        return any(self._may_try(target, self._most) for target in failure.targets)

    def _may_try(self, target: Target, most: int) -> bool:
        return not self._no_room and self._tried[target.key] < most

    def _give_up(self, layout: Layout, failures: list[Failure]) -> None:
        """Ends the review: the remaining failures become problems of the result."""
        for failure in failures:
            for target in failure.targets:
                if target.field is not None:
                    target.field.problem = self._reason(failure)
        self.problems = tuple(self._problem(layout, failure) for failure in failures)

    def _problem(self, layout: Layout, failure: Failure) -> Problem:
        node = places_of(layout.answer.text).at(failure.objection.path)
        return Problem(
            path_text(failure.objection.path),
            self._reason(failure),
            layout.answer.text[node.place.start : node.place.end],
            1 + max((self._tried[target.key] for target in failure.targets), default=0),
            self.document,
        )

    def _reason(self, failure: Failure) -> str:
        reason = failure.objection.reason
        if not self._no_room or all(self._tried[target.key] >= self._most for target in failure.targets):
            return reason
        return f"{reason}; there was no room for another attempt: {self._no_room}"

    # ── no room ──────────────────────────────────────────────────────────────────────────────────────────

    def give_up(self, document: BranchState, again: Again, why: str) -> None:
        """`again` repeats the answer before the last run, or before all that this one was to bring up to date."""
        own = {instance for instance, old in again.before.items() if old.document == document.document}
        leads = {lead.key for instance in own for lead in again.leads.pop(instance, ())}
        run = again.number - 1
        if document.document in again.settled:
            again.settled.remove(document.document)
            again.before = {one: old for one, old in again.before.items() if one not in own} | dict(self._whole)
            leads, run = self._since, self._whole_run
        if leads:
            document.request.events.give_up(run, document.document)
            self._no_room = why
            self.given_up += len(leads)


def _independent(attempts: list[Attempt], live: Iterable[BranchState]) -> list[Attempt]:
    """Without those in branches that wait for other ones of these: they are decoded again when those are right."""
    late = {one.target.branch.instance: _joiners(one.target.branch, live) for one in attempts}
    return [
        one
        for one in attempts
        if not any(
            one.target.branch.instance in found for of, found in late.items() if of != one.target.branch.instance
        )
    ]


def _joiners(branch: BranchState, live: Iterable[BranchState]) -> set[Instance]:
    """The branches that have joined this one, or any that began in it, directly or through others."""
    own, late = {branch.instance}, set[Instance]()
    grows = True
    while grows:
        before = len(own) + len(late)
        for one in live:
            parent = None if one.parent is None else one.parent.instance
            joined = {other.instance for _, _, each in one.record.joins for other in each if other.parent is not one}
            if parent in late or not joined.isdisjoint(own | late):
                late.add(one.instance)
            elif parent in own:
                own.add(one.instance)
        grows = len(own) + len(late) > before
    return late


def _leads(attempts: list[Attempt], live: Iterable[BranchState]) -> Iterator[tuple[Target, Lead]]:
    """With its lead, a branch is longer than its gap. A branch that joins it may see what stands after the gap as well,
    so it stands after all of its answer: no two visible tokens share a position. Without gaps, siblings do."""
    free = 1 + max(map(highest_seen, live))
    for one in attempts:
        branch, position = one.target.branch, None
        request = branch.request
        if request.tokens.joiners[branch.spec.id] and request.plan.placement is Placement.GAPS:
            position = free
            free += len(request.tokens.encoder.text(one.text)) + branch.spec.reserve
        field = None if one.target.field is None else one.target.key
        yield one.target, Lead(one.target.key, field, one.text, one.reason, position)


def _cause(branch: BranchState) -> Instance:
    """The branch with the lead that is the reason why a branch is new."""
    one = branch
    while one.repeats.lead is None and one.parent is not None:
        one = one.parent
    return one.instance


def _is_inside(branch: BranchState, instances: set[Instance]) -> bool:
    """Whether a branch is one of these, or began in one of them."""
    one: BranchState | None = branch
    while one is not None and one.instance not in instances:
        one = one.parent
    return one is not None


def _is_surer(after: Target, before: Target) -> bool:
    assert after.field is not None and before.field is not None
    return after.field.whole_text != before.field.whole_text and _confidence(after) > _confidence(before)


def _confidence(target: Target) -> float:
    assert target.field is not None
    averaged = target.field.draws_averaged(dict(target.branch.request.plan.types))
    return math.exp(math.fsum(target.field.decoding.log_probabilities) / averaged)


Key: TypeAlias = tuple[str, tuple[int, ...]]
MAX_REASON: Final = 160  # characters
MAX_VALUE: Final = 80
_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*": ')


@dataclass(frozen=True, slots=True)
class Target:
    """What is decoded again. `name` and `items` identify it and stay the same in every attempt."""

    name: str
    items: tuple[int, ...]
    place: Place
    branch: BranchState
    field: Field | None

    @property
    def key(self) -> Key:
        return self.name, self.items


def targets_of(layout: Layout, tree: Node, objection: Objection) -> tuple[Target, ...]:
    """The targets for an objection. There are none if the text it objects to is fixed by the program."""
    found = {target.key: target for node in objection.nodes(tree) for target in _writers(layout, node.place)}
    return tuple(found.values())


def field_targets(layout: Layout) -> tuple[Target, ...]:
    """Every field that can be decoded again by itself."""
    return tuple(
        Target(field.path, field.items, place, branch, field)
        for branch, field, place in layout.fields
        if isinstance(branch, BranchState) and not field.is_thread
    )


def repair_text(text: str, place: Place, reason: str) -> str:
    """The text before a field that a validator objects to. `text` is the answer, `place` the place of the field."""
    return _forced_text(text, place, f"not accepted: {_on_one_line(reason, MAX_REASON)}")


def retry_text(text: str, place: Place) -> str:
    """The text before an unsure field. Without anything new in its prompt, a greedy model would repeat itself."""
    return _forced_text(text, place, "not sure, once more:")


def _writers(layout: Layout, place: Place) -> list[Target]:
    """The branch that wrote exactly this place; else the holes in it; else the innermost branch around it."""
    around = [
        Target(branch.name, branch.items, _without_key(layout, written), branch, None)
        for branch, written in layout.branches
        if isinstance(branch, BranchState) and _draws(branch) and written.contains(place)
    ]
    exact = [target for target in around if target.place == place]
    if exact and not any(written == place for _, _, written in layout.fields):
        return exact[:1]
    fields = [target for target in field_targets(layout) if target.place.touches(place)]
    if not fields and around:
        return [min(around, key=lambda target: target.place.end - target.place.start)]
    return fields


def _draws(branch: BranchState) -> bool:
    """Whether the branch decides anything itself. A thread is decoded again with the text that began it."""
    draws = (one for one in branch.spec.segments if isinstance(one, Hole | Choose | Repeat))
    return any(not (isinstance(one, Hole) and one.is_thread) for one in draws)


def _without_key(layout: Layout, place: Place) -> Place:
    """The place of the value alone: a branch that waits for others also writes its key."""
    key = _KEY.match(layout.answer.text, place.start, place.end)
    return Place(key.end() if key else place.start, place.end)


def _forced_text(text: str, place: Place, comment: str) -> str:
    key = text[text.rfind("\n", 0, place.start) + 1 : place.start]
    return f"{_on_one_line(text[place.start : place.end], MAX_VALUE)} // {comment}\n{key}"


def _on_one_line(text: str, limit: int) -> str:
    flat = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"
