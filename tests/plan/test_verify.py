"""Every rule can be broken: a good plan is bent in one place, and the rule that it breaks says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pastalang import Mode, Plan
from pastalang.plan.branches import (
    ROOT,
    THREAD,
    WHOLE,
    Branch,
    BranchId,
    Choose,
    Fork,
    Hole,
    Join,
    LockStep,
    Place,
    Release,
    Repeat,
    Seen,
    Segment,
    Text,
)
from pastalang.plan.verify import RULES, BrokenPlan, breaches, verify
from pastalang.program import types as t
from tests.plan.programs import (
    async_,
    auto_body,
    each,
    field,
    given,
    hole,
    json_body,
    or_null,
    plan_of,
    promise,
    record,
    sync,
    text,
    text_body,
    value,
)


def skeleton(mode: Mode = Mode.STRICT) -> Plan:
    fields = (field("a"), field("b", after=("a",)), field("size", or_null(record(field("w"), field("h")))))
    return plan_of(json_body(*fields, field("rows", t.Array(record(field("x"), field("y")), max_items=3))), mode=mode)


def story() -> Plan:
    outline = hole("outline", t.Array(t.String(4), max_items=3))
    pieces = (promise("food", "eating", 9), text("x"), async_("food", hole("one"), promised=True), sync("food"))
    return plan_of(text_body(*pieces, text("y"), outline, text("\n"), each("p", "outline", text("- "), hole("two"))))


def bend(plan: Plan, name: str, **changes: object) -> Plan:
    """The plan with one branch changed."""
    index = next(branch.id for branch in plan.branches if branch.name == name)
    bent = replace(plan.branches[index], **changes)  # type: ignore[arg-type]
    return replace(plan, branches=(*plan.branches[:index], bent, *plan.branches[index + 1 :]))


def bend_segments(plan: Plan, name: str, change: Callable[[Segment], Segment]) -> Plan:
    branch = by_name(plan, name)
    return bend(plan, name, segments=tuple(change(segment) for segment in branch.segments))


def by_name(plan: Plan, name: str) -> Branch:
    return next(branch for branch in plan.branches if branch.name == name)


def fork_twice(plan: Plan) -> Plan:
    return bend(plan, "", segments=(*plan.branches[0].segments, Fork(BranchId(1))))


def hang_on_itself(plan: Plan) -> Plan:
    return bend(plan, "size.w", parent=by_name(plan, "size.w").id)


def place_first(plan: Plan) -> Plan:
    return bend(plan, "", segments=(Place(BranchId(1)), *plan.branches[0].segments))


def same_field(plan: Plan) -> Plan:
    return bend_segments(plan, "b", lambda it: replace(it, field="a") if isinstance(it, Hole) else it)


def same_name(plan: Plan) -> Plan:
    last = replace(by_name(plan, "rows"), name="a")
    return replace(plan, branches=tuple(last if branch.id == last.id else branch for branch in plan.branches))


def lose_the_list(plan: Plan) -> Plan:
    return bend_segments(
        plan, "", lambda it: replace(it, field="other") if isinstance(it, Hole) and it.field == "outline" else it
    )


def no_room(plan: Plan) -> Plan:
    return bend_segments(plan, "a", lambda it: replace(it, max_tokens=0) if isinstance(it, Hole) else it)


def automatic() -> Plan:
    return plan_of(auto_body())


def other_tags(plan: Plan) -> Plan:
    def change(segment: Segment) -> Segment:
        return replace(segment, type=t.String(40, auto=t.AutoPolicy.APAR)) if isinstance(segment, Hole) else segment

    return bend_segments(plan, THREAD, change)


def same_leads(plan: Plan) -> Plan:
    def change(segment: Segment) -> Segment:
        if not isinstance(segment, Choose):
            return segment
        return replace(segment, arms=tuple(replace(arm, lead="n") for arm in segment.arms))

    return bend_segments(plan, "size", change)


def endless(plan: Plan) -> Plan:
    return bend_segments(plan, "rows", lambda it: replace(it, stop=",") if isinstance(it, Repeat) else it)


def wait_for_a_waiter(plan: Plan) -> Plan:
    return bend(plan, "a", segments=(Join((by_name(plan, "b").id,)), Text("x"), *by_name(plan, "a").segments))


def join_the_parent(plan: Plan) -> Plan:
    return bend(plan, "a", segments=(Join((ROOT,)), Text("x")))


def decide_blindly(plan: Plan) -> Plan:
    join, _, value = by_name(plan, "b").segments
    return bend(plan, "b", segments=(join, value))


def see_the_future(plan: Plan) -> Plan:
    return bend(plan, "a", view=(*by_name(plan, "a").view, Seen(by_name(plan, "b").id, WHOLE)))


def forget_the_parent(plan: Plan) -> Plan:
    return bend(plan, "a", view=())


def forget_too_soon(plan: Plan) -> Plan:
    return bend(plan, "a", release=Release.AT_END)


def go_back(plan: Plan) -> Plan:
    return bend(plan, "a", reserve=-1)


def no_gap(plan: Plan) -> Plan:
    return bend(plan, "a", reserve=3)


def skip_a_number(plan: Plan) -> Plan:
    return bend(plan, "a", lockstep=LockStep(0, 7))


def spread_documents(plan: Plan) -> Plan:
    return bend(plan, "note[]", reserve=5)


def stacked() -> Plan:
    return plan_of(json_body(field("a")), inputs=(given("note", is_each=True),), prompt=(value("note"),))


def lockstep() -> Plan:
    return skeleton(Mode.LOCKSTEP)


BENT: tuple[tuple[str, Callable[[], Plan], Callable[[Plan], Plan]], ...] = (
    ("every branch but the root is forked exactly once, by its parent", skeleton, fork_twice),
    ("every branch, and so every hole, can be reached from the root", skeleton, hang_on_itself),
    ("a text is placed once, after its fork", story, place_first),
    ("no two fields have the same name", skeleton, same_field),
    ("no two branches have the same name", skeleton, same_name),
    ("a list to go through is written by some branch", story, lose_the_list),
    ("every hole may take at least one token", skeleton, no_room),
    ("threads follow the tags of their text", automatic, other_tags),
    ("the leads of a choice are distinct, and none begins another", skeleton, same_leads),
    ("an item differs at once from the end of its list", skeleton, endless),
    ("no branches wait for one another", skeleton, wait_for_a_waiter),
    ("only what can end is joined", skeleton, join_the_parent),
    ("something is fed between a join and the next decision", skeleton, decide_blindly),
    ("a view holds only what comes before", skeleton, see_the_future),
    ("a view holds the whole way from the root", skeleton, forget_the_parent),
    ("memory is kept while it can be seen", skeleton, forget_too_soon),
    ("positions never go back", skeleton, go_back),
    ("documents of a stack start at one position", stacked, spread_documents),
    ("values in lock-step fit their gaps", lockstep, no_gap),
    ("the values of a lock-step group are numbered from 0", lockstep, skip_a_number),
)


@pytest.mark.parametrize(("rule", "good", "bent"), BENT, ids=[rule for rule, _, _ in BENT])
def test_a_bent_plan_breaks_the_rule(rule: str, good: Callable[[], Plan], bent: Callable[[Plan], Plan]) -> None:
    assert list(breaches(good())) == []
    assert rule in {sentence for sentence, _ in breaches(bent(good()))}


def test_every_rule_is_bent_somewhere() -> None:
    assert [rule for rule, _ in RULES] == [rule for rule, _, _ in BENT]


def test_a_breach_says_that_the_program_is_not_to_blame() -> None:
    with pytest.raises(BrokenPlan, match="a mistake in PastaLang, not in the program"):
        verify(same_name(skeleton()))
