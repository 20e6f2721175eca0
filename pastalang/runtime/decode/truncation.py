"""From scores to a column: scores and one number in [0, 1) per line come in, the columns they fall on go out.

The tokens stand side by side, each as wide as its probability; the number points at one of them. Without top_k and
top_p they stand in the order of their columns, so nothing is sorted. With them, likeliest first. A line of NaN gets
some column: that it has no answer is noticed elsewhere.
"""

from __future__ import annotations

import torch

from pastalang.program.types import Sampling
from pastalang.runtime.sampling.candidates import BLOCK

_NUCLEUS = 256  # tokens that are looked at first for top_p: sorting a whole vocabulary takes longer than the model


def draw_columns(scores: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """`scores` (lines, columns), already divided by the temperature; `uniforms` (lines,). Returns (lines,)."""
    probabilities = scores.softmax(dim=1)
    if sampling.top_k is not None or sampling.top_p is not None:
        return _draw_ordered(probabilities, uniforms, sampling, looked_at=sampling.top_k or _NUCLEUS)
    return _draw_in_place(_without_unlikely(probabilities, sampling), uniforms)


def _draw_ordered(
    probabilities: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling, *, looked_at: int
) -> torch.Tensor:
    """Among the likeliest `looked_at`; lines whose nucleus is larger are drawn again among more of them."""
    looked_at = min(looked_at, probabilities.shape[1])
    ordered, columns = probabilities.topk(looked_at, dim=1)
    if sampling.top_k is not None:
        ordered = ordered / ordered.sum(dim=1, keepdim=True)
    reached = ordered.cumsum(dim=1, dtype=torch.float64)
    if sampling.top_p is not None:
        ordered = ordered.masked_fill(reached - ordered >= sampling.top_p, 0.0)
    places = _draw_in_place(_padded(_without_unlikely(ordered, sampling)), uniforms).clamp(max=looked_at - 1)
    drawn = columns.gather(1, places[:, None])[:, 0]
    if sampling.top_k is None and looked_at < probabilities.shape[1]:
        larger = (reached[:, -1] < (sampling.top_p or 0.0)).nonzero()[:, 0]
        if len(larger):
            more = 16 * looked_at
            drawn[larger] = _draw_ordered(probabilities[larger], uniforms[larger], sampling, looked_at=more)
    return drawn


def _without_unlikely(probabilities: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """0 for what is less than `min_p` times as likely as the likeliest."""
    if not sampling.min_p:
        return probabilities
    least = probabilities.amax(dim=1, keepdim=True) * sampling.min_p
    return probabilities * (probabilities >= least)


def _padded(weights: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(weights, (0, -weights.shape[1] % BLOCK))


def _draw_in_place(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Find the block that the number falls into, then the column inside it."""
    lines = torch.arange(len(weights), device=weights.device)
    blocks = weights.view(len(weights), -1, BLOCK)
    reached = blocks.sum(dim=2, dtype=weights.dtype).cumsum(dim=1, dtype=torch.float64)
    target = uniforms * reached[:, -1]
    block = _first_beyond(reached, target)
    start = torch.where(block > 0, reached[lines, block - 1], 0.0)
    inside = blocks[lines, block].cumsum(dim=1, dtype=torch.float64)
    return block * BLOCK + _first_beyond(inside, target - start)


def _first_beyond(reached: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The first column where `reached` exceeds the target; rounding may leave none: then the last that grows."""
    beyond = torch.searchsorted(reached, target[:, None], right=True)[:, 0]
    last = torch.searchsorted(reached, reached[:, -1:].contiguous())[:, 0]
    return torch.minimum(beyond, last).clamp(max=reached.shape[1] - 1)
