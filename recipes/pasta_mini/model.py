"""The fresh model, before any training.

The model has the shape of Llama. Among its random weights are circuits that repeat text:

    first layer     one head looks one place back and notes which token stands there, in directions of its own
    second layer    heads look for the places after earlier occurrences of this token, and say what stands there
    other layers    heads say what they look at, and have to learn where to look

Transformers find these circuits by themselves, after billions of tokens of text. A small model that extracts values
needs them before anything else, so it starts with them; training is free to change every weight.

A word is written with a space in a title and without one after a quote. Both tokens begin alike, but for one direction
that all tokens with a space share, so that a value can be copied whatever stands before it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from recipes.pasta_mini.tokenizer import Twins

POSITIONS = 8192
_TURNS = 1_000_000.0  # slow rotations, so that a token is recognised however far away it stands

_WIDTH = 0.05  # of the embeddings
_SPACED = 2.0  # how far a token with a space is from its twin, in units of the width
_STEADY = 4.0  # how far the one coordinate that all tokens share stands out
_SHARPNESS = 2.0  # of the head that looks one place back
_MATCH = 2.5  # of the heads that look for a token
_NOTE, _SAY, _HINT = 0.1, 1.0, 0.1  # how loud: the note, what follows the match, what other heads look at
_REPEATING = (0, 1)  # the heads of the second layer


def fresh_model(
    vocabulary: int, *, end: int, seed: int, hidden: int, layers: int, heads: int, twins: Twins | None = None
) -> Any:
    """A model with a head start. `twins`: tokens with a space, and the same ones without."""
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
    give_head_start(model, seed=seed, twins=twins or {})
    return model


@torch.no_grad()
def give_head_start(model: Any, *, seed: int, twins: Twins) -> None:
    """For models of Llama's shape with as many key heads as heads and tied embeddings."""
    config = model.config
    random = torch.Generator().manual_seed(seed)
    size = config.hidden_size // config.num_attention_heads
    assert config.num_key_value_heads == config.num_attention_heads and config.tie_word_embeddings
    embeddings = model.get_input_embeddings().weight
    embeddings.normal_(0, _WIDTH, generator=random)
    embeddings[:, 0] = _STEADY * _WIDTH
    spaced, plain = list(twins), list(twins.values())
    embeddings[spaced] = embeddings[plain]
    embeddings[spaced, 1] = _SPACED * _WIDTH
    for layer in model.model.layers:
        for head in range(config.num_attention_heads):
            _say_what_is_seen(layer.self_attn, head, size, random, loud=_HINT)
    note, noted = _orthonormal(size, config.hidden_size, random), _orthonormal(size, config.hidden_size, random)
    frequencies = float(config.rope_parameters["rope_theta"]) ** -(torch.arange(size // 2) * 2 / size)
    _look_one_back(model.model.layers[0].self_attn, size, note, noted, frequencies)
    for head in _REPEATING:
        _look_after_the_same(model.model.layers[1].self_attn, head, size, note, noted, frequencies)
        _say_what_is_seen(model.model.layers[1].self_attn, head, size, random, loud=_SAY)


def _look_one_back(attention: Any, size: int, note: Tensor, noted: Tensor, frequencies: Tensor) -> None:
    """Turned by one place, the shared coordinate meets itself at the place before; fast rotations tell it apart."""
    query, key = torch.zeros(size, note.shape[1]), torch.zeros(size, note.shape[1])
    fast = torch.arange(size // 4)
    query[fast, 0] = _SHARPNESS
    key[fast, 0] = _SHARPNESS * frequencies[fast].cos()
    key[fast + size // 2, 0] = _SHARPNESS * frequencies[fast].sin()
    attention.q_proj.weight[:size], attention.k_proj.weight[:size] = query, key
    attention.v_proj.weight[:size], attention.o_proj.weight[:, :size] = note, _NOTE * noted.T


def _look_after_the_same(
    attention: Any, head: int, size: int, note: Tensor, noted: Tensor, frequencies: Tensor
) -> None:
    """This token matches the note at the place after an earlier one; slow rotations keep that at any distance."""
    query, key = torch.zeros(size, note.shape[1]), torch.zeros(size, note.shape[1])
    slow = torch.arange(size // 2)[frequencies < 0.005]
    places = torch.cat((slow, slow + size // 2))
    query[places], key[places] = _MATCH * note[places], _MATCH * noted[places]
    here = slice(head * size, (head + 1) * size)
    attention.q_proj.weight[here], attention.k_proj.weight[here] = query, key


def _say_what_is_seen(attention: Any, head: int, size: int, random: torch.Generator, *, loud: float) -> None:
    seen = _orthonormal(size, attention.v_proj.weight.shape[1], random)
    here = slice(head * size, (head + 1) * size)
    attention.v_proj.weight[here], attention.o_proj.weight[:, here] = seen, loud * seen.T


def _orthonormal(rows: int, columns: int, random: torch.Generator) -> Tensor:
    """Rows at right angles to one another and to the shared coordinate."""
    drawn = torch.randn(columns, rows, generator=random)
    drawn[0] = 0
    turned: Tensor = torch.linalg.qr(drawn).Q.T
    return turned
