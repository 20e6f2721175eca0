"""The loss of the extraction stage: borders of values count more, and parts of the embeddings are hidden."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from pastalang.training.batches import Batch
from pastalang.training.forward import logits_of
from pastalang.training.recording import IGNORED

_BORDER = 2.0  # how much more the end of a value counts than any other token


class TunedLoss:
    """`closing` is the token that ends a text. What is hidden depends on the batch alone, so a run can be resumed."""

    def __init__(self, closing: int, hidden: float) -> None:
        self._closing, self._hidden = closing, hidden

    def __call__(self, model: Any, batch: Batch) -> Tensor:
        labelled = batch.labels != IGNORED
        torch.manual_seed(int(batch.tokens.sum()))
        with _hidden(model.get_input_embeddings(), self._hidden):
            logits = logits_of(model, batch, where=labelled).float()
        weights = torch.ones(logits.shape[-1], device=logits.device)
        weights[self._closing] = _BORDER
        return cross_entropy(logits, batch.labels[labelled], weight=weights)


@contextmanager
def _hidden(embeddings: Any, share: float) -> Iterator[None]:
    handle = embeddings.register_forward_hook(lambda _, __, output: dropout(output, share))
    try:
        yield
    finally:
        handle.remove()
