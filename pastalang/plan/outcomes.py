"""What happened in a finished run, in counts: how long every hole became, which arms were chosen, how many items.

`(plan, run_outcomes)` determines how many forward passes a scheduler without drafts has to take (`passes.py`).

A run is recorded per instance of a branch, as the outcomes of its decisions in the order in which they were
met. Forced text needs no outcome; its tokens are counted beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.plan.plan import Instance


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens drawn one by one with forced tokens between them: `rides[k]` forced ones directly behind draw k.

    `rides[0]` stand before the first draw, so there is one ride more than draws. A draw is a pass whose logits
    chose a token of this hole. `dropped`: the last token drawn was not fed as it is, because it ended the hole
    from outside (a stop, the end of the turn) or crossed its border; what was kept of it is a forced token.
    """

    rides: tuple[int, ...]
    dropped: bool = False

    def __post_init__(self) -> None:
        assert self.rides and all(ride >= 0 for ride in self.rides), "a ride before the first draw, and one behind each"
        assert self.draws or not self.dropped, "nothing was drawn that could be dropped"

    @staticmethod
    def plain(draws: int) -> Drawn:
        return Drawn((0,) * (draws + 1))

    @property
    def draws(self) -> int:
        return len(self.rides) - 1

    @property
    def tokens(self) -> int:
        """What the branch is fed for it, if all of it is fed."""
        return sum(self.rides) + self.draws - self.dropped


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arm of a `Choose`; what was drawn and forced to write its lead."""

    arm: int
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a `Repeat` had another item; what was drawn and forced to write its opening, or the list's end.

    A repeat of n items has n + 1 decisions; those without a choice have no draws.
    """

    goes_on: bool
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Items:
    """How many elements the list of an `Each` had (or of a `Repeat` that goes over a list)."""

    count: int


Outcome: TypeAlias = Drawn | Chosen | Decision | Items


@dataclass(frozen=True, slots=True)
class InstanceOutcomes:
    """One instance: `outcomes` of holes, choices, repeats and fan-outs, `forced` tokens of turns, texts and data.

    Both in the order met. Where `forced` is left out, every forced segment counts one token: how many there are
    matters with chunks and in lock-step, and whether there are any matters behind a dropped draw.
    """

    outcomes: tuple[Outcome, ...]
    forced: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunOutcomes:
    """`chunk`: the most tokens that one pass feeds for one branch; None: as many as there are.

    `kept`: so many tokens at the beginning of the root are in the memory of prompts. No pass feeds them for this run.
    """

    runs: Mapping[Instance, InstanceOutcomes]
    chunk: int | None = None
    kept: int = 0
