"""The first thing to learn: spans of a random text, repeated side by side, each seeing the text and itself alone.

    text      7 3 9 1 4 8 2 ...                 any tokens, so that nothing but looking back helps
    repeats   9 1 4 │ 8 2 │ 3 9 1 4 ...         the first token of each is given, the others are labels

Positions jump between the repeats as they do between the values of a skeleton.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.training.batch import IGNORED, Batch

Numbers: TypeAlias = NDArray[np.int64]

_SHORTEST, _LONGEST = 3, 8
_WIDEST_GAP = 32


def copying_batches(
    vocabulary: int, *, first: int, rows: int, length: int, seed: int, text: int = 96
) -> Callable[[int], Batch]:
    """Batches by number; tokens are drawn from `first` to the end of the vocabulary."""
    assert text + _LONGEST <= length

    def batch(number: int) -> Batch:
        random = np.random.default_rng((seed, number))
        tokens = random.integers(first, vocabulary, (rows, length))
        positions = np.tile(np.arange(length), (rows, 1))
        labels = np.full((rows, length), IGNORED, dtype=np.int64)
        visible = np.tile(np.tril(np.ones((length, length), dtype=np.bool_)), (rows, 1, 1))
        for row in range(rows):
            _repeat_spans(random, tokens[row], positions[row], labels[row], visible[row], text)
        origins = tuple(f"copying {number}.{row}" for row in range(rows))
        return Batch(
            tokens=torch.from_numpy(tokens),
            positions=torch.from_numpy(positions),
            labels=torch.from_numpy(labels),
            visible=torch.from_numpy(visible),
            origins=origins,
        )

    return batch


def _repeat_spans(
    random: np.random.Generator,
    tokens: Numbers,
    positions: Numbers,
    labels: Numbers,
    visible: NDArray[np.bool_],
    text: int,
) -> None:
    """Fill everything behind the text with repeats of its spans."""
    start, position = text, text
    while start < len(tokens):
        size = min(int(random.integers(_SHORTEST, _LONGEST + 1)), len(tokens) - start)
        source = int(random.integers(0, text - size))
        here = slice(start, start + size)
        tokens[here] = tokens[source : source + size]
        labels[start : start + size - 1] = tokens[source + 1 : source + size]
        position += int(random.integers(0, _WIDEST_GAP))
        positions[here] = np.arange(position, position + size)
        visible[here, text:start] = False
        start, position = start + size, position + size
