"""Checkpoints: the places of a branch that decoding can be rewound to.

A transcript only grows, so a checkpoint keeps lengths, not copies; `rewound` cuts the transcript to these lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pastalang.plan.plan import Repeat, Segment
from pastalang.runtime.scheduler.branch import BranchState, Frame, Seen, Source
from pastalang.runtime.scheduler.transcript import Written, WrittenLoop


@dataclass(frozen=True, slots=True)
class Level:
    """A frame as it stood: `written` and `loop` are the live lists, of which `length` and `items` were there."""

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
    """Right before a hole, a choice, a list or a join of `branch`. `branches` counts those made until then."""

    branch: BranchState
    levels: tuple[Level, ...]
    source: Source | None
    view: tuple[Seen, ...]
    own: tuple[Seen, ...]  # what of it the branch has written itself
    position: int
    highest: int
    start: int
    branches: int
    reported: int  # values of it that the caller knew of
    join_checkpoints: tuple[Checkpoint, ...]
    joined: tuple[BranchState, ...] = ()  # what the join adds, where a join stands here


def checkpoint_of(branch: BranchState, *, joined: tuple[BranchState, ...] = ()) -> Checkpoint:
    written = (Seen(branch, len(branch.tokens)),) if branch.tokens else ()
    branch.keeps_cells |= bool(branch.tokens)
    return Checkpoint(
        branch, tuple(map(_level, branch.frames)), branch.last, (*branch.view, *written),
        (*branch.own_before, *written), branch.position, branch.highest, branch.start,
        len(branch.request.branches), len(branch.reported), tuple(branch.join_checkpoints), joined,
    )  # fmt: skip


def mark_checkpoint(branch: BranchState) -> Checkpoint | None:
    """The checkpoint where a branch stands, noted as a place to take it up at; None where nobody ever will."""
    if branch.request.reviewer is None:
        return None
    checkpoint: Checkpoint = branch.retry_from or checkpoint_of(branch)
    branch.retry_from = None
    branch.first_checkpoint = branch.first_checkpoint or checkpoint
    return checkpoint


def rewound(checkpoint: Checkpoint) -> list[Frame]:
    """The frames as they stood, with lists of their own: what is written from here on leaves the old ones alone."""
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
            outer[-1] = WrittenLoop(last.name, loop, last.stacked)
        elif frames:
            written = frames[-1].written  # an arm writes where its choice stands
        frames.append(
            Frame(level.segments, written, level.address, level.index, level.repeat, level.item, level.elements, loop)
        )  # fmt: skip
    return frames


def _level(frame: Frame) -> Level:
    return Level(
        frame.segments, frame.address, frame.index, frame.repeat, frame.item, frame.elements,
        frame.written, len(frame.written), frame.loop, len(frame.loop),
    )  # fmt: skip
