"""Dependency graphs: groups, and circles as messages show them."""

from __future__ import annotations

from pastalang.graphs import DependencyGraph, find_cycle


def test_a_shortest_cycle_is_found() -> None:
    assert find_cycle({"x": ["a"], "a": ["b", "c"], "b": ["d"], "c": ["a"], "d": ["a"]}) == ("a", "c")


def test_what_needs_itself_is_a_cycle() -> None:
    assert find_cycle({"a": ["a"]}) == ("a",)


def test_without_a_cycle_none_is_found() -> None:
    assert find_cycle({"a": ["c"], "b": ["a"], "c": []}) is None


def test_what_needs_each_other_is_one_group_after_all_that_it_needs() -> None:
    graph = DependencyGraph({"a": ["b"], "b": ["a", "c"], "c": [], "d": ["a"]})
    assert graph.groups == (("c",), ("a", "b"), ("d",))
    assert graph.on_circles == {"a", "b"}


def test_all_that_is_needed_includes_what_is_needed_through_others() -> None:
    graph = DependencyGraph({"a": ["b"], "b": ["c"], "c": [], "d": ["a"]})
    assert graph.all_needed_by({"b"}) == {"b", "c"}
    assert graph.all_needed_by(set()) == set()
