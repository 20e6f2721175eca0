"""Training batches of the recipe, by number: rows drawn while the model trains.

A batch depends on the seed and its own number alone, so a resumed run sees the batches that an unbroken run would
have seen. Rows are recorded shortly before they are needed, in a separate process if wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from pastalang.training.batches import Batch, collate
from pastalang.training.processes import ALONE, Processes
from pastalang.training.recording import TrainingRow

DrawRows: TypeAlias = Callable[[Random], Sequence[TrainingRow]]  # none if what was drawn cannot be taught
Lines: TypeAlias = list[list[TrainingRow]]

_MISSES = 12  # drawn rows, one after another, that fit in no line, before a chunk is full


@dataclass(frozen=True, slots=True)
class GuidedBatch(Batch):
    """`allowed` has a row of bits for each label, one after another: the tokens that the type of its value allows."""

    allowed: Tensor | None = None

    def to(self, device: torch.device) -> GuidedBatch:
        assert self.allowed is not None
        moved = Batch.to(self, device)
        return _guided(moved, self.allowed.to(device))


def guided(lines: Lines, length: int) -> GuidedBatch:
    """The lines as one batch. Where a type allows every token, so do the bits."""
    taught = (one for line in lines for row in line for one in sorted(row.taught, key=lambda one: one.place))
    masks = [one.allowed for one in taught]
    words = max(len(mask) for mask in masks if mask is not None)
    everything = np.full(words, 0xFFFFFFFF, dtype=np.uint32)
    bits = np.stack([everything if mask is None else mask for mask in masks]).view(np.uint8)
    return _guided(collate(lines, length), torch.from_numpy(bits))


def _guided(batch: Batch, allowed: Tensor) -> GuidedBatch:
    return GuidedBatch(batch.tokens, batch.positions, batch.labels, batch.visible, batch.origins, batch.near, allowed)


class RowStream:
    """Batches by number. A chunk has `batches` batches. Each process that trains draws rows of its own.

    The next `ahead` chunks are made in as many processes while this one is used; `draw` has to be picklable for that.
    """

    def __init__(
        self,
        draw: DrawRows,
        *,
        rows: int,
        length: int,
        seed: int,
        batches: int = 16,
        ahead: int = 0,
        processes: Processes = ALONE,
    ) -> None:
        self._draw = draw
        self._batches, self._ahead = batches, ahead
        self._rows, self._length = rows // processes.count, length
        self._name = f"{processes.rank}/{seed}" if processes.rank else f"{seed}"
        self._pool = ProcessPoolExecutor(ahead, mp_context=get_context("spawn")) if ahead else None
        self._coming: dict[int, Future[Lines]] = {}
        self._known: tuple[int, Lines] = (-1, [])

    def __call__(self, number: int) -> GuidedBatch:
        chunk, place = divmod(number, self._batches)
        if self._known[0] != chunk:
            self._known = (chunk, self._chunk(chunk))
        return guided(self._known[1][place * self._rows : (place + 1) * self._rows], self._length)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _chunk(self, number: int) -> Lines:
        if self._pool is None:
            return make_lines(self._draw, self._rows * self._batches, self._length, f"{self._name}/{number}")
        for wanted in range(number, number + 1 + self._ahead):
            if wanted not in self._coming:
                self._coming[wanted] = self._pool.submit(
                    make_lines, self._draw, self._rows * self._batches, self._length, f"{self._name}/{wanted}"
                )
        lines = self._coming.pop(number).result()
        self._coming = {known: future for known, future in self._coming.items() if known > number}
        return lines


def make_lines(draw: DrawRows, count: int, length: int, seed: str) -> Lines:
    """`count` lines, each filled with rows as they are drawn, until rows in a row fit nowhere any more."""
    random = Random(seed)
    lines: Lines = [[] for _ in range(count)]
    room = [length] * count
    misses = 0
    while misses < _MISSES or not all(lines):
        for row in draw(random):
            if len(row) > length:
                continue
            place = next((place for place in range(count) if len(row) <= room[place]), None)
            if place is None:
                misses += 1
                continue
            misses = 0
            lines[place].append(row)
            room[place] -= len(row)
    random.shuffle(lines)
    return lines
