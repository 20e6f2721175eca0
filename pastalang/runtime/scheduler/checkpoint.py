"""Checkpoints: the places of a branch that decoding can be rewound to.

A transcript only grows, so a checkpoint keeps lengths, not copies; `rewound` cuts the transcript to these lengths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pastalang.plan.plan import Repeat, Segment
from pastalang.runtime.scheduler.branch import BranchState, Frame, Seen, Source
from pastalang.runtime.scheduler.transcript import Written, WrittenLoop


@dataclass(frozen=True, slots=True)
class Level:
    """A frame at a checkpoint. `written` and `loop` are the live lists; `length` and `items` are their lengths then."""

    segments: tuple[Segment, ...]
    address: tuple[int, ...]
    index: int
    repeat: Repeat | None
    item: int
    elements: tuple[Any, ...] | None
    written: list[Written]
    length: int
    loop: list[list[Written]]
    items: int


@dataclass(frozen=True, eq=False, slots=True)
class Checkpoint:
    """The state of `branch` before a hole, a choice, a list or a join. `branches` counts those that existed then."""

    branch: BranchState
    levels: tuple[Level, ...]
    source: Source | None
    view: tuple[Seen, ...]
    own: tuple[Seen, ...]  # the part of the view that the branch wrote itself
    position: int
    highest: int
    start: int
    branches: int
    reported: int  # how many of its values had been reported
    join_checkpoints: tuple[Checkpoint, ...]
    joined: tuple[BranchState, ...] = ()  # what the join adds, if it is before a join


def checkpoint_of(branch: BranchState, *, joined: tuple[BranchState, ...] = ()) -> Checkpoint:
    written = (Seen(branch, len(branch.tokens)),) if branch.tokens else ()
    branch.keeps_cells |= bool(branch.tokens)
    return Checkpoint(
        branch, tuple(map(_level, branch.frames)), branch.last, (*branch.view, *written),
        (*branch.own_before, *written), branch.position, branch.highest, branch.start,
        len(branch.request.branches), len(branch.reported), tuple(branch.join_checkpoints), joined,
    )  # fmt: skip


def mark_checkpoint(branch: BranchState) -> Checkpoint | None:
    """A checkpoint at the current place of a branch; None if the request has no reviewer and never rewinds."""
    if branch.request.reviewer is None:
        return None
    checkpoint: Checkpoint = branch.retry_from or checkpoint_of(branch)
    branch.retry_from = None
    branch.first_checkpoint = branch.first_checkpoint or checkpoint
    return checkpoint


def rewound(checkpoint: Checkpoint) -> list[Frame]:
    """The frames at the checkpoint, with new lists: writing on leaves the old transcript alone."""
    frames: list[Frame] = []
    for level in checkpoint.levels:
        written = level.written[: level.length]
        loop: list[list[Written]] = []
        if level.repeat is not None:
            loop = level.loop[: level.items]
            if loop:
                loop[-1] = written
            outer = frames[-1].written
            last = outer[-1]
            assert isinstance(last, WrittenLoop), "a list stands last in what its branch had written"
            outer[-1] = replace(last, items=loop)
        elif frames:
            written = frames[-1].written  # an arm writes into the transcript of its choice
        frames.append(
            Frame(level.segments, written, level.address, level.index, level.repeat, level.item, level.elements, loop)
        )  # fmt: skip
    return frames


def _level(frame: Frame) -> Level:
    return Level(
        frame.segments, frame.address, frame.index, frame.repeat, frame.item, frame.elements,
        frame.written, len(frame.written), frame.loop, len(frame.loop),
    )  # fmt: skip
