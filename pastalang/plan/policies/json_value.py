"""The segments that write a JSON value, by its type.

known beforehand (literals, null, {})      forced text
an object                                  a skeleton of keys and punctuation; a branch for every value
a list of objects                          a chain of items; each first field in the chain, the others next to it
a union whose beginnings differ            a choice: the model chooses an arm, which goes on as its own skeleton
a text with threads                        a hole between quotes, and a branch for its threads
anything else                              one hole

The fields of an object:

concurrent (the default)   {"brand": ┬ …, "price": ┬ …}      a branch per value
after                      … ┬ [wait] "headline": …          the key is written where it is awaited
sequential group           {"a": ┬ … , "b": … , "c": …       one branch for the whole group
in order                   {"a": … , "b": … }                no branch at all
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, replace

from pastalang.limits import DefaultLimits
from pastalang.plan.branches import Arm, BranchId, Choose, Fork, Form, Hole, Join, Repeat, Segment, Segments, Text
from pastalang.plan.builder import PlanBuilder
from pastalang.plan.policies.threads import write_text
from pastalang.plan.token_bounds import max_tokens_of
from pastalang.program import types as t
from pastalang.program.types import Field, Object, Sampling
from pastalang.source import Span
from pastalang.values.lengths import default_max_tokens, has_open_structure
from pastalang.values.paths import WHOLE, is_plain_key
from pastalang.values.text import INDENT, choice_arms, is_structured, key_text, known_text, opening_of, shape_of


@dataclass(frozen=True, slots=True)
class JsonContext:
    path: str  # "" for the whole answer
    depth: int  # levels of indentation of the line on which the value begins
    sampling: Sampling
    span: Span  # where to point when nothing better is known
    in_order: bool = False  # everything left to right in one branch
    in_chain: bool = False  # an item of a list: its first field is decoded in the list's own branch
    in_list: bool = False  # anywhere inside an item of a list
    group: int | None = None  # the lock-step group that its values belong to
    declared: str = ""  # the path as the program declares it, without arms and quotes

    @property
    def field(self) -> str:
        """The path as people read it."""
        return self.path or WHOLE

    def line(self, *, deeper: int = 0) -> str:
        return "\n" + INDENT * (self.depth + deeper)

    def key(self, key: str, sampling: Sampling | None) -> JsonContext:
        """The value of a key, one level deeper."""
        step = key if is_plain_key(key) else json.dumps(key, ensure_ascii=False)
        path = f"{self.path}.{step}" if self.path else step
        drawn = self.sampling if sampling is None else sampling.over(self.sampling)
        declared = f"{self.declared}.{key}" if self.declared else key
        return replace(self, path=path, depth=self.depth + 1, sampling=drawn, in_chain=False, declared=declared)

    def item(self) -> JsonContext:
        path, declared = f"{self.path}[]", f"{self.declared}[]"
        return replace(
            self, path=path, declared=declared, depth=self.depth + 1, in_chain=True, in_list=True, group=None
        )

    def arm(self, label: str | None) -> JsonContext:
        """Inside one arm of a choice; where several arms have fields the label keeps their names apart."""
        if label is None:
            return replace(self, in_chain=False, group=None)
        spelled = json.dumps(label, ensure_ascii=False) if set(label) & set('()"#') else label
        return replace(self, path=f"{self.path}({spelled})", in_chain=False, group=None)

    def apart(self) -> JsonContext:
        """Inside a branch of its own: lock-step is between the values of one skeleton, not deeper."""
        return replace(self, group=None, in_chain=False)

    def ordered(self) -> JsonContext:
        return replace(self, in_order=True, group=None, in_chain=False)


def merge_texts(segments: Segments) -> Segments:
    """The same segments with neighbouring texts made one and empty ones left out. The text of a value begins anew."""
    result: list[Segment] = []
    for segment in segments:
        last = result[-1] if result else None
        if isinstance(segment, Text) and not segment.text:
            continue
        if isinstance(segment, Text) and isinstance(last, Text) and last.shown == segment.shown and not segment.begins:
            result[-1] = replace(last, text=last.text + segment.text)
        else:
            result.append(segment)
    return tuple(result)


def write_value(builder: PlanBuilder, type: t.Type, at: JsonContext) -> Segments:
    known = known_text(type)
    if known is not None:
        return (Text(known),)
    if isinstance(type, t.String) and type.auto is not None:
        return write_text(builder, type, at.field, Form.JSON, at.sampling, builder.span_of(at.declared, at.span))
    if isinstance(type, t.Object):
        return write_object(builder, type, at)
    if isinstance(type, t.Array) and is_structured(type):
        return (write_list(builder, type, at),)
    if isinstance(type, t.Union) and is_structured(type):
        return (write_choice(builder, type, at),)
    return (json_hole(builder, type, at),)


def json_hole(builder: PlanBuilder, type: t.Type, at: JsonContext) -> Hole:
    limit = default_max_tokens(type, builder.types, defaults=_defaults(builder, at))
    builder.has_open_lists |= has_open_structure(type)
    field = builder.name_field(at.field)
    return Hole(field, type, Form.JSON, limit, at.sampling, "", builder.span_of(at.declared, at.span))


def write_object(builder: PlanBuilder, object: Object, at: JsonContext) -> Segments:
    assert object.fields, "an empty object is known text"
    parts = _in_order(builder, object, at) if at.in_order else _concurrent(builder, object, at)
    comma = Text("," + at.line(deeper=1))
    pieces: list[Segment] = [Text("{" + at.line(deeper=1)), *parts[0]]
    for part in parts[1:]:
        pieces.append(comma)
        pieces.extend(part)
    pieces.append(Text(at.line() + "}"))
    return merge_texts(tuple(pieces))


def _in_order(builder: PlanBuilder, object: Object, at: JsonContext) -> list[Segments]:
    return [_field(builder, field, at) for field in object.fields]


def _concurrent(builder: PlanBuilder, object: Object, at: JsonContext) -> list[Segments]:
    blocks = field_blocks(object)
    root = _root_of_item(blocks) if at.in_chain else None
    parts: dict[int, Segments] = {}
    made: dict[int, tuple[BranchId, ...]] = {}
    for index in order_of_need(blocks):
        block = blocks[index]
        awaited = tuple(sorted({branch for need in block.needs for branch in made[need]}))
        with builder.watch() as started:
            if awaited:
                parts[index] = _awaiting(builder, block, awaited, at)
            elif index == root or _needs_no_branch(block):
                parts[index] = _in_place(builder, block.fields[0], at, is_root=index == root)
            else:
                parts[index] = _forked(builder, block, at)
        made[index] = tuple(started)
    return [parts[index] for index in range(len(blocks))]


def _root_of_item(blocks: tuple[FieldBlock, ...]) -> int | None:
    """What the chain of a list decodes itself: the first field with something to decode, if it need not wait."""
    for index, block in enumerate(blocks):
        if not all(_is_known(field) for field in block.fields):
            return None if block.needs or block.is_group else index
    return None


def _needs_no_branch(block: FieldBlock) -> bool:
    """A known value is text, and a plain nested object belongs to the same skeleton."""
    field = block.fields[0]
    is_single = len(block.fields) == 1
    return is_single and (_is_known(field) or (isinstance(field.type, Object) and not block.is_group))


def _is_known(field: Field) -> bool:
    return shape_of(field.type, 0).is_whole


def _in_place(builder: PlanBuilder, field: Field, at: JsonContext, *, is_root: bool) -> Segments:
    return _field(builder, field, at, in_chain=is_root and isinstance(field.type, Object))


def _forked(builder: PlanBuilder, block: FieldBlock, at: JsonContext) -> Segments:
    """The key of the first field stays in the skeleton."""
    first = block.fields[0]
    branch = builder.start(at.key(first.key, None).path)
    lead, *rest = _write_block(builder, block, at)
    assert isinstance(lead, Text)
    key = key_text(first.key)
    segments = merge_texts((Text(lead.text.removeprefix(key)), *rest))
    lockstep = builder.next_in_group(at.group) if at.group is not None and _is_plain_value(segments) else None
    builder.finish(branch, segments, reserve=max_tokens_of(segments, builder.reserves), lockstep=lockstep)
    return (Text(key), Fork(branch))


def _is_plain_value(segments: Segments) -> bool:
    """One value: in lock-step the keys and brackets of a structure would hold everything up, or be held up by it."""
    return len(segments) == 1 and isinstance(segments[0], Hole)


def _awaiting(builder: PlanBuilder, block: FieldBlock, awaited: tuple[BranchId, ...], at: JsonContext) -> Segments:
    """The branch waits first and writes its own key, so that something is fed that sees what was awaited."""
    branch = builder.start(at.key(block.fields[0].key, None).path)
    segments = (Join(awaited), *_write_block(builder, block, at))
    builder.finish(branch, segments, reserve=max_tokens_of(segments, builder.reserves))
    return (Fork(branch),)


def _write_block(builder: PlanBuilder, block: FieldBlock, at: JsonContext) -> Segments:
    """The fields of a block as one branch writes them, beginning with the first key."""
    place = at.ordered() if block.is_group else at.apart()
    comma = Text("," + at.line(deeper=1))
    segments = list(_field(builder, block.fields[0], place))
    for field in block.fields[1:]:
        segments.append(comma)
        segments.extend(_field(builder, field, place))
    return merge_texts(tuple(segments))


def _field(builder: PlanBuilder, field: Field, at: JsonContext, *, in_chain: bool = False) -> Segments:
    place = replace(at.key(field.key, field.sampling), in_chain=in_chain)
    return (Text(key_text(field.key)), *write_value(builder, field.type, place))


@dataclass(frozen=True, slots=True)
class FieldBlock:
    """Neighbouring fields that one branch writes: a single field, or as much of a sequential group as can go together.

    `needs` are the indexes of the blocks whose values it waits for.
    """

    fields: tuple[Field, ...]
    needs: tuple[int, ...]

    @property
    def is_group(self) -> bool:
        return self.fields[0].group is not None


def field_blocks(object: Object) -> tuple[FieldBlock, ...]:
    """In the order written. A group is cut before a member that waits for something outside the group.

    Without the cut, `sequential { a, b after x }` with `x after a` would wait for itself.
    """
    cut = _cut(object)
    index_of = {field.key: index for index, fields in enumerate(cut) for field in fields}
    blocks = []
    for index, fields in enumerate(cut):
        needs = {index_of[key] for field in fields for key in field.after} - {index}
        group = fields[0].group
        if index and group is not None and cut[index - 1][0].group == group:
            needs.add(index - 1)
        blocks.append(FieldBlock(fields, tuple(sorted(needs))))
    return tuple(blocks)


def order_of_need(blocks: tuple[FieldBlock, ...]) -> tuple[int, ...]:
    """Every block after those that it waits for; otherwise as written."""
    waiting = [len(block.needs) for block in blocks]
    wanted_by: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for need in block.needs:
            wanted_by[need].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for other in wanted_by[index]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(ready, other)
    assert len(order) == len(blocks), "the checker refuses fields that wait for one another"
    return tuple(order)


def _cut(object: Object) -> list[tuple[Field, ...]]:
    blocks: list[list[Field]] = []
    for field in object.fields:
        last = blocks[-1] if blocks else None
        if last is None or field.group is None or last[0].group != field.group or _waits_outside(field, object):
            blocks.append([field])
        else:
            last.append(field)
    return [tuple(fields) for fields in blocks]


def _waits_outside(field: Field, object: Object) -> bool:
    inside = {other.key for other in object.fields if other.group == field.group}
    return any(key not in inside for key in field.after)


def _defaults(builder: PlanBuilder, at: JsonContext) -> DefaultLimits:
    return builder.defaults.in_a_list if at.in_list else builder.defaults


def write_list(builder: PlanBuilder, array: t.Array, at: JsonContext) -> Repeat:
    builder.has_open_lists |= array.max_items is None
    field = builder.name_field(at.field)
    body = merge_texts(write_value(builder, array.item, at.item()))
    lead = ""
    if isinstance(body[0], Text):
        lead, body = body[0].text, body[1:]
    line = at.line(deeper=1) + lead
    return Repeat(
        field=field,
        minimum=array.min_items,
        maximum=most_items(array, _defaults(builder, at)),
        first=(Text("[" + line),),
        between=(Text("," + line),),
        stop=at.line() + "]",
        empty="[]" if array.min_items == 0 else None,
        body=body,
        sampling=at.sampling,
        span=builder.span_of(at.declared, at.span),
        has_default_maximum=array.max_items is None,
    )


def most_items(array: t.Array, defaults: DefaultLimits) -> int:
    return max(array.min_items, defaults.items) if array.max_items is None else array.max_items


def write_choice(builder: PlanBuilder, union: t.Union, at: JsonContext) -> Choose:
    arms = choice_arms(union)
    field = builder.name_field(at.field)
    labels = [_label(arm, number, union.discriminator) for number, arm in enumerate(arms)]
    with_fields = sum(is_structured(arm) for arm in arms)
    written = []
    for arm, label in zip(arms, labels, strict=True):
        place = at.arm(label if with_fields > 1 else None)
        lead = opening_of(arm, at.depth)
        written.append(Arm(label, lead, _after_lead(lead, write_value(builder, arm, place))))
    return Choose(field, tuple(written), at.sampling, builder.span_of(at.declared, at.span))


def _after_lead(lead: str, segments: Segments) -> Segments:
    """What is left to write after the lead."""
    first, *rest = merge_texts(segments)
    if isinstance(first, Repeat):
        return (_list_after_lead(lead, first), *rest)
    assert isinstance(first, Text) and first.text.startswith(lead), "an arm begins as its type says"
    return merge_texts((Text(first.text.removeprefix(lead)), *rest))


def _list_after_lead(lead: str, repeat: Repeat) -> Repeat:
    """The bracket that opens the list has distinguished it from the other arms."""
    opener, *others = repeat.first
    assert lead == "[" and isinstance(opener, Text)
    empty = None if repeat.empty is None else repeat.empty.removeprefix(lead)
    return replace(repeat, first=(Text(opener.text.removeprefix(lead)), *others), empty=empty)


def _label(arm: t.Type, number: int, discriminator: str | None) -> str:
    if isinstance(arm, t.Object):
        return _tag(arm.fields, discriminator) or arm.name or f"object {number + 1}"
    if isinstance(arm, t.Array):
        return f"list {number + 1}"
    is_text = isinstance(arm, t.String) and arm.auto is not None
    return f"text {number + 1}" if is_text else opening_of(arm, 0)


def _tag(fields: tuple[t.Field, ...], discriminator: str | None) -> str | None:
    """The literal that distinguishes this object from the others."""
    for field in fields:
        if field.key == discriminator and isinstance(field.type, t.Literal):
            return str(field.type.value)
    return None
