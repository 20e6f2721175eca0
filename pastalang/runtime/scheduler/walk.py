"""Branches go through their segments as far as they can without the model: forced text is taken along, children
are forked, lists are opened; a branch stops where a token has to be drawn or where it has to wait for others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pastalang.plan.plan import (
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Place,
    Repeat,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.program.program import Role
from pastalang.runtime.scheduler.branch import BranchState, Frame, Stage
from pastalang.runtime.scheduler.choices import next_item, open_choice, open_repeat, take_in_decision
from pastalang.runtime.scheduler.fields import go_on_with_tags, open_hole, take_in_hole
from pastalang.runtime.scheduler.fork import fan_out, fork
from pastalang.runtime.scheduler.hole import OpenHole
from pastalang.runtime.scheduler.joins import join, joined_by
from pastalang.runtime.scheduler.texts import text_tokens
from pastalang.runtime.scheduler.threads import try_to_see
from pastalang.runtime.scheduler.transcript import WrittenBranch, WrittenLoop, WrittenText


def walk_on(branch: BranchState) -> None:
    """Go on until something has to be drawn or waited for, or to the end; and the same for all that this starts."""
    started = [branch]
    while started:
        one = started.pop()
        if not one.frames and one.stage is Stage.WALKING:
            one.frames.append(Frame(one.spec.segments, one.written))
        before = len(one.request.branches)
        while one.stage is Stage.WALKING:
            _step(one)
        started.extend(reversed(one.request.branches[before:]))


def try_join(branch: BranchState) -> bool:
    """Let a waiting branch go on if all that it joins has ended. Says whether it did."""
    if branch.hole is not None:
        return _try_to_see(branch, branch.hole)
    frame = branch.frames[-1]
    waited = frame.segments[frame.index]
    assert isinstance(waited, Join)
    joined = joined_by(branch, waited, (*frame.address, frame.index))
    if joined is None:
        return False
    branch.request.joining.remove(branch)
    join(branch, joined)
    frame.index += 1
    branch.stage = Stage.WALKING
    walk_on(branch)
    return True


def _try_to_see(branch: BranchState, hole: OpenHole) -> bool:
    seen = try_to_see(branch)
    if seen is None:
        return False
    _all_walk_on(branch, go_on_with_tags(branch, hole, *seen))
    return True


def take(branch: BranchState, token: int, log_probability: float, forward_pass: int) -> None:
    """A drawn token: to the hole or the decision that waited for it, and on from there."""
    branch.request.drawing -= 1
    branch.request.last_draw = forward_pass
    branch.draws += 1
    begun: list[BranchState] = []
    if branch.hole is not None:
        begun = take_in_hole(branch, branch.hole, token, log_probability, forward_pass)
    else:
        assert branch.decision is not None
        take_in_decision(branch, branch.decision, token, log_probability, forward_pass)
    _all_walk_on(branch, begun)


def _all_walk_on(branch: BranchState, begun: Iterable[BranchState]) -> None:
    for thread in begun:
        walk_on(thread)
    if branch.stage is Stage.WALKING:
        walk_on(branch)


# ── one segment ──────────────────────────────────────────────────────────────────────────────────────────


def _step(branch: BranchState) -> None:
    frame = branch.frames[-1]
    if frame.index < len(frame.segments):
        _segment(branch, frame, frame.segments[frame.index])
    elif frame.repeat is not None:
        next_item(branch, frame, frame.repeat)
    else:
        branch.frames.pop()
        if branch.frames:
            branch.frames[-1].index += 1
        else:
            branch.stage = Stage.ENDED


def _segment(branch: BranchState, frame: Frame, segment: Segment) -> None:
    match segment:
        case TurnStart(role=role, index=index):
            opening = branch.request.tokens.turns[index].opening
            in_answer = role is Role.ASSISTANT and index == len(branch.request.tokens.turns) - 1
            if in_answer:
                _begin_answer(branch)
            _force(branch, branch.request.tokens.encoder.control(opening))
            if in_answer:
                branch.prompt = len(branch.tokens) + (branch.start if branch.parent is None else 0)
        case TurnEnd(index=index):
            _force(branch, branch.request.tokens.encoder.control(branch.request.tokens.turns[index].closing))
        case Text() | InputText() | ItemNumber():
            _force(branch, text_tokens(branch, frame, segment))
        case Hole():
            open_hole(branch, frame, segment)
            return
        case Fork():
            fork(branch, frame, segment)
        case Place(branch=id):
            [placed] = branch.request.instances(id, branch.items_here())
            frame.written.append(WrittenBranch(placed))
        case Join():
            if not _try_to_join(branch, frame, segment):
                return
        case Choose():
            open_choice(branch, segment)
            return
        case Repeat():
            open_repeat(branch, frame, segment)
            return
        case Each():
            fan_out(branch, frame, segment)
        case _:
            assert_never(segment)
    frame.index += 1


def _begin_answer(branch: BranchState) -> None:
    """What stands before the model's own turn is no part of the answer."""
    branch.written[:] = [
        written if isinstance(written, WrittenLoop) else WrittenText(written.text, in_answer=False)
        for written in branch.written
        if isinstance(written, WrittenText | WrittenLoop)
    ]


def _force(branch: BranchState, tokens: tuple[int, ...]) -> None:
    branch.append(tokens)
    branch.forced.append(len(tokens))


# ── joins ────────────────────────────────────────────────────────────────────────────────────────────────


def _try_to_join(branch: BranchState, frame: Frame, waited: Join) -> bool:
    joined = joined_by(branch, waited, (*frame.address, frame.index))
    branch.joining_since = branch.request.last_draw
    if joined is None:
        branch.stage = Stage.JOINING
        branch.request.joining.append(branch)
        return False
    join(branch, joined)
    return True
