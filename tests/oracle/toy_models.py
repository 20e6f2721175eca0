"""Tiny random transformers models for tests and examples, on the device that PASTALANG_TEST_DEVICE names."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import AutoConfig

from pastalang.testing.byte_tokenizer import byte_tokenizer

DEVICE = torch.device(os.environ.get("PASTALANG_TEST_DEVICE", "cpu"))


class Family(Enum):
    """The model families that are tested. The value is the name in transformers."""

    LLAMA = "llama"
    QWEN3 = "qwen3"
    GEMMA2 = "gemma2"
    GEMMA3 = "gemma3_text"
    MISTRAL = "mistral"
    PHI3 = "phi3"


def toy_model(
    family: Family = Family.LLAMA,
    *,
    seed: int = 0,
    vocabulary: int = 320,
    layers: int = 2,
    hidden: int = 32,
    heads: int = 4,
    kv_heads: int = 2,
    window: int | None = None,
    positions: int = 1 << 16,
    spread: float = 0.15,
    dtype: torch.dtype = torch.float32,
) -> Any:
    """A random causal model. `window` is the window of its sliding layers, if the family has such layers.

    `spread` is the standard deviation of the weights, wide enough that every visible token matters to the logits.
    """
    sizes = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads,
        "max_position_embeddings": positions,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        "tie_word_embeddings": False,
    }
    config = AutoConfig.for_model(family.value, **sizes, **_windows(family, window, layers))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    _randomise(model, seed=seed, spread=spread)
    return model.to(DEVICE, dtype).eval()


def save_toy(folder: str | Path, family: Family = Family.LLAMA, **sizes: Any) -> Path:
    """A folder of a random model, with a tokenizer of bytes."""
    toy_model(family, **sizes).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return Path(folder)


def _windows(family: Family, window: int | None, layers: int) -> dict[str, Any]:
    mixed = ["sliding_attention" if layer % 2 == 0 else "full_attention" for layer in range(layers)]
    match family:
        case Family.LLAMA:
            return {}
        case Family.MISTRAL | Family.PHI3:
            return {"sliding_window": window}
        case Family.QWEN3 if window is None:
            return {}
        case Family.QWEN3:
            return {"use_sliding_window": True, "sliding_window": window, "layer_types": mixed}
        case Family.GEMMA2 | Family.GEMMA3:
            return {"sliding_window": window or 4096, "layer_types": mixed}


def _randomise(model: Any, *, seed: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.empty_like(weight).normal_(0.0, spread, generator=generator)
            weight.copy_(noise if weight.dim() > 1 else weight + noise)
