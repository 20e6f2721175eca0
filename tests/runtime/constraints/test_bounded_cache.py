"""A bounded cache never has more entries than its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pastalang.runtime.constraints.tokens import BoundedCache, LruCache


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 8), st.integers())))
def test_it_never_outgrows_its_bound_and_has_the_newest_entry(most: int, pairs: list[tuple[int, int]]) -> None:
    kept: BoundedCache[int, int] = BoundedCache(most)
    for key, value in pairs:
        had = len(kept) if key in kept else None
        kept[key] = value
        assert kept[key] == value and len(kept) <= most
        assert had is None or len(kept) == had, "an entry that is set again drops no other"


def test_no_entry_is_dropped_before_it_is_full() -> None:
    kept: BoundedCache[int, int] = BoundedCache(3)
    for key in range(3):
        kept[key] = key
    assert dict(kept) == {0: 0, 1: 1, 2: 2}
    kept[3] = 3
    assert dict(kept) == {3: 3}


def test_the_least_recently_used_entry_is_dropped_first() -> None:
    cache: LruCache[str, int] = LruCache(2)
    for key in ("a", "b", "a", "c"):
        cache.cached(key, lambda: len(cache))
    assert list(cache) == ["a", "c"]
    assert cache.cached("a", lambda: 9) == 0
