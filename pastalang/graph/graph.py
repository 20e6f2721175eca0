"""A dependency graph: nodes and `must be known first` edges come in; waves, width, critical path and closure go out.

Built on networkx, which is imported when the first question is asked: to check a file nobody needs it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from pastalang.graph.order import find_cycle, in_order

if TYPE_CHECKING:
    import networkx

Node = TypeVar("Node", bound=Hashable)


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
