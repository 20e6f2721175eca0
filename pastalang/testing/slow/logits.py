"""What stands behind a token, by a forward pass of its own: a model comes in, its logits as a function go out.

No cache and no memory: the path of the token is fed from its first token on, at its positions, each of its tokens
seeing what it saw itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.testing.slow.token import Logits, Token


def logits_of(model: Any) -> Logits:
    """Of a transformers causal model with eager attention, in float64 for exact comparisons."""

    @torch.inference_mode()
    def logits(token: Token) -> NDArray[np.float64]:
        path = token.path
        output = model(
            input_ids=torch.tensor([[one.token for one in path]]),
            position_ids=torch.tensor([[one.position for one in path]]),
            attention_mask=_masks(model, path),
            use_cache=False,
            logits_to_keep=1,
        )
        return np.asarray(output.logits[0, -1].double().numpy())

    return logits


def scored(score: Callable[[Token], Sequence[float] | NDArray[np.float64]]) -> Logits:
    """Of a model without weights."""
    return lambda token: np.asarray(score(token), dtype=np.float64)


def _masks(model: Any, path: Sequence[Token]) -> Any:
    """One mask, or one for each kind of layer where there are several."""
    config = model.config
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or (["sliding_attention"] if window else ["full_attention"]))
    masks = {kind: _mask(path, window if kind == "sliding_attention" else None, model.dtype) for kind in kinds}
    return masks if len(masks) > 1 else masks.popitem()[1]


def _mask(path: Sequence[Token], window: int | None, dtype: torch.dtype) -> torch.Tensor:
    """0 where a token sees another one, and the least number elsewhere; a window is the last tokens of a path."""
    place = {id(token): index for index, token in enumerate(path)}
    mask = torch.full((len(path), len(path)), torch.finfo(dtype).min, dtype=dtype)
    for row, token in enumerate(path):
        seen = token.path if window is None else token.path[-window:]
        mask[row, [place[id(one)] for one in seen]] = 0.0
    return mask[None, None]
