"""What is kept never grows beyond its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pastalang.runtime.constraints.bounded_cache import BoundedCache


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 8), st.integers())))
def test_so_many_are_kept_and_the_newest_is_among_them(most: int, pairs: list[tuple[int, int]]) -> None:
    kept: BoundedCache[int, int] = BoundedCache(most)
    for key, value in pairs:
        had = len(kept) if key in kept else None
        kept[key] = value
        assert kept[key] == value and len(kept) <= most
        assert had is None or len(kept) == had, "what is only said anew makes nobody go"


def test_nobody_goes_before_it_is_full() -> None:
    kept: BoundedCache[int, int] = BoundedCache(3)
    for key in range(3):
        kept[key] = key
    assert dict(kept) == {0: 0, 1: 1, 2: 2}
    kept[3] = 3
    assert dict(kept) == {3: 3}
