"""The logits after a token: by a forward pass of a transformers model for each token, or by models written out here.

Llama, Qwen3 and Mistral are written out in float64, without the layers, masks and caches of transformers. The hidden
states of a token depend only on its path, so they are computed once for each token; that is fast enough for thousands
of tokens. Only the rotary angles come from the model, which computes them in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tests.oracle.token import Logits, Token


def logits_of(model: Any) -> Logits:
    """The logits of a causal model of transformers with eager attention. Use float64 for exact comparisons."""

    @torch.inference_mode()
    def logits(token: Token) -> NDArray[np.float64]:
        path = token.path
        output = model(
            input_ids=torch.tensor([[one.token for one in path]]),
            position_ids=torch.tensor([[one.position for one in path]]),
            attention_mask=_masks(model, path),
            use_cache=False,
            logits_to_keep=1,
        )
        return np.asarray(output.logits[0, -1].double().numpy())

    return logits


def logits_from(score: Callable[[Token], Sequence[float] | NDArray[np.float64]]) -> Logits:
    """The logits of a model without weights, as a score function gives them."""
    return lambda token: np.asarray(score(token), dtype=np.float64)


def _masks(model: Any, path: Sequence[Token]) -> Any:
    """One mask, or one for each kind of layer if the model has several kinds."""
    config = model.config
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or (["sliding_attention"] if window else ["full_attention"]))
    masks = {kind: _mask(path, window if kind == "sliding_attention" else None, model.dtype) for kind in kinds}
    return masks if len(masks) > 1 else masks.popitem()[1]


def _mask(path: Sequence[Token], window: int | None, dtype: torch.dtype) -> torch.Tensor:
    """0 where a token sees another one, and the lowest number elsewhere. A window is the last tokens of a path."""
    index_of = {id(token): index for index, token in enumerate(path)}
    mask = torch.full((len(path), len(path)), torch.finfo(dtype).min, dtype=dtype)
    for row, token in enumerate(path):
        seen = token.path if window is None else token.path[-window:]
        mask[row, [index_of[id(one)] for one in seen]] = 0.0
    return mask[None, None]


Floats: TypeAlias = NDArray[np.float64]

KINDS = ("llama", "qwen3", "mistral")


def plain_logits_of(model: Any) -> Logits:
    """The logits of a model of one of these `KINDS`, computed here. They keep all tokens, so make new ones per case."""
    assert model.config.model_type in KINDS, f"{model.config.model_type} is not written out"
    return _PlainModel(model).logits


class _PlainModel:
    def __init__(self, model: Any) -> None:
        config, weights = model.config, _weights(model)
        self._embedding = weights["model.embed_tokens.weight"]
        self._head = weights["lm_head.weight"]
        self._norm = weights["model.norm.weight"]
        self._epsilon: float = config.rms_norm_eps
        self._angles = _Angles(model)
        kinds = getattr(config, "layer_types", None)
        window = getattr(config, "sliding_window", None)
        self._layers = []
        for number in range(config.num_hidden_layers):
            slides = kinds[number] == "sliding_attention" if kinds else window is not None
            own = {
                name.removeprefix(f"model.layers.{number}."): weight
                for name, weight in weights.items()
                if name.startswith(f"model.layers.{number}.")
            }
            self._layers.append(_Layer(own, config.head_dim, self._epsilon, window if slides else None))
        self._indices: dict[int, int] = {}  # of each token, by identity
        self._tokens: list[Token] = []  # kept alive, so that no identity is used twice
        self._states: list[Floats] = []  # after the last layer

    def logits(self, token: Token) -> Floats:
        for one in token.path:
            if id(one) not in self._indices:
                self._add(one)
        hidden = _normed(self._states[self._indices[id(token)]], self._norm, self._epsilon)
        logits: Floats = self._head @ hidden
        return logits

    def _add(self, token: Token) -> None:
        """All tokens that it sees have been added before."""
        index = len(self._tokens)
        seen = [*(self._indices[id(one)] for one in token.sees), index]
        hidden = self._embedding[token.token]
        for layer in self._layers:
            hidden = layer.add(hidden, seen, self._angles.at(token.position))
        self._indices[id(token)] = index
        self._tokens.append(token)
        self._states.append(hidden)


class _Layer:
    """A layer, with the keys and values of every token so far."""

    def __init__(self, weights: Mapping[str, Floats], size: int, epsilon: float, window: int | None) -> None:
        self._weights = weights
        self._size = size
        self._epsilon = epsilon
        self._window = window
        self._keys = np.zeros((256, len(weights["self_attn.k_proj.weight"]) // size, size))
        self._values = np.zeros_like(self._keys)

    def add(self, hidden: Floats, seen: list[int], angle: tuple[Floats, Floats]) -> Floats:
        weights = self._weights
        states = _normed(hidden, weights["input_layernorm.weight"], self._epsilon)
        queries, keys = self._rotated("q", states, angle), self._rotated("k", states, angle)
        self._store(seen[-1], keys, (weights["self_attn.v_proj.weight"] @ states).reshape(keys.shape))
        hidden = hidden + weights["self_attn.o_proj.weight"] @ self._attended(queries, seen)
        states = _normed(hidden, weights["post_attention_layernorm.weight"], self._epsilon)
        gate = weights["mlp.gate_proj.weight"] @ states
        inner = gate / (1 + np.exp(-gate)) * (weights["mlp.up_proj.weight"] @ states)
        output: Floats = hidden + weights["mlp.down_proj.weight"] @ inner
        return output

    def _rotated(self, name: str, states: Floats, angle: tuple[Floats, Floats]) -> Floats:
        """Queries or keys by head, rotated by their position."""
        heads = (self._weights[f"self_attn.{name}_proj.weight"] @ states).reshape(-1, self._size)
        norm = self._weights.get(f"self_attn.{name}_norm.weight")
        if norm is not None:
            heads = _normed(heads, norm, self._epsilon)
        first, second = np.split(heads, 2, axis=-1)
        cosine, sine = angle
        rotated: Floats = heads * cosine + np.concatenate((-second, first), axis=-1) * sine
        return rotated

    def _store(self, index: int, keys: Floats, values: Floats) -> None:
        if index >= len(self._keys):
            self._keys = np.concatenate((self._keys, np.zeros_like(self._keys)))
            self._values = np.concatenate((self._values, np.zeros_like(self._values)))
        self._keys[index], self._values[index] = keys, values

    def _attended(self, queries: Floats, seen: list[int]) -> Floats:
        """A window is the last tokens of a path. Neighbouring query heads share a key head."""
        visible = seen if self._window is None else seen[-self._window :]
        keys, values = self._keys[visible].swapaxes(0, 1), self._values[visible].swapaxes(0, 1)
        grouped = queries.reshape(len(keys), -1, self._size)
        scores = grouped @ keys.swapaxes(1, 2) * self._size**-0.5
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        attended: Floats = (shares @ values).reshape(-1)
        return attended


class _Angles:
    """The cosines and sines of positions."""

    def __init__(self, model: Any) -> None:
        self._rotary = model.model.rotary_emb
        self._by_position: dict[int, tuple[Floats, Floats]] = {}

    def at(self, position: int) -> tuple[Floats, Floats]:
        if position not in self._by_position:
            start = position - position % 256
            with torch.inference_mode():
                positions = torch.arange(start, start + 256)[None]
                angles = self._rotary(torch.zeros(1, dtype=torch.float64), positions)
            cosines, sines = (one[0].numpy() for one in angles)
            self._by_position |= {start + at: (cosines[at], sines[at]) for at in range(256)}
        return self._by_position[position]


def _normed(states: Floats, weight: Floats, epsilon: float) -> Floats:
    normed: Floats = states / np.sqrt((states * states).mean(axis=-1, keepdims=True) + epsilon) * weight
    return normed


def _weights(model: Any) -> dict[str, Floats]:
    return {name: weight.detach().double().numpy() for name, weight in model.state_dict().items()}
