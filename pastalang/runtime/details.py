"""What a type does to the model's probabilities, noted: a branch about to draw and its logits come in.

Costs a softmax over the whole vocabulary for every drawn token, so it is only done where it is asked for.
"""

from __future__ import annotations

import torch

from pastalang.runtime.decode.confidence import pushed_aside, shares_of, standing_of
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.transcript import Details, Field
from pastalang.runtime.scheduler.weigh import weigh_others


def note_details(branch: BranchState, logits: torch.Tensor) -> None:
    """`logits`: (vocabulary,). To be called before the drawn token is told."""
    if branch.hole is None:
        return
    field: Field = branch.hole.field
    field.details = field.details or Details()
    state = branch.hole.state
    field.details.pushed_aside.append(min(max(pushed_aside(logits, state), 0.0), 1.0))
    standing = standing_of(state)
    if standing is not None:
        rows = field.details.weights.rows
        is_first = not rows
        shares = rows[tuple(field.tokens)] = shares_of(logits, state, standing)
        if is_first:
            weigh_others(branch, shares)
