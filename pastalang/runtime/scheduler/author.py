"""What an answer and its names are read from, whoever moves the branches of a plan: the scheduler, or a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pastalang.plan.machine import Cursor
from pastalang.plan.plan import Plan, Repeat
from pastalang.program.types import Sampling
from pastalang.runtime.quotations import QuotingHole

if TYPE_CHECKING:
    from pastalang.runtime.scheduler.transcript import Written


class Author(Protocol):
    """One instance of a branch, with what it has written so far."""

    @property
    def request(self) -> AuthorsRun: ...
    @property
    def name(self) -> str: ...
    @property
    def items(self) -> tuple[int, ...]: ...
    @property
    def number(self) -> int: ...
    @property
    def cursor(self) -> Cursor: ...
    @property
    def has_ended(self) -> bool: ...
    @property
    def names(self) -> Mapping[str, Any]:
        """The elements of the fan-outs around it."""

    @property
    def lists(self) -> Sequence[AuthorsList]:
        """Around its place, outermost first."""

    @property
    def written(self) -> Sequence[Written]: ...
    @property
    def view(self) -> Sequence[SeenAuthor]:
        """The branches that it sees."""

    @property
    def replaced_by(self) -> Author | None:
        """The one that stands for it in the answer."""


class SeenAuthor(Protocol):
    @property
    def branch(self) -> Author: ...


class AuthorsList(Protocol):
    """A list that a branch is inside of."""

    @property
    def repeat(self) -> Repeat: ...
    @property
    def elements(self) -> tuple[Any, ...] | None: ...
    @property
    def items(self) -> Sequence[Sequence[Written]]: ...


class Quoting(Protocol):
    @property
    def quoting(self) -> Mapping[str, QuotingHole]: ...


class AuthorsRun(Protocol):
    """The run that branches belong to."""

    @property
    def plan(self) -> Plan: ...
    @property
    def values(self) -> Mapping[str, Any]: ...
    @property
    def texts(self) -> Mapping[str, str]:
        """The inputs that values may quote."""

    @property
    def base(self) -> Sampling: ...
    @property
    def tokens(self) -> Quoting: ...
    @property
    def decoded(self) -> Mapping[tuple[str, tuple[int, ...]], int]:
        """How often each field was written, by its path and items."""

    @property
    def root(self) -> Author: ...
