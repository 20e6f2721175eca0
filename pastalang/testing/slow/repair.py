"""What is decoded again: branches of a finished run are taken up, round by round, until nothing is to be done.

a round    1  a field that was unsure and is written anew: the surer one of the two stays
           2  fields that the validator objects to, and unsure ones, all at once
           3  every branch that has joined a field that has changed, when that is right

old  … "brand": ┬ "Foo"                        out of the answer, with all that was forked after the point
new             └ the lead … "Bar"             sees what the old one saw there, and its own lead
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel

from pastalang.runtime.binding.spaced import leading_space_of
from pastalang.runtime.errors import Problem
from pastalang.runtime.repair.policy import Policy
from pastalang.runtime.repair.validation import Objection, validate
from pastalang.testing.slow.answer import Field, Sheet, sheets_of
from pastalang.testing.slow.branch import Again, Instance, Point
from pastalang.testing.slow.run import Run
from pastalang.values.json import Node, places_of
from pastalang.values.json import Place as Span
from pastalang.values.mismatch import path_text

Key: TypeAlias = tuple[str, tuple[int, ...]]
_BEFORE_VALUE = re.compile(r'"([^"\\]|\\.)*": ')


@dataclass(frozen=True, eq=False)
class Target:
    """`key` is the same in every attempt."""

    key: Key
    sheet: Sheet
    span: Span
    point: Point
    field: Field | None

    @property
    def branch(self) -> Instance:
        return self.point.branch.latest

    @property
    def text(self) -> str:
        return self.sheet.text[self.span.start : self.span.end]

    @property
    def confidence(self) -> float:
        return math.exp(math.fsum(self.field.log_probabilities)) if self.field else 1.0


def fields_of(sheet: Sheet) -> list[Target]:
    return [Target((one.hole.field, one.items), sheet, span, one.point, one) for one, span in sheet.fields]


def targets_of(sheet: Sheet, objection: Objection) -> list[Target]:
    """Nobody, where all of it is known text."""
    value = places_of(sheet.text).at(objection.path)
    found: dict[Key, Target] = {}
    for part in _parts_read(value, objection):
        for target in _writers(sheet, part.place):
            found[target.key] = target
    return list(found.values())


def _parts_read(value: Node, objection: Objection) -> list[Node]:
    return [value.parts[key] for key in objection.fields if key in value.parts] or [value]


def _writers(sheet: Sheet, value: Span) -> list[Target]:
    around = [target for target in _branches_of(sheet) if target.span.contains(value)]
    holes = [target for target in fields_of(sheet) if target.span.touches(value)]
    whole = [target for target in around if target.span == value]
    if whole and not any(hole.span == value for hole in holes):
        return whole[:1]
    return holes or sorted(around, key=lambda target: target.span.end - target.span.start)[:1]


def _branches_of(sheet: Sheet) -> Iterator[Target]:
    """Inner ones first. Where a branch writes its key itself, its value begins behind that."""
    for author, span in sheet.branches:
        assert isinstance(author, Instance)
        if author.beginning is not None:
            key = _BEFORE_VALUE.match(sheet.text, span.start, span.end)
            value = Span(key.end() if key else span.start, span.end)
            yield Target((author.spec.name, author.items), sheet, value, author.beginning, None)


@dataclass(frozen=True, eq=False)
class Taken:
    """`hidden` is out of the answer together with the old branch."""

    point: Point
    old: Instance
    new: Instance
    hidden: tuple[Instance, ...]


def behind(point: Point) -> list[Instance]:
    """Who has written or seen what stands at the point: its branch, and all that was forked from there on."""
    branch = point.branch.latest
    return [branch, *_descendants(branch.forked[point.forked :])]


def _descendants(forked: Iterable[Instance]) -> Iterator[Instance]:
    for child in forked:
        yield child.latest
        yield from _descendants(child.latest.forked)


def all_behind(points: Iterable[Point]) -> set[Instance]:
    return {one for point in points for one in behind(point)}


def outdated(run: Run, wrong: set[Instance]) -> list[Point]:
    """Who else has joined anything wrong or outdated goes on from the first such join; who is behind another one of
    these comes anew with that."""
    found: Mapping[Instance, Point] = {}
    while True:
        gone = wrong | all_behind(found.values())
        first = {one: _first_join(one, gone) for one in run.live if one not in wrong}
        now = {one: point for one, point in first.items() if point is not None}
        if now.keys() == found.keys() and all(now[one] is found[one] for one in now):
            return [point for one, point in now.items() if not _is_behind_another(one, now)]
        found = now


def _first_join(branch: Instance, gone: set[Instance]) -> Point | None:
    return next((point for point in branch.points if not gone.isdisjoint(point.joined)), None)


def _is_behind_another(branch: Instance, points: Mapping[Instance, Point]) -> bool:
    return any(other is not branch and branch in behind(point) for other, point in points.items())


def take_up(run: Run, places: Sequence[tuple[Point, str]]) -> list[Taken]:
    """All of them stand before the first one is written: who waits for others waits for the new ones. Where somebody
    joins it, what is told something stands behind all positions of the answer, and so does the next one behind it."""
    free = 1 + max(token.position for one in run.live for token in one.path)
    taken = []
    for point, text in places:
        lead = run.given.encoder.text(text.removesuffix(leading_space_of(point.segment)))
        is_moved = bool(text) and point.branch.spec.id in run.joined
        taken.append(_take_up(run, point, lead, free if is_moved else point.position))
        new = taken[-1].new
        free = max(free, new.position + len(lead) + new.spec.reserve)
    return taken


def _take_up(run: Run, point: Point, lead: tuple[int, ...], position: int) -> Taken:
    old = point.branch.latest
    hidden = tuple(one for one in behind(point) if one is not old)
    new = Instance(
        old.spec, old.place, old.key, point.path, position, old.names, point.sees, run.passes,
        again=Again(point, lead), own_before=point.own,
    )  # fmt: skip
    run.add(new)
    old.replaced_by = new
    for one in (old, *hidden):
        one.is_out = True
    return Taken(point, old, new, hidden)


def undo(taken: Taken) -> None:
    """The old branch is in the answer again, and all that was hidden with it."""
    for one in (taken.new, *_descendants(taken.new.forked[taken.point.forked :])):
        one.is_out = True
    for one in (taken.old, *taken.hidden):
        one.is_out = False
    taken.old.replaced_by = None


@dataclass(frozen=True, eq=False)
class Failure:
    document: int
    sheet: Sheet
    objection: Objection
    targets: Sequence[Target]


class Repair:
    """`models`: an instance for each answer, where all is valid; `problems`: what is wrong in the end."""

    def __init__(self, run: Run, policy: Policy) -> None:
        self._run = run
        self._policy = policy
        self._tried: Counter[Key] = Counter()
        self._doubts: list[tuple[Target, Taken]] = []
        self._wrong: set[Instance] = set()  # whoever has joined these is out of date
        self.models: tuple[BaseModel, ...] = ()
        self.problems: tuple[Problem, ...] = ()

    @property
    def attempts(self) -> int:
        return sum(self._tried.values())

    def begins_round(self) -> bool:
        """Whether anything is decoded again."""
        failures = self._judge()
        if self._settle_doubts(failures):
            failures = self._judge()
        late = outdated(self._run, self._wrong)
        waiting = all_behind(late)  # these are judged when they have been written anew
        failures = [one for one in failures if waiting.isdisjoint(target.branch for target in one.targets)]
        is_lost = any(all(self._tried[key] >= self._policy.repair for key in _keys(one)) for one in failures)
        if is_lost and not self._policy.keep_invalid:
            self._give_up(failures)
            return False
        if self._take_up_fields(failures, waiting):
            return True
        if late:
            take_up(self._run, [(point, "") for point in late])
            return True
        self._give_up(failures)
        return False

    # ── what is wrong ────────────────────────────────────────────────────────────────────────────────────

    def _judge(self) -> list[Failure]:
        self._sheets = sheets_of(self._run.given.plan, self._run.branches[0])
        model = self._policy.model
        found = [] if model is None else [validate(model, sheet.exact) for sheet in self._sheets]
        failures = [
            Failure(document, sheet, one, targets_of(sheet, one))
            for document, (sheet, objections) in enumerate(zip(self._sheets, found, strict=bool(found)))
            if isinstance(objections, tuple)
            for one in objections
        ]
        self.models = () if failures else tuple(one for one in found if isinstance(one, BaseModel))
        return failures

    def _give_up(self, failures: Iterable[Failure]) -> None:
        self.problems = tuple(map(self._problem, failures))
        for failure in failures:
            for target in failure.targets:
                if target.field is not None:
                    target.field.problem = failure.objection.reason

    def _problem(self, failure: Failure) -> Problem:
        path, text = failure.objection.path, failure.sheet.text
        value = places_of(text).at(path).place
        attempts = 1 + max((self._tried[key] for key in _keys(failure)), default=0)
        return Problem(
            path_text(path), failure.objection.reason, text[value.start : value.end], attempts, failure.document
        )  # fmt: skip

    # ── who is decoded again ─────────────────────────────────────────────────────────────────────────────

    def _take_up_fields(self, failures: Iterable[Failure], waiting: set[Instance]) -> bool:
        objected: dict[Key, tuple[Target, str]] = {}
        for failure in failures:
            for target in failure.targets:
                if self._tried[target.key] < self._policy.repair:
                    objected.setdefault(target.key, (target, failure.objection.reason))
        failing = self._apart([target for target, _ in objected.values()])
        unsure = [one for one in self._unsure(waiting) if one.key not in objected]
        apart = [one for one in self._apart([*failing, *unsure]) if one not in failing]
        branches = {target.branch for target in failing}
        doubted = [one for one in apart if branches.isdisjoint(behind(one.point))]
        leads = [_told(one, f"not accepted: {_on_one_line(objected[one.key][1], 160)}") for one in failing]
        leads += [_told(one, "not sure, once more:") for one in doubted]
        gone = all_behind(target.point for target in failing)
        taken = take_up(self._run, list(zip((one.point for one in (*failing, *doubted)), leads, strict=True)))
        self._wrong |= gone
        self._tried.update(target.key for target in (*failing, *doubted))
        self._doubts = list(zip(doubted, taken[len(failing) :], strict=True))
        return bool(taken)

    def _unsure(self, waiting: set[Instance]) -> list[Target]:
        policy = self._policy
        return [
            target
            for sheet in self._sheets
            for target in fields_of(sheet)
            if target.confidence < (policy.retry_below or 0.0)
            and self._tried[target.key] < policy.retries
            and target.branch not in waiting
        ]

    def _apart(self, targets: Sequence[Target]) -> list[Target]:
        """Without those that are decoded again anyway, because another one is."""
        return [one for one in targets if not any(self._comes_with(one, other) for other in targets)]

    def _comes_with(self, one: Target, other: Target) -> bool:
        if one.branch is other.branch:
            return other.span.start < one.span.start
        seen = set(behind(other.point))
        return one.branch in seen | all_behind(outdated(self._run, seen))

    # ── unsure fields ────────────────────────────────────────────────────────────────────────────────────

    def _settle_doubts(self, failures: Iterable[Failure]) -> bool:
        """Whether any old value stands again. Whoever has joined one that is replaced is out of date."""
        now = {target.key: target for sheet in self._sheets for target in fields_of(sheet)}
        refused = {key for failure in failures for key in _keys(failure)}
        was_undone = False
        for before, taken in self._doubts:
            after = now.get(before.key)
            if after is None or before.key in refused or not _is_surer(after, before):
                undo(taken)
                was_undone = True
            else:
                self._wrong.update((taken.old, *taken.hidden))
        self._doubts = []
        return was_undone


def _keys(failure: Failure) -> list[Key]:
    return [target.key for target in failure.targets]


def _is_surer(after: Target, before: Target) -> bool:
    """The same value, said again, is not another one."""
    return after.text != before.text and after.confidence > before.confidence


def _told(target: Target, comment: str) -> str:
    """The old value, what is said of it, and what stands before the value in its line."""
    text, span = target.sheet.text, target.span
    key = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    return f"{_on_one_line(target.text, 80)} // {comment}\n{key}"


def _on_one_line(text: str, limit: int) -> str:
    flat = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return flat if len(flat) <= limit else f"{flat[: limit - 1].rstrip()}…"
