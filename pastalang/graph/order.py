"""Edges come in, an order or a circle goes out. Nothing heavy is imported for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def find_cycle(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> tuple[Node, ...] | None:
    """Nodes that lead to one another in a circle, the first one named again at the end; None where there are none."""
    before: dict[Node, list[Node]] = {node: [] for node in nodes}
    for source, target in edges:
        before[target].append(source)
    left = _without_beginnings(before)
    if not left:
        return None
    way = [next(iter(left))]
    seen = {way[0]: 0}
    while True:  # everything that is left has something left before it
        here = next(node for node in before[way[-1]] if node in left)
        if here in seen:
            circle = way[seen[here] :]
            return (circle[0], *reversed(circle))
        seen[here] = len(way)
        way.append(here)


def in_order(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> tuple[Node, ...]:
    """Every node behind those that lead to it, otherwise as given. There is no circle."""
    given = tuple(nodes)
    waiting = dict.fromkeys(given, 0)
    behind: dict[Node, list[Node]] = {node: [] for node in given}
    for source, target in edges:
        waiting[target] += 1
        behind[source].append(target)
    order = [node for node in given if waiting[node] == 0]
    for node in order:  # grows while it is read
        for target in behind[node]:
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    assert len(order) == len(given), "there is a circle"
    return tuple(order)


def _without_beginnings(before: dict[Node, list[Node]]) -> dict[Node, None]:
    """What remains when everything is taken away that waits for nothing, again and again."""
    waiting = {node: len(sources) for node, sources in before.items()}
    behind: dict[Node, list[Node]] = {node: [] for node in before}
    for node, sources in before.items():
        for source in sources:
            behind[source].append(node)
    ready = [node for node, count in waiting.items() if count == 0]
    left = dict.fromkeys(before)
    while ready:
        node = ready.pop()
        del left[node]
        for target in behind[node]:
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return left
