"""What a model keeps between steps, and the masks of each step: the KV cache and the view rows.

StepBatch ── views ──> visibility ── clusters ──> masks, cells
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from pastalang.runtime.attention.clusters import ON_CPU, ON_GPU, Clusters, Costs
from pastalang.runtime.attention.kv_cache import CellMapping, KVCache
from pastalang.runtime.attention.masks import StepMasks, Window, step_masks
from pastalang.runtime.attention.views import Views, Visibility
from pastalang.runtime.step import StepBatch


class AttentionMemory:
    """`windows` has the window of every layer. `costs` decide when a step is split into clusters, which changes how
    long it takes and nothing else."""

    def __init__(
        self, windows: Sequence[Window], *, cells: int, dtype: torch.dtype, device: torch.device, costs: Costs | None
    ) -> None:  # fmt: skip
        self.windows = tuple(windows)
        self.kv_cache = KVCache(cells=cells, layers=len(self.windows))
        self._dtype, self._device = dtype, device
        self._views = Views(cells)
        costs = costs or (ON_CPU if device.type == "cpu" else ON_GPU)
        self._clusters = Clusters(costs if set(self.windows) == {None} else replace(costs, shared=None))

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
