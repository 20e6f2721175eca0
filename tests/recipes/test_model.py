"""Before any training, a model with a head start repeats spans of its prompt and finds values by their labels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pastalang.training.batches import Batch
from pastalang.training.forward import logits_of
from recipes.pasta_mini.model import fresh_model
from recipes.pasta_mini.tokenizer import Writing

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


def test_the_same_seed_gives_the_same_weights() -> None:
    once, again, other = (fresh_model(300, end=0, seed=seed, hidden=64, layers=2, heads=2) for seed in (3, 3, 4))
    pairs = list(zip(once.parameters(), again.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(one, two) for one, two, _ in pairs)
    assert not all(torch.equal(one, three) for one, _, three in pairs)


def test_a_token_with_a_space_begins_like_the_one_without() -> None:
    model = fresh_model(300, end=0, seed=0, hidden=64, layers=2, heads=2, twins={7: 5, 8: 6})
    weights = model.get_input_embeddings().weight
    apart = (weights[7] - weights[5]).nonzero()
    assert apart.tolist() == [[1]]
    assert torch.equal(weights[7, 1], weights[8, 1])


LINE, SIGN, QUOTE = 0, 1, 2
SMALL = range(10, 400)  # words in small letters; the same ones with a capital are the next 390 tokens
WRITING = Writing({word + 390: word for word in SMALL}, {}, (LINE, SIGN, QUOTE), ())


def share_found(writing: Writing | None, *, question: tuple[int, ...], capitals: int) -> float:
    """Of labelled values, how often the first token of one is the likeliest after its label is repeated."""
    model = fresh_model(VOCABULARY, end=0, seed=0, hidden=384, layers=5, heads=6, writing=writing).eval()
    random = torch.Generator().manual_seed(1)
    right = 0
    for asked in range(24):
        words = (torch.randperm(len(SMALL), generator=random)[:16] + SMALL[0]).view(8, 2)
        values = (torch.randperm(200, generator=random)[:16] + 780).view(8, 2)
        lines = [
            token for label, value in zip(words, values, strict=True)
            for token in (LINE, *(label + capitals).tolist(), SIGN, *value.tolist())
        ]  # fmt: skip
        tokens = torch.tensor([[*lines, LINE, QUOTE, *words[asked % 8].tolist(), *question]])
        batch = Batch(tokens, torch.arange(tokens.shape[1])[None], tokens, None, ("",))
        with torch.no_grad():
            right += int(logits_of(model, batch)[0, -1].argmax()) == int(values[asked % 8, 0])
    return right / 24


@pytest.mark.parametrize("question", [(SIGN, QUOTE), (SIGN,)], ids=["a text", "a number"])
@pytest.mark.parametrize("capitals", [0, 390], ids=["written alike", "with capitals"])
def test_a_value_is_found_by_its_label_before_any_training(question: tuple[int, ...], capitals: int) -> None:
    assert share_found(WRITING, question=question, capitals=capitals) > 0.3
    assert share_found(None, question=question, capitals=capitals) < 0.1
