"""Recorded rows as batches, and their forward pass: logits and loss.

Several rows share a line, and none of them sees another. The lines of a batch are of like length, and a batch is as
wide as its longest line, so that little padding is fed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from torch.nn.functional import cross_entropy
from torch.torch_version import TorchVersion

from pastalang.runtime.attention.masks import FULL, SLIDING, layer_windows
from pastalang.runtime.models.cache_argument import cache_argument
from pastalang.training.errors import BadData, BadRow
from pastalang.training.recording import IGNORED, TrainingRow


@dataclass(frozen=True, slots=True)
class Batch:
    """`tokens`, `positions`, `labels`: (rows, length). `visible`: (rows, length, length) bool, or None: causal.

    `near` is what layers with a window see, None if that is the same. `labels[r, i]` is the token that the logits at
    place i have to predict; it need not be the token at i + 1. `origins` names the source of each row, so that a bad
    one can be found.
    """

    tokens: Tensor
    positions: Tensor
    labels: Tensor
    visible: Tensor | None
    origins: tuple[str, ...]
    near: Tensor | None = None

    def __post_init__(self) -> None:
        assert self.tokens.shape == self.positions.shape == self.labels.shape
        assert self.visible is None or self.visible.shape == (*self.tokens.shape, self.tokens.shape[1])
        assert len(self.origins) == self.tokens.shape[0]

    @property
    def predicted(self) -> int:
        """How many tokens the loss is over."""
        return int((self.labels != IGNORED).sum())

    def to(self, device: torch.device) -> Batch:
        return Batch(
            self.tokens.to(device),
            self.positions.to(device),
            self.labels.to(device),
            None if self.visible is None else self.visible.to(device),
            self.origins,
            None if self.near is None else self.near.to(device),
        )


Line: TypeAlias = Sequence[TrainingRow]  # rows that stand one after another

_OPEN_LINES = 16  # lines that may still take a row, while rows are packed
_SORTED = 16  # batches whose lines are sorted by length together: in larger parts, the same lines would always meet
_MULTIPLE = 8  # of which the width of a batch is one: products of other widths are slow on a GPU


class Adding(Protocol):
    """Adds tokens to the lines of batches, for which no room is kept when rows are packed."""

    def __call__(self, line: Line, number: int) -> Line:
        """`number` counts the lines that have been shown. The same number gives the same line."""
        ...

    def most(self, line: Line) -> int:
        """The most tokens that are added. All of them may be predicted."""
        ...


class PackedBatches:
    """Batches by number, always the same for one number.

    `variants` holds, for each row, its recordings in several modes. An epoch shows every row in one of them, and the
    next epoch in the next one. Raises `BadData` without rows, `BadRow` for a row that is longer than a line.
    """

    def __init__(
        self, variants: Sequence[Sequence[TrainingRow]], *, rows: int, length: int, seed: int,
        adding: Adding | None = None,
    ) -> None:  # fmt: skip
        if not variants:
            raise BadData("there is nothing to train on")
        for row in (row for ways in variants for row in ways):
            if problem := too_long(row, length):
                raise problem
        self._variants, self._rows, self._length, self._seed = variants, rows, length, seed
        self._adding = adding
        self._lines_of = lru_cache(maxsize=4)(self._packed_epoch)
        self._counts: list[int] = []

    def __call__(self, number: int) -> Batch:
        return self.share(0, 1, number)

    def share(self, rank: int, count: int, number: int) -> Batch:
        """What process `rank` of `count` takes of a batch: every `count`-th line."""
        lines = [self._shown(number * self._rows + one) for one in range(rank, self._rows, count)]
        return collate(lines, self._width(max(map(tokens_of, lines))))

    def widest(self) -> int:
        """The tokens of a line in the widest batch of the first epoch, at most."""
        return self._width(max(tokens_of(line) + self._added(line) for line in self._lines_of(0)))

    def lines(self, epoch: int) -> int:
        """How many lines an epoch has."""
        while len(self._counts) <= epoch:
            self._counts.append(len(self._lines_of(len(self._counts))))
        return self._counts[epoch]

    def steps_of(self, epochs: float, *, accumulation: int) -> int:
        """How many steps show so many epochs, the last of them rounded up."""
        whole = int(epochs)
        lines = sum(self.lines(epoch) for epoch in range(whole))
        if epochs > whole:
            lines += math.ceil((epochs - whole) * self.lines(whole))
        return max(1, math.ceil(lines / (self._rows * accumulation)))

    def most_predicted(self) -> int:
        """The most tokens that a batch of the first epoch predicts."""
        lines = self._lines_of(0)
        counts = [sum(int((row.labels != IGNORED).sum()) for row in line) + self._added(line) for line in lines]
        batches = (counts[first : first + self._rows] for first in range(0, len(counts), self._rows))
        return max(max(map(sum, batches)), 1)

    def _width(self, longest: int) -> int:
        rounded = -(-longest // _MULTIPLE) * _MULTIPLE
        return rounded if longest > self._length else min(self._length, rounded)

    def _shown(self, number: int) -> Line:
        line = self._line(number)
        return line if self._adding is None else self._adding(line, number)

    def _added(self, line: Line) -> int:
        return 0 if self._adding is None else self._adding.most(line)

    def _line(self, number: int) -> Line:
        epoch = 0
        while number >= self.lines(epoch):
            number -= self.lines(epoch)
            epoch += 1
        return self._lines_of(epoch)[number]

    def _packed_epoch(self, epoch: int) -> list[Line]:
        shown = [ways[(number + epoch) % len(ways)] for number, ways in enumerate(self._variants)]
        order = np.random.default_rng((self._seed, epoch)).permutation(len(shown))
        begun = sum(map(self.lines, range(epoch))) % self._rows  # lines of a batch that the epoch before began
        return of_like_length(pack([shown[index] for index in order], self._length), self._rows, begun)


def too_long(row: TrainingRow, length: int) -> BadRow | None:
    """What is wrong with a row that does not fit into a line."""
    if len(row) <= length:
        return None
    return BadRow(
        f"takes {len(row)} tokens in mode {row.mode.value}, and a line of a batch holds {length}; "
        "raise --length or leave the row out",
        origin=row.origin,
    )


def collate(lines: Sequence[Line], length: int) -> Batch:
    """One batch. A line holds its rows one after another; padding sees only itself."""
    shape = (len(lines), length)
    tokens, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    labels = np.full(shape, IGNORED, dtype=np.int64)
    visible = np.zeros((*shape, length), dtype=np.bool_)
    visible[:, np.arange(length), np.arange(length)] = True
    is_windowed = any(row.sees_near is not None for rows in lines for row in rows)
    near = visible.copy() if is_windowed else None
    for line, rows in enumerate(lines):
        start = 0
        for row in rows:
            here = slice(start, start + len(row))
            tokens[line, here], positions[line, here], labels[line, here] = row.tokens, row.positions, row.labels
            visible[line, here, here] = row.visible
            if near is not None:
                near[line, here, here] = row.near
            start += len(row)
    return Batch(
        tokens=torch.from_numpy(tokens),
        positions=torch.from_numpy(positions),
        labels=torch.from_numpy(labels),
        visible=torch.from_numpy(visible),
        origins=tuple(", ".join(row.origin for row in rows) for rows in lines),
        near=None if near is None else torch.from_numpy(near),
    )


def of_like_length(lines: Sequence[Line], rows: int, begun: int = 0) -> list[Line]:
    """The same lines in another order: those of a batch of `rows` are of like length. Equal ones keep their places.

    The first of them complete a batch that has `begun` lines already.
    """
    head = -begun % rows
    found = list(lines[:head])
    for first in range(head, len(lines), _SORTED * rows):
        part = sorted(enumerate(lines[first : first + _SORTED * rows]), key=lambda one: tokens_of(one[1]))
        batches = [part[start : start + rows] for start in range(0, len(part), rows)]
        # A batch stands where the first of its lines stood, which is a random place. One that is not full stays last.
        batches.sort(key=lambda batch: (len(batch) < rows, min(place for place, _ in batch)))
        found += [line for batch in batches for _, line in batch]
    return found


def tokens_of(line: Line) -> int:
    return sum(map(len, line))


def pack(rows: Sequence[TrainingRow], length: int) -> list[Line]:
    """Put every row into the first open line with room. With too many open lines, the fullest one is closed."""
    closed: list[list[TrainingRow]] = []
    opened: list[tuple[list[TrainingRow], int]] = []
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
    return [*closed, *(line for line, _ in opened)]


# ── forward pass ─────────────────────────────────────────────────────────────────────────────────────────────


Mask: TypeAlias = Tensor | BlockMask
Where: TypeAlias = Tensor | tuple[Tensor, ...]  # a mask (rows, length), or the numbers of rows and of places in them
_FLEX: Final = "flex_attention"  # in transformers
_FLEX_TORCH: Final = "2.13"  # the first version that it was tested with


def logits_of(model: Any, batch: Batch, *, where: Where | None = None, cache: Any = None) -> Tensor:
    """(rows, length, vocabulary), or (places, vocabulary) for the places `where`.

    The visible set is always given as a mask: without one, gaps would be read as packed rows. A `cache` of
    transformers is filled with keys and values.
    """
    masks = masks_of(model, lambda window: _seen(batch, window))
    with nullcontext() if where is None else _head_sees(model, where):
        output = model(
            input_ids=batch.tokens, position_ids=batch.positions, attention_mask=masks,
            use_cache=cache is not None, **cache_argument(model, cache),
        )  # fmt: skip
    logits: Tensor = output.logits
    return logits


def loss_of(model: Any, batch: Batch, where: Where | None = None) -> Tensor:
    """The mean over the predicted tokens of the batch, in float32. Logits are computed only at labels.

    `where` names the places of the labels, if they are known.
    """
    labelled = batch.labels != IGNORED if where is None else where
    logits = logits_of(model, batch, where=labelled)
    return cross_entropy(logits.float(), batch.labels[labelled])


@contextmanager
def _head_sees(model: Any, where: Where) -> Iterator[None]:
    """The model's last matrix, the largest of a small model, is multiplied with these places only."""
    head = model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, inputs: (inputs[0][where], *inputs[1:]))
    try:
        yield
    finally:
        handle.remove()


