"""Rewinding: finished branches are decoded again from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pastalang.plan.branches import Placement
from pastalang.runtime.binding.spaced import leading_space_of, opening_quote
from pastalang.runtime.scheduler.checkpoint import rewound
from pastalang.runtime.scheduler.interpreter import advance
from pastalang.runtime.scheduler.lockstep import highest_seen
from pastalang.runtime.scheduler.reports import report_again
from pastalang.runtime.scheduler.state import BranchState, Checkpoint, RequestState, Stage


@dataclass(frozen=True, eq=False, slots=True)
class Retake:
    """`new` replaces `old` and all of `hidden` in the answer. They share the first `reported` values of `old`."""

    old: BranchState
    new: BranchState
    hidden: tuple[BranchState, ...]
    reported: int


def rewind_to(places: Iterable[tuple[Checkpoint, str]]) -> list[Retake]:
    """Decode again from each checkpoint of one answer. The text is forced first and is not part of the answer.

    All new branches exist before the first one advances: a branch that waits for others must find the new ones.
    """
    retakes: list[Retake] = []
    hidden: set[BranchState] = set()
    places = list(places)
    live = _answer_with(places[0][0].branch) if places else ()
    free = 1 + max(map(highest_seen, live), default=0)
    for checkpoint, lead in places:
        if latest(checkpoint.branch) not in hidden:  # otherwise a retake of an earlier branch decodes it anew
            retakes.append(_retake(checkpoint, lead, free))
            free = max(free, retakes[-1].new.sequence.position + checkpoint.branch.spec.reserve)
            hidden.update(retakes[-1].hidden)
    for retake in retakes:
        if retake.new not in hidden:
            advance(retake.new)
    return retakes


def _retake(checkpoint: Checkpoint, lead: str, free: int) -> Retake:
    """A branch with its lead is longer than its gap. A branch that joins it may see what stands after the gap as well,
    so the new one stands at `free`, after all of its answer: no two visible tokens share a position. Without gaps,
    siblings do, and it stands where the old one stood."""
    request = checkpoint.branch.request
    old = latest(checkpoint.branch)
    hidden = tuple(one for one in branches_after(checkpoint) if one is not old)
    request.live.hide(*hidden, old)
    is_moved = bool(lead and request.tokens.joiners[old.spec.id]) and request.plan.placement is Placement.GAPS
    position = free if is_moved else checkpoint.position
    new = request.add(
        old.spec.id, old.items, source=checkpoint.source, view=checkpoint.view, position=position,
        highest=checkpoint.highest, names=old.names, parent=old.parent, draw_items=old.draw_items,
    )  # fmt: skip
    before, again = old.retries, new.retries
    again.origin = before.origin
    new.sequence.own_before = checkpoint.own
    new.cursor = checkpoint.cursor
    new.written, new.lists = rewound(checkpoint)
    again.join_checkpoints = list(checkpoint.join_checkpoints)
    again.holes = dict(before.holes)
    new.record.reported = old.record.reported[: checkpoint.reported]
    first = before.first_checkpoint
    if first is not None and checkpoint not in first.join_checkpoints:
        again.first_checkpoint = first
    before.replaced_by = new
    if lead:
        again.retry_from = checkpoint  # the next attempt starts here too, not after the lead of this one
        new.append(request.tokens.encoder.text(_lead_to(checkpoint, lead)))
        # Its limit counts from the end of the lead.
        new.sequence.start = checkpoint.start + new.sequence.position - checkpoint.position
    assert new.stage is Stage.WALKING
    return Retake(old, new, hidden, checkpoint.reported)


def _lead_to(checkpoint: Checkpoint, lead: str) -> str:
    """The lead without the white space that the next segment writes anew, and with the quote before a bare text."""
    segment = checkpoint.cursor.segment
    return lead if segment is None else lead.removesuffix(leading_space_of(segment)) + opening_quote(segment)


def undo(again: Retake) -> None:
    """The old branch is in the answer again, and all that was hidden with it, and the caller is reported so."""
    request: RequestState = again.new.request
    request.live.hide(*[one for one in request.live.beside(again.new) if _descends_from(one, again.new)])
    request.live.show(again.old, *again.hidden)
    again.old.retries.replaced_by = None
    report_again(again.old, again.old.record.reported[again.reported :])
    for one in again.hidden:
        report_again(one, one.record.reported)


def latest(branch: BranchState) -> BranchState:
    """The branch that stands for this one in the answer: mostly itself."""
    while branch.retries.replaced_by is not None:
        branch = branch.retries.replaced_by
    return branch


def branches_after(checkpoint: Checkpoint) -> list[BranchState]:
    """The branches of the answer that depend on the checkpoint: its own, and those forked after it."""
    current = latest(checkpoint.branch)
    gone: list[BranchState] = []
    known: set[BranchState] = set()
    for one in sorted(_answer_with(checkpoint.branch), key=lambda one: one.retries.origin):  # parents first
        parent = None if one.parent is None else latest(one.parent)
        is_after = one.retries.origin >= checkpoint.branches if parent is current else parent in known
        if one is current or is_after:
            known.add(one)
            gone.append(one)
    return gone


def joiners_of(gone: set[BranchState]) -> dict[BranchState, Checkpoint]:
    """The branches that joined any of these, directly or through others, each with its first such join.

    All of `gone` belong to one answer.
    """
    found: dict[BranchState, Checkpoint] = {}
    live = list(_answer_with(next(iter(gone)))) if gone else []
    gone = set(gone)
    grows = True
    while grows:
        grows = False
        for one in live:
            checkpoint = None if one in gone else _first_join(one, gone)
            if checkpoint is not None:
                found[one] = checkpoint
                gone.update(branches_after(checkpoint))
                grows = True
    return found


def _answer_with(branch: BranchState) -> Iterator[BranchState]:
    return branch.request.live.beside(branch)


def _first_join(branch: BranchState, gone: set[BranchState]) -> Checkpoint | None:
    checkpoints = branch.retries.join_checkpoints
    return next((checkpoint for checkpoint in checkpoints if not gone.isdisjoint(checkpoint.joined)), None)


def _descends_from(branch: BranchState, ancestor: BranchState) -> bool:
    one: BranchState | None = branch
    while one is not None:
        if one is ancestor:
            return True
        one = one.parent
    return False
