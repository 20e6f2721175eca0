"""The interpreter: a branch does what the machine of its plan says, until it needs logits or has to wait."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, assert_never

from pastalang.plan.branches import Each, Fork, Hole, Place, Repeat, Text, TurnStart
from pastalang.plan.machine import Closing, Draw, End, Feed, Forced, Opening, Start, Wait
from pastalang.plan.positions import after_each, after_fork
from pastalang.plan.run_log import Drew
from pastalang.program.program import Role
from pastalang.runtime.scheduler.again import outcome
from pastalang.runtime.scheduler.fields import (
    begin_value,
    go_on_with_tags,
    open_decision,
    open_hole,
    open_list,
    take_in_decision,
    take_in_hole,
    take_option,
)
from pastalang.runtime.scheduler.hole import OpenHole
from pastalang.runtime.scheduler.known_text import known_text
from pastalang.runtime.scheduler.scope import elements_of, named_here, names_here
from pastalang.runtime.scheduler.state import BranchState, Stage
from pastalang.runtime.scheduler.threads import try_to_see
from pastalang.runtime.scheduler.transcript import WrittenBranch, WrittenLoop, WrittenText
from pastalang.runtime.scheduler.visibility import join, joined_by, skip_to, start_branch

_DREW = Drew()  # a run has thousands of them


def advance(branch: BranchState) -> None:
    """Advance a branch until it needs a sample, has to wait, or has ended; and all branches that it forks."""
    started = [branch]
    while started:
        one = started.pop()
        before = len(one.request.branches)
        while one.stage is Stage.WALKING:
            _act(one)
        started.extend(reversed(one.request.branches[before:]))


def try_join(branch: BranchState) -> bool:
    """Advance a waiting branch if all branches that it joins have ended. Says whether it did."""
    hole = branch.pending.hole
    if hole is not None:
        return _try_to_see(branch, hole)
    joined = joined_by(branch)
    if joined is None:
        return False
    branch.request.pending.joining.remove(branch)
    _join(branch, joined)
    branch.stage = Stage.WALKING
    advance(branch)
    return True


def accept_token(branch: BranchState, token: int, log_probability: float, forward_pass: int) -> None:
    """Hand a sampled token to the hole or the decision that waits for it, and advance."""
    request = branch.request
    request.pending.drawing -= 1
    request.counts.last_draw = forward_pass
    branch.record.log.append(_DREW)
    begun: list[BranchState] = []
    hole, decision = branch.pending.hole, branch.pending.decision
    if hole is not None:
        begun = take_in_hole(branch, hole, token, log_probability, forward_pass)
    else:
        assert decision is not None
        take_in_decision(branch, decision, token, log_probability, forward_pass)
    _all_walk_on(branch, begun)


def _try_to_see(branch: BranchState, hole: OpenHole) -> bool:
    seen = try_to_see(branch)
    if seen is None:
        return False
    _all_walk_on(branch, go_on_with_tags(branch, hole, *seen))
    return True


def _all_walk_on(branch: BranchState, begun: Iterable[BranchState]) -> None:
    for thread in begun:
        advance(thread)
    if branch.stage is Stage.WALKING:
        advance(branch)


# ── one action ───────────────────────────────────────────────────────────────────────────────────────────


def _act(branch: BranchState) -> None:
    match branch.request.tokens.machine.action(branch.cursor):
        case Feed(segment=segment):
            _feed(branch, segment)
        case Draw(segment=Hole() as hole):
            for thread in open_hole(branch, hole):
                advance(thread)
        case Draw() as decision:
            open_decision(branch, decision)
        case Start(segment=segment):
            _start(branch, segment)
        case Wait() as wait:
            _wait(branch, wait)
        case End():
            branch.stage = Stage.ENDED
        case action:
            assert_never(action)


def _feed(branch: BranchState, segment: Forced) -> None:
    items = branch.cursor.items
    known = known_text(segment, branch.request.tokens, named=partial(named_here, branch), items=items)
    match segment:
        case Opening() | Closing():
            branch.append(known.tokens)
            take_option(branch, segment)
            return
        case TurnStart(role=role, index=index):
            in_answer = role is Role.ASSISTANT and index == len(branch.request.tokens.turns) - 1
            if in_answer:
                _begin_answer(branch)
            branch.append(known.tokens)
            if in_answer:
                sequence = branch.sequence
                kept = 0 if branch.parent is not None else sequence.start - sequence.skip  # in the prefix cache
                sequence.prompt = len(sequence.tokens) + kept
        case Place(branch=id):
            [placed] = branch.request.live.instances(id, items)
            branch.page.append(WrittenBranch(placed))
        case _:
            if isinstance(segment, Text):
                begin_value(branch, segment.begins)
            if known.text is not None:
                branch.page.append(WrittenText(known.text))
            branch.append(known.tokens)
    branch.move()


def _begin_answer(branch: BranchState) -> None:
    """Text before the model's turn is not part of the answer."""
    branch.written[:] = [
        written if isinstance(written, WrittenLoop) else WrittenText(written.text, in_answer=False)
        for written in branch.written
        if isinstance(written, WrittenText | WrittenLoop)
    ]


def _start(branch: BranchState, segment: Fork | Each | Repeat) -> None:
    match segment:
        case Fork():
            _fork(branch, segment)
        case Each():
            _fan_out(branch, segment)
        case Repeat():
            open_list(branch, segment)
        case _:
            assert_never(segment)


def _fork(branch: BranchState, fork: Fork) -> None:
    spec = branch.request.plan.branch(fork.branch)
    at = after_fork(branch.sequence.position, spec.reserve)
    child = start_branch(
        branch, fork.branch, branch.cursor.items, at.child, names=names_here(branch), draw_items=branch.draw_items_here
    )
    skip_to(branch, at.parent)
    if fork.branch not in branch.request.tokens.placed:
        branch.page.append(WrittenBranch(child))
    branch.move()


def _fan_out(branch: BranchState, each: Each) -> None:
    elements = outcome(branch, lambda: elements_of(branch, each))
    spec = branch.request.plan.branch(each.branch)
    at = after_each(branch.sequence.position, spec.reserve, len(elements), stacked=each.stacked)
    here, draw_items, names = branch.cursor.items, branch.draw_items_here, names_here(branch)
    items: list[list[Any]] = []
    for number, (element, position) in enumerate(zip(elements, at.children, strict=True)):
        child = start_branch(
            branch, each.branch, (*here, number), position, names={**names, each.name: element},
            draw_items=draw_items if each.stacked else (*draw_items, number),
        )  # fmt: skip
        items.append([WrittenBranch(child)])
    skip_to(branch, at.parent)
    branch.page.append(WrittenLoop(each.name, items, stacked=each.stacked))
    branch.move(len(elements))


def _wait(branch: BranchState, wait: Wait) -> None:
    branch.pending.wait, branch.pending.since = wait, branch.request.counts.last_draw
    joined = joined_by(branch)
    if joined is None:
        branch.stage = Stage.JOINING
        branch.request.pending.joining.append(branch)
    else:
        _join(branch, joined)


def _join(branch: BranchState, joined: tuple[BranchState, ...]) -> None:
    join(branch, joined)
    branch.pending.wait = None
    branch.move()
