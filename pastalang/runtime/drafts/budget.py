"""The budget of drafts: which guesses are worth the time that they add to a step.

A step of n tokens takes a time L(n), which is measured once. It is expected to give E tokens: one for each branch that
draws, and the chances of the guesses taken so far. A guess with chance p is worth its place as long as the tokens per
second do not fall: p / E > ΔL / L.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from pastalang.runtime.device_memory import is_out_of_memory
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.scheduler.draft_tree import FORCED, FROM_BRANCH, PROBE, Guess
from pastalang.runtime.scheduler.memory import Memory
from pastalang.runtime.step import CellId, Empty, RowId, Run, StepBatch, TokenId


@dataclass(frozen=True, slots=True)
class StepCosts:
    """The time of a step by its number of tokens, as measured: (tokens, seconds), both rising. Between them a line.

    `around` is what a step takes besides its forward pass, whatever it holds.
    """

    measured: tuple[tuple[int, float], ...]
    around: float = 0.0

    @staticmethod
    def flat() -> StepCosts:
        """A step costs the same whatever it holds: all guesses are worth it."""
        return StepCosts(((1, 1.0), (2, 1.0)))

    @staticmethod
    def of(times: Sequence[tuple[int, float]]) -> StepCosts:
        """Times that fall with the number of tokens are noise: the last one counts."""
        rising: list[tuple[int, float]] = []
        for tokens, seconds in sorted(times, reverse=True):
            rising.append((tokens, min(seconds, rising[-1][1]) if rising else seconds))
        return StepCosts(tuple(reversed(rising)))

    def __call__(self, tokens: int) -> float:
        place = min(max(bisect_right(self.measured, (tokens, float("inf"))), 1), len(self.measured) - 1)
        (fewer, low), (more, high) = self.measured[place - 1], self.measured[place]
        return self.around + low + (high - low) * (tokens - fewer) / (more - fewer)


_SIZES, _TIMES = (1, 4, 8, 16, 32, 64), 3  # tokens of the steps that are measured, and how often


def clock_of(device: torch.device) -> Callable[[], float]:
    """Measures steps. On a CPU, the time that other programs take from this one does not count."""
    return time.thread_time if device.type == "cpu" else time.perf_counter


def measured_costs(model: Model, memory: Memory) -> StepCosts | None:
    """Feed the model steps of several sizes, in cells and a row that are free. None without room for two sizes."""
    if not memory.has_row:
        return None
    sizes = [size for size in _SIZES if size <= min(memory.free, model.max_position)]
    cells = memory.take_for_drafts(max(sizes, default=0))
    clock = clock_of(model.device)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    try:
        for _ in range(_TIMES):
            for size in sizes:
                began = clock()
                model.forward(_step_of(cells[:size], memory.free_row)).sum().item()
                times[size].append(clock() - began)
    except Exception as problem:
        if not is_out_of_memory(problem):
            raise  # a larger step than this device has memory for: the smaller ones were measured
    finally:
        memory.give_back_drafts(cells)
    measured = [(size, min(found)) for size, found in times.items() if found]
    return StepCosts.of(measured) if len(measured) > 1 else None


def _step_of(cells: tuple[CellId, ...], row: RowId) -> StepBatch:
    places = tuple(range(len(cells)))
    return StepBatch(
        tokens=tuple(TokenId(0) for _ in places), positions=places, cells=cells, runs=(Run(row, 0, len(cells)),),
        wanted=places, edits=(Empty(row),),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Probing:
    """What probes are worth: `gains[i]` is how many tokens of the next step the probe at distance i + 1 saves.

    `tokens[i]` are its tokens, one for each of an ensemble.
    """

    gains: Sequence[float]
    tokens: Sequence[Sequence[int]]


NO_PROBES = Probing((), ())


def worth_feeding(
    trees: Sequence[Sequence[Guess]],
    costs: StepCosts,
    *,
    step: int,
    most: int,
    each: Sequence[int] | None = None,
    probing: Probing = NO_PROBES,
) -> tuple[tuple[Guess, ...], ...]:
    """The guesses to feed of each tree, in a step of `step` other tokens: at most `each` of a tree, `most` of all.

    A guess comes with its parent, and with the forced tokens after it: they count as one. What a right guess saves is a
    part of a later step, which feeds a token for each branch and no prompt. Probes follow the guesses that are likely
    to be the last right ones, one distance after the other.
    """
    left = [most] * len(trees) if each is None else list(each)
    chosen = [_Chosen(tree, probing) for tree in trees]
    heap = [(-value, number, place, far) for number, one in enumerate(chosen) for value, place, far in one.begin()]
    heapq.heapify(heap)
    expected, fed, prompts = float(len(trees)), step, max(0, step - len(trees))
    while heap:
        value, number, place, distance = heapq.heappop(heap)
        one = chosen[number]
        now = one.value(place, distance)
        if now < -value:  # its guess has been followed by others since
            heapq.heappush(heap, (-now, number, place, distance))
            continue
        added = one.tokens(place, distance)
        counts = added if distance else 1
        if (
            added > most
            or counts > left[number]
            or now * costs(fed - prompts) <= expected * (costs(fed + added) - costs(fed))
        ):
            continue
        expected, fed, most, left[number] = expected + now, fed + added, most - added, left[number] - counts
        for then, next_place, far in one.take(place, distance):
            heapq.heappush(heap, (-then, number, next_place, far))
    return tuple(one.kept() for one in chosen)


class _Chosen:
    """What is fed of one tree. An item is a guess, `(place, 0)`, or the probe after one, `(place, distance)`; its value
    is the tokens that it is expected to save."""

    def __init__(self, tree: Sequence[Guess], probing: Probing) -> None:
        self._tree, self._probing = tree, probing
        self._children = _children(tree)
        self._reached = {FROM_BRANCH: 1.0}  # the chance that a guess and all before it are right
        self._is_last = {FROM_BRANCH: 1.0}  # and that none of those after it is, as far as they are fed
        self._probes: dict[int, int] = {}  # how many distances follow a guess

    def begin(self) -> list[tuple[float, int, int]]:
        return self._after(FROM_BRANCH)

    def value(self, place: int, distance: int) -> float:
        if distance:
            return self._is_last[place] * self._probing.gains[distance - 1]
        return self._reached[self._tree[place].parent] * self._tree[place].chance

    def tokens(self, place: int, distance: int) -> int:
        return len(self._probing.tokens[distance - 1]) if distance else len(self._together(place))

    def take(self, place: int, distance: int) -> list[tuple[float, int, int]]:
        """Gives what may be taken now."""
        if distance:
            self._probes[place] = distance
            return self._probe_after(place, distance + 1)
        together, chance = self._together(place), self.value(place, 0)
        self._is_last[self._tree[place].parent] -= chance
        for one in together:
            self._reached[one], self._is_last[one] = chance, 0.0
        self._is_last[together[-1]] = chance
        return [item for one in together for item in self._after(one) if item[1] not in together or item[2]]

    def kept(self) -> tuple[Guess, ...]:
        places = sorted(place for place in self._reached if place != FROM_BRANCH)
        number = {place: index for index, place in enumerate(places)} | {FROM_BRANCH: FROM_BRANCH}
        found = [self._tree[place]._replace(parent=number[self._tree[place].parent]) for place in places]
        for host, distances in self._probes.items():
            for ensemble in zip(*self._probing.tokens[:distances], strict=True):
                parent = number[host]
                for token in ensemble:
                    found.append(Guess(token, parent, 0.0, PROBE))
                    parent = len(found) - 1
        return tuple(found)

    def _after(self, place: int) -> list[tuple[float, int, int]]:
        guesses = [(self.value(child, 0), child, 0) for child in self._children[1 + place]]
        return guesses + self._probe_after(place, 1)

    def _probe_after(self, place: int, distance: int) -> list[tuple[float, int, int]]:
        if distance > len(self._probing.gains) or not self._is_last[place]:
            return []
        return [(self.value(place, distance), place, distance)]

    def _together(self, place: int) -> list[int]:
        return _with_forced(self._tree, self._children, place)


def _with_forced(tree: Sequence[Guess], children: Sequence[Sequence[int]], place: int) -> list[int]:
    """A guess and the forced tokens after it."""
    together = [place]
    while forced := [child for child in children[1 + together[-1]] if tree[child].kind == FORCED]:
        together.append(forced[0])
    return together


def _children(tree: Sequence[Guess]) -> list[list[int]]:
    """Of the branch's last token, and of each guess."""
    found: list[list[int]] = [[] for _ in range(len(tree) + 1)]
    for place, guess in enumerate(tree):
        found[1 + guess.parent].append(place)
    return found
