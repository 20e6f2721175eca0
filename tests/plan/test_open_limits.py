"""Limits that a program leaves open: which are chosen, and that ordinary models stay small with them."""

from __future__ import annotations

import pytest

import pastalang
from benchmarks.plan_sizes import GOAL, sizes
from pastalang import Mode, Plan
from pastalang.plan.branches import Hole, Repeat
from pastalang.plan.chosen_limits import limit_notes
from pastalang.plan.structure import walk_plan


def plan_of(fields: str, mode: Mode = Mode.STRICT) -> Plan:
    program = pastalang.compile(f'template t(text: text)\nuser """{{text}}"""\nassistant json {{\n{fields}\n}}\n')
    return pastalang.build_plan(program.only_template, program, mode=mode)


def limits_of(plan: Plan) -> dict[str, int]:
    return {
        part.field: part.maximum if isinstance(part, Repeat) else part.max_tokens
        for _, _, part in walk_plan(plan)
        if isinstance(part, Repeat | Hole)
    }


CROWDED = "\n".join(f"  list{n}: [{{ a: string, b: [string], c: integer }}]" for n in range(4))


def test_of_forty_ordinary_models_thirty_eight_are_small() -> None:
    found = sizes()
    assert len(found) == 40
    assert sum(positions < GOAL for positions, _, _ in found.values()) >= 38
    assert max(positions for positions, _, _ in found.values()) < 2_048


def test_a_small_answer_has_the_roomiest_limits() -> None:
    assert limits_of(plan_of("  a: string\n  b: [string]")) == {"a": 64, "b": 256}


def test_in_a_crowded_answer_all_lists_give_way_alike() -> None:
    limits = limits_of(plan_of("  title: string\n" + CROWDED))
    assert limits["title"] == 32
    assert {limits[f"list{n}"] for n in range(4)} == {4}
    assert {(limits[f"list{n}[].a"], limits[f"list{n}[].b"]) for n in range(4)} == {(16, 32)}


def test_limits_that_are_set_stay_in_a_crowded_answer() -> None:
    limits = limits_of(plan_of("  title: string(max=100)\n  all: [{ a: string(max=70) }](max=9)\n" + CROWDED))
    assert (limits["title"], limits["all"], limits["all[].a"]) == (100, 9, 70)


@pytest.mark.parametrize("mode", [Mode.LOCKSTEP, Mode.SEQUENTIAL])
def test_every_mode_has_the_same_limits(mode: Mode) -> None:
    """Near the border between two rows, where a count that differs by one byte would show."""
    for items in range(3, 30, 7):
        fields = f"  x: {{ y: string(max={items}) }}\n" + "\n".join(
            f"  f{n}: [{{ a: string, b: date }}] after x" for n in range(3)
        )
        assert limits_of(plan_of(fields, mode)) == limits_of(plan_of(fields))


def test_notes_name_what_was_chosen_and_nothing_else() -> None:
    plan = plan_of('  a: string\n  b: string(max=9) | null\n  c: 1..9 | "x"\n'.replace("1..9", "integer(1..9)"))
    assert limit_notes(plan) == ("at most 64 tokens, because no limit of tokens is set: a",)
    plan = plan_of("  lines: [{ name: string(max=5), day: date }]\n  set: [{ n: integer(0..9) }](max=3)")
    assert limit_notes(plan) == ("at most 16 items, because no maximum is set: lines",)
