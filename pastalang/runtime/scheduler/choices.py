"""Choices and lists: places where the model decides how its branch goes on."""

from __future__ import annotations

from typing import Any

from pastalang.plan.plan import Choose, ItemNumber, Repeat, Text, Value
from pastalang.runtime.scheduler.branch import BranchState, Frame, Stage
from pastalang.runtime.scheduler.checkpoint import mark_checkpoint
from pastalang.runtime.scheduler.decision import Decision, Option, arms_of, closing_of, opening_of
from pastalang.runtime.scheduler.event_log import report_arm, report_empty_list
from pastalang.runtime.scheduler.fields import wait_for_logits
from pastalang.runtime.scheduler.scope import elements_of
from pastalang.runtime.scheduler.transcript import DrawnToken, WrittenLoop, WrittenText, WrittenValue


def open_choice(branch: BranchState, choose: Choose) -> None:
    """Start deciding which arm the branch goes on with."""
    mark_checkpoint(branch)
    begin_value(branch, branch.frames[-1], choose.begins)
    options = arms_of(choose, branch.request.tokens.encoder)
    _decide(branch, options, field=choose.field, sampling=choose.sampling, span=choose.span)


def begin_value(branch: BranchState, frame: Frame, value: Value | None) -> None:
    if value is not None:
        frame.written.append(WrittenValue(value, branch.items_here()))


def _decide(branch: BranchState, options: list[Option], **about: Any) -> None:
    branch.decision = Decision(options, ends=branch.request.tokens.encoder.ends, **about)
    taken = branch.decision.start()
    branch.append(taken.feed)
    if taken.option is None:
        wait_for_logits(branch)
    else:
        _decided(branch, branch.decision, taken.option)


def take_in_decision(
    branch: BranchState, decision: Decision, token: int, log_probability: float, forward_pass: int
) -> None:
    """A sampled token for the choice or the list that the branch has reached."""
    taken = decision.take(token)
    is_fed = bool(taken.feed)
    text = branch.request.tokens.encoder.decode([token]) if is_fed else ""
    branch.drawn.append(
        DrawnToken(token, log_probability, forward_pass, len(branch.tokens) if is_fed else None, text)
    )  # fmt: skip
    branch.append(taken.feed)
    if taken.option is None:
        wait_for_logits(branch)
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
    report_arm(branch, choose, arm)
    frame.written.append(WrittenText(arm.lead))
    branch.frames.append(Frame(arm.segments, frame.written, (*frame.address, frame.index, option)))


def open_repeat(branch: BranchState, frame: Frame, repeat: Repeat) -> None:
    """Enter a list, before its first item."""
    mark_checkpoint(branch)
    address = (*frame.address, frame.index, 0)
    begin_value(branch, frame, repeat.begins)
    inner = Frame(repeat.body, [], address, index=len(repeat.body), repeat=repeat, item=-1)
    frame.written.append(WrittenLoop(repeat.field, inner.loop, repeat=repeat, place=branch.items_here()))
    if repeat.over is not None:
        inner.elements = elements_of(
            branch, repeat.over, over_hole=repeat.over_hole, maximum=repeat.maximum, span=repeat.span
        )
    branch.frames.append(inner)


def next_item(branch: BranchState, frame: Frame, repeat: Repeat) -> None:
    """Before the first item or after one: go on to the next item, or leave the list.

    A list over known elements has as many items; otherwise the model decides between the limits.
    """
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
        if option.tokens is None:  # the list is full and needs no closing text
            options = [Option("", ())]
    _decide(branch, options, field=repeat.field, sampling=repeat.sampling, span=repeat.span)


def _go_on_or_stop(branch: BranchState, frame: Frame, repeat: Repeat, decision: Decision, option: int) -> None:
    done, encoder = frame.item + 1, branch.request.tokens.encoder
    goes_on = done < repeat.maximum and option == 0
    if goes_on:
        _enter_item(frame)
        _write_opening(branch, frame, repeat.between if done else repeat.first)
        return
    _leave(branch)
    report_empty_list(branch, repeat, done)
    closing = closing_of(repeat, done, encoder).text
    if closing:
        branch.frames[-1].written.append(WrittenText(closing))


def _write_opening(branch: BranchState, frame: Frame, parts: tuple[Text | ItemNumber, ...]) -> None:
    text = ""
    for part in parts:
        if isinstance(part, Text) and part.begins is not None:
            frame.written.append(WrittenText(text))
            begin_value(branch, frame, part.begins)
            text = ""
        text += part.text if isinstance(part, Text) else str(frame.item + 1)
    frame.written.append(WrittenText(text))


def _enter_item(frame: Frame) -> None:
    frame.item += 1
    frame.index = 0
    frame.written = []
    frame.loop.append(frame.written)


def _leave(branch: BranchState) -> None:
    branch.frames.pop()
    branch.frames[-1].index += 1
