"""Pairs of small matrices beside those of a model: all that is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from pastalang.runtime.models.adapters import Adapter, sample_of

_ALPHA: Final = 0.6  # of the rank: what the product of a pair counts
_SPREAD: Final = 3.3  # of the first matrix at the start. The optimiser moves all weights alike: large ones move little


class Adapted(nn.Module):
    """A linear layer that stays as it is, plus a pair that is trained."""

    def __init__(self, whole: nn.Linear, down: Tensor, up: Tensor, scale: float) -> None:
        super().__init__()
        self.whole, self.scale = whole, scale
        self.down, self.up = nn.Parameter(down), nn.Parameter(up)

    def forward(self, states: Tensor) -> Tensor:
        found: Tensor = self.whole(states)
        return found.add(linear(linear(states, self.down), self.up), alpha=self.scale)


def fresh_adapter(model: Any, *, rank: int, first_layer: int, seed: int) -> Adapter:
    """Changes nothing yet: the second matrices are zero. Layers below `first_layer` need no gradient."""
    generator = torch.Generator().manual_seed(seed)
    pairs = {}
    for name, module in _linear_layers(model, first_layer):
        bound = _SPREAD / math.sqrt(module.in_features)
        down = torch.empty(rank, module.in_features).uniform_(-bound, bound, generator=generator)
        pairs[name] = down, torch.zeros(module.out_features, rank)
    return Adapter(pairs, _ALPHA * rank, sample=sample_of(model, pairs))


def widened(begun: Adapter, fresh: Adapter) -> Adapter:
    """The adapter that was begun, and the pairs of the fresh one where it has none. Both have the same rank."""
    return Adapter({**fresh.pairs, **begun.pairs}, begun.alpha, begun.by_root, fresh.sample)


def adapt(model: Any, adapter: Adapter, dtype: torch.dtype = torch.float32) -> None:
    """Puts the pairs beside their matrices, which become of `dtype`. Nothing else of the model is trained."""
    model.requires_grad_(False)
    for _, module in _linear_layers(model, first_layer=0):
        module.to(dtype)
    for name, (down, up) in adapter.pairs.items():
        parent, _, child = name.rpartition(".")
        whole = model.get_submodule(name)
        place = whole.weight.device
        pair = down.to(place, torch.float32).clone(), up.to(place, torch.float32).clone()
        setattr(model.get_submodule(parent), child, Adapted(whole, *pair, adapter.scale(len(down))))


def adapter_of(model: Any, start: Adapter) -> Adapter:
    """What became of the pairs that the model was given."""
    modules = dict(model.named_modules())
    pairs = {name: (modules[name].down.detach(), modules[name].up.detach()) for name in start.pairs}
    return Adapter(pairs, start.alpha, start.by_root, start.sample)


def _linear_layers(model: Any, first_layer: int) -> Iterator[tuple[str, nn.Linear]]:
    for number, layer in enumerate(model.model.layers):
        if number >= first_layer:
            for name, module in layer.named_modules():
                if isinstance(module, nn.Linear):
                    yield f"model.layers.{number}.{name}", module
