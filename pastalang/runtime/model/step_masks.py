"""What the attention of one step needs on the device: blocks and windows come in, index tensors and masks go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch

from pastalang.runtime.attention.clusters import Block
from pastalang.runtime.attention.mask import Window, additive, visible, visible_in
from pastalang.runtime.attention.views import Indexes, Sight

Chosen: TypeAlias = torch.Tensor | slice  # of one cluster, indexes that follow one another: these need no copy


@dataclass(frozen=True, slots=True)
class Part:
    """`clusters` calls in one."""

    clusters: int
    tokens: Chosen  # (clusters x tokens each,)
    cells: Chosen  # (clusters x cells each,)
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
        self, parts: Sequence[Part], places: torch.Tensor | None, windows: Sequence[Window], *, tokens: int
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
    blocks: Sequence[Block], sight: Sight, windows: Sequence[Window], *, dtype: torch.dtype, device: torch.device
) -> StepMasks:
    """`windows` are those of the layers."""
    kinds = set(windows)
    if not blocks:
        masks = {kind: additive(visible(sight, window=kind), dtype=dtype, device=device)[None, None] for kind in kinds}
        return StepMasks((Part(1, slice(None), slice(None), masks),), None, windows, tokens=len(sight.order))
    parts = [_part(block, sight, kinds, dtype=dtype, device=device) for block in blocks]
    return StepMasks(parts, torch.from_numpy(_places(blocks)).to(device), windows, tokens=len(sight.order))


def _part(block: Block, sight: Sight, kinds: set[Window], *, dtype: torch.dtype, device: torch.device) -> Part:
    masks = {
        kind: additive(visible_in(block, sight, window=kind), dtype=dtype, device=device)[:, None] for kind in kinds
    }
    return Part(len(block.sizes), _chosen(block.tokens, device), _chosen(block.cells, device), masks)


def _chosen(indexes: Indexes, device: torch.device) -> Chosen:
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
