"""The prefix cache: prompt tokens kept in memory between requests.

A kept stretch is a branch that no request owns. Only the unforked beginning of a prompt is kept, fed from position 0,
so the keys and values of a token depend only on the tokens before it:

    "You extract …" ──┬── "First document …"       a request goes on from the token where its prompt leaves
                      └── "Second document …"      the kept text, wherever in a stretch that is
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pastalang.plan.branches import ROOT, Branch, Instance, Overrun, Place, Release
from pastalang.plan.machine import Cursor, Feed
from pastalang.runtime.scheduler.known_text import known_text
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.scheduler.state import (
    NOTHING,
    BranchMemory,
    BranchState,
    OwnerMemory,
    Prefix,
    RequestState,
    Seen,
    Source,
    Stage,
    TokenSequence,
)


def leading_tokens(request: RequestState) -> tuple[int, ...]:
    """The tokens of the root before anything is forked, drawn or joined: what the cache may keep."""
    machine, tokens = request.tokens.machine, list[int]()
    cursor = machine.begin(Instance(ROOT))
    while isinstance(action := machine.action(cursor), Feed) and not isinstance(action.segment, Place):
        known = known_text(action.segment, request.tokens, named=request.values.__getitem__, items=())
        tokens += known.tokens
        cursor = cursor.after()
    return tuple(tokens)


SHORTEST = 8  # shorter stretches are not worth a branch

_NOWHERE = Cursor(Instance(ROOT), None)
_STRETCH = Branch(ROOT, "kept prefix", None, (), (), 0, Overrun.CONTINUE, Release.NEVER)


@dataclass(eq=False, slots=True)
class _Node:
    branch: BranchState
    keeper: str
    parent: _Node | None
    at: int  # how many tokens of the parent it follows
    used: int  # when it was last used
    alone: int | None  # the request that added it, until another one goes on from it
    children: dict[tuple[int, int], _Node] = field(default_factory=dict)  # (tokens of this one, first token)


class PrefixCache:
    """Keeps at most `limit` cells in `most` stretches. Evicts the least recently used first. 0 keeps nothing."""

    def __init__(self, limit: int, most: int | None = None) -> None:
        self.limit = 0 if most == 0 else limit
        self._most = most
        self.clear()

    def clear(self) -> None:
        """Keep nothing. The memory of what was kept is free already."""
        self.owner = OwnerMemory()
        self._top: dict[tuple[str, int], _Node] = {}  # by keeper and first token
        self._nodes: dict[_Node, None] = {}
        self._clock = 0

    @property
    def nodes(self) -> tuple[BranchState, ...]:
        return tuple(node.branch for node in self._nodes)

    @property
    def size(self) -> int:
        """The cells that are kept, or will be once their tokens are fed."""
        return sum(len(node.branch.sequence.tokens) for node in self._nodes)

    @property
    def unfed(self) -> int:
        """The cells that kept stretches have yet to take."""
        return sum(len(node.branch.sequence.tokens) - node.branch.memory.fed for node in self._nodes)

    def start(self, tokens: Sequence[int], *, request: int, keeper: str = "") -> Prefix:
        """The part of `tokens` that is kept for a keeper. The rest is kept from now on, as far as place can be made for
        it: `make_place` has to follow once the request sees it.

        What one keeper has kept says nothing to another, not even by the time that a prompt takes.
        """
        if not self.limit:
            return NOTHING
        self._clock += 1
        path = self._find(tokens, keeper, request)
        known = sum(length for _, length in path)
        rest = tokens[known : known + self._room_behind(path)]
        if len(rest) >= SHORTEST:
            path.append((self._add(path, rest, keeper, request), len(rest)))
        return _prefix_of(path)

    def make_place(self, memory: Memory) -> None:
        """Drop what is over the limits, the least recently used first."""
        while self.size > self.limit or (self._most is not None and len(self._nodes) > self._most):
            if not self.evict(memory):
                return

    def evict(self, memory: Memory) -> bool:
        """Drop the least recently used stretch that no request sees. Says whether there was one."""
        idle = [node for node in self._nodes if not node.children and not node.branch.memory.viewers]
        if not idle:
            return False
        self._drop(min(idle, key=lambda node: node.used), memory)
        return True

    def forget(self, request: int, memory: Memory, *, is_cancelled: bool) -> None:
        """Drop the stretches that only a failed request saw: their contents may be why, or are not fed yet."""
        for node in [node for node in self._nodes if node.alone == request]:
            is_whole = node.branch.memory.fed == len(node.branch.sequence.tokens)
            if not node.children and not node.branch.memory.viewers and not (is_cancelled and is_whole):
                self._drop(node, memory)

    def _room_behind(self, path: Sequence[tuple[_Node, int]]) -> int:
        """How many cells a stretch may take that goes on from here, once all is dropped that may be."""
        pinned = dict.fromkeys(node for node, _ in path)
        for node in self._nodes:
            one: _Node | None = node if node.branch.memory.viewers else None
            while one is not None:
                pinned[one] = None
                one = one.parent
        if self._most is not None and len(pinned) >= self._most:
            return 0
        return max(self.limit - sum(len(node.branch.sequence.tokens) for node in pinned), 0)

    def _find(self, tokens: Sequence[int], keeper: str, request: int) -> list[tuple[_Node, int]]:
        path: list[tuple[_Node, int]] = []
        at = 0
        node = self._top.get((keeper, tokens[0])) if tokens else None
        while node is not None:
            node.used = self._clock
            node.alone = request if node.alone == request else None
            length = _common(node.branch.sequence.tokens, tokens, at)
            path.append((node, length))
            at += length
            node = node.children.get((length, tokens[at])) if at < len(tokens) else None
        return path

    def _add(self, path: list[tuple[_Node, int]], tokens: Sequence[int], keeper: str, request: int) -> _Node:
        before = _prefix_of(path)
        branch = BranchState(
            spec=_STRETCH, items=(), number=-1, names={}, draw_items=(), cursor=_NOWHERE, stage=Stage.ENDED,
            sequence=TokenSequence(before.source, before.view, before.length, before.length, before.length - 1),
            memory=BranchMemory(self.owner, is_admitted=True),
        )  # fmt: skip
        branch.append(list(tokens))
        branch.wait_for_row()
        parent, at = path[-1] if path else (None, 0)
        node = _Node(branch, keeper, parent, at, self._clock, request)
        if parent is None:
            self._top[keeper, tokens[0]] = node
        else:
            parent.children[at, tokens[0]] = node
        self._nodes[node] = None
        return node

    def _drop(self, node: _Node, memory: Memory) -> None:
        branch = node.branch
        branch.memory.is_held = False
        if node.parent is None:
            del self._top[node.keeper, branch.sequence.tokens[0]]
        else:
            del node.parent.children[node.at, branch.sequence.tokens[0]]
        del self._nodes[node]
        memory.give_back(branch)
        self.owner.to_feed.pop(branch, None)
        if branch in self.owner.late:
            self.owner.late.remove(branch)
        branch.forget_row()


def _prefix_of(path: Sequence[tuple[_Node, int]]) -> Prefix:
    if not path:
        return NOTHING
    node, length = path[-1]
    reused = sum(min(part, one.branch.memory.fed) for one, part in path)
    view = tuple(Seen(one.branch, part) for one, part in path)
    return Prefix(sum(part for _, part in path), view, Source(node.branch, length - 1), reused)


def _common(kept: Sequence[int], tokens: Sequence[int], at: int) -> int:
    """How many tokens `kept` and `tokens[at:]` have in common at their beginning."""
    most = min(len(kept), len(tokens) - at)
    if list(kept[:most]) == list(tokens[at : at + most]):
        return most
    return next(index for index in range(most) if kept[index] != tokens[at + index])
