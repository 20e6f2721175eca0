"""A list of objects: items in a chain, each item's first field in the chain and the others beside it."""

from __future__ import annotations

from pastalang import limits
from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Repeat, Text
from pastalang.plan.policies.json_text import JsonContext, WriteValue, is_structured, merge_texts
from pastalang.program import types as t


def is_list(array: t.Array) -> bool:
    return is_structured(array)


def write_list(builder: PlanBuilder, array: t.Array, at: JsonContext, value: WriteValue) -> Repeat:
    field = builder.name_field(at.field)
    body = merge_texts(value(builder, array.item, at.item()))
    lead = ""
    if isinstance(body[0], Text):
        lead, body = body[0].text, body[1:]
    line = at.line(deeper=1) + lead
    return Repeat(
        field=field,
        minimum=array.min_items,
        maximum=most_items(array),
        first=(Text("[" + line),),
        between=(Text("," + line),),
        stop=at.line() + "]",
        empty="[]" if array.min_items == 0 else None,
        body=body,
        sampling=at.sampling,
        span=builder.span_of(at.declared, at.span),
    )


def most_items(array: t.Array) -> int:
    return max(array.min_items, limits.DEFAULT_ITEMS) if array.max_items is None else array.max_items
