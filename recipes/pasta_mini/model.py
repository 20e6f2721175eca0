"""The fresh model, before any training: the shape of Llama, and a head start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from pastalang.training.errors import BadData
from recipes.pasta_mini.circuits import give_circuits
from recipes.pasta_mini.head_start import give_head_start
from recipes.pasta_mini.meanings import Meanings
from recipes.pasta_mini.tokenizer import Twins, Writing

POSITIONS = 8192
_TURNS = 1_000_000.0  # slow rotations, so that a token is recognised however far away it stands
_SLOW_TURNS = 100_000_000.0  # more of them


def fresh_model(
    vocabulary: int,
    *,
    end: int,
    seed: int,
    hidden: int,
    layers: int,
    heads: int,
    inner: int | None = None,
    twins: Twins | None = None,
    finding: tuple[Writing, Meanings] | None = None,
) -> Any:
    """`twins`: tokens with a space, and the same ones without. It begins able to repeat text.

    With `finding`, it also begins able to find what a program asks for.
    """
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4 if inner is None else inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=POSITIONS,
        rope_theta=_TURNS if finding is None else _SLOW_TURNS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    if finding is None:
        give_head_start(model, seed=seed, twins=twins or {})
    else:
        writing, meanings = finding
        give_circuits(model, seed=seed, twins=twins or {}, writing=writing, meanings=meanings)
    return model


def put_weights_of(folder: Path, model: Any) -> None:
    """Those of a trained model. What `fresh_model` keeps from training stays kept."""
    trained = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    shapes = [{name: tuple(weight.shape) for name, weight in one.named_parameters()} for one in (model, trained)]
    if shapes[0] != shapes[1]:
        raise BadData(f"the model in {folder} has another shape than the one that is asked for")
    model.load_state_dict(trained.state_dict())
