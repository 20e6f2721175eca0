"""From a timeline to what its drawing has to explain: only what occurs in it."""

from __future__ import annotations

from enum import Enum

from pastalang.plan.draw.timeline import Chosen, Forked, Joined, Looped, Timeline, Words


class Sign(Enum):
    BAR = "a value being decoded: as long as its token limit"
    CRITICAL = "on the longest path: it decides the number of passes"
    WORDS = "text that is given, never decoded"
    FORK = "a branch begins: it sees what is left of here"
    JOIN = "a join: waits for these and sees them"
    WAIT = "waiting"
    CHOICE = "the model chooses how to go on"
    LOOP = "a loop ×(least..most items)"
    GROUP = "lock-step: token k also sees tokens 1..k above it"


def signs_of(timeline: Timeline) -> tuple[Sign, ...]:
    events = [event for lane in timeline.lanes for event in lane.events]
    holds = {
        Sign.BAR: any(not bar.critical for bar in timeline.bars),
        Sign.CRITICAL: any(bar.critical for bar in timeline.bars),
        Sign.WORDS: any(isinstance(event, Words) or (isinstance(event, Forked) and event.lead) for event in events),
        Sign.FORK: any(isinstance(event, Forked) for event in events),
        Sign.JOIN: any(isinstance(event, Joined) for event in events),
        Sign.WAIT: any(isinstance(event, Joined) and event.start < event.at for event in events),
        Sign.CHOICE: any(isinstance(event, Chosen) for event in events),
        Sign.LOOP: any(isinstance(event, Looped) for event in events) or any(lane.loops for lane in timeline.lanes),
        Sign.GROUP: any(lane.branch.lockstep for lane in timeline.lanes),
    }
    return tuple(sign for sign, occurs in holds.items() if occurs)
