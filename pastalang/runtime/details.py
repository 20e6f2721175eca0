"""What a type does to the model's probabilities, noted: a branch about to draw and its logits come in.

Costs a softmax over the whole vocabulary for every drawn token, so it is only done where it is asked for.
"""

from __future__ import annotations

import math

import torch

from pastalang.runtime.decode.confidence import distribution, pushed_aside
from pastalang.runtime.decode.engines.choice import ChoiceMachine, Range
from pastalang.runtime.decode.guide import State
from pastalang.runtime.decode.lead import Led
from pastalang.runtime.decode.walk import Walk
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.written import Details, Field


def note_details(branch: BranchState, logits: torch.Tensor) -> None:
    """`logits`: (vocabulary,). To be called before the drawn token is told."""
    if branch.hole is None:
        return
    field: Field = branch.hole.field
    field.details = field.details or Details()
    state = branch.hole.state
    field.details.pushed_aside.append(min(max(pushed_aside(logits, state), 0.0), 1.0))
    walk = state.inner if isinstance(state, Led) else state
    if isinstance(walk, Walk) and isinstance(walk.machine, ChoiceMachine):
        _share_out(field, field.details, state, walk, walk.machine, logits)


def _share_out(
    field: Field, details: Details, state: State, walk: Walk, machine: ChoiceMachine, logits: torch.Tensor
) -> None:
    """The row divides what the way to it weighs among the options that it tells apart."""
    at = walk.machine_state
    assert isinstance(at, Range)
    weight = math.exp(math.fsum(field.log_probabilities))
    for text, share in distribution(logits, state, machine, at).share.items():
        details.options[text] = details.options.get(text, 0.0) + weight * share
