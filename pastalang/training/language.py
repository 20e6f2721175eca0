"""Language modelling: from plain texts to batches of rows that are packed full, with no cross-talk wanted or had."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from pastalang.training.batch import Batch


def language_batches(
    documents: Sequence[Sequence[int]], *, rows: int, length: int, separator: int, seed: int
) -> Callable[[int], Batch]:
    """Batches of one endless shuffled stream; `documents` are token ids, parted by `separator`.

    Batch n holds the windows n*rows .. (n+1)*rows of a permutation that changes with every pass over the data.
    """
    stream = torch.tensor([token for document in documents for token in (*document, separator)], dtype=torch.long)
    windows = max(1, (len(stream) - 1) // length)

    def batch(number: int) -> Batch:
        places = [_window(number * rows + row, windows, seed) for row in range(rows)]
        pieces = [stream[place * length : place * length + length + 1] for place in places]
        whole = torch.stack([_padded(piece, length + 1, separator) for piece in pieces])
        return Batch(
            tokens=whole[:, :-1].contiguous(),
            positions=torch.arange(length).expand(rows, length).contiguous(),
            labels=whole[:, 1:].contiguous(),
            visible=None,
            origins=tuple(f"window {place}" for place in places),
        )

    return batch


def _window(index: int, windows: int, seed: int) -> int:
    """Where the index-th window of the stream lies: a fresh order in every epoch."""
    epoch, place = divmod(index, windows)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return int(torch.randperm(windows, generator=generator)[place])


def _padded(piece: torch.Tensor, length: int, filler: int) -> torch.Tensor:
    return torch.nn.functional.pad(piece, (0, length - len(piece)), value=filler)
