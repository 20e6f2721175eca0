"""Attention masks of one step, as tensors for the model's layers, with their sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.attention.clusters import Block, Split
from pastalang.runtime.attention.views import Indexes, Order, Visibility

Window: TypeAlias = int | None  # how many of the last cells of its path a token attends to; None: all
Attends: TypeAlias = NDArray[np.bool_]
Selection: TypeAlias = torch.Tensor | slice  # a slice where the indexes are consecutive: it needs no copy

FULL = "full_attention"
SLIDING = "sliding_attention"

# The last layer leaves no token out of a step with fewer tokens, or of which a larger share is wanted.
_SMALL, _MOST_WANTED = 8, 0.75


class StepMasks:
    """The attention calls of one step. `places` are the tokens' indexes into the concatenated results.

    Beyond what its call says, every token attends to the `shared` cells.
    """

    def __init__(
        self,
        calls: Sequence[AttentionCall],
        places: torch.Tensor | None,
        windows: Sequence[Window],
        *,
        tokens: int,
        shared: slice | None = None,
        last: LastLayer | None = None,
    ) -> None:
        self.tokens = tokens
        self.last = last
        self.calls = tuple(calls)
        self.places = places
        self.shared = shared
        self.used_by: set[int] = set()  # layers: if one is missing, the model has an attention of its own there
        self._windows = windows

    def window(self, layer: int) -> Window:
        self.used_by.add(layer)
        return self._windows[layer]

    def last_of(self, layer: int) -> LastLayer | None:
        """What the layer may leave out; None for all layers but the last."""
        return self.last if layer == len(self._windows) - 1 else None


@dataclass(frozen=True, slots=True)
class LastLayer:
    """The last layer, of which only the tokens whose logits are `wanted` are read: no later layer sees the others."""

    wanted: torch.Tensor  # (wanted,)
    masks: StepMasks  # of these tokens alone
    tokens: int  # of the step

    def chosen(self, states: torch.Tensor) -> torch.Tensor:
        """The states of these tokens. `states` (1, tokens, …)."""
        return states.index_select(1, self.wanted)

    def spread(self, states: torch.Tensor) -> torch.Tensor:
        """The states of these tokens in the places of all tokens, and 0 for the others."""
        return states.new_zeros(1, self.tokens, *states.shape[2:]).index_copy_(1, self.wanted, states)


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """One call of attention, for a block of `clusters`."""

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


def step_masks(
    split: Split,
    visibility: Visibility,
    windows: Sequence[Window],
    *,
    dtype: torch.dtype,
    device: torch.device,
    wanted: Sequence[int] | None = None,
) -> StepMasks:
    """The masks of a step; `windows` has one entry per layer. Without blocks there is one call over everything.

    `wanted` are the tokens whose logits are read; None: all of them.
    """
    kinds, blocks = set(windows), split.blocks
    last = _last_layer(split, visibility, windows, wanted, dtype=dtype, device=device)
    assert split.shared is None or kinds == {None}, "the cells that a window leaves out are not the same for all tokens"
    if not blocks:
        masks = {
            kind: additive_mask(attended(visibility, window=kind), dtype=dtype, device=device)[None, None]
            for kind in kinds
        }
        return StepMasks(
            (AttentionCall(1, slice(None), slice(None), masks),), None, windows, tokens=len(visibility), last=last
        )
    calls = [_call(block, visibility, kinds, dtype=dtype, device=device) for block in blocks]
    places = torch.from_numpy(_places(blocks)).to(device)
    return StepMasks(calls, places, windows, tokens=len(visibility), shared=split.shared, last=last)


def _last_layer(
    split: Split,
    visibility: Visibility,
    windows: Sequence[Window],
    wanted: Sequence[int] | None,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> LastLayer | None:
    """None if too few tokens are left out to be worth it."""
    count = len(visibility)
    if not wanted or count < _SMALL or len(wanted) > _MOST_WANTED * count:
        return None
    tokens = np.array(wanted, dtype=np.intp)
    some = visibility.of(tokens)
    masks = step_masks(split.of_tokens(tokens, count=count), some, windows[-1:], dtype=dtype, device=device)
    return LastLayer(torch.from_numpy(tokens).to(device), masks, count)


def attended(visibility: Visibility, *, window: Window) -> Attends:
    """Which cells each token attends to: (tokens, width)."""
    if window is None:
        return visibility.order > 0
    return visibility.order > _hidden(visibility, window)[:, None]


def attended_in(block: Block, visibility: Visibility, *, window: Window) -> Attends:
    """The cells that each token of a block attends to: (clusters, tokens, cells). Padding attends to the first cell."""
    attends = np.zeros((*block.tokens.shape, block.cells.shape[1]), dtype=bool)
    column = np.full(visibility.width, -1, dtype=np.intp)  # of each cell, for the cluster at hand
    for line, (tokens, cells) in enumerate(block.sizes):
        own = block.cells[line, :cells]
        column[own] = np.arange(cells)
        paths = [visibility.path(token) for token in block.tokens[line, :tokens].tolist()]
        if window is not None:
            paths = [path[-window:] for path in paths]
        places = column[np.concatenate(paths)]
        rows = np.repeat(np.arange(tokens), list(map(len, paths)))
        is_here = places >= 0
        attends[line, rows[is_here], places[is_here]] = True
        attends[line, tokens:, 0] = True
        column[own] = -1
    return attends


def additive_mask(attends: Attends, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """0 where a token attends, -inf elsewhere. No row is all -inf, because every token sees itself."""
    hidden = torch.from_numpy(~attends).to(device)
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))


def layer_types(config: Any) -> tuple[str, ...]:
    """The kind of every layer, as transformers names it. `config` is the configuration of the text model."""
    declared = getattr(config, "layer_types", None)
    if declared is not None:
        return tuple(declared)
    if getattr(config, "attention_chunk_size", None) is not None:
        kind = "chunked_attention"
    else:
        kind = FULL if getattr(config, "sliding_window", None) is None else SLIDING
    return (kind,) * int(config.num_hidden_layers)


def layer_windows(config: Any) -> tuple[Window, ...]:
    """The window of every layer."""
    window = getattr(config, "sliding_window", None)
    return tuple(window if kind == SLIDING else None for kind in layer_types(config))


def _call(
    block: Block, visibility: Visibility, kinds: set[Window], *, dtype: torch.dtype, device: torch.device
) -> AttentionCall:
    masks = {
        kind: additive_mask(attended_in(block, visibility, window=kind), dtype=dtype, device=device)[:, None]
        for kind in kinds
    }
    return AttentionCall(len(block.sizes), _selection(block.tokens, device), _selection(block.cells, device), masks)


def _selection(indexes: Indexes, device: torch.device) -> Selection:
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


def _hidden(visibility: Visibility, window: int) -> Order:
    """How many cells at the start of each token's path the window leaves out: (tokens,)."""
    return np.maximum(visibility.counts.astype(np.int64) - window, 0)
