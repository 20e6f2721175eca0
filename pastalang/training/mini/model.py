"""The shape of pasta-mini: a vocabulary comes in, a fresh Llama-shaped model with a head start goes out."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pastalang.training.mini.head_start import give_head_start

POSITIONS = 8192
_TURNS = 1_000_000.0  # slow rotations, so that a token is recognised however far away it stands


def fresh_model(vocabulary: int, *, end: int, seed: int, hidden: int = 256, layers: int = 6, heads: int = 4) -> Any:
    """6 million parameters at the default sizes and a vocabulary of 4,096."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=POSITIONS,
        rope_theta=_TURNS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    give_head_start(model, seed=seed)
    return model
