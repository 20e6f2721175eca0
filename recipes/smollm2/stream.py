"""Batches for a GPU: every line is a group, and other processes record the next ones while the model trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from pastalang.runtime.models.loading import load_tokenizer, place_of
from pastalang.training.batches import Batch, collate, logits_of
from pastalang.training.recording import IGNORED, TrainingRow
from recipes.pasta_mini.batches import with_one_prompt
from recipes.smollm2.groups import weights_of
from recipes.smollm2.lessons import DrawGroup

_MULTIPLE: Final = 8  # of which the width of a batch is one
_AHEAD: Final = 3  # batches for each process
_LATER: Final = 64  # batches, after which one comes again
_TENSORS: Final = ("tokens", "positions", "labels", "visible", "masks", "which", "weights")
_Packed: TypeAlias = tuple[dict[str, NDArray[Any]], tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Lines(Batch):
    """`masks[which[k]]` are the tokens that the type of label k allows, as bits; `weights[k]` is what it counts."""

    masks: Tensor | None = None
    which: Tensor | None = None
    weights: Tensor | None = None
    documents: int = 0

    def to(self, device: torch.device) -> Lines:
        assert self.masks is not None and self.which is not None and self.weights is not None
        moved = Batch.to(self, device)
        return replace(
            self, tokens=moved.tokens, positions=moved.positions, labels=moved.labels, visible=moved.visible,
            masks=self.masks.to(device), which=self.which.to(device), weights=self.weights.to(device),
        )  # fmt: skip


def lines_of(groups: Sequence[Sequence[TrainingRow]], vocabulary: int) -> Lines:
    """The rows of a group have one prompt, and fit into a line."""
    joined = [with_one_prompt(rows, sum(map(len, rows))) for rows in groups]
    width = -(-max(len(line[0]) for line in joined) // _MULTIPLE) * _MULTIPLE
    batch = collate(joined, width)
    by_row = [sorted(row.taught, key=lambda one: one.place) for rows in groups for row in rows]
    everything = np.full(-(-vocabulary // 32), 0xFFFFFFFF, dtype=np.uint32)
    known: dict[bytes, int] = {}
    which: list[int] = []
    masks: list[NDArray[np.uint32]] = []
    for one in (one for row in by_row for one in row):
        mask = everything if one.allowed is None else one.allowed[: len(everything)]
        number = known.setdefault(mask.tobytes(), len(masks))
        if number == len(masks):
            masks.append(mask)
        which.append(number)
    return Lines(
        batch.tokens, batch.positions, batch.labels, batch.visible, batch.origins, None,
        torch.from_numpy(np.stack(masks).view(np.uint8)), torch.tensor(which),
        torch.tensor([weight for row in by_row for weight in weights_of(row)]), len(by_row),
    )  # fmt: skip


def lines_loss(model: Any, lines: Lines) -> Tensor:
    """As `group_loss`, over all lines."""
    assert lines.masks is not None and lines.which is not None and lines.weights is not None
    labelled = lines.labels != IGNORED
    logits = logits_of(model, lines, where=labelled).float()
    bits = (lines.masks[..., None] >> torch.arange(8, device=logits.device, dtype=torch.uint8)) & 1
    allowed = bits.flatten(1)[:, : logits.shape[1]].bool()[lines.which]
    costs = cross_entropy(logits.masked_fill(~allowed, -1e30), lines.labels[labelled], reduction="none")
    return (costs * lines.weights).sum() / lines.weights.sum()


class Stream:
    """Batches by number, of `groups` lines each, from as many processes. Each comes `repeats` times, much later."""

    def __init__(
        self, model: str, drawing: Callable[[Any], DrawGroup], *, groups: int, seed: int, processes: int,
        repeats: int = 1,
    ) -> None:  # fmt: skip
        self._pool = ProcessPoolExecutor(
            processes, mp_context=get_context("spawn"), initializer=_begin, initargs=(model, drawing)
        )
        self._groups, self._seed, self._ahead, self._repeats = groups, seed, _AHEAD * processes, repeats
        self._coming: dict[int, Future[_Packed]] = {}
        self._known: dict[int, Lines] = {}
        self.documents = 0

    def __call__(self, number: int) -> Lines:
        newest, again = divmod(number, self._repeats)
        wanted = newest - again * _LATER if newest >= again * _LATER else newest
        for coming in range(newest, newest + 1 + self._ahead):
            if coming not in self._coming and coming not in self._known:
                self._coming[coming] = self._pool.submit(_record, self._seed, coming * self._groups, self._groups)
        if wanted not in self._known:
            future = self._coming.pop(wanted, None) or self._pool.submit(
                _record, self._seed, wanted * self._groups, self._groups
            )
            self._known[wanted] = _unpacked(future.result())
        oldest = newest - (self._repeats - 1) * _LATER
        self._known = {number: lines for number, lines in self._known.items() if number >= oldest}
        self.documents += self._known[wanted].documents
        return self._known[wanted]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


_draw: DrawGroup  # of a process that records
_vocabulary: int


def _begin(model: str, drawing: Callable[[Any], DrawGroup]) -> None:
    global _draw, _vocabulary
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(place_of(model))
    _draw, _vocabulary = drawing(tokenizer), len(tokenizer)


def _record(seed: int, first: int, count: int) -> _Packed:
    groups = [_draw(Random(f"smollm2/{seed}/{number}")) for number in range(first, first + count)]
    lines = lines_of(groups, _vocabulary)
    arrays = {name: value.numpy() for name in _TENSORS if (value := getattr(lines, name)) is not None}
    return {**arrays, "visible": np.packbits(arrays["visible"], axis=2)}, lines.origins, lines.documents


def _unpacked(packed: _Packed) -> Lines:
    """Arrays, and bits of them, cross to this process faster than tensors, each of which would keep a file open."""
    arrays, origins, documents = packed
    visible = np.unpackbits(arrays["visible"], axis=2, count=arrays["tokens"].shape[1]).view(np.bool_)
    tensors = {name: torch.from_numpy(array) for name, array in {**arrays, "visible": visible}.items()}
    return Lines(**tensors, origins=origins, documents=documents)
