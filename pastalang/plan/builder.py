"""The plan under construction: policies ask for branches here and fill them with segments.

A policy decides three things only: which branches there are, what each writes, and how many positions its parent
leaves for it. Views, parents, follow texts and releases are worked out from that afterwards, in one place, for all
policies (`build.py`). A correct program that no plan can serve is a `PlanError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pastalang.failures import PastaError
from pastalang.limits import DEFAULT_LIMITS, DefaultLimits
from pastalang.plan.branches import BranchId, LockStep, Mode, Overrun, Segment
from pastalang.program.types import Sampling, Type
from pastalang.source import Span


@dataclass(frozen=True, slots=True)
class BranchBody:
    """A branch as its policy leaves it."""

    id: BranchId
    name: str
    segments: tuple[Segment, ...]
    reserve: int
    lockstep: LockStep | None


@dataclass(frozen=True, slots=True)
class Promised:
    """A branch that was announced and whose `async` is still to come."""

    branch: BranchId
    reserve: int


@dataclass(slots=True)
class PlanBuilder:
    """Grows while one plan is built, and is thrown away with it."""

    mode: Mode
    template: str
    types: Mapping[str, Type]
    spans: Mapping[str, Span]
    sampling: Sampling  # the template's
    defaults: DefaultLimits = DEFAULT_LIMITS[0]
    overrun: Overrun = Overrun.CONTINUE
    has_open_lists: bool = False  # whether a list, or another value that nests, got its limit from `defaults`
    reserves: dict[BranchId, int] = field(default_factory=dict)
    holes: dict[str, tuple[str, Type]] = field(default_factory=dict)  # of running text: their field and type
    branches_of: dict[str, tuple[BranchId, ...]] = field(default_factory=dict)  # what a `sync` of a name waits for
    promised: dict[str, Promised] = field(default_factory=dict)
    threads: set[BranchId] = field(default_factory=set)  # branches whose instances the model starts itself
    _names: list[str] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)
    _fields: set[str] = field(default_factory=set)
    _groups: list[int] = field(default_factory=list)  # the members of each lock-step group so far
    _finished: dict[BranchId, BranchBody] = field(default_factory=dict)

    @property
    def is_sequential(self) -> bool:
        return self.mode is Mode.SEQUENTIAL

    def start(self, name: str) -> BranchId:
        """A new branch; its name is made unique. Every branch that is started gets finished."""
        id = BranchId(len(self._names))
        self._names.append(_unique(name, self._taken))
        return id

    def finish(
        self, id: BranchId, segments: tuple[Segment, ...], *, reserve: int = 0, lockstep: LockStep | None = None
    ) -> None:
        assert id not in self._finished, f"branch {id} is finished twice"
        self.reserves[id] = reserve
        self._finished[id] = BranchBody(id, self._names[id], segments, reserve, lockstep)

    def name_field(self, path: str) -> str:
        """The path under which a hole, a choice or a list is known: unique in the plan."""
        return _unique(path, self._fields)

    def span_of(self, path: str, otherwise: Span) -> Span:
        """Where the program declares the field of this path."""
        return self.spans.get(f"{self.template}.{path}", otherwise)

    def start_group(self) -> int:
        self._groups.append(0)
        return len(self._groups) - 1

    def next_in_group(self, group: int) -> LockStep:
        index = self._groups[group]
        self._groups[group] += 1
        return LockStep(group, index)

    @contextmanager
    def watch(self) -> Iterator[list[BranchId]]:
        """The branches started inside the `with` block, once it is left."""
        started: list[BranchId] = []
        first = len(self._names)
        yield started
        started.extend(BranchId(id) for id in range(first, len(self._names)))

    @property
    def branches(self) -> tuple[BranchBody, ...]:
        assert len(self._finished) == len(self._names), "a branch was started and never finished"
        return tuple(self._finished[BranchId(id)] for id in range(len(self._names)))


def _unique(name: str, taken: set[str]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}#{number}"
    taken.add(candidate)
    return candidate


class PlanError(PastaError):
    """A program asks for something that no plan can give.

    `headline` stands alone; `help` is advice. The span points into the source of the program.
    """

    def __init__(self, headline: str, span: Span, *, help: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.span = span
        self.help = help
