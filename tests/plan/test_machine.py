"""The machine: which action comes next, and hosts that know no tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pastalang import Mode, Plan
from pastalang.plan.branches import ROOT, Choose, Each, Fork, Hole, Instance, Place, Repeat, Text, TurnStart
from pastalang.plan.machine import (
    GO_ON,
    STOP,
    Action,
    Awaited,
    Closing,
    Cursor,
    Draw,
    End,
    Feed,
    Machine,
    Opening,
    Start,
    Wait,
)
from pastalang.plan.structure import walk_plan
from pastalang.program import types as t
from tests.plan.programs import (
    async_,
    each,
    field,
    fork,
    hole,
    json_body,
    named,
    or_null,
    plan_of,
    promise,
    record,
    sync,
    text,
    text_body,
)


class Server:
    """A host of one value per request: it fills holes from a table, and puts the text together in order."""

    def __init__(self, plan: Plan, values: Mapping[str, Any]) -> None:
        self.machine = Machine(plan)
        self.values = values
        self.asked: list[str] = []
        self._placed = {segment.branch for _, _, segment in walk_plan(plan) if isinstance(segment, Place)}

    def text(self, instance: Instance) -> str:
        """What an instance writes, with the texts of those that it starts where they belong."""
        parts: list[str | Instance] = []
        cursor = self.machine.begin(instance)
        while True:
            answer = 0
            match self.machine.action(cursor):
                case Feed(segment=TurnStart()):
                    parts.clear()  # the prompt is no part of the answer
                case Feed(segment=Place(branch=branch)):
                    parts.append(Instance(branch, cursor.items))
                case Feed(segment=Text(text=known, shown=True)):
                    parts.append(known)
                case Feed(segment=Opening() | Closing() as lead):
                    parts.append(lead.text or "")
                case Draw(segment=Hole(field=name)):
                    self.asked.append(name)
                    parts.append(json.dumps(self._value(name, cursor)))
                case Draw(segment=Choose(field=name)) as choice:
                    known = json.dumps(self._value(name, cursor))
                    [answer] = [number for number, lead in enumerate(choice.leads) if known.startswith(str(lead)[:1])]
                    parts.append(choice.leads[answer] or "")
                case Draw(segment=Repeat(field=name), options=(*_, Closing(items=items))) as decision:
                    answer = GO_ON if items < len(self._value(name, cursor)) else STOP
                    parts.append(decision.leads[answer] or "")
                case Start(segment=Fork(branch=branch)):
                    if branch not in self._placed:
                        parts.append(Instance(branch, cursor.items))
                case End():
                    return "".join(part if isinstance(part, str) else self.text(part) for part in parts)
                case _:
                    pass
            cursor = cursor.after(answer)

    def _value(self, name: str, cursor: Cursor) -> Any:
        value: Any = self.values
        items = list(cursor.items)
        for key in name.replace("[]", ".[]").split("."):
            value = value[items.pop(0)] if key == "[]" else value[key]
        return value


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.SEQUENTIAL])
def test_a_host_of_one_value_per_request_writes_the_answer(mode: Mode) -> None:
    size = or_null(record(field("w", t.Integer()), field("h", t.Integer(), after=("w",))))
    rows = t.Array(record(field("x"), field("y")), max_items=3)
    plan = plan_of(json_body(field("a"), field("size", size), field("rows", rows)), mode=mode)
    for value in (
        {"a": "one", "size": {"w": 1, "h": 2}, "rows": [{"x": "p", "y": "q"}, {"x": "r", "y": "s"}]},
        {"a": "", "size": None, "rows": []},
    ):
        assert json.loads(Server(plan, value).text(Instance(ROOT))) == value


def actions(plan: Plan, instance: Instance, *answers: int) -> list[Action]:
    """All but forced text. The answers are for those that need one."""
    machine, left = Machine(plan), list(answers)
    cursor = machine.begin(instance)
    found: list[Action] = []
    while True:
        action = machine.action(cursor)
        asks = isinstance(action, Draw) and action.options
        counts = isinstance(action, Start) and (
            isinstance(action.segment, Each) or (isinstance(action.segment, Repeat) and action.segment.over is not None)
        )
        if not isinstance(action, Feed):
            found.append(action)
        if isinstance(action, End):
            assert not left
            return found
        cursor = cursor.after(left.pop(0) if asks or counts else 0)


def test_a_list_decides_where_it_may_and_is_told_where_it_must() -> None:
    rows = t.Array(record(field("x")), min_items=1, max_items=2)
    plan = plan_of(json_body(field("rows", rows)))
    branch = named(plan, "rows")
    kinds = [type(action) for action in actions(plan, Instance(branch.id), GO_ON)]
    assert kinds == [Start, Draw, Draw, Draw, End]  # the list, x, another one, x; then it is full
    assert [type(action) for action in actions(plan, Instance(branch.id), STOP)] == [Start, Draw, Draw, End]


def test_a_list_over_known_elements_has_an_item_for_each_of_them() -> None:
    pieces = (hole("points", t.Array(t.String(4), max_items=3)), each("p", "points", text("- "), hole("x")))
    plan = plan_of(text_body(*pieces), mode=Mode.SEQUENTIAL)
    for count in range(3):
        kinds = [type(action) for action in actions(plan, Instance(ROOT), count)]
        assert kinds == [Draw, Start, *[Draw] * count, End]


def test_between_two_items_a_place_is_in_neither_of_them() -> None:
    plan = plan_of(json_body(field("rows", t.Array(record(field("x")), min_items=1, max_items=3))))
    machine = Machine(plan)
    cursor, places = machine.begin(Instance(named(plan, "rows").id)), []
    while not cursor.has_ended:
        if isinstance(action := machine.action(cursor), Draw):
            places.append((type(action.segment), cursor.items))
        cursor = cursor.after(GO_ON)
    assert places == [(Hole, (0,)), (Repeat, ()), (Hole, (1,)), (Repeat, ()), (Hole, (2,))]


def test_a_wait_in_an_item_means_the_branch_of_that_item_and_outside_all_of_them() -> None:
    tips = fork("tip", 2, 2, text("- "), hole("root"), async_("detail", hole("more")), sync("detail"), text("\n"))
    plan = plan_of(text_body(tips, text("so "), hole("end")))
    detail = named(plan, "tip[].detail").id
    waits = [action for action in actions(plan, Instance(ROOT)) if isinstance(action, Wait)]
    assert [wait.awaited for wait in waits] == [(Awaited(detail, (0,)),), (Awaited(detail, (1,)),)]
    points = hole("points", t.Array(t.String(4), max_items=3))
    plan = plan_of(text_body(points, each("p", "points", text("- "), hole("x")), sync("p"), text("z"), hole("e")))
    branch = named(plan, "p[]").id
    [wait] = [action for action in actions(plan, Instance(ROOT), 2) if isinstance(action, Wait)]
    assert wait.awaited == (Awaited(branch, ()),)


def test_a_cursor_is_a_value() -> None:
    plan = plan_of(json_body(field("size", or_null(record(field("w"))))))
    machine = Machine(plan)
    cursor = machine.begin(Instance(named(plan, "size").id))
    while not isinstance(machine.action(cursor), Draw):
        cursor = cursor.after()
    one, other = cursor.after(0), cursor.after(1)
    assert one != other and cursor.after(0) == one and hash(one) == hash(cursor.after(0))


def test_a_cursor_knows_which_forks_it_has_passed() -> None:
    tips = fork("tip", 2, 2, text("- "), hole("root"), async_("detail", hole("more")), text("\n"))
    plan = plan_of(text_body(promise("later", "topic", 3), tips, async_("later", hole("x"), promised=True)))
    machine = Machine(plan)
    fork_ = machine.nesting.origins[named(plan, "tip[].detail").id].address
    cursor, passed = machine.begin(Instance(ROOT)), []
    while not cursor.has_ended:
        passed.append((cursor.has_passed(fork_, (0,)), cursor.has_passed(fork_, (1,))))
        cursor = cursor.after()
    assert passed[0] == (False, False) and passed[-1] == (True, True) and (True, False) in passed
    assert passed == sorted(passed)
