"""The transcript of a branch: what it has written, in reading order, as a tree of texts, fields, branches and loops.

Answers and names are read from an `Author`, whoever moves the branches of a plan: the scheduler, or a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from pastalang.plan.branches import Form, Repeat, Value
from pastalang.plan.machine import Cursor
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.program.types import OnTruncated, Sampling, String, Type
from pastalang.program.visit import arms_of
from pastalang.runtime.quotations import QuotingHole
from pastalang.runtime.sampling.confidence import OptionWeights
from pastalang.source import Span
from pastalang.values.lengths import closed_texts

_TEXTS: Final = (t.String, t.Regex, t.Verbatim, t.Array, t.Tuple, t.Map, t.Object, t.Schema, t.Anything)


@dataclass(frozen=True, slots=True)
class DrawnToken:
    """A sampled token. `index` is its place among the tokens of its branch; None: it was not fed as it is."""

    token: int
    log_probability: float
    forward_pass: int
    index: int | None
    text: str


@dataclass(slots=True)
class Details:
    """What a type did to the model's probabilities: per sampled token, and per option of a closed choice."""

    masked_probability: list[float] = field(default_factory=list)
    weights: OptionWeights = field(default_factory=OptionWeights)


@dataclass(frozen=True, slots=True)
class Thread:
    """`at` is the length of the text before it, `room` the positions that the text leaves for it."""

    topic: str
    at: int
    room: int
    branch: Author

    @property
    def text(self) -> str:
        """What it has written so far."""
        return "".join(one.field.text for one in self.branch.written if isinstance(one, WrittenField))


@dataclass(slots=True)
class Threads:
    """The threads that a text has begun."""

    begun: list[Thread] = field(default_factory=list)

    @property
    def room(self) -> int:
        """The positions that its threads have reserved together."""
        return sum(thread.room for thread in self.begun)


@dataclass(slots=True)
class FieldDecoding:
    """How a field was decoded. `tokens` holds sampled and forced tokens."""

    limit: int  # the most tokens that it may have
    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    draws: int = 0
    dropped: bool = False  # its last drawn token was not fed as it is
    details: Details | None = None


@dataclass(eq=False, slots=True)
class Field:
    """A hole that is filled or being filled."""

    path: str
    type: Type
    form: Form
    span: Span
    branch: str
    items: tuple[int, ...]
    decoding: FieldDecoding
    text: str = ""
    truncated: bool = False
    on_truncated: OnTruncated | None = None
    is_done: bool = False
    problem: str | None = None  # why there is no value, or what a validator objects to
    threads: Threads | None = None  # threads that the model began inside it
    is_thread: bool = False
    reported: int = 0  # characters of its text that the caller knows

    @property
    def is_auto(self) -> bool:
        """Whether it is a text in which the model may open threads, or one of the threads."""
        return isinstance(self.type, String) and self.type.auto is not None

    @property
    def whole_text(self) -> str:
        """Its text with those of its threads where their tags stood."""
        parts, done = "", 0
        for thread in self.threads.begun if self.threads is not None else ():
            parts, done = parts + self.text[done : thread.at] + thread.text, thread.at
        return parts + self.text[done:]

    def draws_averaged(self, types: Mapping[str, Type]) -> int:
        """The number of draws over which its confidence is a mean: 1 for a value that counts as a whole."""
        if not any(isinstance(arm, _TEXTS) for arm in arms_of(self.type, types)):
            return 1
        is_option = self.text in closed_texts(self.type, types, quoted=self.form is Form.JSON)
        return 1 if is_option else max(1, self.decoding.draws)


@dataclass(frozen=True, slots=True)
class WrittenText:
    text: str
    in_answer: bool = True


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """Here begins a value in JSON. Its text, its fields and its lists follow."""

    value: Value
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WrittenField:
    field: Field


@dataclass(frozen=True, slots=True)
class WrittenBranch:
    """The place of another branch's text."""

    branch: Author


@dataclass(frozen=True, slots=True)
class WrittenLoop:
    """Items one after another. If `stacked`, each of them is an answer of its own.

    `repeat` is the list, if the model decides where it ends; `place` are the numbers of the items around it.
    """

    name: str
    items: list[list[Written]]
    stacked: bool = False
    repeat: Repeat | None = None
    place: tuple[int, ...] = ()


Written: TypeAlias = WrittenText | WrittenValue | WrittenField | WrittenBranch | WrittenLoop


# ── who has written it ───────────────────────────────────────────────────────────────────────────────────


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
