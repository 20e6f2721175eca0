"""First tokens of values count most, then tokens that may end one; what a type rules out costs nothing."""

from __future__ import annotations

import torch

from pastalang.training.batches import Batch, logits_of, loss_of
from pastalang.training.recording import IGNORED
from recipes.pasta_mini.batches import GuidedBatch
from recipes.pasta_mini.losses import TunedLoss
from tests.oracle.toy_models import toy_model


def batch(*labels: int) -> Batch:
    tokens = torch.tensor([[5, 6, 7]])
    return Batch(tokens, torch.arange(3)[None], torch.tensor([labels]), None, ("row",))


def test_the_weights_are_those_of_the_places() -> None:
    model = toy_model(vocabulary=20).eval()
    begin, inside = (loss_of(model, batch(*labels)) for labels in ((8, IGNORED, IGNORED), (IGNORED, 9, IGNORED)))
    assert torch.allclose(TunedLoss([5], 0.0)(model, batch(8, 9, IGNORED)), (3 * begin + 1.6 * inside) / 4.6)


def test_what_is_hidden_depends_on_the_batch_alone() -> None:
    model = toy_model(vocabulary=20)
    hiding = TunedLoss([5], 0.5)
    first = hiding(model, batch(8, 9, 10))
    torch.manual_seed(99)
    assert torch.equal(first, hiding(model, batch(8, 9, 10)))
    assert not torch.equal(first, loss_of(model, batch(8, 9, 10)))


def test_a_token_costs_what_it_costs_among_those_that_its_type_allows() -> None:
    model, free = toy_model(vocabulary=20).eval(), batch(8, IGNORED, 10)
    bits = torch.zeros(2, 32, dtype=torch.uint8)
    bits[0, [8, 11, 19]], bits[1] = 1, 1
    allowed = (bits.view(2, 4, 8) << torch.arange(8, dtype=torch.uint8)).sum(-1, dtype=torch.uint8)
    given = GuidedBatch(free.tokens, free.positions, free.labels, None, free.origins, None, allowed)
    logits = logits_of(model, free)[0]
    first = logits[0, [8, 11, 19]].log_softmax(-1)[0]
    last = logits[2].log_softmax(-1)[10]
    assert torch.allclose(TunedLoss([5], 0.0)(model, given), -(3 * first + 1.6 * last) / 4.6, atol=1e-6)
    assert torch.equal(given.to(torch.device("cpu")).allowed, allowed)
