"""Choices and lists: places where the model decides how its branch goes on."""

from __future__ import annotations

from pastalang.plan.branches import Arm, Choose, Repeat, Text, Value
from pastalang.plan.machine import Closing, Draw, Opening
from pastalang.runtime.scheduler.again import outcome, reach
from pastalang.runtime.scheduler.decision import Decision
from pastalang.runtime.scheduler.fields import wait_for_logits
from pastalang.runtime.scheduler.known_text import option_tokens
from pastalang.runtime.scheduler.reports import report_arm, report_empty_list
from pastalang.runtime.scheduler.scope import elements_of
from pastalang.runtime.scheduler.state import BranchState, OpenList, Stage
from pastalang.runtime.scheduler.transcript import DrawnToken, WrittenLoop, WrittenText, WrittenValue


def begin_value(branch: BranchState, value: Value | None) -> None:
    if value is not None:
        branch.page.append(WrittenValue(value, branch.cursor.items))


def open_decision(branch: BranchState, draw: Draw) -> None:
    """Start deciding which arm the branch goes on with, or whether its list does."""
    if isinstance(draw.segment, Choose):
        reach(branch)
        begin_value(branch, draw.segment.begins)
    encoder = branch.request.tokens.encoder
    decision = Decision(draw, encoder)
    if branch.repeats.before is not None:
        option: int = branch.repeats.before.record.outcomes[len(branch.record.outcomes)]
        branch.append(option_tokens(draw.options[option], encoder) or ())
        _take(branch, decision, option)
        return
    branch.pending.decision = decision
    taken = decision.start()
    branch.append(taken.feed)
    _go_on(branch, decision, taken.option)


def take_in_decision(
    branch: BranchState, decision: Decision, token: int, log_probability: float, forward_pass: int
) -> None:
    """A sampled token for the choice or the list that the branch has reached."""
    taken = decision.take(token)
    is_fed = bool(taken.feed)
    text = branch.request.tokens.encoder.decode([token]) if is_fed else ""
    index = len(branch.sequence.tokens) if is_fed else None
    branch.record.drawn.append(DrawnToken(token, log_probability, forward_pass, index, text))
    branch.append(taken.feed)
    _go_on(branch, decision, taken.option)


def _go_on(branch: BranchState, decision: Decision, option: int | None) -> None:
    if option is None:
        wait_for_logits(branch)
        return
    branch.pending.decision = None
    branch.stage = Stage.WALKING
    _take(branch, decision, option)


def _take(branch: BranchState, decision: Decision, option: int) -> None:
    taken = decision.draw.options[option]
    if isinstance(taken, Arm):
        report_arm(branch, decision.field, taken)
        branch.page.append(WrittenText(taken.lead))
        branch.move(option)
    else:
        take_option(branch, taken, option)
    branch.record.outcomes.append(option)


def take_option(branch: BranchState, option: Opening | Closing, number: int = 0) -> None:
    """A list goes on with its next item, or ends. What is written for it is fed already."""
    branch.move(number)
    match option:
        case Opening():
            _write_opening(branch, option)
        case Closing(repeat=repeat, items=items, text=text):
            report_empty_list(branch, repeat, items)
            if text:
                branch.page.append(WrittenText(text))


def open_list(branch: BranchState, repeat: Repeat) -> None:
    """Enter a list, before its first item. A list over known elements has as many items."""
    reach(branch)
    begin_value(branch, repeat.begins)
    elements = None if repeat.over is None else outcome(branch, lambda: elements_of(branch, repeat))
    opened = OpenList(repeat, elements)
    branch.page.append(WrittenLoop(repeat.field, opened.items, repeat=repeat, place=branch.cursor.items))
    branch.lists.append(opened)
    branch.move(0 if elements is None else len(elements))


def _write_opening(branch: BranchState, opening: Opening) -> None:
    text = ""
    for part in opening.parts:
        if isinstance(part, Text) and part.begins is not None:
            branch.page.append(WrittenText(text))
            begin_value(branch, part.begins)
            text = ""
        text += part.text if isinstance(part, Text) else str(opening.item + 1)
    branch.page.append(WrittenText(text))
