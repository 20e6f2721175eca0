"""What a model keeps between steps: the keys and values of every cell, and the view rows; and the masks of each step.

StepBatch ── views ──> visibility ── clusters ──> masks, cells
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch

from pastalang.runtime.attention.clusters import ON_CPU, ON_GPU, Clusters, Costs
from pastalang.runtime.attention.masks import StepMasks, Window, step_masks
from pastalang.runtime.attention.views import Views, Visibility
from pastalang.runtime.device_memory import CacheTooLarge, first_sentence, is_out_of_memory
from pastalang.runtime.step import StepBatch

_LINE = 64  # bytes: kernels read whole cache lines of the CPU


class KVCache:
    """The cells of every layer. They only ever hold finite numbers.

    A masked cell still takes part in attention as 0 x value, and 0 x NaN is NaN, so one request that overflows would
    spoil all others. Values that are not finite are therefore written as 0. The logits of the overflowing request
    still show the overflow.
    """

    def __init__(self, *, cells: int, layers: int) -> None:
        self.cells = cells
        self._keys: list[torch.Tensor | None] = [None] * layers
        self._values: list[torch.Tensor | None] = [None] * layers
        self._mapping: CellMapping | None = None

    def begin(self, mapping: CellMapping) -> None:
        """Sets the cells that the next forward pass writes."""
        self._mapping = mapping

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes (1, heads, tokens, size) each; returns views of (1, heads, width, size).

        Padding tokens, which come after the tokens of the mapping, are not written.
        """
        assert self._mapping is not None and key_states.shape[0] == 1
        if self._values[layer] is None:
            self._allocate(layer, key_states, value_states)
        keys = _write(self._keys[layer], key_states, self._mapping)
        values = _write(self._values[layer], value_states, self._mapping)
        return keys[:, :, : self._mapping.width], values[:, :, : self._mapping.width]

    @property
    def width(self) -> int:
        """How many cells attention reads in the running step."""
        return 0 if self._mapping is None else self._mapping.width

    @property
    def is_initialized(self) -> bool:
        return all(keys is not None for keys in self._keys)

    @property
    def bytes(self) -> int:
        """The size of all tensors."""
        tensors = (*self._keys, *self._values)
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)

    def _allocate(self, layer: int, *states: torch.Tensor) -> None:
        """Allocates the cells of a layer. If they do not fit, all layers are freed."""
        try:
            allocated = [aligned_zeros((*one.shape[:2], self.cells, one.shape[3]), like=one) for one in states]
        except Exception as problem:
            if not is_out_of_memory(problem):
                raise
            wanted = len(self._keys) * self.cells * sum(one[:, :, :1].numel() * one.element_size() for one in states)
            self._keys = [None] * len(self._keys)
            self._values = [None] * len(self._values)
            raise CacheTooLarge(
                f"the memory of {self.cells} cells takes {wanted / 2**20:,.0f} MiB, and the device has no room for it: "
                f"{first_sentence(problem)}; load the model with fewer cells"
            ) from None
        self._keys[layer], self._values[layer] = allocated

    @torch.inference_mode()
    def overwrite(self, cells: torch.Tensor, noise: torch.Generator) -> None:
        """Fills cells with noise. Tests use it to show that nothing reads them."""
        for tensor in (*self._keys, *self._values):
            if tensor is not None:
                shape = (*tensor.shape[:2], len(cells), tensor.shape[3])
                values = torch.randn(shape, generator=noise, dtype=tensor.dtype) * 10
                tensor[:, :, cells.to(tensor.device)] = values.to(tensor.device)


@dataclass(frozen=True, slots=True)
class CellMapping:
    """The cells that one step writes, (tokens,). Attention then reads all cells below `width`."""

    cells: torch.Tensor
    width: int
    first: int | None  # set for consecutive cells, which are written as a slice

    @staticmethod
    def of(cells: tuple[int, ...], *, width: int, device: torch.device) -> CellMapping:
        is_consecutive = all(cell == cells[0] + index for index, cell in enumerate(cells))
        return CellMapping(torch.tensor(cells, device=device), width, cells[0] if is_consecutive else None)


def aligned_zeros(shape: tuple[int, ...], *, like: torch.Tensor) -> torch.Tensor:
    """Zeros of the type and on the device of `like`, at the start of a cache line on a CPU."""
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    size = prod(shape) * like.element_size()
    pages = np.zeros(size + _LINE, dtype=np.uint8)
    start = -pages.ctypes.data % _LINE
    return torch.from_numpy(pages[start : start + size]).view(like.dtype).view(shape)


def _write(cache: torch.Tensor | None, states: torch.Tensor, mapping: CellMapping) -> torch.Tensor:
    assert cache is not None
    states = states[:, :, : len(mapping.cells)]
    if mapping.first is None:
        return cache.index_copy_(2, mapping.cells, states.nan_to_num(0.0, posinf=0.0, neginf=0.0))
    place = cache[:, :, mapping.first : mapping.first + states.shape[2]]
    torch.nan_to_num(states, 0.0, posinf=0.0, neginf=0.0, out=place)
    return cache


class AttentionMemory:
    """`windows` has the window of every layer. `costs` decide when a step is split into clusters, which changes how
    long it takes and nothing else."""

    def __init__(
        self, windows: Sequence[Window], *, cells: int, dtype: torch.dtype, device: torch.device, costs: Costs | None
    ) -> None:  # fmt: skip
        self.windows = tuple(windows)
        self.kv_cache = KVCache(cells=cells, layers=len(self.windows))
        self._dtype, self._device = dtype, device
        costs = costs or (ON_CPU if device.type == "cpu" else ON_GPU)
        self._views = Views(cells, multiple=costs.multiple)
        can_share = device.type == "cpu" and set(self.windows) == {None}
        self._clusters = Clusters(costs if can_share else replace(costs, shared=None))

    def begin(self, batch: StepBatch) -> tuple[Visibility, StepMasks]:
        """The masks of the next forward pass, whose cells the cache is ready to write."""
        visibility = self._views.prepare(batch)
        split = self._clusters.split(batch, visibility)
        masks = step_masks(split, visibility, self.windows, dtype=self._dtype, device=self._device, wanted=batch.wanted)
        self.kv_cache.begin(CellMapping.of(batch.cells, width=visibility.width, device=self._device))
        return visibility, masks

    def end(self, batch: StepBatch, visibility: Visibility) -> None:
        """After a pass that has not failed: the rows see what was fed."""
        self._views.commit(batch, visibility)
