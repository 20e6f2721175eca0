"""Masks and windows: what the tokens of one step may attend to, as tensors for the model's layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.attention.clusters import Block
from pastalang.runtime.attention.views import Indexes, Visibility

FULL = "full_attention"
SLIDING = "sliding_attention"


def layer_types(config: Any) -> tuple[str, ...]:
    """The kind of every layer, in the words of transformers. `config` is that of the text model."""
    declared = getattr(config, "layer_types", None)
    if declared is not None:
        return tuple(declared)
    if getattr(config, "attention_chunk_size", None) is not None:
        kind = "chunked_attention"
    else:
        kind = FULL if getattr(config, "sliding_window", None) is None else SLIDING
    return (kind,) * int(config.num_hidden_layers)


def layer_windows(config: Any) -> tuple[Window, ...]:
    """How far back every layer sees; None is all the way."""
    window = getattr(config, "sliding_window", None)
    return tuple(window if kind == SLIDING else None for kind in layer_types(config))


Window: TypeAlias = int | None
Attends: TypeAlias = NDArray[np.bool_]


def attended(visibility: Visibility, *, window: Window) -> Attends:
    """Which cells each token attends to: (tokens, width)."""
    if window is None:
        return visibility.order > 0
    return visibility.order > _hidden(visibility, window)[:, None]


def attended_in(block: Block, visibility: Visibility, *, window: Window) -> Attends:
    """The same for a block: (clusters, tokens, cells). What only fills it up attends to the first cell alone."""
    order = visibility.order[block.tokens[:, :, None], block.cells[:, None, :]]
    attends: Attends = order > 0 if window is None else order > _hidden(visibility, window)[block.tokens][:, :, None]
    for line, (tokens, cells) in enumerate(block.sizes):
        attends[line, :, cells:] = False
        attends[line, tokens:, 0] = True
    return attends


def additive_mask(attends: Attends, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """0 where a token attends, -inf where it does not. No row may be all -inf: every token sees itself."""
    hidden = torch.from_numpy(~attends).to(device)
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))


def _hidden(visibility: Visibility, window: int) -> NDArray[np.int32]:
    """How many cells of each token's path are too far back: (tokens,)."""
    return np.maximum(visibility.own - window, 0)


Selection: TypeAlias = torch.Tensor | slice  # of one cluster, indexes that follow one another: these need no copy


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """`clusters` calls in one."""

    clusters: int
    tokens: Selection  # (clusters x tokens each,)
    cells: Selection  # (clusters x cells each,)
    masks: dict[Window, torch.Tensor]  # (clusters, 1, tokens, cells)
    grouped: dict[tuple[Window, int], torch.Tensor] = field(default_factory=dict)

    def mask(self, window: Window, *, groups: int) -> torch.Tensor:
        """(clusters, 1, groups x tokens, cells): repeated once per step, not once per layer."""
        if (window, groups) not in self.grouped:
            self.grouped[window, groups] = self.masks[window].repeat(1, 1, groups, 1)
        return self.grouped[window, groups]


class StepMasks:
    """The parts of one step. `places` says where each token's result is, once the parts are put end to end."""

    def __init__(
        self, parts: Sequence[AttentionCall], places: torch.Tensor | None, windows: Sequence[Window], *, tokens: int
    ) -> None:
        self.tokens = tokens
        self.parts = tuple(parts)
        self.places = places
        self.used_by: set[int] = set()  # layers; all of them, or the model goes its own way somewhere
        self._windows = windows

    def window(self, layer: int) -> Window:
        self.used_by.add(layer)
        return self._windows[layer]


def step_masks(
    blocks: Sequence[Block],
    visibility: Visibility,
    windows: Sequence[Window],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> StepMasks:
    """`windows` are those of the layers."""
    kinds = set(windows)
    if not blocks:
        masks = {
            kind: additive_mask(attended(visibility, window=kind), dtype=dtype, device=device)[None, None]
            for kind in kinds
        }
        return StepMasks(
            (AttentionCall(1, slice(None), slice(None), masks),), None, windows, tokens=len(visibility.order)
        )
    parts = [_part(block, visibility, kinds, dtype=dtype, device=device) for block in blocks]
    return StepMasks(parts, torch.from_numpy(_places(blocks)).to(device), windows, tokens=len(visibility.order))


def _part(
    block: Block, visibility: Visibility, kinds: set[Window], *, dtype: torch.dtype, device: torch.device
) -> AttentionCall:
    masks = {
        kind: additive_mask(attended_in(block, visibility, window=kind), dtype=dtype, device=device)[:, None]
        for kind in kinds
    }
    return AttentionCall(len(block.sizes), _chosen(block.tokens, device), _chosen(block.cells, device), masks)


def _chosen(indexes: Indexes, device: torch.device) -> Selection:
    flat = indexes.reshape(-1)
    if len(indexes) == 1 and (np.diff(flat) == 1).all():
        return slice(int(flat[0]), int(flat[-1]) + 1)
    return torch.from_numpy(flat).to(device)


def _places(blocks: Sequence[Block]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    tokens = np.concatenate([block.tokens.reshape(-1) for block in blocks])
    is_real = np.concatenate(
        [(np.arange(block.tokens.shape[1]) < np.array(block.sizes)[:, :1]).reshape(-1) for block in blocks]
    )
    places = np.zeros(int(is_real.sum()), dtype=np.intp)
    places[tokens[is_real]] = np.flatnonzero(is_real)
    return places
