"""What `sees` says of a program is what the draws of its runs see."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pastalang
from pastalang.plan.outcomes import (
    Chosen,
    Decision,
    Drawn,
    Forced,
    InstanceOutcomes,
    Items,
    Lead,
    Outcome,
    RunOutcomes,
    outcomes_of,
)
from pastalang.plan.plan import (
    ROOT,
    BranchId,
    Choose,
    Each,
    Fork,
    Form,
    Hole,
    Instance,
    Join,
    Mode,
    Place,
    Plan,
    Repeat,
    Segments,
)
from pastalang.plan.structure import Loop, nesting_of, shared_loops, visit, walk_plan
from pastalang.plan.token_bounds import draws_of
from pastalang.testing import Schedule, execute, named_views, plans, runs, schedules, sees, sees_all
from pastalang.values.paths import place_in_answer


@given(st.data(), plans())
@settings(max_examples=12, deadline=None)
def test_no_run_shows_what_is_denied_or_hides_what_is_promised(data: st.DataObject, plan: Plan) -> None:
    names = _names(plan)
    assume(names)
    value, run = data.draw(st.sampled_from(sorted(names))), data.draw(runs(plan))
    schedule = data.draw(schedules(plan))
    tapes = {instance: _Tape(plan, instance, found) for instance, found in run.runs.items()}
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
    run = RunOutcomes(outcomes_of(plan, _Everything()))
    tapes = {instance: _Tape(plan, instance, found) for instance, found in run.runs.items()}
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

    def hole(self, hole: Hole) -> Drawn:
        draws = draws_of(hole)
        return Drawn.plain(max(draws.low, min(draws.high, 3)))

    def choice(self, choose: Choose) -> Chosen:
        raise AssertionError("a plan without choices")

    def items(self, loop: Repeat | Each) -> int:
        return min(loop.maximum, 2) if isinstance(loop, Each) else min(loop.maximum, max(loop.minimum, 2))

    def round(self, options: int, lead: Lead) -> Drawn:
        return Drawn.plain(1) if options > 1 else Drawn((1,))

    def forced(self, segment: Forced) -> int:
        return 1


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


def _sights(plan: Plan, run: RunOutcomes, tapes: Mapping[Instance, _Tape], schedule: Schedule) -> Iterator[_Sight]:
    for (instance, draw), view in execute(plan, run, schedule).views.items():
        part = tapes[instance].draws[draw]
        seen = Counter(token for other, count in view.items() for token in tapes[other].tokens[:count])
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

    plan: Plan
    instance: Instance
    outcomes: InstanceOutcomes
    tokens: list[_Part] = field(default_factory=list)
    draws: list[_Part] = field(default_factory=list)
    _left: deque[Outcome] = field(default_factory=deque)
    _forced: deque[int] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._left, self._forced = deque(self.outcomes.outcomes), deque(self.outcomes.forced)
        self._all(self.plan.branch(self.instance.branch).segments, self.instance.items)

    def _all(self, segments: Segments, items: tuple[int, ...]) -> None:
        for segment in segments:
            match segment:
                case Hole(field=field):
                    self._draw(self._left.popleft(), _Part(field, items))
                case Choose(field=field, arms=arms):
                    chosen = self._left.popleft()
                    assert isinstance(chosen, Chosen)
                    self._draw(chosen.drawn, _Part(field, items))
                    self._all(arms[chosen.arm].segments, items)
                case Repeat():
                    self._repeat(segment, items)
                case Each():
                    self._left.popleft()
                case Fork() | Join() | Place():
                    pass
                case _:
                    self.tokens += [_TEXT] * (self._forced.popleft() if self._forced else 1)

    def _repeat(self, repeat: Repeat, items: tuple[int, ...]) -> None:
        """The decisions belong to the list, those of a list with a fixed number of items to nothing."""
        part = _Part(repeat.field, items) if repeat.minimum < repeat.maximum else _TEXT
        first = self._left.popleft()
        if isinstance(first, Items):
            for item in range(first.count):
                self._all(repeat.body, (*items, item))
            return
        decision: Outcome = first
        item = 0
        while isinstance(decision, Decision):
            self._draw(decision.drawn, part)
            if not decision.goes_on:
                return
            self._all(repeat.body, (*items, item))
            decision, item = self._left.popleft(), item + 1

    def _draw(self, drawn: Outcome, part: _Part) -> None:
        assert isinstance(drawn, Drawn)
        self.tokens += [part] * drawn.rides[0]
        for number, ride in enumerate(drawn.rides[1:], start=1):
            self.draws.append(part)
            self.tokens += [part] * (ride + (not drawn.dropped or number < len(drawn.rides) - 1))
