"""Messages come in, the segments of their turns come out. The last message is decoded, and its turn stays open."""

from __future__ import annotations

from typing import assert_never

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Form, Hole, Mode, Text, TurnEnd, TurnStart
from pastalang.plan.policies.auto import write_auto
from pastalang.plan.policies.json_text import JsonContext
from pastalang.plan.policies.json_value import write_value
from pastalang.plan.policies.text import Segments, TextContext, write_pieces
from pastalang.program.program import AutoBody, JsonBody, Message, TextBody
from pastalang.program.types import String


def write_turns(
    builder: PlanBuilder, messages: tuple[Message, ...], *, first: int = 0, last: int | None = None
) -> Segments:
    """The turns of the messages `first` to `last` (not included)."""
    chosen = range(first, len(messages) if last is None else last)
    turns = (_write_turn(builder, messages, index) for index in chosen)
    return tuple(segment for turn in turns for segment in turn)


def write_turn_start(builder: PlanBuilder, message: Message, index: int, *, pieces: int) -> Segments:
    """A turn up to its piece number `pieces`: what the documents of a stack share of it."""
    assert isinstance(message.body, TextBody)
    return (TurnStart(message.role, index), *write_pieces(builder, message.body.pieces[:pieces], TextContext()))


def write_turn_rest(builder: PlanBuilder, messages: tuple[Message, ...], index: int, *, pieces: int) -> Segments:
    """The same turn from there on."""
    message = messages[index]
    assert isinstance(message.body, TextBody) and index < len(messages) - 1
    return (*write_pieces(builder, message.body.pieces[pieces:], TextContext()), TurnEnd(message.role, index))


def _write_turn(builder: PlanBuilder, messages: tuple[Message, ...], index: int) -> Segments:
    message = messages[index]
    start = TurnStart(message.role, index)
    if index == len(messages) - 1:
        return (start, *_write_thought(builder, message), *_write_body(builder, message))
    return (start, *_write_body(builder, message), TurnEnd(message.role, index))


def _write_thought(builder: PlanBuilder, message: Message) -> Segments:
    """What the model writes for itself, as models with templates that think first have learnt it."""
    if message.thought is None:
        return ()
    field = builder.name_field("thinking")
    hole = Hole(field, String(message.thought), Form.THOUGHT, message.thought, builder.sampling, "", message.span)
    return (Text("<think>\n", shown=False), hole, Text("\n\n", shown=False))


def _write_body(builder: PlanBuilder, message: Message) -> Segments:
    match message.body:
        case TextBody(pieces=pieces):
            return write_pieces(builder, pieces, TextContext())
        case JsonBody(type=type, sampling=sampling):
            group = builder.start_group() if builder.mode is Mode.LOCKSTEP else None
            drawn = sampling.over(builder.sampling)
            return write_value(
                builder, type, JsonContext("", 0, drawn, message.span, builder.is_sequential, group=group)
            )
        case AutoBody():
            return (write_auto(builder, message.body, message.span),)
        case _:
            assert_never(message.body)
