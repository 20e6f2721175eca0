"""How many branches a template may have when every list and fork is as long as it may be."""

from __future__ import annotations

from typing import assert_never

from pastalang.check.report import Report
from pastalang.limits import MAX_BRANCHES
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import JsonBody, Template, TextBody


def check_branches(template: Template, report: Report) -> None:
    for message in template.messages:
        match message.body:
            case TextBody(pieces=pieces):
                count = _in_pieces(pieces)
            case JsonBody(type=type):
                count = _in_type(type)
            case _:
                count = 0
        if count > MAX_BRANCHES:
            report.add(
                "too-large",
                f"`{template.name}` may grow to {count:,} branches; {MAX_BRANCHES:,} are the limit",
                message.span,
                help="lower the highest number of items of its lists and forks, where they stand inside one another",
            )


def _in_pieces(pieces: tuple[p.Piece, ...]) -> int:
    return sum(map(_in_piece, pieces))


def _in_piece(piece: p.Piece) -> int:
    match piece:
        case p.Async(body=body) | p.Each(body=body):
            return 1 + _in_pieces(body)
        case p.Fork(maximum=maximum, body=body):
            return maximum * _in_pieces(body)
        case p.Text() | p.InputValue() | p.ItemNumber() | p.Hole() | p.Promise() | p.Sync():
            return 0
        case _:
            assert_never(piece)


def _in_type(type: t.Type) -> int:
    """One branch for each value of a skeleton; a list of objects has its fields beside each item."""
    match type:
        case t.Object(fields=fields):
            return sum(_in_type(field.type) for field in fields)
        case t.Array(item=t.Object() as item, max_items=most):
            return 1 + (most or 1) * _in_type(item)
        case t.Union(arms=arms):
            return 1 + max((_in_type(arm) for arm in arms), default=0)
        case _:
            return 1
