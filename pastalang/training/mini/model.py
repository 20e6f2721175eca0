"""The shape of pasta-mini: a vocabulary comes in, a fresh Llama-shaped model goes out."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

POSITIONS = 8192


def fresh_model(
    vocabulary: int, *, end: int, seed: int, hidden: int = 256, layers: int = 8, heads: int = 8, kv_heads: int = 4
) -> Any:
    """7 million parameters at the default sizes and a vocabulary of 4,096."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config)
