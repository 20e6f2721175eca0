"""Dependency graphs: a topological order or a cycle, the critical path, waves and closure.

The last two are networkx's, which is imported when the first question is asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import networkx


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


@dataclass(frozen=True)
class CriticalPath(Generic[Node]):
    length: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Graph(Generic[Node]):
    nodes: tuple[Node, ...]
    edges: tuple[tuple[Node, Node], ...]

    @cached_property
    def networkx(self) -> networkx.DiGraph:
        """The same graph for further questions, drawing and export."""
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from(self.nodes)
        graph.add_edges_from(self.edges)
        return graph

    def find_cycle(self) -> tuple[Node, ...] | None:
        return find_cycle(self.nodes, self.edges)

    @cached_property
    def waves(self) -> tuple[tuple[Node, ...], ...]:
        """What could be known at the same time: a node is in the wave behind the last one that it needs."""
        import networkx

        return tuple(tuple(wave) for wave in networkx.topological_generations(self.networkx))

    @property
    def width(self) -> int:
        """The most nodes in one wave."""
        return max((len(wave) for wave in self.waves), default=0)

    def critical_path(self, weights: Mapping[Node, int]) -> CriticalPath[Node]:
        """The heaviest way through; nodes that `weights` does not name weigh nothing."""
        best: dict[Node, int] = {}
        from_: dict[Node, Node | None] = {}
        before: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for source, target in self.edges:
            before[target].append(source)
        for node in in_order(self.nodes, self.edges):
            nearest = max(before[node], key=lambda source: best[source], default=None)
            best[node] = weights.get(node, 0) + (0 if nearest is None else best[nearest])
            from_[node] = nearest
        return _backwards(best, from_)

    def known_before(self, node: Node) -> frozenset[Node]:
        """Everything that has to be known before this node."""
        import networkx

        return frozenset(networkx.ancestors(self.networkx, node))


def _backwards(best: Mapping[Node, int], from_: Mapping[Node, Node | None]) -> CriticalPath[Node]:
    if not best:
        return CriticalPath(0, ())
    here: Node | None = max(best, key=lambda node: best[node])
    assert here is not None
    length = best[here]
    way: list[Node] = []
    while here is not None:
        way.append(here)
        here = from_[here]
    return CriticalPath(length, tuple(reversed(way)))
