"""The segments of messages: each becomes a turn of a chat. The last one is decoded, and its turn stays open.

An `each` input makes every element of its list a document of its own. The documents share everything before the
first mention of the input, but never the turn that is decoded. From there on each has a branch, and all of these
start at the same position. Stacking is the same in every mode, because it gives several answers.
"""

from __future__ import annotations

from typing import assert_never

from pastalang import limits
from pastalang.plan.branches import THREAD, Each, Form, Hole, Mode, Segments, Text, TurnEnd, TurnStart
from pastalang.plan.builder import PlanBuilder
from pastalang.plan.policies.json_value import JsonContext, write_value
from pastalang.plan.policies.text import TextContext, write_pieces
from pastalang.plan.policies.threads import open_threads
from pastalang.program.pieces import Async, For, Fork, If, InputValue, Piece
from pastalang.program.pieces import Each as EachPiece
from pastalang.program.program import AutoBody, Input, JsonBody, Message, TextBody
from pastalang.program.types import String
from pastalang.source import Span


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
    """A turn from its piece number `pieces` on: what each document of a stack has of its own."""
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


def write_auto(builder: PlanBuilder, body: AutoBody, span: Span) -> Hole:
    sampling = body.sampling.over(builder.sampling)
    type = String(body.max_tokens, auto=body.policy)
    hole = Hole(builder.name_field("answer"), type, Form.TEXT, body.max_tokens, sampling, "", span)
    return open_threads(builder, hole, THREAD)


def write_stacked(builder: PlanBuilder, messages: tuple[Message, ...], stacked: Input) -> Segments:
    index, pieces = _parting(messages, stacked.name)
    shared = write_turns(builder, messages, last=index)
    branch = builder.start(f"{stacked.name}[]")
    if pieces:
        shared = (*shared, *write_turn_start(builder, messages[index], index, pieces=pieces))
        rest = write_turn_rest(builder, messages, index, pieces=pieces)
        builder.finish(branch, (*rest, *write_turns(builder, messages, first=index + 1)))
    else:
        builder.finish(branch, write_turns(builder, messages, first=index))
    return (*shared, Each(stacked.name, stacked.name, False, branch, True, limits.MAX_BRANCHES, stacked.span))


def _parting(messages: tuple[Message, ...], name: str) -> tuple[int, int]:
    """The first message that mentions the input, and how many of its pieces do not; the answer at the latest."""
    for index, message in enumerate(messages[:-1]):
        pieces = message.body.pieces if isinstance(message.body, TextBody) else ()
        for count, piece in enumerate(pieces):
            if _mentions(piece, name):
                return index, count
    return len(messages) - 1, 0


def _mentions(piece: Piece, name: str) -> bool:
    match piece:
        case InputValue(path=path):
            return path[0] == name
        case Async(body=body) | Fork(body=body):
            return any(_mentions(inner, name) for inner in body)
        case EachPiece(over=over, over_hole=over_hole, body=body):
            return (over[0] == name and not over_hole) or any(_mentions(inner, name) for inner in body)
        case For(over=path, body=body):
            return path[0] == name or any(_mentions(inner, name) for inner in body)
        case If(path=path, body=body, otherwise=otherwise):
            return path[0] == name or any(_mentions(inner, name) for inner in (*body, *otherwise))
        case _:
            return False
