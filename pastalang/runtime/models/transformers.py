"""Runs any causal model of transformers as a `Model`, with its modules unchanged.

StepBatch ── views ──> visibility ── masks, cells, positions ──> the model's own forward ──> logits
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from pastalang.runtime.attention.attention import ATTENTION, STEP_MASKS
from pastalang.runtime.attention.clusters import ON_CPU, ON_GPU, Clusters, Costs
from pastalang.runtime.attention.kv_cache import CellMapping, KVCache
from pastalang.runtime.attention.masks import layer_windows, step_masks
from pastalang.runtime.attention.views import Views
from pastalang.runtime.models.cache_argument import cache_argument
from pastalang.runtime.models.compatibility import (
    CELLS_FOR_CHECK,
    OWN_ATTENTION,
    UnsupportedModel,
    check_attention,
    check_logits,
    check_modules,
    model_name,
)
from pastalang.runtime.models.last_layer import spare_last_layer
from pastalang.runtime.models.probe_tokens import ProbeTokens, with_probe_tokens
from pastalang.runtime.step import StepBatch


class TransformersModel:
    """Owns the KV cache and the view rows. Sets the attention implementation and `return_dict` of the model for good.

    `check` compares the model with its own masks and, on a few tokens, with the reference; only tests have a reason to
    skip it. `costs` decide when a step is split into clusters, which changes how long it takes and nothing else.
    """

    def __init__(
        self,
        model: Any,
        *,
        cells: int,
        check: bool = True,
        costs: Costs | None = None,
        probe_tokens: ProbeTokens | None = None,
    ) -> None:
        check_modules(model)
        config = model.config.get_text_config()
        model.eval()
        model.config.return_dict = config.return_dict = True  # with tuples, the families' own code fails
        if check:
            fast = TransformersModel(model, cells=CELLS_FOR_CHECK, check=False)
            check_attention(fast, model, layer_windows(config))
            check_logits(fast, model)
        model.set_attn_implementation(ATTENTION)
        self.cells = cells
        self.vocabulary = int(config.vocab_size)
        self.max_position = int(config.max_position_embeddings) - 1
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        self.probe_tokens = probe_tokens
        self._model = model
        self._windows = layer_windows(config)
        spare_last_layer(model, layers=len(self._windows))
        self._kv_cache = KVCache(cells=cells, layers=len(self._windows))
        self._views = Views(cells)
        costs = costs or (ON_CPU if self.device.type == "cpu" else ON_GPU)
        self._clusters = Clusters(costs if set(self._windows) == {None} else replace(costs, shared=None))

    @property
    def kv_cache(self) -> KVCache:
        return self._kv_cache

    @torch.inference_mode()
    def forward(self, batch: StepBatch) -> torch.Tensor:
        """Feeds one step. Returns the logits of the wanted tokens: (wanted, vocabulary)."""
        visibility = self._views.prepare(batch)
        split = self._clusters.split(batch, visibility)
        step = step_masks(split, visibility, self._windows, dtype=self.dtype, device=self.device, wanted=batch.wanted)
        self._kv_cache.begin(CellMapping.of(batch.cells, width=visibility.width, device=self.device))
        padding = (0,) * self._padding(len(batch))
        tokens = torch.tensor([batch.tokens + padding], device=self.device)
        rows = None if self.probe_tokens is None else self.probe_tokens.rows
        reset = STEP_MASKS.set(step)
        try:
            with with_probe_tokens(self._model, tokens, rows, self.vocabulary) as ids:
                logits: torch.Tensor = self._model(
                    input_ids=ids,
                    position_ids=torch.tensor([batch.positions + padding], device=self.device),
                    use_cache=True,
                    logits_to_keep=torch.tensor(batch.wanted, dtype=torch.long, device=self.device),
                    **cache_argument(self._model, self._kv_cache),
                ).logits[0]
        finally:
            STEP_MASKS.reset(reset)
        if len(step.used_by) != len(self._windows):
            raise UnsupportedModel(model_name(self._model.config), OWN_ATTENTION)
        self._views.commit(batch, visibility)
        return logits

    def _padding(self, tokens: int) -> int:
        """One token for a step of three: in float32 a CPU takes up to a third longer for three rows than for four."""
        return 1 if self.device.type == "cpu" and self.dtype is torch.float32 and tokens == 3 else 0
