from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastalang.runtime.scheduler.memory import Cells
from pastalang.runtime.step import CellId


def test_cells_are_given_from_the_lowest_number() -> None:
    assert Cells(8).take(3) == (0, 1, 2)


def test_a_freed_cell_is_given_again_before_an_untouched_one() -> None:
    cells = Cells(8)
    cells.take(4)
    cells.release([CellId(2), CellId(1)])
    assert cells.take(3) == (1, 2, 4)


def test_when_cells_run_out_the_error_says_how_many_were_wanted_and_nothing_is_taken() -> None:
    cells = Cells(4)
    cells.take(3)
    with pytest.raises(AssertionError, match="2 cells are wanted, 1 of 4 are free"):
        cells.take(2)
    assert cells.free == 1


def test_a_cell_cannot_be_freed_twice() -> None:
    cells = Cells(8)
    taken = cells.take(1)
    cells.release(taken)
    with pytest.raises(AssertionError, match="cell 0 is not owned"):
        cells.release(taken)


def test_a_leaked_cell_is_noticed() -> None:
    cells = Cells(8)
    cells.take(1)
    with pytest.raises(AssertionError, match="leaked"):
        cells.check_integrity([])


def test_a_cell_with_two_owners_is_noticed() -> None:
    cells = Cells(8)
    taken = cells.take(2)
    with pytest.raises(AssertionError, match="two owners"):
        cells.check_integrity([taken, taken[:1]])


def test_no_memory_is_smaller_than_one_cell() -> None:
    with pytest.raises(ValueError, match="at least one cell"):
        Cells(0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_every_cell_is_free_or_owned_and_never_both(moves: list[tuple[bool, int]]) -> None:
    cells = Cells(24)
    owners: list[tuple[CellId, ...]] = []
    for takes, number in moves:
        if takes and number <= cells.free:
            owners.append(cells.take(number))
        elif not takes and owners:
            cells.release(owners.pop(number % len(owners)))
        cells.check_integrity(owners)
        assert cells.in_use == sum(map(len, owners))
