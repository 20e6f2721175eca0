"""Tokenizer and fresh model: every word, number and part of a tag is one token, and the model begins able to copy."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from recipes.pasta_mini.model import fresh_model
from recipes.pasta_mini.tokenizer import twins_of
from recipes.threads_mini.answers import Policy, answer_as
from recipes.threads_mini.ships import (
    BERTHS,
    CREWS,
    FIRST,
    FIRST_NUMBERS,
    HELD_OUT_COUNTS,
    SECOND,
    TONS,
    TRAINED_COUNTS,
    choose_berths,
    draw_table,
)
from recipes.threads_mini.tokenizer import train_tokenizer

_LAST = max(FIRST_NUMBERS) + max(*TRAINED_COUNTS, *HELD_OUT_COUNTS) - 1  # the highest number of a ship


def make_tokenizer() -> Any:
    return train_tokenizer(_texts())


def make_model(tokenizer: Any, *, hidden: int, layers: int, seed: int) -> Any:
    """A model that repeats what it has read from the start. A mate's number `+3` begins much like the number `3`."""
    model = fresh_model(
        len(tokenizer), end=tokenizer.eos_token_id, seed=seed, hidden=hidden, layers=layers, heads=hidden // 32,
        twins=twins_of(tokenizer),
    )  # fmt: skip
    known, embeddings = tokenizer.get_vocab(), model.get_input_embeddings().weight
    with torch.no_grad():
        for number in range(1, _LAST + 1):
            own, plain = known[f"+{number}"], known[str(number)]
            embeddings[own, 1:] = 0.8 * embeddings[plain, 1:] + 0.6 * embeddings[own, 1:]
    return model


def _texts() -> Iterator[str]:
    """Every word and number of the task, often enough to become a token."""
    random = Random(0)
    for first, second in zip(FIRST, SECOND, strict=True):
        yield f"1 {first} {second}\n" * 3
    for number in range(1, _LAST + 1):
        yield f"{number} {number}+{number} #{number}\n#{number}\n{number}" * 3
    yield "".join(f" {number}" for number in (*CREWS, *TONS))
    yield "".join(f'"{number}" ' for number in range(10, 200, 10))
    yield "".join(f"1-{berth}" for berth in BERTHS)
    for _ in range(200):
        table = draw_table(random)
        yield f"{table.text}\n{answer_as(Policy.PASTA, table, choose_berths(table, random), len)}"
