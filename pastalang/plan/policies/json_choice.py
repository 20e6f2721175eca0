"""A union whose arms begin differently: the model chooses an arm, and the arm goes on as its own skeleton."""

from __future__ import annotations

from dataclasses import replace

from pastalang.plan.builder import PlanBuilder
from pastalang.plan.plan import Arm, Choose, Repeat, Text
from pastalang.plan.policies.json_text import (
    JsonContext,
    Segments,
    WriteValue,
    arms_of,
    is_structured,
    merge_texts,
    opening,
)
from pastalang.program import types as t


def is_choice(union: t.Union) -> bool:
    return is_structured(union)


def write_choice(builder: PlanBuilder, union: t.Union, at: JsonContext, value: WriteValue) -> Choose:
    arms = arms_of(union)
    field = builder.name_field(at.field)
    labels = [_label(arm, number, union.discriminator) for number, arm in enumerate(arms)]
    with_fields = sum(is_structured(arm) for arm in arms)
    written = []
    for arm, label in zip(arms, labels, strict=True):
        place = at.arm(label if with_fields > 1 else None)
        lead = opening(arm, at.depth)
        written.append(Arm(label, lead, _after_lead(lead, value(builder, arm, place))))
    return Choose(field, tuple(written), at.sampling, builder.span_of(at.declared, at.span))


def _after_lead(lead: str, segments: Segments) -> Segments:
    """What is left to write once the lead stands there."""
    first, *rest = merge_texts(segments)
    if isinstance(first, Repeat):
        return (_list_after_lead(lead, first), *rest)
    assert isinstance(first, Text) and first.text.startswith(lead), "an arm begins as its type says"
    return merge_texts((Text(first.text.removeprefix(lead)), *rest))


def _list_after_lead(lead: str, repeat: Repeat) -> Repeat:
    """The bracket that opens the list has told it from the other arms."""
    opener, *others = repeat.first
    assert lead == "[" and isinstance(opener, Text)
    empty = None if repeat.empty is None else repeat.empty.removeprefix(lead)
    return replace(repeat, first=(Text(opener.text.removeprefix(lead)), *others), empty=empty)


def _label(arm: t.Type, number: int, discriminator: str | None) -> str:
    match arm:
        case t.Object(fields=fields, name=name):
            return _tag(fields, discriminator) or name or f"object {number + 1}"
        case t.Array():
            return f"list {number + 1}"
        case _:
            return opening(arm, 0)


def _tag(fields: tuple[t.Field, ...], discriminator: str | None) -> str | None:
    """The literal that tells this object from the others."""
    for field in fields:
        if field.key == discriminator and isinstance(field.type, t.Literal):
            return str(field.type.value)
    return None
