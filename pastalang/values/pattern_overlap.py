"""Whether some text matches two patterns at once: a walk over both of their automata."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

from pastalang.program.regex import RegexError, parse_regex
from pastalang.program.regex_tree import Chars, Choice, Node, Ranges, Repetition, Sequence

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
            case Chars(ranges):
                end = self._state()
                self.edges[start].append((ranges, end))
                return end
            case Sequence(items):
                for item in items:
                    start = self._add(item, start)
                return start
            case Choice(arms):
                end = self._state()
                for arm in arms:
                    self.free[self._add(arm, start)].append(end)
                return end
            case Repetition(item, minimum, maximum):
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
