"""First tokens of values count most, then tokens that may end one."""

from __future__ import annotations

import torch

from pastalang.testing.toy_models import toy_model
from pastalang.training.batches import Batch
from pastalang.training.forward import loss_of
from pastalang.training.recording import IGNORED
from recipes.pasta_mini.losses import TunedLoss


def batch(*labels: int) -> Batch:
    tokens = torch.tensor([[5, 6, 7]])
    return Batch(tokens, torch.arange(3)[None], torch.tensor([labels]), None, ("row",))


def test_the_weights_are_those_of_the_places() -> None:
    model = toy_model(vocabulary=20).eval()
    begin, inside = (loss_of(model, batch(*labels)) for labels in ((8, IGNORED, IGNORED), (IGNORED, 9, IGNORED)))
    both = TunedLoss([5], 0.0)(model, batch(8, 9, IGNORED))
    assert torch.allclose(both, (3 * begin + 1.6 * inside) / 4.6)


def test_what_is_hidden_depends_on_the_batch_alone() -> None:
    model = toy_model(vocabulary=20)
    hiding = TunedLoss([5], 0.5)
    first = hiding(model, batch(8, 9, 10))
    torch.manual_seed(99)
    assert torch.equal(first, hiding(model, batch(8, 9, 10)))
    assert not torch.equal(first, loss_of(model, batch(8, 9, 10)))
