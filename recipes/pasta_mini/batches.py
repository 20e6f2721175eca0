"""Training batches of the recipe, by number: rows drawn while the model trains.

A batch depends on the seed and its own number alone, so a resumed run sees the batches that an unbroken run would
have seen. Rows are recorded shortly before they are needed, in a separate process if wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from multiprocessing import get_context
from random import Random
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from pastalang.training.batches import Batch, collate
from pastalang.training.recording import IGNORED, TrainingRow
from pastalang.training.trainer import ALONE, Processes
from recipes.pasta_mini.attention import Rows

DrawRows: TypeAlias = Callable[[Random], Sequence[TrainingRow]]  # none if what was drawn cannot be taught
Lines: TypeAlias = list[list[TrainingRow]]

_MISSES = 12  # drawn rows, one after another, that fit in no line, before a chunk is full


@dataclass(frozen=True, slots=True)
class GuidedBatch(Batch):
    """`allowed` has a row of bits for each label, one after another: the tokens that the type of its value allows.

    `rows` says where each row stands.
    """

    allowed: Tensor | None = None
    rows: Rows = ()

    def to(self, device: torch.device) -> GuidedBatch:
        assert self.allowed is not None
        moved = Batch.to(self, device)
        return _guided(moved, self.allowed.to(device), self.rows)


def guided(lines: Lines, length: int) -> GuidedBatch:
    """The lines as one batch. Where a type allows every token, so do the bits."""
    taught = (one for line in lines for row in line for one in sorted(row.taught, key=lambda one: one.place))
    masks = [one.allowed for one in taught]
    words = max(len(mask) for mask in masks if mask is not None)
    everything = np.full(words, 0xFFFFFFFF, dtype=np.uint32)
    bits = np.stack([everything if mask is None else mask for mask in masks]).view(np.uint8)
    return _guided(collate(lines, length), torch.from_numpy(bits), tuple(_places(lines)))


def _guided(batch: Batch, allowed: Tensor, rows: Rows) -> GuidedBatch:
    what = batch.tokens, batch.positions, batch.labels, batch.visible, batch.origins, batch.near
    return GuidedBatch(*what, allowed, rows)


def _places(lines: Lines) -> Iterator[tuple[int, int, int]]:
    for number, line in enumerate(lines):
        ends = [0, *accumulate(map(len, line))]
        yield from ((number, begin, end) for begin, end in pairwise(ends))


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
        for row in with_one_prompt(draw(random), length):
            place = next((place for place in range(count) if len(row) <= room[place]), None)
            if place is None:
                misses += 1
                continue
            misses = 0
            lines[place].append(row)
            room[place] -= len(row)
    random.shuffle(lines)
    return lines


def with_one_prompt(rows: Sequence[TrainingRow], length: int) -> list[TrainingRow]:
    """Rows of one program begin with the same prompt, which is fed once for all of them that fit into a line.

    None of them sees another, so each learns what it would learn alone.
    """
    found: list[list[TrainingRow]] = []
    for row in rows:
        together = [*found[-1], row] if found else []
        shared = shared_prompt(together) if together else 0
        if shared and shared + sum(len(one) - shared for one in together) <= length:
            found[-1].append(row)
        elif len(row) <= length:
            found.append([row])
    return [_joined(group) for group in found]


def shared_prompt(rows: Sequence[TrainingRow]) -> int:
    """How many tokens all of them begin with, before the first one that is predicted."""
    first = min(int((row.labels != IGNORED).argmax()) for row in rows)
    same = np.ones(first, dtype=np.bool_)
    for row in rows[1:]:
        for ours, theirs in ((rows[0].tokens, row.tokens), (rows[0].positions, row.positions)):
            same &= ours[:first] == theirs[:first]
        same &= (rows[0].visible[:first, :first] == row.visible[:first, :first]).all(1)
    return first if same.all() else int(same.argmin())


def _joined(rows: Sequence[TrainingRow]) -> TrainingRow:
    if len(rows) == 1:
        return rows[0]
    assert all(row.sees_near is None and not row.writers for row in rows), "no such rows are recorded here"
    shared, length = shared_prompt(rows), len(rows[0])
    sees = np.zeros((shared + sum(len(row) - shared for row in rows),) * 2, dtype=np.bool_)
    sees[:length, :length] = rows[0].visible
    taught = list(rows[0].taught)
    for row in rows[1:]:
        own = slice(length, length + len(row) - shared)
        sees[own, :shared], sees[own, own] = row.visible[shared:, :shared], row.visible[shared:, shared:]
        taught += [replace(one, place=one.place - shared + length) for one in row.taught]
        length = own.stop
    tokens, positions, labels = (
        np.concatenate([getattr(rows[0], name), *(getattr(row, name)[shared:] for row in rows[1:])])
        for name in ("tokens", "positions", "labels")
    )
    return replace(
        rows[0], tokens=tokens, positions=positions, labels=labels, sees=np.packbits(sees, axis=1),
        taught=tuple(taught), passes=sum(row.passes for row in rows), origin=", ".join(row.origin for row in rows),
    )  # fmt: skip
