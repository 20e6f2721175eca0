"""Plans as JSON, their fingerprints, and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from pastalang import Mode, Plan, build_plan, compile, limits
from pastalang.plan.diff import differences
from pastalang.plan.serialise import UnreadablePlan, fingerprint, from_json, to_json
from pastalang.program import types as t
from pastalang.program.program import InputKind, ListOf, RecordOf
from pastalang.source import Span
from tests.plan.programs import auto_body, field, given, json_body, or_null, plan_of, record, value


def sample(mode: Mode = Mode.STRICT, limit: int = 8) -> Plan:
    fields = (
        field("a", t.String(limit)),
        field("b", or_null(t.Number(minimum=Decimal("0.5"))), after=("a",)),
        field("kind", t.Union((t.Literal(Decimal("1.50")), t.Literal(True), t.Literal("x")))),
        field("size", or_null(record(field("w")))),
        field("day", t.Temporal(t.Moment.DATE)),
    )
    return plan_of(json_body(*fields), mode=mode, inputs=(given("title"),), prompt=(value("title"),))


def with_everything_else() -> Plan:
    """Inputs of every shape, a temperature, an auto body."""
    shape = RecordOf((("title", InputKind.TEXT), ("tags", ListOf(InputKind.INTEGER))))
    drawn = replace(auto_body(t.AutoPolicy.APAR), sampling=t.Sampling(temperature=0.7))
    return plan_of(drawn, inputs=(given("listing", shape, is_each=True),), prompt=(value("listing", "title"),))


@pytest.mark.parametrize("plan", [sample(), sample(Mode.LOCKSTEP), with_everything_else()])
def test_a_plan_survives_being_written_and_read(plan: Plan) -> None:
    assert from_json(to_json(plan)) == plan


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a plan"),
        ("[]", "this is JSON of another kind, not a plan"),
        ('{"$": "Text", "text": "x"}', "a Text, not a plan"),
        ('{"$": "System"}', "an object has the kind 'System', which plans do not have"),
        ('{"$": "System", "is": 1}', "an object has the kind 'System', which plans do not have"),
        ('{"$": "Mode", "is": "best"}', "a Mode is one of strict, lockstep, sequential"),
        ('{"$": "Text", "txt": "x"}', "a Text has no `txt`"),
        ('{"$": "Text", "text": "x", "fed": "y"}', "a Text has no `fed`"),
        ('{"inputs": []}', "an object does not say what it is: its key `\\$` is missing"),
        ('{"$": "Decimal", "is": "many"}', "one of its decimals is not a number"),
        ('{"$": "Decimal", "is": "NaN"}', "one of its decimals is not a number"),
        ('{"$": "Plan"}', "the `[a-z_]+` of a Plan is missing"),
        ("[" * 100_000, r"not a plan: brackets nest more than 400 deep \(at character 401\)"),
    ],
)
def test_a_text_that_is_not_a_plan_is_refused(text: str, says: str) -> None:
    with pytest.raises(UnreadablePlan, match=says):
        from_json(text)


def test_a_plan_with_the_deepest_types_is_read() -> None:
    depth = limits.MAX_TYPE_DEPTH - 2
    program = compile("template t()\n\nassistant json " + "{ a: " * depth + "boolean | null" + " }" * depth)
    plan = build_plan(program.only_template, program)
    assert from_json(to_json(plan)) == plan


def test_a_plan_of_another_version_is_refused() -> None:
    with pytest.raises(UnreadablePlan, match=r"^this is a plan of version 7; version 1 can be read$"):
        from_json(to_json(replace(sample(), version=7)).replace('"Branch"', '"Branch", "speed": 1'))


def test_a_plan_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(UnreadablePlan, match="breaks a rule"):
        from_json(to_json(sample()).replace('"name": "b"', '"name": "a"'))


def test_the_policy_changes_with_the_mode_and_the_types_do_not() -> None:
    strict, lockstep = fingerprint(sample()), fingerprint(sample(Mode.LOCKSTEP))
    assert strict.types == lockstep.types
    assert strict.policy != lockstep.policy


def test_a_comment_changes_the_program_alone() -> None:
    plain, moved = fingerprint(sample()), fingerprint(replace(sample(), source_text="# a comment\n"))
    assert plain.program != moved.program
    assert (plain.types, plain.policy) == (moved.types, moved.policy)


def test_where_something_stands_is_no_part_of_the_policy() -> None:
    plan = sample()
    moved = from_json(to_json(plan).replace('"start": 0, "end": 0', '"start": 3, "end": 5'))
    assert moved != plan and moved.branches[1].segments[0].span == Span(3, 5)  # type: ignore[union-attr]
    assert fingerprint(moved) == fingerprint(plan)
    assert differences(plan, moved) == ()


def test_a_limit_that_changed_is_said_with_what_it_costs() -> None:
    assert differences(sample(), sample(limit=40)) == (
        "a: its reserve is 40 instead of 8",
        "a: 'a' has another type",
        "a: 'a' may take 40 tokens instead of 8",
        "takes 2-52 passes instead of 2-20",
    )


def test_a_field_that_came_is_a_branch_now() -> None:
    old, new = plan_of(json_body(field("a"))), plan_of(json_body(field("a"), field("b", after=("a",))))
    found = differences(old, new)
    assert "branch b is new" in found
    assert "a: its release is after join instead of at end" in found


def test_a_field_that_waits_for_another_one_says_so() -> None:
    old = plan_of(json_body(field("a"), field("b"), field("c", after=("a",))))
    new = plan_of(json_body(field("a"), field("b"), field("c", after=("b",))))
    assert "c: waits for b instead of a" in differences(old, new)


TRIP = (
    'template trip(a: [text], b: [text], c: boolean = true)\nuser """Go.{if c} On.{end}"""\nassistant text """\n'
    "{fork p in a ~20}\n{p}: {s: string(max=5)}\n{end}\n{sync}\nThen {x: string(max=5)} and {y: string(max=5)}.\n"
    '"""\n'
)
DESCRIBED = 'template t()\nassistant json {k as n: integer(1..3) = 3 "one"}'


