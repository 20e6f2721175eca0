"""When everything in a plan happens at the latest: lanes of events, in forward passes.

Time is counted in passes, as if every value were as long as its limit: a hole of 12 tokens takes 12, forced
text takes none (it rides along), a choice takes one for each arm but one, a join waits for the slowest. Loops are
shown by their first item; `period` says how much later the next one begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pastalang.plan.branches import Branch, BranchId, Hole, PlanData
from pastalang.values.paths import MAIN


@dataclass(frozen=True, slots=True)
class Copies:
    """A loop around something: its second instance begins `period` after the first, its last `last` after it.

    Where data says how many there are, `per` names what there is one of, and the figures are those of one.
    """

    minimum: int
    maximum: int
    period: int
    last: int
    per: str = ""

    def __str__(self) -> str:
        return f"×(one per {self.per})" if self.per else f"×({self.minimum}..{self.maximum})"


@dataclass(frozen=True, slots=True)
class Taken:
    """An arm of a choice around something: events in different arms of one choice never occur together."""

    choice: int
    arm: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """A turn that is given, not decoded."""

    role: str
    words: str
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class Words:
    """Forced text that is part of the answer, or of the tags in it."""

    text: str
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A hole, as long as its limit; `wave` counts the holes that come before it, one after another, and itself.

    `critical`: it is on the longest path. `copies` and `arms`: all loops and choices around it.
    """

    hole: Hole
    start: int
    end: int
    row: int
    wave: int
    critical: bool = False
    copies: tuple[Copies, ...] = ()
    arms: tuple[Taken, ...] = ()


@dataclass(frozen=True, slots=True)
class Forked:
    """`lead` is the forced text right before the fork: the last that the new branch sees of this one."""

    branch: BranchId
    lead: str
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class Joined:
    """This lane waits from `start` until `at`, when the last of `branches` has ended."""

    branches: tuple[BranchId, ...]
    start: int
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """One of several ways to go on; arms after the first go on in rows of their own."""

    labels: tuple[str, ...]
    start: int
    end: int
    row: int
    critical: bool = False
    copies: tuple[Copies, ...] = ()
    arms: tuple[Taken, ...] = ()


@dataclass(frozen=True, slots=True)
class Looped:
    """The first item ends at `first`, the last at `end`."""

    field: str
    minimum: int
    maximum: int
    start: int
    first: int
    end: int
    row: int
    per: str = ""

    def __str__(self) -> str:
        return f"×(one per {self.per})" if self.per else f"×({self.minimum}..{self.maximum})"


Event: TypeAlias = Prompt | Words | Bar | Forked | Joined | Chosen | Looped


@dataclass(frozen=True, slots=True)
class Lane:
    """One branch; `end` is that of its first instance. Lanes are below the one they are forked from."""

    branch: Branch
    depth: int
    start: int
    end: int
    rows: int
    events: tuple[Event, ...]
    copies: tuple[Copies, ...]  # outermost first

    @property
    def loops(self) -> tuple[Copies, ...]:
        """The loops around it whose length the model chooses."""
        return tuple(copies for copies in self.copies if not copies.per)

    @property
    def title(self) -> str:
        return self.branch.name or MAIN

    @property
    def last_end(self) -> int:
        """When its last instance has ended."""
        return self.end + sum(each.last for each in self.copies)

    @property
    def bars(self) -> tuple[Bar, ...]:
        return tuple(event for event in self.events if isinstance(event, Bar))


@dataclass(frozen=True, slots=True)
class Timeline:
    """`critical` names the holes of the longest chain, in order."""

    plan: PlanData
    lanes: tuple[Lane, ...]  # a parent is directly above its children, in the order of the forks
    passes: int
    critical: tuple[str, ...]

    @property
    def bars(self) -> tuple[Bar, ...]:
        return tuple(bar for lane in self.lanes for bar in lane.bars)
