"""`{fork tip (3..7)} … {end}`: the body's own pieces form a chain of roots, its asyncs run beside the chain."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.plan.builder import PlanBuilder, PlanError
from pastalang.plan.plan import ItemNumber, Repeat, Segment, Text
from pastalang.plan.policies.text_place import Segments, TextContext, WritePieces, with_text_after_joins
from pastalang.program import pieces as p


def write_fork(
    builder: PlanBuilder, fork: p.Fork, where: TextContext, behind: p.Piece | None, write: WritePieces
) -> tuple[Segments, bool]:
    """The list, and whether it took the text `behind` it as the way in which it stops."""
    field = builder.name_field(where.name(fork.name))
    with builder.watch() as inner:
        written = write(builder, fork.body, where.items_of(fork.name))
    lead, body = _split(with_text_after_joins(written, is_item=True))
    builder.branches_of[fork.name] = tuple(inner)
    has_choice = fork.minimum < fork.maximum
    if has_choice and not lead:
        raise PlanError(
            "this fork's items begin with a hole, so the next item cannot be told from the end of the list",
            fork.span,
            help='begin the items with text, such as "- ", or ask for a fixed number of them',
        )
    stop = _stop(lead, fork, behind) if has_choice else ""
    empty = stop if fork.minimum == 0 else None
    repeat = Repeat(field, fork.minimum, fork.maximum, lead, lead, stop, empty, body, builder.sampling, fork.span)
    return (repeat,), bool(stop)


def _split(segments: Segments) -> tuple[tuple[Text | ItemNumber, ...], Segments]:
    """The forced text that opens an item, and the rest of its body."""
    lead: list[Text | ItemNumber] = []
    for segment in segments:
        if not _is_lead(segment):
            break
        assert isinstance(segment, Text | ItemNumber)
        lead.append(segment)
    return tuple(lead), segments[len(lead) :]


def _is_lead(segment: Segment) -> bool:
    return isinstance(segment, ItemNumber) or (isinstance(segment, Text) and segment.shown)


def _stop(lead: tuple[Text | ItemNumber, ...], fork: p.Fork, behind: p.Piece | None) -> str | None:
    """The text behind the fork, where it can be told from another item; else the model ends its turn to stop."""
    if not isinstance(behind, p.Text) or not behind.text:
        return None
    stop = behind.text
    clash = any(stop.startswith(item) or item.startswith(stop) for item in _leads(lead, fork.maximum))
    return None if clash else stop


def _leads(lead: tuple[Text | ItemNumber, ...], maximum: int) -> Iterator[str]:
    if any(isinstance(segment, ItemNumber) for segment in lead):
        for number in range(1, maximum + 1):
            yield "".join(segment.text if isinstance(segment, Text) else str(number) for segment in lead)
    else:
        yield "".join(segment.text for segment in lead if isinstance(segment, Text))
