"""Topological order: sort nodes after what they need, or find a cycle. Shared by the checker and the planner."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def in_order(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> tuple[Node, ...]:
    """The nodes in an order in which every edge points forward, otherwise as given. There must be no cycle."""
    given = tuple(nodes)
    missing = dict.fromkeys(given, 0)
    needed_by: dict[Node, list[Node]] = {node: [] for node in given}
    for source, target in edges:
        missing[target] += 1
        needed_by[source].append(target)
    order = [node for node in given if missing[node] == 0]
    for node in order:  # grows while it is read
        for target in needed_by[node]:
            missing[target] -= 1
            if missing[target] == 0:
                order.append(target)
    assert len(order) == len(given), "there is a cycle"
    return tuple(order)


def components(needs: Mapping[Node, Sequence[Node]]) -> Iterator[tuple[Node, ...]]:
    """The strongly connected groups of nodes, each after all groups it needs (Tarjan, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    for root in needs:
        if root in index:
            continue
        work: list[tuple[Node, Iterator[Node]]] = []
        _enter(root, needs, index, low, stack, on_stack, work)
        while work:
            name, rest = work[-1]
            following = next((other for other in rest if other in needs), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    yield _leave(name, stack, on_stack)
            elif following not in index:
                _enter(following, needs, index, low, stack, on_stack, work)
            elif following in on_stack:
                low[name] = min(low[name], index[following])


def _enter(
    name: Node,
    needs: Mapping[Node, Sequence[Node]],
    index: dict[Node, int],
    low: dict[Node, int],
    stack: list[Node],
    on_stack: set[Node],
    work: list[tuple[Node, Iterator[Node]]],
) -> None:
    index[name] = low[name] = len(index)
    stack.append(name)
    on_stack.add(name)
    work.append((name, iter(needs[name])))


def _leave(name: Node, stack: list[Node], on_stack: set[Node]) -> tuple[Node, ...]:
    group: list[Node] = []
    while not group or group[-1] != name:
        group.append(stack.pop())
    on_stack.difference_update(group)
    return tuple(reversed(group))


def find_cycle(needs: Mapping[Node, Sequence[Node]]) -> tuple[Node, ...] | None:
    """A shortest cycle through the first node that is on one: a needs b needs ... needs a."""
    for group in components(needs):
        if len(group) > 1 or group[0] in needs[group[0]]:
            return _shortest_cycle(group, needs)
    return None


def _shortest_cycle(group: tuple[Node, ...], needs: Mapping[Node, Sequence[Node]]) -> tuple[Node, ...]:
    start, inside = group[0], set(group)
    came_from: dict[Node, Node] = {}
    row = [start]
    while row:
        following: list[Node] = []
        for name in row:
            for other in needs[name]:
                if other == start:
                    return _way_back(name, start, came_from)
                if other in inside and other not in came_from:
                    came_from[other] = name
                    following.append(other)
        row = following
    raise AssertionError("a strongly connected group has a cycle through each of its nodes")


def _way_back(name: Node, start: Node, came_from: Mapping[Node, Node]) -> tuple[Node, ...]:
    way = [name]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))
