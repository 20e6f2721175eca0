"""Which values of a program see which others, asked by the names that results use.

A name stands for all that the model writes at its place; known text does not count. `lines[].total` is this field of
every item, and `lines` the whole list. The name of an `async` block or of a fan-out means all values in it, `main`
those of the running text outside all blocks, and `answer` everything but a thought.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import networkx

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import InputError
from pastalang.plan.branches import ROOT, BranchId, Choose, Form, Hole, Instance, Repeat
from pastalang.plan.build import build_plan
from pastalang.plan.dependencies import dependency_graph, end_of
from pastalang.plan.plan import Plan
from pastalang.plan.simulate import Simulated
from pastalang.plan.structure import fields_of, origins_of
from pastalang.program.program import Program
from pastalang.values.paths import MAIN, WHOLE, in_any_item, place_in_answer, place_of, places_around


def sees(program: Program | Plan, value: str, other: str) -> bool:
    """Whether any token of `value` can see a token of `other`, in any run: `sees(plan, "headline", "brand")`.

    So `not sees(...)` is a promise: no run, under no schedule, shows `value` anything of `other`. In a list, the two
    may be in different items, because later items see earlier ones.

    In lock-step a value sees the beginnings of the values before it. A value that waits for it sees all of it, and
    nothing of those. Raises `InputError` for a name that the plan does not have.
    """
    plan = _plan_of(program)
    names = _Names(plan)
    seen, wanted = names.find(other), names.find(value)
    graph = _with_earlier_items(plan, dependency_graph(plan))
    return any(not seen.isdisjoint(_before(name, graph) | _in_lock_step(plan, name)) for name in wanted)


def sees_all(program: Program | Plan, value: str, other: str) -> bool:
    """Whether every token of `value` sees all of `other`, in every run: the one is complete before the other begins.

    Inside a list this is about two values of the same item, and after the list about all items. Where an answer has
    no `other`, because of a union or an empty list, there is nothing to see. Raises `InputError` for an unknown name.
    """
    plan = _plan_of(program)
    names = _Names(plan)
    seen, wanted = names.find(other), names.find(value)
    graph = dependency_graph(plan)
    return all(seen <= _before(name, graph) for name in wanted)


def named_views(plan: Plan, executed: Simulated) -> dict[tuple[str, int], dict[str, int]]:
    """The views of `execute` under the names that results use.

    `{("lines[1].total", 0): {"main": 31, "lines": 9}}`: before its first token, the total of the second line saw 31
    tokens of the prompt and 9 of the list. The names are those of branches.
    """
    return {
        (name_of(plan, instance), draw): {name_of(plan, other): count for other, count in view.items()}
        for (instance, draw), view in executed.views.items()
    }


def name_of(plan: Plan, instance: Instance) -> str:
    """The name of a branch, as results and traces write it."""
    return place_of(plan.branch(instance.branch).name, instance.items)


def _plan_of(program: Program | Plan) -> Plan:
    given: object = program
    if isinstance(given, Plan):
        return given
    if not isinstance(given, Program):
        raise TypeError(f"pass a program or its plan, not {given!r:.60}")
    if len(given.templates) != 1:
        raise InputError(
            f"the program has {len(given.templates)} templates; pass the plan of one of them: "
            "`pastalang.build_plan(program.templates[name], program)`"
        )
    return build_plan(given.only_template, given)


class _Names:
    """What the model writes under each name, as nodes of the graph."""

    def __init__(self, plan: Plan) -> None:
        self._fields: dict[str, set[str]] = {}
        self._blocks: dict[str, set[str]] = {}
        outer = _outer_branches(plan)
        for branch, field, nodes, is_thought in _drawn(plan):
            whole = () if is_thought else (WHOLE,)
            _add(self._fields, (*whole, *places_around(field)), nodes)
            names = (place_in_answer(plan.branch(id).name, ()) for id in outer[branch] if id != ROOT)
            _add(self._blocks, (MAIN,) if branch == ROOT else names, nodes)

    def find(self, name: str) -> set[str]:
        """A branch has the name of its first field. Where it holds others too, the name still means the field."""
        found = self._fields.get(name) or self._blocks.get(name)
        if found is None:
            raise InputError(self._unknown(name))
        return found

    def _unknown(self, name: str) -> str:
        given: object = name
        if not isinstance(given, str):
            return f"a value is named by its path, such as `lines[].total`, not {given!r:.60}"
        known = dict.fromkeys(found for found in (*self._fields, *self._blocks) if found != WHOLE)
        of_any_item = in_any_item(name)
        if of_any_item in known:
            return f"`{name}` is in one item of a run, and a plan has one name for all items: `{of_any_item}`"
        hint = did_you_mean(name, known)
        listed = ", ".join(f"`{one}`" for one in known)
        advice = f"; did you mean `{hint}`?" if hint else "."
        return f"the model writes nothing with the name `{name}`{advice} It writes {listed}"


def _add(found: dict[str, set[str]], names: Iterable[str], nodes: Collection[str]) -> None:
    for name in names:
        found.setdefault(name, set()).update(nodes)


def _drawn(plan: Plan) -> Iterator[tuple[BranchId, str, tuple[str, ...], bool]]:
    """Every value, choice and list that the model decides, with its nodes, and whether it is a thought."""
    for branch, _, segment in fields_of(plan):
        match segment:
            case Hole(field=field, form=form):
                yield branch.id, field, (field,), form is Form.THOUGHT
            case Choose(field=field):
                yield branch.id, field, (field,), False
            case Repeat(field=field, over=None) if segment.minimum < segment.maximum:
                # after the only item of a list its end is forced
                yield branch.id, field, (field, end_of(segment)) if segment.maximum > 1 else (field,), False
            case _:
                pass


def _outer_branches(plan: Plan) -> dict[BranchId, tuple[BranchId, ...]]:
    """Every branch and those that it was forked from, the innermost first."""
    origins = origins_of({branch.id: branch.segments for branch in plan.branches})

    def outer(id: BranchId) -> tuple[BranchId, ...]:
        return (id,) if id == ROOT else (id, *outer(origins[id].parent))

    return {branch.id: outer(branch.id) for branch in plan.branches}


def _with_earlier_items(plan: Plan, graph: networkx.DiGraph) -> networkx.DiGraph:
    """The fields of a list are those of any item, so it also needs the item before."""
    graph = graph.copy()
    for _, _, segment in fields_of(plan):
        if isinstance(segment, Repeat) and segment.maximum > 1:
            graph.add_edges_from((before, segment.field) for before in list(graph.pred[end_of(segment)]))
    return graph


def _before(name: str, graph: networkx.DiGraph) -> set[str]:
    """Everything that is written before it. In a list, that may be itself in an earlier item."""
    return set().union(*({before, *networkx.ancestors(graph, before)} for before in graph.pred[name]))


def _in_lock_step(plan: Plan, name: str) -> set[str]:
    """The values of its group before it, whose beginnings it sees. Each of them is the only segment of its branch."""
    steps = {segment.field: branch.lockstep for branch, _, segment in fields_of(plan) if branch.lockstep is not None}
    own = steps.get(name)
    if own is None:
        return set()
    return {other for other, step in steps.items() if step.group == own.group and step.index < own.index}
