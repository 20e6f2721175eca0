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
from pastalang.runtime.scheduler.draft_tree import FORCED, FROM_BRANCH, Guess
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


def worth_feeding(
    trees: Sequence[Sequence[Guess]],
    costs: StepCosts,
    *,
    step: int,
    most: int,
    each: Sequence[int] | None = None,
) -> tuple[tuple[Guess, ...], ...]:
    """The guesses to feed of each tree, in a step of `step` other tokens: at most `each` of a tree, `most` of all.

    A guess comes with its parent, and with the forced tokens after it: they count as one. What a right guess saves is a
    part of a later step, which feeds a token for each branch and no prompt.
    """
    children = [_children(tree) for tree in trees]
    left = [most] * len(trees) if each is None else list(each)
    taken: list[list[int]] = [[] for _ in trees]
    heap = [(-tree[place].chance, number, place) for number, tree in enumerate(trees) for place in children[number][0]]
    heapq.heapify(heap)
    expected, fed, prompts = float(len(trees)), step, max(0, step - len(trees))
    while heap:
        chance, number, place = heapq.heappop(heap)
        tree = trees[number]
        together = _with_forced(tree, children[number], place)
        added = len(together)
        if (
            added > most
            or not left[number]
            or -chance * costs(fed - prompts) <= expected * (costs(fed + added) - costs(fed))
        ):
            continue
        taken[number] += together
        expected, fed, most, left[number] = expected - chance, fed + added, most - added, left[number] - 1
        for one in together:
            for child in children[number][1 + one]:
                if child not in together:
                    heapq.heappush(heap, (chance * tree[child].chance, number, child))
    return tuple(_kept(tree, sorted(places)) for tree, places in zip(trees, taken, strict=True))


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


def _kept(tree: Sequence[Guess], places: Sequence[int]) -> tuple[Guess, ...]:
    number = {place: index for index, place in enumerate(places)} | {FROM_BRANCH: FROM_BRANCH}
    return tuple(tree[place]._replace(parent=number[tree[place].parent]) for place in places)
