"""Rows that are attended to one by one give what whole lines give, and in bfloat16 as far as that goes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pastalang.runtime.models.reference import attention_of
from recipes.pasta_mini import losses
from recipes.pasta_mini.batches import guided, make_lines
from recipes.pasta_mini.lessons import DrawRows
from recipes.pasta_mini.listings import as_text, made_up
from recipes.pasta_mini.losses import TunedLoss
from recipes.pasta_mini.tokenizer import train_tokenizer
from tests.oracle.toy_models import toy_model

LISTINGS = tuple(made_up(60, seed=0))


def test_loss_and_gradients_are_those_of_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = train_tokenizer(map(as_text, LISTINGS), size=900)
    lines = make_lines(DrawRows(tokenizer, LISTINGS), 3, 640, "attention")
    batch = guided(lines, 640)
    assert len(batch.rows) == sum(map(len, lines)) > 3, "lines have several rows"
    model = toy_model(vocabulary=len(tokenizer), kv_heads=4, hidden=64)
    loss, before = TunedLoss([5], 0.0), model.config._attn_implementation
    full = learned(loss(model, batch), model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = loss(model, batch)
    assert model.config._attn_implementation == before
    by_rows = learned(rounded, model)
    monkeypatch.setattr(losses, "attending_by", lambda rows, model: attention_of(model, "sdpa"))
    exact = learned(loss(model, batch), model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole = learned(loss(model, batch), model)
    assert abs(by_rows[0] - exact[0]) < 2e-3
    for ours, theirs, right in zip(by_rows[1:], whole[1:], exact[1:], strict=True):
        assert (ours - right).norm() < 1.5 * (theirs - right).norm() + 1e-6
    for ours, right in zip(full, exact, strict=True):
        assert torch.allclose(ours, right, rtol=1e-4, atol=1e-6), "nothing is rounded in float32"


def learned(loss: Tensor, model: torch.nn.Module) -> list[Tensor]:
    """The loss, and its gradients."""
    loss.backward()  # type: ignore[no-untyped-call]
    found = [loss.detach(), *(weight.grad.clone() for weight in model.parameters() if weight.grad is not None)]
    model.zero_grad()
    return found
