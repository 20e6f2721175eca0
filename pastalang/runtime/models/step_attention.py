"""The attention function that models of transformers call: attention under the masks of the running step.

The masks reach it in a context variable, because some model families drop keyword arguments that they do not know.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface

from pastalang.runtime.attention.attention import attend
from pastalang.runtime.attention.masks import StepMasks

ATTENTION = "pastalang"  # a name that transformers has no masks for, so it makes none
STEP_MASKS: ContextVar[StepMasks] = ContextVar("pastalang_step_masks")


def attend_in_step(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Returns (1, tokens, heads, size). Padding tokens attend to nothing and get 0, as do tokens that nobody reads."""
    step = STEP_MASKS.get()
    window = step.window(module.layer_idx)  # type: ignore[arg-type]
    last = step.last_of(module.layer_idx)  # type: ignore[arg-type]
    if last is not None:
        step, query = last.masks, query.index_select(2, last.wanted)
    padding = query.shape[2] - step.tokens
    query = query[:, :, : step.tokens]
    found = attend(step, window, query, key, value, scaling=scaling, softcap=softcap, sinks=s_aux)
    if last is not None:
        return last.spread(found[None]), None
    return (pad(found, (0, 0, 0, 0, 0, padding)) if padding else found)[None], None


AttentionInterface.register(ATTENTION, attend_in_step)
