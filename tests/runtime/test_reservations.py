"""How many cells are set aside for a request that runs, seen in the least memory in which a second one begins."""

from __future__ import annotations

import pytest

import pastalang
from pastalang import Engine
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel

PROMPT = 'template t(title: text)\nuser """\n{title}\n"""\nassistant json '
NOTE = pastalang.compile(PROMPT + "{ note: string(max=12) }\n")


def items(least: int) -> pastalang.Program:
    return pastalang.compile(PROMPT + f"{{ notes: [{{ a: string(max=4), b: integer(0..9) }}]({least}..3) }}\n")


def engine_of(cells: int) -> tuple[Engine, FakeModel]:
    """The model writes as many letters as it may."""
    row = [0.0] * 320
    row[ord("a")] = 50.0
    model = FakeModel(lambda _: row, vocabulary=320, cells=cells)
    return Engine(model, byte_tokenizer(), prefix_cells=0), model


def begins_at_once(program: pastalang.Program, cells: int, *, after: int) -> bool:
    """Whether a second request is fed in the very next pass after so many events of the first."""
    engine, model = engine_of(cells)
    first, second = (engine.stream(program, {"title": letter * 4}) for letter in "AB")
    for _ in range(after):
        next(first)
    before = len(model.steps)
    next(second)
    return ord("B") in model.steps[before].tokens


def least_memory(program: pastalang.Program, *, after: int = 1) -> int:
    low, high = 50, 600
    assert not begins_at_once(program, low, after=after)
    assert begins_at_once(program, high, after=after)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if begins_at_once(program, middle, after=after) else (middle, high)
    return high


def needed(program: pastalang.Program) -> int:
    """The cells of a request alone: the least memory for two of them is twice that."""
    two = least_memory(program)
    assert two % 2 == 0
    return two // 2


def test_a_request_needs_its_prompt_and_its_holes_at_their_longest() -> None:
    engine, model = engine_of(600)
    engine.run(NOTE, {"title": "AAAA"})
    assert needed(NOTE) == len(model.steps[0]) + 12


@pytest.mark.parametrize("after", [2, 4, 8])
def test_what_is_fed_of_a_branch_is_no_longer_set_aside_for_it(after: int) -> None:
    assert least_memory(NOTE, after=after) == least_memory(NOTE)


def test_a_list_that_may_be_empty_reserves_the_cells_of_one_item() -> None:
    item = needed(items(2)) - needed(items(1))
    assert needed(items(0)) >= needed(NOTE) - 13 + item
