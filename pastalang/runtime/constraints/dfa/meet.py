"""What several patterns say of the same string at once: all of them are followed side by side."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from pastalang.program.regex import Node
from pastalang.runtime.constraints.dfa.pattern import PatternAutomaton
from pastalang.runtime.constraints.dfa.table import Automaton, group_edges
from pastalang.runtime.constraints.guide import GuideError

# How far the search for a common ending goes: beyond it the patterns are refused, so nothing can hang.
_MAX_SEARCHED = 20_000


def meet_patterns(nodes: Sequence[Node], *, quoted: bool) -> Automaton:
    automata = [PatternAutomaton(node, quoted=quoted) for node in nodes]
    if any(automaton.is_empty for automaton in automata):
        raise GuideError("nothing matches the pattern")
    return automata[0] if len(automata) == 1 else MeetAutomaton(automata)


class MeetAutomaton:
    """See `automaton.Automaton`. Only states from which a common ending was found are ever entered."""

    def __init__(self, automata: Sequence[PatternAutomaton]) -> None:
        self._automata = tuple(automata)
        self.start: Hashable = tuple(automaton.start for automaton in automata)
        self._endings: dict[Hashable, bytes | None] = {}
        if self._find_ending(self.start) is None:
            raise GuideError("no string fits the pattern, the format and the limits of length together")

    def edges(self, state: Hashable) -> Mapping[int, Hashable]:
        return {
            byte: following
            for byte, following in self._steps(state).items()
            if self._find_ending(following) is not None
        }

    def ways(self, state: Hashable) -> Iterator[tuple[bytes, Hashable]]:
        return group_edges(self.edges(state))

    def accepts(self, state: Hashable) -> bool:
        assert isinstance(state, tuple)
        return all(automaton.accepts(part) for automaton, part in zip(self._automata, state, strict=True))

    def ending(self, state: Hashable) -> bytes:
        found = self._find_ending(state)
        assert found is not None
        return found

    def _steps(self, state: Hashable) -> dict[int, Hashable]:
        assert isinstance(state, tuple)
        ways = [automaton.edges(part) for automaton, part in zip(self._automata, state, strict=True)]
        shared = set(ways[0]).intersection(*ways[1:])
        return {byte: tuple(way[byte] for way in ways) for byte in sorted(shared)}

    def _find_ending(self, state: Hashable) -> bytes | None:
        """Breadth first, over distinct states; what lies on the way found is known from then on."""
        if state in self._endings:
            return self._endings[state]
        came: dict[Hashable, tuple[Hashable, int] | None] = {state: None}
        level = [state]
        while level:
            following_level: list[Hashable] = []
            for here in level:
                known = self._endings.get(here)
                if self.accepts(here) or known is not None:
                    return self._remember(here, b"" if self.accepts(here) else known or b"", came)
                if here in self._endings:
                    continue
                for byte, following in self._distinct(here):
                    if following not in came:
                        came[following] = (here, byte)
                        following_level.append(following)
            if len(came) > _MAX_SEARCHED:
                raise GuideError("the pattern, the format and the limits of length are too intricate together")
            level = following_level
        for dead in came:
            self._endings[dead] = None
        return None

    def _distinct(self, state: Hashable) -> list[tuple[int, Hashable]]:
        found: dict[Hashable, int] = {}
        for byte, following in self._steps(state).items():
            found.setdefault(following, byte)
        return [(byte, following) for following, byte in found.items()]

    def _remember(self, here: Hashable, ending: bytes, came: dict[Hashable, tuple[Hashable, int] | None]) -> bytes:
        self._endings[here] = ending
        while (step := came[here]) is not None:
            here, ending = step[0], bytes((step[1],)) + ending
            self._endings[here] = ending
        return ending
