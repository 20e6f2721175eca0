"""Runs that repeat the one before: each branch writes what it wrote before, up to the place where it is to be new.

before   … "brand": "Foo"
again    … "brand": "Foo" // not accepted: … "brand":     a lead: from here on the branch is new, and draws

repeats   it writes what `before` wrote, without a draw. Its tokens are fed only if something new sees them
new       it had a lead, or began in a new branch, or joined a new one where the run settles
stale     it repeats, but has joined a branch that is new or stale: what it wrote is out of date
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pastalang.plan.branches import Choose, Hole, Repeat
from pastalang.runtime.events import FieldAgain
from pastalang.runtime.scheduler.state import Again, BranchState, Filled
from pastalang.runtime.scheduler.transcript import Field

T = TypeVar("T")


def reach(branch: BranchState, field: tuple[str, tuple[int, ...]] | None = None) -> None:
    """Here begins a hole, a choice or a list: the branch is new from here on if there is a lead to it."""
    again = branch.request.again
    if again is None or branch.repeats.before is None:
        return
    lead = next((one for one in again.leads.get(branch.instance, ()) if one.field in (None, field)), None)
    if lead is None:
        return
    branch.repeats.lead = lead
    branch.request.events.report(FieldAgain(*lead.key, lead.reason))
    _become_new(branch, again)
    sequence, segment = branch.sequence, branch.cursor.segment
    before = sequence.position
    if lead.position is not None:
        sequence.position = lead.position
    text = lead.text  # without the white space that the segment writes anew, and with the quote before a bare text
    if isinstance(segment, Hole | Choose | Repeat):
        text = text.removesuffix(segment.space)
    if isinstance(segment, Hole):
        text += segment.opening_quote
    branch.append(branch.request.tokens.encoder.text(text))
    sequence.start += sequence.position - before  # its limit counts from the end of the lead


def note_joined(branch: BranchState, joined: tuple[BranchState, ...]) -> None:
    """Has a branch that repeats joined something that is not what it saw before?"""
    again, repeats = branch.request.again, branch.repeats
    if again is None or repeats.before is None:
        return
    if any(one.repeats.is_stale or one.repeats.since > repeats.since for one in joined):
        if branch.document in again.settled:
            _become_new(branch, again)
        else:
            repeats.is_stale = True


def _become_new(branch: BranchState, again: Again) -> None:
    repeats = branch.repeats
    repeats.before, repeats.since, repeats.kept = None, again.number, len(branch.record.outcomes)


def outcome(branch: BranchState, draw: Callable[[], T]) -> T:
    """What `draw` gives, or what it gave before."""
    outcomes, before = branch.record.outcomes, branch.repeats.before
    found: T = draw() if before is None else before.record.outcomes[len(outcomes)]
    outcomes.append(found)
    return found


def repeated(branch: BranchState) -> Filled | None:
    """The hole that the branch repeats here; None if it is new."""
    before = branch.repeats.before
    return None if before is None else before.record.outcomes[len(branch.record.outcomes)]


def note_filled(branch: BranchState, field: Field, start: int) -> None:
    branch.record.outcomes.append(Filled(field, start, len(branch.sequence.tokens)))


def is_known(branch: BranchState) -> bool:
    """Whether the caller knows what the branch repeats here."""
    again, before = branch.request.again, branch.repeats.before
    if again is None or before is None:
        return False
    return len(branch.record.outcomes) < again.known.get(branch.instance, len(before.record.outcomes) + 1)
