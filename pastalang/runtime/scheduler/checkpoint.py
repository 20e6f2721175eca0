"""Checkpoints: the places of a branch that decoding can be rewound to.

A transcript only grows, so a checkpoint keeps lengths, not copies; `rewound` cuts the transcript to these lengths.
"""

from __future__ import annotations

from dataclasses import replace

from pastalang.runtime.scheduler.state import BranchState, Checkpoint, Level, OpenList, Seen
from pastalang.runtime.scheduler.transcript import Written, WrittenLoop


def checkpoint_of(branch: BranchState, *, joined: tuple[BranchState, ...] = ()) -> Checkpoint:
    sequence, retries = branch.sequence, branch.retries
    written = (Seen(branch, len(sequence.tokens)),) if sequence.tokens else ()
    retries.keeps_cells |= bool(written)
    return Checkpoint(
        branch, branch.cursor, len(branch.written), tuple(map(_level, branch.lists)), branch.last,
        (*sequence.view, *written), (*sequence.own_before, *written), sequence.position, sequence.highest,
        sequence.start, len(branch.request.branches), len(branch.record.reported), tuple(retries.join_checkpoints),
        joined,
    )  # fmt: skip


def mark_checkpoint(branch: BranchState) -> Checkpoint | None:
    """A checkpoint at the current place of a branch; None if the request has no reviewer and never rewinds."""
    if branch.request.reviewer is None:
        return None
    retries = branch.retries
    checkpoint: Checkpoint = retries.retry_from or checkpoint_of(branch)
    retries.retry_from = None
    retries.first_checkpoint = retries.first_checkpoint or checkpoint
    return checkpoint


def rewound(checkpoint: Checkpoint) -> tuple[list[Written], list[OpenList]]:
    """What the branch had written at the checkpoint, and its lists. Writing on leaves the old transcript alone."""
    written = page = checkpoint.branch.written[: checkpoint.length]
    lists: list[OpenList] = []
    for level in checkpoint.levels:
        items = level.around.items[: level.items]
        last = page[-1]
        assert isinstance(last, WrittenLoop), "a list stands last in what its branch had written"
        page[-1] = replace(last, items=items)
        page = items[-1] = items[-1][: level.length]
        lists.append(OpenList(level.around.repeat, level.around.elements, items))
    return written, lists


def _level(around: OpenList) -> Level:
    return Level(around, len(around.items), len(around.items[-1]))
