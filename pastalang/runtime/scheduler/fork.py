"""A branch at a fork or a fan-out comes in; its children stand beside it afterwards, where the plan puts them."""

from __future__ import annotations

from typing import Any

from pastalang.plan.plan import (
    Each,
    Fork,
)
from pastalang.plan.positions import after_each, after_fork
from pastalang.plan.realised import Items
from pastalang.runtime.scheduler.branch import BranchState, Frame, Seen
from pastalang.runtime.scheduler.scope import elements_of, names_here
from pastalang.runtime.scheduler.transcript import (
    WrittenBranch,
    WrittenLoop,
)


def _view_here(branch: BranchState) -> tuple[Seen, ...]:
    return (*branch.view, Seen(branch, len(branch.tokens))) if branch.tokens else branch.view


def _start(branch: BranchState, id: Any, items: tuple[int, ...], position: int, **more: Any) -> BranchState:
    child: BranchState = branch.request.add(
        id, items, source=branch.last, view=_view_here(branch), position=position, highest=branch.highest,
        parent=branch, **more,
    )  # fmt: skip
    return child


def fork(branch: BranchState, frame: Frame, segment: Fork) -> None:
    spec = branch.request.plan.branch(segment.branch)
    at = after_fork(branch.position, spec.reserve)
    here = branch.items_here()
    draw_items = (*branch.draw_items, *here[len(branch.items) :])
    child = _start(branch, segment.branch, here, at.child, names=names_here(branch), draw_items=draw_items)
    branch.position = at.parent
    if segment.branch not in branch.request.tokens.placed:
        frame.written.append(WrittenBranch(child))


def fan_out(branch: BranchState, frame: Frame, each: Each) -> None:
    request = branch.request
    elements = elements_of(branch, each.over, over_hole=each.over_hole, maximum=each.maximum, span=each.span)
    branch.outcomes.append(Items(len(elements)))
    spec = request.plan.branch(each.branch)
    at = after_each(branch.position, spec.reserve, len(elements), stacked=each.stacked)
    here = branch.items_here()
    draw_items = (*branch.draw_items, *here[len(branch.items) :])
    names = names_here(branch)
    items: list[list[Any]] = []
    for number, (element, position) in enumerate(zip(elements, at.children, strict=True)):
        child = _start(
            branch, each.branch, (*here, number), position, names={**names, each.name: element},
            draw_items=draw_items if each.stacked else (*draw_items, number),
        )  # fmt: skip
        items.append([WrittenBranch(child)])
    branch.position = at.parent
    frame.written.append(WrittenLoop(each.name, items, stacked=each.stacked))
