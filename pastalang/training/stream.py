"""Batches from an endless stream of rows: what draws a row comes in, batches by number go out.

Rows are recorded when their batch is near, in a process of their own if wanted. A chunk of batches depends on the
seed and its own number alone, so a run that is resumed sees what an unbroken one would have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from typing import TypeAlias

from pastalang.training.batch import Batch
from pastalang.training.packing import collate
from pastalang.training.sequence import Sequence as Row

DrawRow: TypeAlias = Callable[[Random], Row | None]  # None: what was drawn cannot be taught; another is drawn
Lines: TypeAlias = list[list[Row]]

_MISSES = 12  # rows in a row that fit nowhere, before a chunk is full


class RowStream:
    """Batches by number; `draw` has to be picklable if `ahead`: the next chunk is then made while this one is used."""

    def __init__(
        self, draw: DrawRow, *, rows: int, length: int, seed: int, batches: int = 16, ahead: bool = False
    ) -> None:
        """`batches` are in a chunk."""
        self._draw = draw
        self._batches = batches
        self._rows, self._length, self._seed = rows, length, seed
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn")) if ahead else None
        self._coming: dict[int, Future[Lines]] = {}
        self._known: tuple[int, Lines] = (-1, [])

    def __call__(self, number: int) -> Batch:
        chunk, place = divmod(number, self._batches)
        if self._known[0] != chunk:
            self._known = (chunk, self._chunk(chunk))
        return collate(self._known[1][place * self._rows : (place + 1) * self._rows], self._length)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _chunk(self, number: int) -> Lines:
        if self._pool is None:
            return make_lines(self._draw, self._rows * self._batches, self._length, f"{self._seed}/{number}")
        for wanted in (number, number + 1):
            if wanted not in self._coming:
                self._coming[wanted] = self._pool.submit(
                    make_lines, self._draw, self._rows * self._batches, self._length, f"{self._seed}/{wanted}"
                )
        lines = self._coming.pop(number).result()
        self._coming = {known: future for known, future in self._coming.items() if known > number}
        return lines


def make_lines(draw: DrawRow, count: int, length: int, seed: str) -> Lines:
    """`count` lines, each filled with rows as they are drawn, until rows in a row fit nowhere any more."""
    random = Random(seed)
    lines: Lines = [[] for _ in range(count)]
    room = [length] * count
    misses = 0
    while misses < _MISSES or not all(lines):
        row = draw(random)
        if row is None or len(row) > length:
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
