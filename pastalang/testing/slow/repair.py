"""What is decoded again: a finished run and what is asked of its answer come in; branches are taken up, round by
round, until nothing is to be done.

    a round    1  a field that was unsure and is written anew: the surer one of the two stays
               2  fields that the validator objects to, and unsure ones, all at once
               3  whoever has joined a field that has changed, when that is right
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from pastalang.runtime.errors import Problem
from pastalang.runtime.repair.policy import Policy
from pastalang.runtime.repair.validation import Objection, validate
from pastalang.testing.slow.again import Taken, all_behind, behind, outdated, take_up, undo
from pastalang.testing.slow.answer import Sheet, sheets_of
from pastalang.testing.slow.branch import Instance
from pastalang.testing.slow.run import Run
from pastalang.testing.slow.targets import Key, Target, fields_of, targets_of
from pastalang.values.json_places import places_of
from pastalang.values.misfit import path_text


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
