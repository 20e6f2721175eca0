"""Which fields of an object one branch writes, and which of these wait for which."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from pastalang.program.types import Field, Object


@dataclass(frozen=True, slots=True)
class FieldBlock:
    """Neighbouring fields that one branch writes: a single field, or as much of a sequential group as can go together.

    `needs` are the indexes of the stretches whose values it waits for.
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
    stretches = []
    for index, fields in enumerate(cut):
        needs = {index_of[key] for field in fields for key in field.after} - {index}
        group = fields[0].group
        if index and group is not None and cut[index - 1][0].group == group:
            needs.add(index - 1)
        stretches.append(FieldBlock(fields, tuple(sorted(needs))))
    return tuple(stretches)


def order_of_need(stretches: tuple[FieldBlock, ...]) -> tuple[int, ...]:
    """Every stretch behind those that it waits for; otherwise as written."""
    waiting = [len(stretch.needs) for stretch in stretches]
    wanted_by: list[list[int]] = [[] for _ in stretches]
    for index, stretch in enumerate(stretches):
        for need in stretch.needs:
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
    assert len(order) == len(stretches), "the checker lets no fields wait for one another in a circle"
    return tuple(order)


def _cut(object: Object) -> list[tuple[Field, ...]]:
    stretches: list[list[Field]] = []
    for field in object.fields:
        last = stretches[-1] if stretches else None
        if last is None or field.group is None or last[0].group != field.group or _waits_outside(field, object):
            stretches.append([field])
        else:
            last.append(field)
    return [tuple(fields) for fields in stretches]


def _waits_outside(field: Field, object: Object) -> bool:
    inside = {other.key for other in object.fields if other.group == field.group}
    return any(key not in inside for key in field.after)
