"""The start-up check: a model, fast and slow, comes in; nothing or a refusal goes out.

Names and layer types tell most unusable models apart. What is left is tried: a few tokens with everything that
branches do (forks, siblings, gaps, cells out of order, a join) through the fast path and through the reference.
"""

from __future__ import annotations

from typing import Any

import torch

from pastalang.runtime.attention.plain_views import PlainViews
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.reference import reference_logits
from pastalang.runtime.models.refuse import UnsupportedModel, model_name
from pastalang.runtime.step import Capture, CellId, Empty, RowId, Run, StepBatch, TokenId

CELLS_FOR_CHECK = 16


def check_model(fast: Model, model: Any) -> None:
    """Raise `UnsupportedModel` where the two disagree. `fast` wraps `model` and has `CELLS_FOR_CHECK` cells."""
    views = PlainViews()
    for batch in _steps(fast.vocabulary):
        fed = views.feed(batch)
        for index, logits in zip(batch.wanted, fast.forward(batch), strict=True):
            error = _relative_error(logits, reference_logits(model, fed[index]))
            if not error <= _tolerance(fast.dtype):
                raise UnsupportedModel(
                    model_name(model.config),
                    f"its logits depend on more than what a branch sees (they differ by {error:.2g} of their range)",
                )


def _steps(vocabulary: int) -> tuple[StepBatch, ...]:
    """A prompt with two forks, two branches with gaps, and a join of both."""
    main, left, right = RowId(0), RowId(1), RowId(2)
    tokens = [TokenId((7919 * index + 17) % vocabulary) for index in range(12)]
    prompt = StepBatch(
        tokens=tuple(tokens[:5]),
        positions=(0, 1, 2, 3, 24),
        cells=tuple(map(CellId, (9, 2, 5, 11, 0))),
        runs=(Run(main, 0, 5),),
        wanted=(2, 4),
        edits=(Empty(main),),
        captures=(Capture(left, 3), Capture(right, 2)),
    )
    branches = StepBatch(
        tokens=tuple(tokens[5:9]),
        positions=(4, 5, 13, 14),
        cells=tuple(map(CellId, (1, 8, 10, 3))),
        runs=(Run(left, 0, 2), Run(right, 2, 2)),
        wanted=(1, 3),
    )
    join = StepBatch(
        tokens=tuple(tokens[9:12]),
        positions=(6, 15, 25),
        cells=tuple(map(CellId, (4, 7, 6))),
        runs=(Run(left, 0, 1), Run(right, 1, 1), Run(main, 2, 1, after=(0, 1))),
        wanted=(0, 1, 2),
    )
    return prompt, branches, join


def _relative_error(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference as a part of the range of the logits; NaN where either has one."""
    difference = (logits.double() - expected.double()).abs().max()
    spread = expected.double().max() - expected.double().min()
    return float(difference / spread) if spread > 0 else float(difference)


def _tolerance(dtype: torch.dtype) -> float:
    """Half precision loses a few hundredths in deep models; a wrong view costs several tenths."""
    return 0.1 if dtype in (torch.bfloat16, torch.float16) else 1e-4
