"""Branches go through their segments as far as they can without the model: forced text is taken along, children
are forked, lists are opened; a branch stops where a token has to be drawn or where it has to wait for others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

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
from pastalang.plan.realised import Chosen, Items
from pastalang.plan.realised import Decision as Decided
from pastalang.program.program import Role
from pastalang.runtime.decode.auto import AutoState
from pastalang.runtime.decode.guide import NoEndingFits
from pastalang.runtime.decode.tags import Tag
from pastalang.runtime.events import FieldDone, FieldStarted, TextDelta
from pastalang.runtime.scheduler.begin import begin
from pastalang.runtime.scheduler.branch import BranchState, Frame, Stage
from pastalang.runtime.scheduler.decide import Decision, Option
from pastalang.runtime.scheduler.fork import fan_out, fork
from pastalang.runtime.scheduler.holes import Fill, OpenHole, blamed_on_type
from pastalang.runtime.scheduler.join import join, joined_by
from pastalang.runtime.scheduler.left_out import leave_out
from pastalang.runtime.scheduler.lists import elements_of
from pastalang.runtime.scheduler.options import arms_of, closing_of, opening_of
from pastalang.runtime.scheduler.points import mark
from pastalang.runtime.scheduler.texts import text_tokens
from pastalang.runtime.scheduler.threads import begin_threads, close, must_wait, try_to_see
from pastalang.runtime.scheduler.told_whole import tell_arm, tell_list
from pastalang.runtime.scheduler.written import (
    DrawnToken,
    Field,
    WrittenBranch,
    WrittenField,
    WrittenLoop,
    WrittenText,
)


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
    _go_on_with_tags(branch, hole, *seen)
    if branch.stage is Stage.WALKING:
        walk_on(branch)
    return True


def take(branch: BranchState, token: int, log_probability: float, forward_pass: int) -> None:
    """A drawn token: to the hole or the decision that waited for it, and on from there."""
    branch.request.drawing -= 1
    branch.request.last_draw = forward_pass
    branch.draws += 1
    if branch.hole is not None:
        _take_in_hole(branch, branch.hole, token, log_probability, forward_pass)
    else:
        assert branch.decision is not None
        _take_in_decision(branch, branch.decision, token, log_probability, forward_pass)
    if branch.stage is Stage.WALKING:
        walk_on(branch)


# ── one segment ──────────────────────────────────────────────────────────────────────────────────────────


def _step(branch: BranchState) -> None:
    frame = branch.frames[-1]
    if frame.index < len(frame.segments):
        _segment(branch, frame, frame.segments[frame.index])
    elif frame.repeat is not None:
        _next_item(branch, frame, frame.repeat)
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
            _open_hole(branch, frame, segment)
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
            _choose(branch, segment)
            return
        case Repeat():
            _open_repeat(branch, frame, segment)
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


# ── holes and decisions ──────────────────────────────────────────────────────────────────────────────────


def _open_hole(branch: BranchState, frame: Frame, hole: Hole) -> None:
    request = branch.request
    items = branch.items_here()
    field = Field(hole.field, hole.type, hole.form, hole.span, branch.name, items)
    field.attempt, field.point = branch.attempt, mark(branch)
    frame.written.append(WrittenField(field))
    with blamed_on_type(hole, request.plan):
        try:
            state, lead = begin(branch, hole)
        except NoEndingFits as problem:
            leave_out(branch, field, hole, problem)
            return
    branch.append(lead)
    field.tally.force(len(lead))
    branch.hole = OpenHole(hole, field, state, request.tokens.encoder)
    request.events.append(FieldStarted(hole.field, items))
    _filled(branch, branch.hole, branch.hole.start())


def _take_in_hole(branch: BranchState, hole: OpenHole, token: int, log_probability: float, forward_pass: int) -> None:
    with blamed_on_type(hole.hole, branch.request.plan):
        fill = hole.take(token, log_probability)
    index = len(branch.tokens) if fill.is_kept else None
    branch.drawn.append(DrawnToken(token, log_probability, forward_pass, index, fill.text))
    if isinstance(hole.state, AutoState):
        tags = hole.state.take_tags()
        if not must_wait(branch, fill, tags):
            _go_on_with_tags(branch, hole, fill, tags)
        return
    _filled(branch, hole, fill)


def _go_on_with_tags(branch: BranchState, hole: OpenHole, fill: Fill, tags: tuple[tuple[int, Tag], ...]) -> None:
    """What is fed of a drawn token, and the threads that it begins."""
    assert isinstance(hole.state, AutoState)
    branch.append(fill.feed)
    begun = begin_threads(branch, hole.field, tags)
    if hole.is_finished:
        close(branch, hole, hole.state)
    _filled(branch, hole, replace(fill, feed=()))
    for thread in begun:
        walk_on(thread)


def _filled(branch: BranchState, hole: OpenHole, fill: Fill) -> None:
    branch.append(fill.feed)
    if fill.text:
        branch.request.events.append(TextDelta(hole.field.path, hole.field.items, fill.text))
    if not hole.is_finished:
        _wait_for_logits(branch)
        return
    hole.close()
    field = hole.field
    branch.outcomes.append(field.tally.drawn)
    branch.request.events.append(FieldDone(field.path, field.items, field.text, field.truncated))
    branch.hole = None
    branch.frames[-1].index += 1
    branch.stage = Stage.WALKING


def _wait_for_logits(branch: BranchState) -> None:
    source = branch.last
    assert source is not None, f"`{branch.name}` draws before anything was fed"
    assert len(branch.tokens) not in branch.joins, f"`{branch.name}` draws right behind a join"
    branch.stage = Stage.DRAWING
    request = branch.request
    request.drawing += 1
    if source.index < source.branch.fed:
        request.ready.append((branch, source))
        return
    source.branch.waiting.setdefault(source.index, []).append(branch)
    request.demand(source.branch, source.index + 1)


def _choose(branch: BranchState, choose: Choose) -> None:
    mark(branch)
    options = arms_of(choose, branch.request.tokens.encoder)
    _decide(branch, options, field=choose.field, sampling=choose.sampling, span=choose.span)


def _decide(branch: BranchState, options: list[Option], **about: Any) -> None:
    branch.decision = Decision(options, ends=branch.request.tokens.encoder.ends, **about)
    taken = branch.decision.start()
    branch.append(taken.feed)
    if taken.option is None:
        _wait_for_logits(branch)
    else:
        _decided(branch, branch.decision, taken.option)


def _take_in_decision(
    branch: BranchState, decision: Decision, token: int, log_probability: float, forward_pass: int
) -> None:
    taken = decision.take(token)
    is_fed = bool(taken.feed)
    text = branch.request.tokens.encoder.decode([token]) if is_fed else ""
    branch.drawn.append(
        DrawnToken(token, log_probability, forward_pass, len(branch.tokens) if is_fed else None, text)
    )  # fmt: skip
    branch.append(taken.feed)
    if taken.option is None:
        _wait_for_logits(branch)
    else:
        _decided(branch, decision, taken.option)


def _decided(branch: BranchState, decision: Decision, option: int) -> None:
    branch.decision = None
    branch.stage = Stage.WALKING
    frame = branch.frames[-1]
    if frame.repeat is not None and frame.index >= len(frame.segments):
        _go_on_or_stop(branch, frame, frame.repeat, decision, option)
        return
    choose = frame.segments[frame.index]
    assert isinstance(choose, Choose)
    arm = choose.arms[option]
    branch.outcomes.append(Chosen(option, decision.tally.drawn))
    tell_arm(branch, choose, arm)
    frame.written.append(WrittenText(arm.lead))
    branch.frames.append(Frame(arm.segments, frame.written, (*frame.address, frame.index, option)))


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────


def _open_repeat(branch: BranchState, frame: Frame, repeat: Repeat) -> None:
    mark(branch)
    address = (*frame.address, frame.index, 0)
    inner = Frame(repeat.body, [], address, index=len(repeat.body), repeat=repeat, item=-1)
    frame.written.append(WrittenLoop(repeat.field, inner.loop))
    if repeat.over is not None:
        inner.elements = elements_of(
            branch, repeat.over, over_hole=repeat.over_hole, maximum=repeat.maximum, span=repeat.span
        )
        branch.outcomes.append(Items(len(inner.elements)))
    branch.frames.append(inner)


def _next_item(branch: BranchState, frame: Frame, repeat: Repeat) -> None:
    done = frame.item + 1
    if frame.elements is not None:
        if done < len(frame.elements):
            _enter_item(frame)
        else:
            _leave(branch)
        return
    encoder = branch.request.tokens.encoder
    opening, closing = opening_of(repeat, done, encoder), closing_of(repeat, done, encoder)
    options = []
    if done < repeat.maximum:
        options.append(opening)
    if done >= repeat.minimum:
        options.append(closing)
    if len(options) == 1:
        option = options[0]
        if option.tokens is None:  # nothing is left to stop: the list is full
            options = [Option("", ())]
    _decide(branch, options, field=repeat.field, sampling=repeat.sampling, span=repeat.span)


def _go_on_or_stop(branch: BranchState, frame: Frame, repeat: Repeat, decision: Decision, option: int) -> None:
    done, encoder = frame.item + 1, branch.request.tokens.encoder
    goes_on = done < repeat.maximum and option == 0
    branch.outcomes.append(Decided(goes_on, decision.tally.drawn))
    if goes_on:
        _enter_item(frame)
        frame.written.append(WrittenText(opening_of(repeat, done, encoder).text))
        return
    _leave(branch)
    tell_list(branch, repeat, done)
    closing = closing_of(repeat, done, encoder).text
    if closing:
        branch.frames[-1].written.append(WrittenText(closing))


def _enter_item(frame: Frame) -> None:
    frame.item += 1
    frame.index = 0
    frame.written = []
    frame.loop.append(frame.written)


def _leave(branch: BranchState) -> None:
    branch.frames.pop()
    branch.frames[-1].index += 1


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
