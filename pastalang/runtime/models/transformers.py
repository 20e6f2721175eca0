"""Runs any causal model of transformers as a `Model`, with its modules unchanged.

    StepBatch ── views ──> visibility ── masks, cells, positions ──> the model's own forward ──> logits

The feed-forward part of the last layer leaves out the tokens whose logits nobody reads, which are most tokens of a
prompt. Every other layer needs all tokens, because the next one attends to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache

from pastalang.runtime.attention.attention import ready_kernels
from pastalang.runtime.attention.clusters import Costs
from pastalang.runtime.attention.kv_cache import AttentionMemory, KVCache
from pastalang.runtime.attention.masks import LastLayer, layer_windows
from pastalang.runtime.models.cache_argument import cache_argument
from pastalang.runtime.models.carried import EVERYTHING, Carried
from pastalang.runtime.models.compatibility import (
    CELLS_FOR_CHECK,
    OWN_ATTENTION,
    UnsupportedModel,
    check_attention,
    check_logits,
    check_modules,
    model_name,
)
from pastalang.runtime.models.packed import PackedLinear, compile_kernels
from pastalang.runtime.models.probe_tokens import ProbeTokens, with_probe_tokens
from pastalang.runtime.models.quantized import is_quantised
from pastalang.runtime.models.step_attention import ATTENTION, STEP_MASKS
from pastalang.runtime.step import StepBatch


class TransformersModel:
    """Owns the KV cache and the view rows. Sets the attention implementation and `return_dict` of the model for good.

    `check` compares the model with its own masks and, on a few tokens, with the reference; only tests have a reason to
    skip it. `costs` decide when a step is split into clusters, which changes how long it takes and nothing else.
    """

    carried: Carried = EVERYTHING

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
        self.in_int8 = is_quantised(model)
        model.config.return_dict = config.return_dict = True  # with tuples, the families' own code fails
        if check:
            fast = TransformersModel(model, cells=CELLS_FOR_CHECK, check=False, costs=costs)
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
        windows = layer_windows(config)
        spare_last_layer(model, layers=len(windows))
        self._memory = AttentionMemory(windows, cells=cells, dtype=self.dtype, device=self.device, costs=costs)
        self._cache = _Cache(self._memory.kv_cache)

    @property
    def kv_cache(self) -> KVCache:
        return self._memory.kv_cache

    def compile_kernels(self) -> Iterator[None]:
        return compile_kernels(self._model.modules())

    @torch.inference_mode()
    def forward(self, batch: StepBatch) -> torch.Tensor:
        """Feeds one step. Returns the logits of the wanted tokens: (wanted, vocabulary)."""
        visibility, step = self._memory.begin(batch)
        padding = (0,) * self._padding(len(batch))
        tokens = torch.tensor([batch.tokens + padding], device=self.device)
        rows = None if self.probe_tokens is None else self.probe_tokens.rows
        reset = STEP_MASKS.set(step)
        try:
            with ready_kernels(self.device), with_probe_tokens(self._model, tokens, rows, self.vocabulary) as ids:
                logits: torch.Tensor = self._model(
                    input_ids=ids,
                    position_ids=torch.tensor([batch.positions + padding], device=self.device),
                    use_cache=True,
                    logits_to_keep=torch.tensor(batch.wanted, dtype=torch.long, device=self.device),
                    **cache_argument(self._model, self._cache),
                ).logits[0]
        finally:
            STEP_MASKS.reset(reset)
        if len(step.used_by) != len(self._memory.windows):
            raise UnsupportedModel(model_name(self._model.config), OWN_ATTENTION)
        self._memory.end(batch, visibility)
        return logits

    def _padding(self, tokens: int) -> int:
        """One token for a step of three: in float32 a CPU takes up to a third longer for three rows than for four."""
        return 1 if self.device.type == "cpu" and self.dtype is torch.float32 and tokens == 3 else 0


class _Cache(Cache):  # type: ignore[misc]  # transformers is untyped
    """The KV cache as models of transformers ask for it."""

    def __init__(self, cells: KVCache) -> None:
        super().__init__(layers=[])
        self._cells = cells

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._cells.update(key_states, value_states, layer_idx)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._cells.width

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self._cells.width, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return self._cells.cells

    @property
    def is_initialized(self) -> bool:
        return self._cells.is_initialized

    @property
    def is_compileable(self) -> bool:
        return False


_NAME = "mlp"  # of the feed-forward part, in nearly all families
_TRIAL, _ROUNDING = 16, 0.05  # tokens; how far results may differ by rounding in half precision


def spare_last_layer(model: Any, layers: int) -> None:
    """For good. Does nothing unless that part is made of matrix products alone and sees one token at a time."""
    width = model.config.get_text_config().hidden_size
    for layer in model.modules():
        part = getattr(layer, _NAME, None)
        if not isinstance(part, nn.Module) or _choose in part._forward_pre_hooks.values():
            continue
        if _is_last(layer, layers) and _is_dense(part) and _sees_one_token_at_a_time(part, model, width):
            part.register_forward_pre_hook(_choose)
            part.register_forward_hook(_spread)


def _is_last(layer: nn.Module, layers: int) -> bool:
    return any(getattr(child, "layer_idx", None) == layers - 1 for child in layer.children())


def _is_dense(part: nn.Module) -> bool:
    """Whether all parameters are those of linear layers."""
    return all(
        isinstance(module, nn.Linear | PackedLinear) or not list(module.parameters(recurse=False))
        for module in part.modules()
    )


@torch.inference_mode()
def _sees_one_token_at_a_time(part: nn.Module, model: Any, width: int) -> bool:
    """Whether some of the tokens have the results that they have among all."""
    states = torch.arange(_TRIAL * width, device=model.device).sin().to(model.dtype).view(1, _TRIAL, width)
    some = slice(_TRIAL // 4, _TRIAL // 2)
    try:
        among_all, alone = part(states), part(states[:, some])
    except Exception:  # anything: the code of a family, or of a user
        return False
    if (
        not isinstance(among_all, torch.Tensor)
        or among_all.shape != states.shape
        or alone.shape != states[:, some].shape
    ):
        return False
    difference = (among_all[:, some] - alone).abs().max()
    return bool(difference <= _ROUNDING * among_all.abs().max())


def _choose(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    last = _last()
    if last is None or len(given) != 1 or given[0].shape[:2] != (1, last.tokens):
        return None
    return (last.chosen(given[0]),)


def _spread(_: nn.Module, given: tuple[Any, ...], found: torch.Tensor) -> torch.Tensor | None:
    last = _last()
    if last is None or found.shape[:2] != (1, len(last.wanted)):
        return None
    return last.spread(found)


def _last() -> LastLayer | None:
    step = STEP_MASKS.get(None)
    return None if step is None else step.last
