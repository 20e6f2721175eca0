"""Turns the states of weights of the Llama shape, so that none of their numbers stands out: the logits are the same.

    embedding Q ── norm ── Qᵀ queries, keys, values ── … ── out Q ── + ── norm ── Qᵀ gate, up ── … ── down Q ── +

A norm divides states by their length, which a rotation Q keeps, so its weights are multiplied into the matrices that
come after it. The values of a head are turned, too, and `out` turns them back. In int8, a row of states has one scale:
a number that is a hundred times the others leaves them few levels, and turned it is a small part of every number.
"""

from __future__ import annotations

from math import isqrt, sqrt
from typing import Final

import torch
from torch import Tensor

from pastalang.runtime.models.llama import EMBEDDING, HEAD, NORM, LlamaWeights, name_of_layer

_ROWS: Final = 256  # at a time: they stay in the cache of a processor


class Rotation:
    """An orthogonal matrix that mixes `width` numbers, each with all others, in two small products."""

    def __init__(self, width: int) -> None:
        few = max(size for size in range(1, isqrt(width) + 1) if width % size == 0)
        self.width = width
        self._parts = (_cosines(width // few), _cosines(few))

    def __call__(self, states: Tensor) -> Tensor:
        """States (…, width), multiplied by the matrix."""
        flat = states.reshape(-1, self.width)
        return torch.cat([self._turned(part) for part in torch.split(flat, _ROWS)]).view(states.shape)

    def _turned(self, states: Tensor) -> Tensor:
        for part in self._parts:
            mixed = states.reshape(-1, len(part)) @ part.to(states)
            states = mixed.view(len(states), -1, len(part)).transpose(1, 2)
        return states.reshape(-1, self.width)


def rotate(weights: LlamaWeights) -> Rotation:
    """Turns all of them. Returns what turns embeddings that are not among them."""
    stream, values = Rotation(weights.shape.hidden), Rotation(weights.shape.head)

    def read(norm: str, *names: str) -> None:
        """Matrices that read the states behind a norm."""
        scales = weights.take(norm)
        for name in names:
            weights.put(name, stream(weights.take(name) * scales))
        weights.put(norm, torch.ones_like(scales))

    def written(name: str) -> None:
        """A matrix whose products are added to the states."""
        weights.put(name, stream(weights.take(name).T).T)

    for layer in map(name_of_layer, range(weights.shape.layers)):
        queries, keys, values_, out = (f"{layer}.self_attn.{one}_proj" for one in "qkvo")
        gate, up, down = (f"{layer}.mlp.{one}_proj" for one in ("gate", "up", "down"))
        read(f"{layer}.input_layernorm", queries, keys, values_)
        read(f"{layer}.post_attention_layernorm", gate, up)
        weights.put(values_, _by_head(values, weights.take(values_).T).T)
        weights.put(out, _by_head(values, weights.take(out)))
        written(out)
        written(down)
    read(NORM, HEAD)
    weights.put(EMBEDDING, stream(weights.take(EMBEDDING)))
    return stream


def _by_head(rotation: Rotation, weight: Tensor) -> Tensor:
    return rotation(weight.reshape(len(weight), -1, rotation.width)).flatten(-2)


def _cosines(size: int) -> Tensor:
    """The cosine transform: orthogonal, and no entry is large."""
    numbers = torch.arange(size, dtype=torch.float64)
    matrix = (torch.pi / size * (numbers + 0.5) * numbers[:, None]).cos() * sqrt(2 / size)
    matrix[0] /= sqrt(2)
    return matrix
