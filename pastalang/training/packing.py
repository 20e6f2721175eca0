"""From recorded rows to batches: several rows share a line, none of them sees another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch

from pastalang.training.batch import IGNORED, Batch
from pastalang.training.errors import BadData, BadRow
from pastalang.training.sequence import Sequence as Row

_OPEN_LINES = 16  # lines that may still take a row, while rows are packed


def packed_batches(variants: Sequence[Sequence[Row]], *, rows: int, length: int, seed: int) -> Callable[[int], Batch]:
    """Batches by number, the same for the same number. `variants` are the ways in which each row can be shown
    (one per mode); an epoch shows every row in one of them, the next epoch in the next one.
    """
    if not variants:
        raise BadData("there is nothing to train on")
    for row in (row for ways in variants for row in ways):
        if len(row) > length:
            raise BadRow(
                f"takes {len(row)} tokens in mode {row.mode.value}, and a line of a batch holds {length}; "
                "raise --length or leave the row out",
                origin=row.origin,
            )

    @lru_cache(maxsize=4)
    def lines_of(epoch: int) -> list[list[Row]]:
        shown = [ways[(number + epoch) % len(ways)] for number, ways in enumerate(variants)]
        order = np.random.default_rng((seed, epoch)).permutation(len(shown))
        return _packed([shown[index] for index in order], length)

    counts: list[int] = []

    def line(number: int) -> list[Row]:
        epoch = 0
        while True:
            if epoch == len(counts):
                counts.append(len(lines_of(epoch)))
            if number < counts[epoch]:
                return lines_of(epoch)[number]
            number -= counts[epoch]
            epoch += 1

    return lambda number: collate([line(number * rows + one) for one in range(rows)], length)


def collate(lines: Sequence[Sequence[Row]], length: int) -> Batch:
    """One batch; every line holds its rows one behind the other. What only fills up sees itself alone."""
    shape = (len(lines), length)
    tokens, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    labels = np.full(shape, IGNORED, dtype=np.int64)
    visible = np.zeros((*shape, length), dtype=np.bool_)
    visible[:, np.arange(length), np.arange(length)] = True
    for line, rows in enumerate(lines):
        start = 0
        for row in rows:
            here = slice(start, start + len(row))
            tokens[line, here], positions[line, here], labels[line, here] = row.tokens, row.positions, row.labels
            visible[line, here, here] = row.visible
            start += len(row)
    return Batch(
        tokens=torch.from_numpy(tokens),
        positions=torch.from_numpy(positions),
        labels=torch.from_numpy(labels),
        visible=torch.from_numpy(visible),
        origins=tuple(", ".join(row.origin for row in rows) for rows in lines),
    )


def _packed(rows: Sequence[Row], length: int) -> list[list[Row]]:
    """Every row into the first open line that has room; a line that no longer gets any is closed."""
    closed: list[list[Row]] = []
    opened: list[tuple[list[Row], int]] = []
    for row in rows:
        for index, (line, used) in enumerate(opened):
            if used + len(row) <= length:
                opened[index] = ([*line, row], used + len(row))
                break
        else:
            opened.append(([row], len(row)))
            if len(opened) > _OPEN_LINES:
                fullest = max(range(len(opened)), key=lambda index: opened[index][1])
                closed.append(opened.pop(fullest)[0])
    return closed + [line for line, _ in opened]
