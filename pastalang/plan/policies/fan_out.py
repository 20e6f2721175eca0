"""`{fork p in outline} … {end}`: one branch per item of a list that an input or an earlier hole gives."""

from __future__ import annotations

from pastalang import limits
from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Each, Repeat
from pastalang.plan.policies.json_value import most_items
from pastalang.plan.policies.text_place import Segments, TextContext, WritePieces
from pastalang.program import pieces as p
from pastalang.program.types import Array


def write_each(builder: PlanBuilder, each: p.Each, where: TextContext, write: WritePieces) -> Segments:
    over, maximum = _list_of(builder, each)
    if builder.is_sequential:
        return (_one_after_another(builder, each, where, write, over=over, maximum=maximum),)
    branch = builder.start(where.items_of(each.name).path)
    with builder.watch() as inner:
        segments = write(builder, each.body, where.items_of(each.name))
    builder.finish(branch, segments, reserve=each.reserve or 0)
    builder.branches_of[each.name] = (branch, *inner)
    return (Each(each.name, over, each.over_hole, branch, False, maximum, each.span),)


def _one_after_another(
    builder: PlanBuilder, each: p.Each, where: TextContext, write: WritePieces, *, over: str, maximum: int
) -> Repeat:
    """The baseline: the same items in the branch itself."""
    field = builder.name_field(where.name(each.name))
    body = write(builder, each.body, where.items_of(each.name))
    return Repeat(
        field, 0, maximum, (), (), "", "", body, builder.sampling, each.span,
        item=each.name, over=over, over_hole=each.over_hole,
    )  # fmt: skip


def _list_of(builder: PlanBuilder, each: p.Each) -> tuple[str, int]:
    name = ".".join(each.over)
    if not each.over_hole:
        return name, limits.MAX_BRANCHES
    field, type = builder.holes[each.over[0]]
    maximum = most_items(type) if isinstance(type, Array) and len(each.over) == 1 else limits.MAX_ITEMS
    return ".".join((field, *each.over[1:])), maximum
