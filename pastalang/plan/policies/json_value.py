"""A JSON value of any type comes in; the segments that write it from where it stands come out.

known beforehand (literals, null, {})      forced text
an object                                  a skeleton            json_skeleton.py
a list of objects                          a chain of items      json_list.py
a union whose beginnings differ            a choice              json_choice.py
anything else                              one hole
"""

from __future__ import annotations

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Form, Hole, Text
from pastalang.plan.policies.json_choice import is_choice, write_choice
from pastalang.plan.policies.json_list import is_list, write_list
from pastalang.plan.policies.json_skeleton import write_object
from pastalang.plan.policies.json_text import JsonContext, Segments, known_text
from pastalang.program import types as t
from pastalang.values.bounds import default_max_tokens


def write_value(builder: PlanBuilder, type: t.Type, at: JsonContext) -> Segments:
    known = known_text(type)
    if known is not None:
        return (Text(known),)
    match type:
        case t.Object():
            return write_object(builder, type, at, write_value)
        case t.Array() if is_list(type):
            return (write_list(builder, type, at, write_value),)
        case t.Union() if is_choice(type):
            return (write_choice(builder, type, at, write_value),)
        case _:
            return (json_hole(builder, type, at),)


def json_hole(builder: PlanBuilder, type: t.Type, at: JsonContext) -> Hole:
    limit = default_max_tokens(type, builder.types)
    field = builder.name_field(at.field)
    return Hole(field, type, Form.JSON, limit, at.sampling, "", builder.span_of(at.declared, at.span))
