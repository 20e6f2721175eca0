"""The alternatives: `generate`, which writes whole answers, and a batch with one prompt for each field."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import DynamicCache

from pastalang.runtime.models.cache_argument import cache_argument

Clock = Callable[[], float]


def generate_seconds(model: Any, prompt: Sequence[int], *, new_tokens: int, clock: Clock) -> float:
    """Seconds in which `generate` writes `new_tokens` tokens after one prompt."""
    model.set_attn_implementation("sdpa")
    began = clock()
    with torch.inference_mode():
        tokens = torch.tensor([list(prompt)])
        model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
        )
    return clock() - began


def prefill_seconds(model: Any, *, prompt: int, clock: Clock) -> float:
    """Seconds per prompt in a batch of four, with the logits of the last tokens only."""
    model.set_attn_implementation("sdpa")
    tokens = torch.randint(0, 8000, (4, prompt))
    with torch.inference_mode():
        began = clock()
        model(tokens, attention_mask=torch.ones_like(tokens), use_cache=True, logits_to_keep=1)
    return (clock() - began) / 4


def step_seconds(model: Any, *, rows: int, lengths: Sequence[int], clock: Clock) -> float:
    """The mean step of a batch of `rows` rows: two steps at each of these lengths of its cache, the better one each.

    A bare loop around the model, so what `generate` itself costs is left out. The cache is full of noise.
    """
    model.set_attn_implementation("sdpa")
    best = []
    with torch.inference_mode():
        for length in lengths:
            cache = _noise(model, rows=rows, length=length)
            mask = torch.ones(rows, length + 2, dtype=torch.long)
            found = []
            for step in range(2):
                tokens = torch.randint(0, 8000, (rows, 1))
                began = clock()
                seen = mask[:, : length + step + 1]
                output = model(tokens, attention_mask=seen, use_cache=True, **cache_argument(model, cache))
                output.logits[:, -1].argmax(-1)
                found.append(clock() - began)
            best.append(min(found))
    return statistics.mean(best)


def rows_per_field_step_seconds(model: Any, *, rows: int, prompt: int, steps: int, clock: Clock) -> float:
    """The median step of `rows` rows, one per field, whose shared prefix was computed once and copied."""
    model.set_attn_implementation("sdpa")
    seconds = []
    cache = _noise(model, rows=rows, length=prompt)
    with torch.inference_mode():
        tokens = torch.randint(0, 8000, (rows, 1))
        for step in range(steps):
            began = clock()
            position = torch.tensor([prompt + step]).expand(rows, 1)
            output = model(tokens, position_ids=position, use_cache=True, **cache_argument(model, cache))
            tokens = output.logits[:, -1:].argmax(-1)
            seconds.append(clock() - began)
    return statistics.median(seconds)


def _noise(model: Any, *, rows: int, length: int) -> DynamicCache:
    config = model.config
    size = config.hidden_size // config.num_attention_heads
    cache = DynamicCache()
    for layer in range(config.num_hidden_layers):
        row = torch.randn(1, config.num_key_value_heads, length, size, dtype=model.dtype)
        cache.update(row.repeat(rows, 1, 1, 1), row.repeat(rows, 1, 1, 1), layer)
    return cache
