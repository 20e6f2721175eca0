"""From "this needs that" to an order in which everything comes after what it needs, or to a circle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def components(needs: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """The strongly connected groups of names, each after all groups it needs (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in needs:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []
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
    name: str,
    needs: Mapping[str, Sequence[str]],
    index: dict[str, int],
    low: dict[str, int],
    stack: list[str],
    on_stack: set[str],
    work: list[tuple[str, Iterator[str]]],
) -> None:
    index[name] = low[name] = len(index)
    stack.append(name)
    on_stack.add(name)
    work.append((name, iter(needs[name])))


def _leave(name: str, stack: list[str], on_stack: set[str]) -> tuple[str, ...]:
    group: list[str] = []
    while not group or group[-1] != name:
        group.append(stack.pop())
    on_stack.difference_update(group)
    return tuple(reversed(group))


def find_circle(needs: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """A shortest circle through the first name that stands in one: a needs b needs ... needs a."""
    for group in components(needs):
        if len(group) > 1 or group[0] in needs[group[0]]:
            return _shortest_circle(group, needs)
    return None


def _shortest_circle(group: tuple[str, ...], needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    start, inside = group[0], set(group)
    came_from: dict[str, str] = {}
    row = [start]
    while row:
        following: list[str] = []
        for name in row:
            for other in needs[name]:
                if other == start:
                    return _way_back(name, start, came_from)
                if other in inside and other not in came_from:
                    came_from[other] = name
                    following.append(other)
        row = following
    raise AssertionError("a strongly connected group has a circle through each of its names")


def _way_back(name: str, start: str, came_from: Mapping[str, str]) -> tuple[str, ...]:
    way = [name]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))
