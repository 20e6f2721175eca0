"""What `sees` says of a program is what the draws of its runs see."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Mode, Plan
from pastalang.plan.branches import ROOT, BranchId, Choose, Each, Form, Hole, Instance, Repeat
from pastalang.plan.machine import GO_ON, STOP, Closing, Cursor, Draw, Feed, Opening
from pastalang.plan.run_log import Answers, Drawn, RunLog, log_of
from pastalang.plan.structure import Loop, nesting_of, shared_loops, visit, walk_plan
from pastalang.plan.token_bounds import decision_draws, draws_of
from pastalang.testing import Schedule, execute, named_views, plans, runs, schedules, sees, sees_all
from pastalang.testing.runs import RandomAnswers
from pastalang.values.paths import place_in_answer


@given(st.data(), plans())
@settings(max_examples=12, deadline=None)
def test_no_run_shows_what_is_denied_or_hides_what_is_promised(data: st.DataObject, plan: Plan) -> None:
    names = _names(plan)
    assume(names)
    value, answers = data.draw(st.sampled_from(sorted(names))), _Taped(RandomAnswers(data.draw))
    run = log_of(plan, answers, chunk=data.draw(st.one_of(st.none(), st.integers(1, 9))))
    schedule, tapes = data.draw(schedules(plan)), answers.tapes
    sights = [sight for sight in _sights(plan, run, tapes, schedule) if sight.part.field in names[value]]
    loops = _loops(plan)
    for other, fields in names.items():
        if _is_shown(sights, fields):
            assert sees(plan, value, other), f"a run shows {value} something of {other}"
        if sees_all(plan, value, other):
            assert sees(plan, value, other)
            for sight in sights:
                _check_all_shown(sight, fields, tapes, loops)


@given(st.data(), plans(modes=(Mode.STRICT, Mode.SEQUENTIAL)))
@settings(max_examples=12, deadline=None)
def test_what_is_affirmed_happens_in_a_run_that_has_everything(data: st.DataObject, plan: Plan) -> None:
    names = _names(plan)
    has_choices = any(isinstance(segment, Choose) for _, _, segment in walk_plan(plan))
    assume(names and not has_choices)  # no run has all arms of a choice
    value = data.draw(st.sampled_from(sorted(names)))
    answers = _Taped(_Everything())
    run, tapes = log_of(plan, answers), answers.tapes
    sights = [sight for sight in _sights(plan, run, tapes, Schedule()) if sight.part.field in names[value]]
    for other, fields in names.items():
        assert sees(plan, value, other) == _is_shown(sights, fields), f"whether {value} sees {other}"


@given(st.data(), plans())
@settings(max_examples=5, deadline=None)
def test_every_branch_of_a_run_has_a_name_of_its_own(data: st.DataObject, plan: Plan) -> None:
    executed = execute(plan, data.draw(runs(plan)), Schedule())
    named = named_views(plan, executed)
    assert [len(view) for view in named.values()] == [len(view) for view in executed.views.values()]


PROGRAM = """
template order(title: text)
user \"\"\"
{title}
\"\"\"
assistant json {
  brand: string(max=6)
  price: number(max_tokens=6)
  headline: string(max=8) after brand
  lines: [{name: string(max=4), total: integer(0..9), note: string(max=4)}](max=3)
  one: [{x: string(max=4)}](max=1)
  call: {kind: "a", day: string(max=4)} | {kind: "b", day: string(max=4), "unit price": integer(0..9)}
}
"""


@pytest.mark.parametrize(
    ("value", "other", "some", "all"),
    [
        ("headline", "brand", True, True),
        ("headline", "price", False, False),
        ("brand", "headline", False, False),
        ("lines[].total", "lines[].name", True, True),
        ("lines[].name", "lines[].name", True, False),  # that of an earlier line
        ("lines[].total", "lines[].note", False, False),
        ("lines", "brand", False, False),
        ("call.day", "call", True, False),  # which arm it is in, and not its other values
        ("call.day", 'call["unit price"]', False, False),
        ("answer", "brand", True, False),
        ("one", "one[].x", False, False),  # after the only item, nothing is left to decide
    ],
)
def test_names_are_those_of_results(value: str, other: str, some: bool, all: bool) -> None:
    program = pastalang.compile(PROGRAM)
    assert (sees(program, value, other), sees_all(program, value, other)) == (some, all)


def test_in_lock_step_a_value_sees_a_part_of_those_before_it() -> None:
    program = pastalang.compile(PROGRAM)
    plan = pastalang.build_plan(program.only_template, program, mode="lockstep")
    assert sees(plan, "price", "brand") and not sees_all(plan, "price", "brand")
    assert not sees(plan, "brand", "price")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("headlin", "the name `headlin`; did you mean `headline`? It writes `brand`, `price`, `headline`, `lines`, "),
        ("lines[0].total", "a plan has one name for all items: `lines[].total`"),
        ("title", "the model writes nothing with the name `title`. It writes `brand`"),
        (3, "a value is named by its path"),
    ],
)
def test_an_unknown_name_is_refused_wherever_it_stands(name: Any, message: str) -> None:
    program = pastalang.compile(PROGRAM)
    for ask in (sees, sees_all):
        with pytest.raises(pastalang.InputError, match=re.escape(message)):
            ask(program, name, "brand")
        with pytest.raises(pastalang.InputError, match=re.escape(message)):
            ask(program, "brand", name)


class _Everything:
    """Every value takes several tokens, and every list has two items, where they may."""

    def feed(self, action: Feed, cursor: Cursor) -> int:
        return 1

    def draw(self, action: Draw, cursor: Cursor) -> Drawn:
        match action:
            case Draw(segment=Hole() as hole):
                draws = draws_of(hole)
                return Drawn.plain(max(draws.low, min(draws.high, 3)))
            case Draw(segment=Repeat() as repeat, options=(Opening(item=item), _)):
                goes_on = item < min(repeat.maximum, max(repeat.minimum, 2))
                return Drawn.plain(decision_draws(2).low, option=GO_ON if goes_on else STOP)
        raise AssertionError("a plan without choices")

    def elements(self, loop: Repeat | Each, cursor: Cursor) -> int:
        return min(loop.maximum, 2) if isinstance(loop, Each) else min(loop.maximum, max(loop.minimum, 2))


def _names(plan: Plan) -> dict[str, frozenset[str]]:
    """The fields that every name stands for."""
    places: dict[str, set[str]] = {}
    blocks: dict[str, set[str]] = {}
    parents = {branch.id: branch.parent for branch in plan.branches}
    for branch, _, segment in walk_plan(plan):
        is_open = isinstance(segment, Repeat) and segment.over is None and segment.minimum < segment.maximum
        if is_open or isinstance(segment, Hole | Choose):
            assert isinstance(segment, Hole | Choose | Repeat)
            place = place_in_answer(segment.field, ())
            ends = [end for end, letter in enumerate(place) if end and letter in ".["]
            whole = [] if isinstance(segment, Hole) and segment.form is Form.THOUGHT else ["answer"]
            for name in [*whole, place, *(place[:end] for end in ends)]:
                places.setdefault(name, set()).add(segment.field)
            id: BranchId | None = branch.id
            if id == ROOT:
                blocks.setdefault("main", set()).add(segment.field)
            while id is not None and id != ROOT:
                blocks.setdefault(place_in_answer(plan.branch(id).name, ()), set()).add(segment.field)
                id = parents[id]
    return {name: frozenset(fields) for name, fields in {**blocks, **places}.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """A value, choice or list in one item of a run."""

    field: str
    items: tuple[int, ...]


_TEXT = _Part("", ())


@dataclass(frozen=True, slots=True)
class _Sight:
    """What one draw decides, and how many tokens it sees of each part of the run, its own part left out."""

    part: _Part
    view: Mapping[_Part, int]


def _sights(plan: Plan, run: RunLog, tapes: Mapping[Instance, _Tape], schedule: Schedule) -> Iterator[_Sight]:
    for (instance, draw), view in execute(plan, run, schedule).views.items():
        part = tapes[instance].draws[draw]
        seen = Counter(
            token for other, count in view.items() if other in tapes for token in tapes[other].tokens[:count]
        )
        yield _Sight(part, {other: count for other, count in seen.items() if other not in (part, _TEXT)})


def _is_shown(sights: list[_Sight], fields: frozenset[str]) -> bool:
    return any(part.field in fields for sight in sights for part in sight.view)


def _check_all_shown(
    sight: _Sight, fields: frozenset[str], tapes: Mapping[Instance, _Tape], loops: Mapping[str, tuple[Loop, ...]]
) -> None:
    written = Counter(token for tape in tapes.values() for token in tape.tokens)
    for part, count in written.items():
        if part.field in fields:
            common = shared_loops(loops[sight.part.field], loops[part.field])
            if part.items[:common] == sight.part.items[:common]:
                assert sight.view.get(part) == count, f"{sight.part} sees less than all of {part}"


def _loops(plan: Plan) -> dict[str, tuple[Loop, ...]]:
    """The loops around every field."""
    around = nesting_of(plan).loops
    return {
        found.segment.field: (*around[branch.id], *((branch.id, address) for address in found.repeats))
        for branch in plan.branches
        for found in visit(branch.segments)
        if isinstance(found.segment, Hole | Choose | Repeat)
    }


@dataclass(slots=True)
class _Tape:
    """What every token of an instance belongs to, and what each of its draws decides."""

    tokens: list[_Part] = field(default_factory=list)
    draws: list[_Part] = field(default_factory=list)


class _Taped:
    """Answers as others do, and notes for which part of the run."""

    def __init__(self, answers: Answers) -> None:
        self.tapes: defaultdict[Instance, _Tape] = defaultdict(_Tape)
        self._answers = answers

    def feed(self, action: Feed, cursor: Cursor) -> int:
        """The decisions belong to the list, those of a list with a fixed number of items to nothing."""
        tokens, part = self._answers.feed(action, cursor), _TEXT
        if isinstance(action.segment, Opening | Closing):
            repeat = action.segment.repeat
            part = _Part(repeat.field, cursor.items) if repeat.minimum < repeat.maximum else _TEXT
        self.tapes[cursor.instance].tokens += [part] * tokens
        return tokens

    def draw(self, action: Draw, cursor: Cursor) -> Drawn:
        drawn = self._answers.draw(action, cursor)
        tape, part = self.tapes[cursor.instance], _Part(action.segment.field, cursor.items)
        tape.tokens += [part] * drawn.tokens
        tape.draws += [part] * drawn.draws
        return drawn

    def elements(self, loop: Repeat | Each, cursor: Cursor) -> int:
        return self._answers.elements(loop, cursor)
