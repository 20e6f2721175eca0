"""Before any training, a model with a head start repeats spans of its prompt."""

from __future__ import annotations

import torch
from torch import Tensor

from pastalang.training.batches import Batch, logits_of
from recipes.pasta_mini.model import fresh_model

VOCABULARY, TEXT, REPEATED = 1000, 60, 8


def share_repeated(model: object, gap: int) -> float:
    """In random texts, a span is repeated `gap` places later: how often is its next token the likeliest?"""
    random = torch.Generator().manual_seed(1)
    tokens = torch.stack([torch.randperm(VOCABULARY, generator=random)[: TEXT + REPEATED] for _ in range(16)])
    starts = torch.randint(0, TEXT - REPEATED, (16,), generator=random)
    for row, start in zip(tokens, starts.tolist(), strict=True):
        row[TEXT:] = row[start : start + REPEATED].clone()
    positions = torch.cat((torch.arange(TEXT), torch.arange(TEXT, TEXT + REPEATED) + gap)).expand(tokens.shape)
    batch = Batch(tokens, positions, tokens, None, ("",) * 16)
    with torch.no_grad():
        likeliest: Tensor = logits_of(model, batch).argmax(-1)
    return (likeliest[:, TEXT:-1] == tokens[:, TEXT + 1 :]).float().mean().item()


def test_spans_are_repeated_before_any_training_also_across_a_gap() -> None:
    model = fresh_model(VOCABULARY, end=0, seed=0, hidden=256, layers=6, heads=4).eval()
    for gap in (0, 30):
        assert share_repeated(model, gap) > 0.2
    model.init_weights()
    torch.nn.init.normal_(model.get_input_embeddings().weight, 0, 0.05)
    for layer in model.model.layers:
        for matrix in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            torch.nn.init.normal_(matrix.weight, 0, 0.02)
    assert share_repeated(model, 0) < 0.02


def test_a_token_with_a_space_begins_like_the_one_without() -> None:
    model = fresh_model(300, end=0, seed=0, hidden=64, layers=2, heads=2, twins={7: 5, 8: 6})
    weights = model.get_input_embeddings().weight
    assert (weights[7] - weights[5]).nonzero().tolist() == [[1]]
    assert torch.equal(weights[7, 1], weights[8, 1])