@pytest.mark.parametrize(
    ("source", "old", "new", "said"),
    [
        (TRIP, "trip(", "travel(", "the template is travel instead of trip"),
        (TRIP, "= true", "= false", "input 'c' has another default"),
        (TRIP, "user", "system", "main: writes messages of system, assistant instead of user, assistant"),
        (TRIP, "{if c}", "{if not c}", "main: writes other text"),
        (TRIP, "p in a", "p in b", "main: p[] goes over b instead of a"),
        (TRIP, "{x: string(max=5)} and {y", "{y: string(max=5)} and {x", "main: writes its parts in another order"),
        (DESCRIBED, "one", "two", "'k' has another description"),
        (DESCRIBED, "as n", "as m", "something else differs: output.fields[0].name"),
    ],
)
def test_plans_that_differ_in_anything_differ_in_words(source: str, old: str, new: str, said: str) -> None:
    programs = compile(source), compile(source.replace(old, new))
    assert differences(*(build_plan(program.only_template, program) for program in programs)) == (said,)


SMALL = """
template t(each title: text)
user \"\"\"{title}\"\"\"
assistant json { a: boolean, b: [{ c: integer(1..3) }](1..2) }
"""


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield data, key
        yield from places(item)


@pytest.mark.parametrize("other", [-5, "x", None, 10**15, [], True, {"$": "Text", "text": "a"}], ids=repr)
def test_a_plan_with_another_value_somewhere_is_read_or_refused_in_words(other: Any) -> None:
    program = compile(SMALL)
    plan = build_plan(program.only_template, program)
    data = json.loads(to_json(plan))
    refused = 0
    for holder, key in list(places(data))[::9]:
        kept, holder[key] = holder[key], other
        try:
            read = from_json(json.dumps(data))
            if key not in ("source_name", "source_text", "start", "end"):
                assert bool(differences(plan, read)) == (read != plan), (holder, key)
        except UnreadablePlan:
            refused += 1
        holder[key] = kept
    assert refused > 10


@pytest.mark.parametrize(
    ("name", "other", "told"),
    [
        ("max_tokens", "4", "the `max_tokens` of a Hole is of another type"),
        ("max_tokens", 0, "may take 0 tokens; the limits are 1 and 100,000"),
        ("max_tokens", 10**12, "may take 1,000,000,000,000 tokens"),
        ("maximum", 10**12, "may have 1 to 1,000,000,000,000 items"),
        ("reserve", 10**12, "keeps 1,000,000,000,000 positions free"),
        ("reserve", -1, "keeps -1 positions free"),
        ("parent", -1, "branches are numbered from 0, each after its parent"),
        ("parent", 10, "branches are numbered from 0, each after its parent"),
    ],
)
def test_numbers_that_no_plan_has_are_refused(name: str, other: Any, told: str) -> None:
    program = compile(SMALL)
    data = json.loads(to_json(build_plan(program.only_template, program)))
    kinds = {"max_tokens": "Hole", "maximum": "Repeat", "reserve": "Branch", "parent": "Branch"}
    records = [(holder, key) for holder, key in places(data) if key == name and holder.get("$") == kinds[name]]
    holder, key = records[-1]
    holder[key] = other
    with pytest.raises(UnreadablePlan, match=told):
        from_json(json.dumps(data))
