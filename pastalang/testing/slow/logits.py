"""The logits after a token: from any causal model with a forward pass per token, or from a model written out.

Llama, Qwen3 and Mistral are written out in float64, without transformers' layers, masks or caches. What a token's
layers compute is a function of its path, so it is computed once for each token, from that of the tokens that it
sees; that makes it quick enough to be asked many thousand times. Only the angles of positions are taken from the
model, because they are computed in float32 there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.testing.slow.token import Logits, Token


def logits_of(model: Any) -> Logits:
    """Of a transformers causal model with eager attention, in float64 for exact comparisons."""

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


def scored(score: Callable[[Token], Sequence[float] | NDArray[np.float64]]) -> Logits:
    """Of a model without weights."""
    return lambda token: np.asarray(score(token), dtype=np.float64)


def _masks(model: Any, path: Sequence[Token]) -> Any:
    """One mask, or one for each kind of layer where there are several."""
    config = model.config
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or (["sliding_attention"] if window else ["full_attention"]))
    masks = {kind: _mask(path, window if kind == "sliding_attention" else None, model.dtype) for kind in kinds}
    return masks if len(masks) > 1 else masks.popitem()[1]


def _mask(path: Sequence[Token], window: int | None, dtype: torch.dtype) -> torch.Tensor:
    """0 where a token sees another one, and the least number elsewhere; a window is the last tokens of a path."""
    place = {id(token): index for index, token in enumerate(path)}
    mask = torch.full((len(path), len(path)), torch.finfo(dtype).min, dtype=dtype)
    for row, token in enumerate(path):
        seen = token.path if window is None else token.path[-window:]
        mask[row, [place[id(one)] for one in seen]] = 0.0
    return mask[None, None]


Floats: TypeAlias = NDArray[np.float64]

KINDS = ("llama", "qwen3", "mistral")


def plainly(model: Any) -> Logits:
    """Of a transformers causal model of one of these `KINDS`. Forgets nothing: ask for one per comparison."""
    assert model.config.model_type in KINDS, f"{model.config.model_type} is not written out"
    return _Plain(model).logits


class _Plain:
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
        self._places: dict[int, int] = {}  # of each token, by identity
        self._known: list[Token] = []  # so that no identity is used twice
        self._last: list[Floats] = []  # what the last layer gives

    def logits(self, token: Token) -> Floats:
        for one in token.path:
            if id(one) not in self._places:
                self._add(one)
        hidden = _normed(self._last[self._places[id(token)]], self._norm, self._epsilon)
        logits: Floats = self._head @ hidden
        return logits

    def _add(self, token: Token) -> None:
        """Everything that it sees has been added before."""
        place = len(self._known)
        seen = [*(self._places[id(one)] for one in token.sees), place]
        hidden = self._embedding[token.token]
        for layer in self._layers:
            hidden = layer.add(hidden, seen, self._angles.at(token.position))
        self._places[id(token)] = place
        self._known.append(token)
        self._last.append(hidden)


class _Layer:
    """The keys and values of every token so far."""

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
        queries, keys = self._turned("q", states, angle), self._turned("k", states, angle)
        self._keep(seen[-1], keys, (weights["self_attn.v_proj.weight"] @ states).reshape(keys.shape))
        hidden = hidden + weights["self_attn.o_proj.weight"] @ self._attended(queries, seen)
        states = _normed(hidden, weights["post_attention_layernorm.weight"], self._epsilon)
        gate = weights["mlp.gate_proj.weight"] @ states
        inner = gate / (1 + np.exp(-gate)) * (weights["mlp.up_proj.weight"] @ states)
        given: Floats = hidden + weights["mlp.down_proj.weight"] @ inner
        return given

    def _turned(self, name: str, states: Floats, angle: tuple[Floats, Floats]) -> Floats:
        """Queries or keys, by head, turned to their position."""
        heads = (self._weights[f"self_attn.{name}_proj.weight"] @ states).reshape(-1, self._size)
        norm = self._weights.get(f"self_attn.{name}_norm.weight")
        if norm is not None:
            heads = _normed(heads, norm, self._epsilon)
        first, second = np.split(heads, 2, axis=-1)
        cosine, sine = angle
        turned: Floats = heads * cosine + np.concatenate((-second, first), axis=-1) * sine
        return turned

    def _keep(self, place: int, keys: Floats, values: Floats) -> None:
        if place >= len(self._keys):
            self._keys = np.concatenate((self._keys, np.zeros_like(self._keys)))
            self._values = np.concatenate((self._values, np.zeros_like(self._values)))
        self._keys[place], self._values[place] = keys, values

    def _attended(self, queries: Floats, seen: list[int]) -> Floats:
        """A window is the last tokens of a path. Neighbouring query heads share a head of keys."""
        shown = seen if self._window is None else seen[-self._window :]
        keys, values = self._keys[shown].swapaxes(0, 1), self._values[shown].swapaxes(0, 1)
        grouped = queries.reshape(len(keys), -1, self._size)
        scores = grouped @ keys.swapaxes(1, 2) * self._size**-0.5
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        attended: Floats = (shares @ values).reshape(-1)
        return attended


class _Angles:
    """Cosines and sines of positions."""

    def __init__(self, model: Any) -> None:
        self._rotary = model.model.rotary_emb
        self._known: dict[int, tuple[Floats, Floats]] = {}

    def at(self, position: int) -> tuple[Floats, Floats]:
        if position not in self._known:
            start = position - position % 256
            with torch.inference_mode():
                asked = torch.arange(start, start + 256)[None]
                cosines, sines = (one[0].numpy() for one in self._rotary(torch.zeros(1, dtype=torch.float64), asked))
            self._known |= {start + at: (cosines[at], sines[at]) for at in range(256)}
        return self._known[position]


def _normed(states: Floats, weight: Floats, epsilon: float) -> Floats:
    normed: Floats = states / np.sqrt((states * states).mean(axis=-1, keepdims=True) + epsilon) * weight
    return normed


def _weights(model: Any) -> dict[str, Floats]:
    return {name: weight.detach().double().numpy() for name, weight in model.state_dict().items()}
