"""The loss: where values begin and end counts more, and parts of the embeddings are hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from pastalang.training.batches import Batch, logits_of
from pastalang.training.recording import IGNORED
from recipes.pasta_mini.attention import attending_by
from recipes.pasta_mini.batches import GuidedBatch

_BEGIN = 3.0  # how much the first token of a value counts, which has to be found; the next ones repeat what follows
_BORDER = 1.6  # how much a token counts that may end a value, whether it does or not


class TunedLoss:
    """`openings` are the tokens after which a value begins: it cannot end there.

    A token costs what it costs among those that the type of its value allows: decoding never draws another one.
    What is hidden depends on the batch alone, so a run can be resumed.
    """

    def __init__(self, openings: Sequence[int], hidden: float) -> None:
        self._openings, self._hidden = torch.tensor([*openings]), hidden

    def __call__(self, model: Any, batch: Batch) -> Tensor:
        labelled = batch.labels != IGNORED
        torch.manual_seed(int(batch.tokens.sum()))
        with _hidden(model.get_input_embeddings(), self._hidden), _quick(model, batch):
            logits = logits_of(model, batch, where=labelled).float()
        if isinstance(batch, GuidedBatch) and batch.allowed is not None:
            logits = logits.masked_fill(~_unpacked(batch.allowed, logits.shape[1]), float("-inf"))
        costs = cross_entropy(logits, batch.labels[labelled], reduction="none")
        begins = torch.isin(batch.tokens[labelled], self._openings.to(logits.device))
        weights = torch.where(begins, _BEGIN, _BORDER)
        return (costs * weights).sum() / weights.sum()


def _unpacked(bits: Tensor, count: int) -> Tensor:
    found: Tensor = (bits[..., None] >> torch.arange(8, device=bits.device, dtype=torch.uint8)) & 1
    return found.flatten(1)[:, :count].bool()


def _quick(model: Any, batch: Batch) -> AbstractContextManager[None]:
    """On a processor, rows are attended to one by one."""
    is_rounded = batch.tokens.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return attending_by(batch.rows, model) if is_rounded and isinstance(batch, GuidedBatch) else nullcontext()


@contextmanager
def _hidden(embeddings: Any, share: float) -> Iterator[None]:
    handle = embeddings.register_forward_hook(lambda _, __, output: dropout(output, share))
    try:
        yield
    finally:
        handle.remove()
