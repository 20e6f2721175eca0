"""FlexAttention sees what the dense masks reporter: the same logits, and the same gradients.

Kernels of a GPU are not run here: both are computed by the code of torch that they are compiled from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import flex_attention

from pastalang.training.batches import Batch, attend_in_blocks, check_flex, logits_of, loss_of
from pastalang.training.errors import BadData
from tests.oracle.toy_models import Family, toy_model

LENGTH = 300  # more than two blocks of 128, and not a multiple of them


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processors are refused gradients, which the code that is not compiled has."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    with torch.compiler.set_stance("force_eager"):
        yield


def sparse_batch() -> Batch:
    """Rows whose tokens see a few earlier ones, and others in layers with windows."""
    draw = np.random.default_rng(3)
    visible = np.tril(draw.random((2, LENGTH, LENGTH)) < 0.1) | np.eye(LENGTH, dtype=bool)
    visible[:, 150:, :140] = False  # a second row of the line, and a block that nobody sees
    near = visible & ~np.tril(np.ones((LENGTH, LENGTH), dtype=bool), -60)
    tokens = torch.from_numpy(draw.integers(0, 320, (2, LENGTH)))
    labels = torch.where(torch.from_numpy(draw.random((2, LENGTH)) < 0.2), tokens.roll(1, 1), -100)
    positions = torch.from_numpy(np.cumsum(draw.integers(1, 4, (2, LENGTH)), axis=1))
    return Batch(tokens, positions, labels, torch.from_numpy(visible), ("a", "b"), torch.from_numpy(near))


def found_by(model: Any, batch: Batch) -> list[torch.Tensor]:
    model.zero_grad()
    with torch.no_grad():
        logits = logits_of(model, batch)
    loss_of(model, batch).backward()
    return [logits, *(weight.grad.clone() for weight in model.parameters())]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.filterwarnings(
    "ignore:.torch.jit.script_method:DeprecationWarning", "ignore:flex_attention called without"
)
@pytest.mark.parametrize(
    ("family", "window", "is_rounded"),
    [(Family.QWEN3, None, False), (Family.QWEN3, None, True), (Family.GEMMA2, 60, False), (Family.GEMMA3, 60, False)],
)
def test_logits_and_gradients_are_those_of_dense_masks(family: Family, window: int | None, is_rounded: bool) -> None:
    model, batch = toy_model(family, window=window, hidden=64).train(), sparse_batch()
    model.set_attn_implementation("eager")  # as that of sdpa has no soft caps
    with torch.autocast("cpu", torch.bfloat16, enabled=is_rounded):
        dense = found_by(model, batch)
        attend_in_blocks(model)
        for expected, found in zip(dense, found_by(model, batch), strict=True):
            assert (expected - found).abs().max() < (0.05 if is_rounded else 1e-5) * max(1.0, expected.abs().max())


def test_it_is_refused_where_it_cannot_train() -> None:
    with pytest.raises(BadData, match="--attention flex is for GPUs of CUDA: on cpu, it has no gradients"):
        check_flex(torch.device("cpu"))
    model = toy_model()
    model.config.attention_dropout = 0.1
    with pytest.raises(BadData, match=r"--attention flex has no dropout, and the config\.json of this model asks for"):
        attend_in_blocks(model)
