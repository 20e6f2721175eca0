"""Decodes a field, from the guide of its hole to its finished value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pastalang.plan.branches import Form, Hole
from pastalang.runtime.binding.spaced import leading_space_of, without_leading_space
from pastalang.runtime.constraints.guide import NoEndingFits, State
from pastalang.runtime.constraints.tagged_text import Tag, TaggedTextState
from pastalang.runtime.scheduler.again import note_filled, reach, repeated
from pastalang.runtime.scheduler.hole import Fill, OpenHole, field_errors
from pastalang.runtime.scheduler.reports import report_end, report_repeated, report_start, report_text, report_value
from pastalang.runtime.scheduler.scope import sources_of
from pastalang.runtime.scheduler.state import BranchState, Filled, Stage
from pastalang.runtime.scheduler.threads import begin_threads, close, must_wait, repeat_text
from pastalang.runtime.scheduler.transcript import DrawnToken, Field, FieldDecoding, WrittenField
from pastalang.values.fit import find_mismatches


def start_guide(branch: BranchState, hole: Hole) -> tuple[State, tuple[int, ...]]:
    """The state of the guide of a hole, and white space to feed before it. Raises `NoEndingFits`.

    White space is usually sampled with the value; if no value fits after it, it is fed on its own.
    """
    request = branch.request
    room = request.room(branch)
    limit = hole.max_tokens if room is None else min(hole.max_tokens, room)
    sources, tokens = sources_of(branch, branch.cursor.items), request.tokens
    guide = tokens.make_guide(hole, request.plan, sources)
    try:
        return guide.start(max_tokens=limit), ()
    except NoEndingFits:
        if not leading_space_of(hole):
            raise
    lead: tuple[int, ...] = tokens.encoder.text(leading_space_of(hole))
    limit = hole.max_tokens if room is None else min(hole.max_tokens, room - len(lead))
    bare = tokens.make_guide(without_leading_space(hole), request.plan, sources)
    return bare.start(max_tokens=limit), lead


def fall_back_to_null(branch: BranchState, field: Field, hole: Hole, problem: NoEndingFits) -> None:
    """No value fits into the hole: it is null. Raises the problem if the type does not allow null."""
    request = branch.request
    if hole.form is not Form.JSON or find_mismatches(hole.type, None, dict(request.plan.types)):
        raise problem
    tokens = request.tokens.encoder.text(leading_space_of(hole) + "null")
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
    room = request.room(branch)
    field = Field(
        hole.field, hole.type, hole.form, hole.span, branch.name, items,
        FieldDecoding(hole.max_tokens if room is None else min(hole.max_tokens, room)),
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
    report_start(branch, field)
    _filled(branch, opened, opened.start())
    return ()


def _repeat(branch: BranchState, filled: Filled) -> Iterator[BranchState]:
    """Write a field as it was written before. Gives the threads of its text as they begin: they end at once."""
    start = len(branch.sequence.tokens)
    field = yield from repeat_text(branch, filled)
    branch.page.append(WrittenField(field))
    report_repeated(branch, field)
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
