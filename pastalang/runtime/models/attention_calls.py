"""Records what a model passes to its attention in every layer: queries, keys, values, and the model's own mask.

A pass over four tokens shows a window of thousands: the cache only claims that all tokens before them have been seen,
and no layer attends, so every token gets its own value back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache
from transformers.masking_utils import eager_mask

from pastalang.runtime.models.cache_argument import cache_argument
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.reference import attention_of
from pastalang.runtime.models.step_attention import STEP_MASKS
from pastalang.runtime.step import CellId, Empty, RowId, Run, StepBatch, TokenId

_PLAIN = "pastalang_recording_plainly"  # transformers makes masks for it
_FAST = "pastalang_recording"  # transformers makes none, as for the fast path
_CALLS: ContextVar[list[AttentionInput]] = ContextVar("pastalang_attention_inputs")


@dataclass(frozen=True, slots=True)
class AttentionInput:
    """One call of attention. The tensors are (1, heads, tokens, size), the mask (1, 1 or heads, tokens, all tokens)."""

    layer: int
    tensors: Mapping[str, torch.Tensor]
    mask: torch.Tensor | None


@torch.inference_mode()
def plain_inputs(model: Any, tokens: Sequence[TokenId], *, start: int) -> list[AttentionInput]:
    """What the bare model makes of `tokens` after `start` others. It chooses positions and masks itself."""
    with _recording(model, _PLAIN) as calls:
        model(
            input_ids=torch.tensor([tokens], device=model.device),
            use_cache=True,
            **cache_argument(model, _ClaimedCache(start)),
        )
    return calls


def fast_inputs(fast: Model, model: Any, tokens: Sequence[TokenId], *, start: int) -> list[AttentionInput]:
    """What `fast`, which wraps `model`, makes of the tokens. They are alone in its cells."""
    here = range(len(tokens))
    batch = StepBatch(
        tokens=tuple(tokens),
        positions=tuple(start + index for index in here),
        cells=tuple(map(CellId, here)),
        runs=(Run(RowId(0), 0, len(tokens)),),
        wanted=(),
        edits=(Empty(RowId(0)),),
    )
    with _recording(model, _FAST) as calls:
        fast.forward(batch)
    return calls


@contextmanager
def _recording(model: Any, name: str) -> Iterator[list[AttentionInput]]:
    calls: list[AttentionInput] = []
    reset = _CALLS.set(calls)
    try:
        with attention_of(model, name):
            yield calls
    finally:
        _CALLS.reset(reset)


def _record(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Returns (1, tokens, heads, size)."""
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    step = STEP_MASKS.get(None)
    if step is not None:
        step.window(layer)  # the layer has an attention that can be replaced
    _CALLS.get().append(AttentionInput(layer, {"queries": query, "keys": key, "values": value}, attention_mask))
    return value.repeat_interleave(query.shape[1] // value.shape[1], dim=1).transpose(1, 2).contiguous(), None


class _ClaimedCache(Cache):  # type: ignore[misc]  # transformers is untyped
    """Says that every layer has seen `seen` tokens and keeps all of them. It holds none."""

    def __init__(self, seen: int) -> None:
        super().__init__(layers=[])
        self._seen = seen

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._seen

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self._seen + query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int | None:
        return None

    @property
    def is_initialized(self) -> bool:
        return True

    @property
    def is_compileable(self) -> bool:
        return False


AttentionInterface.register(_PLAIN, _record)
AttentionInterface.register(_FAST, _record)
AttentionMaskInterface.register(_PLAIN, eager_mask)