def _causal(batch: Batch) -> Tensor:
    rows, length = batch.tokens.shape
    triangle = torch.ones(length, length, dtype=torch.bool, device=batch.tokens.device).tril()
    return triangle.expand(rows, length, length)


def _mask_dtype(model: Any) -> torch.dtype:
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda" if torch.is_autocast_enabled("cuda") else "cpu")
    dtype: torch.dtype = next(model.parameters()).dtype
    return dtype


def check_flex(device: torch.device) -> None:
    """Raises `BadData` where FlexAttention cannot train."""
    if device.type != "cuda":
        raise BadData(f"--attention flex is for GPUs of CUDA: on {device.type}, it has no gradients")
    if TorchVersion(torch.__version__) < _FLEX_TORCH:
        raise BadData(f"--attention flex was tested with torch {_FLEX_TORCH}, and this is {torch.__version__}")


def attend_in_blocks(model: Any) -> None:
    """The passes of this model use FlexAttention. Raises `BadData` if it cannot."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    if getattr(bare.config.get_text_config(), "attention_dropout", 0.0):
        raise BadData("--attention flex has no dropout, and the config.json of this model asks for `attention_dropout`")
    try:
        bare.set_attn_implementation(_FLEX)
    except ValueError as problem:
        raise BadData(f"--attention flex: {next(iter(str(problem).splitlines()), '')}") from problem


def window_of(model: Any) -> int | None:
    """How many tokens of its path a token attends to in the model's sliding layers; None without such layers."""
    return next((window for window in layer_windows(model.config.get_text_config()) if window is not None), None)


