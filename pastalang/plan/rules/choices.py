"""What the model chooses between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pastalang.plan.plan import Choose, Hole, ItemNumber, Plan, Repeat, Text
from pastalang.plan.structure import walk_plan


def the_leads_of_a_choice_tell_its_arms_apart(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Choose) and not tells_apart([arm.lead for arm in segment.arms]):
            yield f"the arms of {segment.field!r} begin alike"


def an_item_can_be_told_from_the_end_of_its_list(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Repeat) and segment.over is None:
            yield from _repeat(segment)


def a_hole_has_room(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Hole) and segment.max_tokens < 1:
            yield f"{segment.field!r} may take no token at all"


def tells_apart(texts: list[str]) -> bool:
    """Whether reading on decides between these texts: none is empty, and none begins another."""
    ordered = sorted(texts)
    return all(ordered) and not any(second.startswith(first) for first, second in pairwise(ordered))


def _repeat(repeat: Repeat) -> Iterator[str]:
    if not 0 <= repeat.minimum <= repeat.maximum:
        yield f"{repeat.field!r} has {repeat.minimum} to {repeat.maximum} items"
    if repeat.minimum == repeat.maximum:
        return
    if repeat.stop is None:
        if not repeat.first or not repeat.between:
            yield f"an item of {repeat.field!r} begins with nothing"
        return
    if repeat.maximum > 1 and not tells_apart([_start(repeat.between), repeat.stop]):
        yield f"another item of {repeat.field!r} begins like its end"
    if repeat.minimum == 0 and not tells_apart([_start(repeat.first), repeat.empty or ""]):
        yield f"the first item of {repeat.field!r} begins like the empty list"


def _start(lead: tuple[Text | ItemNumber, ...]) -> str:
    """How the second item begins; the numbers of others have been looked at by the policy."""
    return "".join("2" if isinstance(segment, ItemNumber) else segment.text for segment in lead)
