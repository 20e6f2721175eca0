"""Checks forks: how many items a fork may have, the tokens of an item, and whether an item differs from the end."""

from __future__ import annotations

from typing import assert_never

from pastalang.check.arguments import whole
from pastalang.check.report import Report
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.limits import MAX_ITEMS
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.values.describe import counted


def fork_count(node: nodes.ForkNode, report: Report) -> tuple[int, int]:
    """The minimum and maximum number of items. A wrong count is reported and replaced by a valid one."""
    if isinstance(node.count, nodes.NumberValue):
        exactly = _count(node.count, report)
        low, high = exactly, exactly
    else:
        low = _count(node.count.low, report) if node.count.low is not None else 0
        if node.count.high is None:
            report.add(
                "unbounded-fork",
                f"the fork `{node.name.text}` has no maximum number of items",
                node.count.span,
                help=f"give the range an end: `{low}..{low + 5}`",
            )
            return low, max(low, 1)
        high = _count(node.count.high, report)
    if high == 0:
        report.add(
            "unreachable-fork",
            f"the fork `{node.name.text}` never has an item, so it is never written",
            node.count.span,
            help="remove it, or allow at least one item",
        )
    elif low > high:
        report.add(
            "contradictory-limits",
            f"a fork of at least {low} and at most {counted(high, 'item')} cannot exist",
            node.count.span,
            help="swap the two limits",
        )
        return high, low
    return low, high


def _count(number: nodes.NumberValue, report: Report) -> int:
    value = whole(number)
    if value is not None and 0 <= value <= MAX_ITEMS:
        return value
    code = "too-large" if value is not None and value > MAX_ITEMS else "wrong-argument"
    report.add(
        code,
        f"the number of items of a fork must be a whole number from 0 to {MAX_ITEMS:,}",
        number.span,
    )
    return 1


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────


def tokens_needed(pieces: tuple[p.Piece, ...]) -> int:
    """The most tokens that the limits in the program allow for the holes of a branch."""
    return sum(map(_tokens_of, pieces))


def _tokens_of(piece: p.Piece) -> int:
    match piece:
        case p.Hole(type=type):
            return _most_tokens(type)
        case p.Async(reserve=reserve) | p.Each(reserve=reserve):
            return reserve or 0
        case p.Fork(maximum=maximum, body=body):
            return maximum * tokens_needed(body)
        case p.Text() | p.InputValue() | p.ItemNumber() | p.Promise() | p.Sync() | p.For() | p.If():
            return 0
        case _:
            assert_never(piece)


def _most_tokens(type: t.Type) -> int:
    match type:
        case t.Union(arms=arms):
            return max((_most_tokens(arm) for arm in arms), default=0)
        case t.Object() | t.Boolean() | t.Null() | t.Literal() | t.Temporal() | t.Uuid() | t.Named():
            return 0
        case _:
            return type.max_tokens or 0


# ── borders ──────────────────────────────────────────────────────────────────────────────────────────────


def check_borders(pieces: tuple[nodes.Piece, ...], report: Report) -> None:
    """Check that the items of a fork begin with text if the model chooses their number, and that the text after
    the fork begins differently."""
    for index, piece in enumerate(pieces):
        match piece:
            case nodes.ForkNode(body=body):
                if not isinstance(piece.count, nodes.NumberValue):
                    _check_fork(piece, pieces[index + 1 :], report)
                check_borders(body, report)
            case nodes.AsyncNode(body=body) | nodes.EachNode(body=body):
                check_borders(body or (), report)
            case _:
                pass


def _check_fork(node: nodes.ForkNode, rest: tuple[nodes.Piece, ...], report: Report) -> None:
    assert isinstance(node.count, nodes.RangeValue)
    low, high = node.count.low, node.count.high
    if low is not None and high is not None and whole(low) == whole(high):
        return
    if not node.body or not (isinstance(node.body[0], nodes.TextPiece) or _is_number(node.body[0])):
        report.add(
            "ambiguous-fork",
            f"the items of the fork `{node.name.text}` do not begin with text",
            node.span if not node.body else node.body[0].span,
            help="begin each item with a mark that announces it, such as `- ` or `{n}. `",
        )
        return
    lead, following = _known_prefix(node.body), _known_prefix(rest)
    if following and (_could_begin(lead, following) or _could_begin(following, lead)):
        report.add(
            "ambiguous-fork",
            f"the text after the fork `{node.name.text}` begins like another item",
            rest[0].span,
            message="this could be the next item",
            related=[Label(node.body[0].span, "an item begins like this")],
            help="make their first characters different",
        )


def _is_number(piece: nodes.Piece) -> bool:
    return isinstance(piece, nodes.Reference) and piece.path.text == "n"


NUMBER = "\0"  # placeholder for the number of an item: any digits


def _known_prefix(pieces: tuple[nodes.Piece, ...]) -> str:
    """The text at the beginning that is known in advance."""
    lead = ""
    for piece in pieces:
        if isinstance(piece, nodes.TextPiece):
            lead += piece.text
        elif _is_number(piece):
            lead += NUMBER
        elif not isinstance(piece, nodes.SyncNode | nodes.PromiseNode):
            break
    return lead


def _could_begin(short: str, long: str) -> bool:
    """Whether `long` may begin with `short`, where the number of an item may be any digits."""
    at = 0
    for character in short:
        if at >= len(long):
            return False
        if character == NUMBER:
            if long[at] != NUMBER and not long[at].isdigit():
                return False
            at += 1
            while at < len(long) and long[at].isdigit():
                at += 1
        elif long[at] != character:
            return False
        else:
            at += 1
    return True
