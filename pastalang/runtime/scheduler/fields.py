"""Decodes fields, choices and lists: from the guide of a hole to its value, and what callers see of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pastalang.plan.branches import Arm, Choose, Form, Hole, Repeat, Text, Value
from pastalang.plan.machine import Closing, Draw, Opening
from pastalang.runtime.constraints.guide import NoEndingFits, State
from pastalang.runtime.constraints.tagged_text import Tag, TaggedTextState
from pastalang.runtime.events import FieldDone, FieldStarted, TextDelta
from pastalang.runtime.scheduler.again import is_known, note_filled, outcome, reach, repeated
from pastalang.runtime.scheduler.hole import Decision, Fill, OpenHole, field_errors
from pastalang.runtime.scheduler.known_text import option_tokens
from pastalang.runtime.scheduler.scope import elements_of, sources_of
from pastalang.runtime.scheduler.state import BranchState, Filled, OpenList, Stage
from pastalang.runtime.scheduler.threads import begin_threads, close, must_wait, repeat_text
from pastalang.runtime.scheduler.transcript import (
    DrawnToken,
    Field,
    FieldDecoding,
    WrittenField,
    WrittenLoop,
    WrittenText,
    WrittenValue,
)
from pastalang.values.fit import find_mismatches


def start_guide(branch: BranchState, hole: Hole) -> tuple[State, tuple[int, ...]]:
    """The state of the guide of a hole, and white space to feed before it. Raises `NoEndingFits`.

    White space is usually sampled with the value; if no value fits after it, it is fed on its own.
    """
    request = branch.request
    limit, sources, tokens = request.limit(branch, hole), sources_of(branch, branch.cursor.items), request.tokens
    guide = tokens.make_guide(hole, request.plan, sources)
    try:
        return guide.start(max_tokens=limit), ()
    except NoEndingFits:
        if not hole.space:
            raise
    lead: tuple[int, ...] = tokens.encoder.text(hole.space)
    bare = tokens.make_guide(replace(hole, space=""), request.plan, sources)
    return bare.start(max_tokens=request.limit(branch, hole, fed=len(lead))), lead


def fall_back_to_null(branch: BranchState, field: Field, hole: Hole, problem: NoEndingFits) -> None:
    """No value fits into the hole: it is null. Raises the problem if the type does not allow null."""
    request = branch.request
    if hole.form is not Form.JSON or find_mismatches(hole.type, None, dict(request.plan.types)):
        raise problem
    tokens = request.tokens.encoder.text(hole.space + "null")
    field.text, field.problem, field.is_done = "null", str(problem), True
    field.decoding.tokens, field.decoding.log_probabilities = list(tokens), [0.0] * len(tokens)
    branch.append(tokens)
    report_value(branch, field.path, field.items, field.text)
    note_filled(branch, field, branch.pending.start)
    branch.move()


def open_hole(branch: BranchState, hole: Hole) -> Iterable[BranchState]:
    """Begin the field of a hole, up to its first sample. Gives the threads of a text that is repeated."""
    request = branch.request
    items = branch.cursor.items
    if not hole.is_thread:  # a thread is decoded again with the text that began it
        reach(branch, (hole.field, items))
    if (filled := repeated(branch)) is not None:
        return _repeat(branch, filled)
    field = Field(
        hole.field, hole.type, hole.form, hole.span, branch.name, items,
        FieldDecoding(request.limit(branch, hole)),
        on_truncated=hole.sampling.on_truncated or request.base.on_truncated, is_thread=hole.is_thread,
    )  # fmt: skip
    request.decoded[field.path, field.items] += 1
    branch.page.append(WrittenField(field))
    branch.pending.start = len(branch.sequence.tokens)
    with field_errors(hole, request.plan, items):
        try:
            state, lead = start_guide(branch, hole)
        except NoEndingFits as problem:
            fall_back_to_null(branch, field, hole, problem)
            return ()
    branch.append(lead)
    branch.pending.hole = opened = OpenHole(hole, field, state, request.tokens.encoder)
    request.events.report(FieldStarted(field.path, field.items))
    _filled(branch, opened, opened.start())
    return ()


def _repeat(branch: BranchState, filled: Filled) -> Iterator[BranchState]:
    """Write a field as it was written before. Gives the threads of its text as they begin: they end at once."""
    start = len(branch.sequence.tokens)
    field = yield from repeat_text(branch, filled)
    branch.page.append(WrittenField(field))
    report_value(branch, field.path, field.items, field.text, truncated=field.truncated)
    note_filled(branch, field, start)
    branch.move()


def take_in_hole(
    branch: BranchState, hole: OpenHole, token: int, log_probability: float, forward_pass: int
) -> list[BranchState]:
    """Accept a sampled token. Gives the threads that it begins."""
    with field_errors(hole.hole, branch.request.plan, hole.field.items):
        fill = hole.take(token, log_probability)
    index = len(branch.sequence.tokens) if fill.is_kept else None
    branch.record.drawn.append(DrawnToken(token, log_probability, forward_pass, index, fill.text))
    if isinstance(hole.state, TaggedTextState):
        tags = hole.state.take_tags()
        return [] if must_wait(branch, fill, tags) else go_on_with_tags(branch, hole, fill, tags)
    _filled(branch, hole, fill)
    return []


def go_on_with_tags(
    branch: BranchState, hole: OpenHole, fill: Fill, tags: tuple[tuple[int, Tag], ...]
) -> list[BranchState]:
    """Feed a token whose tags are read. Gives the threads that it begins."""
    assert isinstance(hole.state, TaggedTextState)
    branch.append(fill.feed)
    begun = begin_threads(branch, hole, tags)
    if hole.is_finished:
        close(branch, hole, hole.state)
    _filled(branch, hole, replace(fill, feed=()))
    return begun


def _filled(branch: BranchState, hole: OpenHole, fill: Fill) -> None:
    branch.append(fill.feed)
    report_text(branch, hole.field, fill.text)
    if not hole.is_finished:
        wait_for_logits(branch)
        return
    hole.close()
    report_end(branch, hole.field)
    note_filled(branch, hole.field, branch.pending.start)
    branch.pending.hole = None
    branch.move()
    branch.stage = Stage.WALKING


def wait_for_logits(branch: BranchState) -> None:
    """Sample from the logits of its last token: in a later step, or in this one if the token has been fed."""
    source = branch.last
    assert source is not None, f"`{branch.name}` samples before anything was fed"
    assert len(branch.sequence.tokens) not in branch.sequence.joins, f"`{branch.name}` samples right after a join"
    branch.stage = Stage.DRAWING
    request = branch.request
    request.pending.drawing += 1
    source.branch.need(source.index + 1)
    before = source.branch.memory
    if source.index < before.fed:
        request.pending.ready.append((branch, source))
    else:
        before.waiting.setdefault(source.index, []).append(branch)


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
    place = branch.cursor.items
    branch.move(number)
    match option:
        case Opening():
            _write_opening(branch, option)
        case Closing(repeat=repeat, items=items, text=text):
            if items == 0 and repeat.empty is not None:  # a JSON list that ends before its first item
                report_value(branch, repeat.field, place, "[]")
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


def report_text(branch: BranchState, field: Field, text: str) -> None:
    if text:
        branch.request.events.report(TextDelta(field.path, field.items, text))
        field.reported += len(text)


def report_end(branch: BranchState, field: Field) -> None:
    """Text that could have become a tag is reported only now."""
    report_text(branch, field, field.text[field.reported :])
    branch.request.events.report(FieldDone(field.path, field.items, field.text, field.truncated))


def report_value(branch: BranchState, path: str, items: tuple[int, ...], text: str, *, truncated: bool = False) -> None:
    """A value that is not decoded here, such as the null of an optional object or an empty list, unless the caller
    knows that it stays."""
    if not is_known(branch):
        done = FieldDone(path, items, text, truncated)
        branch.request.events.report(FieldStarted(path, items), TextDelta(path, items, text), done)


def report_arm(branch: BranchState, field: str, arm: Arm) -> None:
    """An arm without a hole is a value of its own; the holes of other arms report themselves."""
    texts = [segment.text for segment in arm.segments if isinstance(segment, Text)]
    if len(texts) == len(arm.segments):
        report_value(branch, field, branch.cursor.items, arm.lead + "".join(texts))