def masks_of(model: Any, seen: Callable[[int | None], Tensor]) -> Mask | dict[str, Mask]:
    """Models of mixed layers take one mask per kind; a single one would silently drop their windows. `seen` says what
    tokens see in layers with such a window, or without one."""
    kinds = set(layer_windows(model.config.get_text_config()))
    is_flex = getattr(model.config, "_attn_implementation", None) == _FLEX
    make: Callable[[Tensor], Mask] = _in_blocks if is_flex else partial(_additive, dtype=_mask_dtype(model))
    found = {window: make(seen(window)) for window in kinds}
    if len(found) == 1:
        return found.popitem()[1]
    [sliding] = (mask for window, mask in found.items() if window is not None)
    return {FULL: found[None], SLIDING: sliding}


def _seen(batch: Batch, window: int | None) -> Tensor:
    """(rows, length, length). Without a mask of its own, a batch holds one text per line."""
    if batch.visible is None:
        causal = _causal(batch)
        return causal if window is None else causal & ~causal.tril(-window)
    return batch.visible if window is None or batch.near is None else batch.near


def _in_blocks(visible: Tensor) -> BlockMask:
    """Blocks that nobody sees are left out. In the others, the kernel looks up each pair."""
    rows, length, _ = visible.shape
    return create_block_mask(
        lambda row, _, token, other: visible[row, token, other], rows, None, length, length, device=visible.device
    )


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]
