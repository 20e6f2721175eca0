"""An `each` input: every element of its list is a document of its own on what all of them share.

The documents share everything before the first mention of the input, but never the turn that is decoded. From
there on each has a branch, and all of these start at the same position. Stacking is no way of decoding one answer,
it is several answers: it is the same in every mode.
"""

from __future__ import annotations

from pastalang import limits
from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Each
from pastalang.plan.policies.text import Segments
from pastalang.plan.policies.turns import write_turn_rest, write_turn_start, write_turns
from pastalang.program.pieces import Async, Fork, InputValue, Piece
from pastalang.program.pieces import Each as EachPiece
from pastalang.program.program import Input, Message, TextBody


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
        case _:
            return False
