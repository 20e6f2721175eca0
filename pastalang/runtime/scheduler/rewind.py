"""Rewinding: finished branches are decoded again from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pastalang.runtime.binding.spaced import given_to
from pastalang.runtime.scheduler.branch import BranchState, Stage
from pastalang.runtime.scheduler.checkpoint import Checkpoint, rewound
from pastalang.runtime.scheduler.event_log import report_again
from pastalang.runtime.scheduler.interpreter import advance
from pastalang.runtime.scheduler.lockstep import highest_seen
from pastalang.runtime.scheduler.request import RequestState


@dataclass(frozen=True, eq=False, slots=True)
class Again:
    """`old` and all of `hidden` are out of the answer as long as `new` stands for them. `told`: how much of `old` is
    common to both."""

    old: BranchState
    new: BranchState
    hidden: tuple[BranchState, ...]
    told: int


def take_up_again(places: Iterable[tuple[Checkpoint, str]]) -> list[Again]:
    """Each point comes with a text that is forced before its branch goes on; it is no part of the answer.

    All of them stand before the first one goes on: those that wait for others must find the new ones.
    """
    taken: list[Again] = []
    hidden: set[BranchState] = set()
    places = list(places)
    free = 1 + max((highest_seen(one) for point, _ in places[:1] for one in point.branch.request.live), default=0)
    for point, lead in places:
        if latest(point.branch) not in hidden:  # else it comes anew behind one of the others
            taken.append(_take_up(point, lead, free))
            free = max(free, taken[-1].new.position + point.branch.spec.reserve)
            hidden.update(taken[-1].hidden)
    for again in taken:
        if again.new not in hidden:
            advance(again.new)
    return taken


def _take_up(point: Checkpoint, lead: str, free: int) -> Again:
    """With its lead a branch is longer than its gap. Whoever joins it may see what stands behind the gap as well, so
    it then stands at `free`, behind everything else, and no two tokens that anybody sees share a position."""
    request: RequestState = point.branch.request
    old = latest(point.branch)
    hidden = tuple(one for one in behind(point) if one is not old)
    request.hide(*hidden, old)
    position = free if lead and request.tokens.joiners[old.spec.id] else point.position
    new = request.add(
        old.spec.id, old.items, source=point.source, view=point.view, position=position, highest=point.highest,
        names=old.names, parent=old.parent, draw_items=old.draw_items,
    )  # fmt: skip
    new.origin = old.origin
    new.own_before = point.own
    new.frames = rewound(point)
    new.written = new.frames[0].written
    new.joins_met = list(point.joins_met)
    new.told = old.told[: point.told]
    if old.beginning is not None and point not in old.beginning.joins_met:
        new.beginning = old.beginning
    old.replaced_by = new
    if lead:
        new.resumed_at = point  # the next attempt starts here too, not behind the lead of this one
        tokens = request.tokens.encoder.text(lead.removesuffix(_given_at(point)))
        new.append(tokens)
        new.start = point.start + new.position - point.position  # what it may write counts from behind the lead
    assert new.stage is Stage.WALKING
    return Again(old, new, hidden, point.told)


def _given_at(point: Checkpoint) -> str:
    """The white space that is written anew with what stands at the point."""
    level = point.levels[-1]
    is_between = level.index >= len(level.segments)
    return "" if is_between else given_to(level.segments[level.index])


def undo(again: Again) -> None:
    """The old branch is in the answer again, and all that was hidden with it, and the caller is told so."""
    request: RequestState = again.new.request
    request.hide(*(one for one in request.live if _descends_from(one, again.new)))
    request.show(again.old, *again.hidden)
    again.old.replaced_by = None
    report_again(again.old, again.old.told[again.told :])
    for one in again.hidden:
        report_again(one, one.told)


def latest(branch: BranchState) -> BranchState:
    """Who stands for a branch in the answer: mostly itself."""
    while branch.replaced_by is not None:
        branch = branch.replaced_by
    return branch


def behind(point: Checkpoint) -> list[BranchState]:
    """Who is in the answer and has seen what stands at the point, as the writer of it or forked behind it."""
    current = latest(point.branch)
    gone: list[BranchState] = []
    known: set[BranchState] = set()
    for one in sorted(point.branch.request.live, key=lambda one: one.origin):  # parents first
        parent = None if one.parent is None else latest(one.parent)
        is_behind = one.origin >= point.branches if parent is current else parent in known
        if one is current or is_behind:
            known.add(one)
            gone.append(one)
    return gone


def joiners_of(request: RequestState, gone: set[BranchState]) -> dict[BranchState, Checkpoint]:
    """Who else joined any of these, and whoever joined those in turn, each with its first such join."""
    found: dict[BranchState, Checkpoint] = {}
    gone = set(gone)
    grows = True
    while grows:
        grows = False
        for one in request.live:
            point = None if one in gone else _first_join(one, gone)
            if point is not None:
                found[one] = point
                gone.update(behind(point))
                grows = True
    return found


def _first_join(branch: BranchState, gone: set[BranchState]) -> Checkpoint | None:
    return next((point for point in branch.joins_met if not gone.isdisjoint(point.joined)), None)


def _descends_from(branch: BranchState, ancestor: BranchState) -> bool:
    one: BranchState | None = branch
    while one is not None:
        if one is ancestor:
            return True
        one = one.parent
    return False
