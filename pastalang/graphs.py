"""Dependencies as networkx graphs: circles, and what is needed in all. Shared by the checker and the planner.

An edge leads from a node to what it needs. Importing networkx takes about as long as checking a program, so it is
imported with the first graph, and there is none for what needs nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import networkx

Node = TypeVar("Node", bound=Hashable)


@dataclass(frozen=True)
class DependencyGraph(Generic[Node]):
    """Nodes with the nodes that each of them needs. What is no key of `needs` is left out."""

    needs: Mapping[Node, Sequence[Node]]

    @cached_property
    def graph(self) -> networkx.DiGraph:
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from(self.needs)
        graph.add_edges_from((node, need) for node, needs in self.needs.items() for need in needs if need in self.needs)
        return graph

    @cached_property
    def groups(self) -> tuple[tuple[Node, ...], ...]:
        """The nodes in groups that need one another, each group after all that it needs."""
        if not any(self.needs.values()):
            return tuple((node,) for node in self.needs)
        import networkx

        place = {node: index for index, node in enumerate(self.needs)}
        condensed = networkx.condensation(self.graph)
        members = (condensed.nodes[group]["members"] for group in reversed(list(networkx.topological_sort(condensed))))
        return tuple(tuple(sorted(group, key=place.__getitem__)) for group in members)

    @cached_property
    def on_circles(self) -> frozenset[Node]:
        """The nodes that need themselves, directly or through others."""
        return frozenset(node for group in self.groups for node in group if len(group) > 1 or node in self.needs[node])

    def all_needed_by(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes and all that they need, directly or through others."""
        reached = set(nodes)
        if not any(self.needs.get(node) for node in reached):
            return reached
        import networkx

        known = [node for node in reached if node in self.needs]
        return reached.union(*networkx.bfs_layers(self.graph, known))


def reached(nodes: Iterable[Node], edges: Mapping[Node, Iterable[Node]]) -> list[Node]:
    """The nodes and all that edges lead to from them: each once, after one that leads to it."""
    found = list(dict.fromkeys(nodes))
    known = set(found)
    for node in found:
        found += [one for one in dict.fromkeys(edges.get(node, ())) if one not in known]
        known.update(found)
    return found


def find_cycle(needs: Mapping[Node, Sequence[Node]]) -> tuple[Node, ...] | None:
    """A shortest cycle through the first node that is on one: a needs b needs ... needs a."""
    seen: set[Node] = set()
    for node, others in needs.items():
        if not seen.issuperset(others):
            break
        seen.add(node)
    else:
        return None  # each needs only what comes before it
    graph = DependencyGraph(needs)
    start = next((node for node in needs if node in graph.on_circles), None)
    return None if start is None else _shortest_cycle(start, graph.graph)


def _shortest_cycle(start: Node, graph: networkx.DiGraph) -> tuple[Node, ...]:
    import networkx

    before = {node: one for one, node in networkx.bfs_edges(graph, start)}  # from the nearest to the farthest
    way = [next(node for node in (start, *before) if graph.has_edge(node, start))]
    while way[-1] != start:
        way.append(before[way[-1]])
    return tuple(reversed(way))
