"""What a message is made of, after checking: text, inputs, holes and the forks between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pastalang.program.types import Literal, Sampling, Type
from pastalang.source import Span


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class InputValue:
    """The value of an input, of the item of an enclosing fan-out, or a part of either: `("item", "name")`."""

    path: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ItemNumber:
    """The number of the item in the innermost fork, counted from 1."""

    span: Span


@dataclass(frozen=True, slots=True)
class Hole:
    name: str
    type: Type
    sampling: Sampling
    span: Span


@dataclass(frozen=True, slots=True)
class Async:
    """A branch in parallel with what follows. `reserve` is the announced length, None if there is none.

    `promised`: a `Promise` of the same name comes before it, and the branch starts there.
    """

    name: str
    reserve: int | None
    body: tuple[Piece, ...]
    promised: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Promise:
    name: str
    topic: str
    reserve: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class Sync:
    """Waits for these branches and sees them from here on. `sync` of all is resolved to names."""

    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Fork:
    """`minimum` to `maximum` items; the body's own pieces form the chain of roots, its asyncs run in parallel."""

    name: str
    minimum: int
    maximum: int
    body: tuple[Piece, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Each:
    """One branch per item of a list: an input, or an earlier hole (its path)."""

    name: str
    over: tuple[str, ...]
    over_hole: bool
    reserve: int | None
    body: tuple[Piece, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class For:
    """Text of a message that is repeated for each item of an input; `name` is the item inside it."""

    name: str
    over: tuple[str, ...]
    body: tuple[Piece, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class If:
    """Text of a message that depends on an input: whether it is true or not empty, or `equals` a value."""

    path: tuple[str, ...]
    is_negated: bool
    equals: Literal | None
    body: tuple[Piece, ...]
    otherwise: tuple[Piece, ...]
    span: Span


Piece: TypeAlias = Text | InputValue | ItemNumber | Hole | Async | Promise | Sync | Fork | Each | For | If
