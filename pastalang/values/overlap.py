"""Returns True if types or patterns can share a value, and the key that distinguishes the objects of a union."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import Final, TypeAlias

from pastalang.program import regex
from pastalang.program import types as t
from pastalang.program.regex import Node, Ranges, RegexError, parse_regex
from pastalang.program.visit import JSON_KINDS, json_kinds
from pastalang.values.fit import find_mismatches

_MAX_PAIRED: Final = 64  # up to so many objects are compared in pairs


def find_discriminator(arms: Sequence[t.Type], *, allow_defaults: bool = False) -> str | None:
    """The first key whose literals differ in all object arms, if there are several.

    A key with a default may be missing in a value. It counts only with `allow_defaults`, where values always have it.
    """
    objects = [arm for arm in arms if isinstance(arm, t.Object)]
    if len(objects) < 2:
        return None
    keys = (field.key for field in objects[0].fields)
    return next((key for key in keys if _distinguishes(key, objects, allow_defaults=allow_defaults)), None)


def overlap(arms: Sequence[t.Type], types: Mapping[str, t.Type]) -> tuple[int, int] | None:
    """The indexes of two arms that may share a value; None if certainly none do."""
    shapes = [types.get(arm.name, t.Anything()) if isinstance(arm, t.Named) else arm for arm in arms]
    literals = [at for at, shape in enumerate(shapes) if isinstance(shape, t.Literal)]
    objects = [at for at, shape in enumerate(shapes) if isinstance(shape, t.Object)]
    others = [at for at in range(len(shapes)) if at not in {*literals, *objects}]
    return (
        _equal_literals(shapes, literals)
        or _similar_objects(shapes, objects)
        or _first_pair(shapes, combinations(others, 2))
        or _first_pair(shapes, product(others, (*literals, *objects)))
    )


def _distinguishes(key: str, objects: Sequence[t.Object], *, allow_defaults: bool = False) -> bool:
    seen: set[t.Literal] = set()
    for one in objects:
        tags = _tags(one, key, allow_defaults=allow_defaults)
        if not tags or tags & seen:
            return False
        seen |= tags
    return True


def _equal_literals(shapes: Sequence[t.Type], literals: Sequence[int]) -> tuple[int, int] | None:
    first: dict[t.Type, int] = {}
    for at in literals:
        if shapes[at] in first:
            return first[shapes[at]], at
        first[shapes[at]] = at
    return None


def _similar_objects(shapes: Sequence[t.Type], objects: Sequence[int]) -> tuple[int, int] | None:
    """Usually one key distinguishes all objects. If none does, each pair needs a key of its own."""
    if len(objects) < 2 or find_discriminator([shapes[at] for at in objects]) is not None:
        return None
    if len(objects) > _MAX_PAIRED:
        return objects[0], objects[1]
    return _first_pair(shapes, combinations(objects, 2))


def _first_pair(shapes: Sequence[t.Type], pairs: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    return next((pair for pair in pairs if not _are_disjoint(shapes[pair[0]], shapes[pair[1]])), None)


def _are_disjoint(left: t.Type, right: t.Type) -> bool:
    if isinstance(left, t.Literal) and isinstance(right, t.Literal):
        return left != right
    if isinstance(left, t.Literal):
        return json_kinds(right) != JSON_KINDS and bool(find_mismatches(right, left.value))
    if isinstance(right, t.Literal):
        return _are_disjoint(right, left)
    if isinstance(left, t.Object) and isinstance(right, t.Object):
        return any(_distinguishes(field.key, (left, right)) for field in left.fields)
    return not json_kinds(left) & json_kinds(right)


def _tags(type: t.Object, key: str, *, allow_defaults: bool) -> frozenset[t.Literal]:
    """The literals that the key may hold; none if it may hold anything else."""
    for field in type.fields:
        if field.key == key and (allow_defaults or field.default is None):
            arms = field.type.arms if isinstance(field.type, t.Union) else (field.type,)
            literals = frozenset(arm for arm in arms if isinstance(arm, t.Literal))
            return literals if len(literals) == len(arms) else frozenset()
    return frozenset()


# ── patterns ───────────────────────────────────────────────────────────────────────────────────────────

_MAX_STATES: Final = 800  # of one automaton
_MAX_PAIRS: Final = 20_000  # of states, and ten times as many of their edges

_State: TypeAlias = int


@lru_cache(maxsize=512)
def may_share_a_text(left: str, right: str) -> bool:
    """False if certainly no text matches both patterns. Large patterns may share one."""
    try:
        one, other = _Automaton(parse_regex(left)), _Automaton(parse_regex(right))
    except (RegexError, _TooLarge):
        return True
    waiting = [*product(one.reached(one.start), other.reached(other.start))]
    seen, tried = set(waiting), 0
    while waiting:
        mine, theirs = waiting.pop()
        tried += len(one.edges[mine]) * len(other.edges[theirs])
        if (mine, theirs) == (one.end, other.end) or len(seen) > _MAX_PAIRS or tried > 10 * _MAX_PAIRS:
            return True
        for (ranges, after), (others, behind) in product(one.edges[mine], other.edges[theirs]):
            if _overlap(ranges, others):
                new = {*product(one.reached(after), other.reached(behind))} - seen
                seen |= new
                waiting += new
    return False


class _TooLarge(Exception):
    pass


class _Automaton:
    """States with edges for characters, and with free ways to other states."""

    def __init__(self, node: Node) -> None:
        self.edges: list[list[tuple[Ranges, _State]]] = []
        self.free: list[list[_State]] = []
        self._reached: dict[_State, frozenset[_State]] = {}
        self.start = self._state()
        self.end = self._add(node, self.start)

    def reached(self, state: _State) -> frozenset[_State]:
        """The state and all that free ways lead to."""
        if state not in self._reached:
            found, waiting = {state}, [state]
            while waiting:
                new = [one for one in self.free[waiting.pop()] if one not in found]
                found.update(new)
                waiting += new
            self._reached[state] = frozenset(found)
        return self._reached[state]

    def _state(self) -> _State:
        if len(self.edges) >= _MAX_STATES:
            raise _TooLarge
        self.edges.append([])
        self.free.append([])
        return len(self.edges) - 1

    def _add(self, node: Node, start: _State) -> _State:
        """Add what the node matches after a state. Returns the state behind it."""
        match node:
            case regex.Chars(ranges):
                end = self._state()
                self.edges[start].append((ranges, end))
                return end
            case regex.Sequence(items):
                for item in items:
                    start = self._add(item, start)
                return start
            case regex.Choice(arms):
                end = self._state()
                for arm in arms:
                    self.free[self._add(arm, start)].append(end)
                return end
            case regex.Repetition(item, minimum, maximum):
                return self._repeated(item, start, minimum, maximum)

    def _repeated(self, item: Node, start: _State, minimum: int, maximum: int | None) -> _State:
        for _ in range(minimum):
            start = self._add(item, start)
        end = self._state()
        self.free[start].append(end)
        if maximum is None:
            again = self._state()
            self.free[start].append(again)
            after = self._add(item, again)
            self.free[after] += [again, end]
            return end
        for _ in range(minimum, maximum):
            start = self._add(item, start)
            self.free[start].append(end)
        return end


def _overlap(left: Ranges, right: Ranges) -> bool:
    return any(low <= to and start <= high for low, high in left for start, to in right)
