"""What people would use instead: `generate` writing whole answers, and one prompt per field in a batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch


def generate_seconds(
    model: Any, prompts: Sequence[Sequence[int]], *, new_tokens: int, batch: int, filler: int
) -> float:
    """Seconds in which stock `generate` writes `new_tokens` tokens for every prompt, `batch` rows at a time."""
    model.set_attn_implementation("sdpa")
    began = time.perf_counter()
    with torch.inference_mode():
        for first in range(0, len(prompts), batch):
            rows = prompts[first : first + batch]
            width = max(map(len, rows))
            tokens = torch.tensor([[filler] * (width - len(row)) + list(row) for row in rows])
            mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
            model.generate(
                tokens,
                attention_mask=mask,
                max_new_tokens=new_tokens,
                min_new_tokens=new_tokens,
                do_sample=False,
                pad_token_id=filler,
            )
    return time.perf_counter() - began


def rows_per_field_step_seconds(model: Any, prompt: Sequence[int], *, rows: int, steps: int) -> list[float]:
    """Seconds of each decoding step of `rows` rows, one per field, whose prefix was computed once and copied."""
    model.set_attn_implementation("sdpa")
    seconds = []
    with torch.inference_mode():
        output = model(torch.tensor([list(prompt)]), use_cache=True)
        cache = output.past_key_values
        cache.batch_repeat_interleave(rows)
        tokens = output.logits[:, -1:].argmax(-1).repeat(rows, 1)
        for step in range(steps):
            began = time.perf_counter()
            position = torch.tensor([len(prompt) + step]).expand(rows, 1)
            output = model(tokens, past_key_values=cache, position_ids=position, use_cache=True)
            tokens = output.logits[:, -1:].argmax(-1)
            seconds.append(time.perf_counter() - began)
    return seconds
