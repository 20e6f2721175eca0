"""A checked program: named types and templates, everything resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pastalang.diagnostics.suggest import first_of
from pastalang.program.pieces import Hole, Piece
from pastalang.program.types import AutoPolicy, Default, Object, Sampling, Type
from pastalang.source import Source, Span

_SHOWN_NAMES = 6
_LONGEST_NAME = 40


class Role(Enum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class InputKind(Enum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    MESSAGES = "messages"  # earlier messages of a user and the assistant


@dataclass(frozen=True, slots=True)
class ListOf:
    item: InputType


@dataclass(frozen=True, slots=True)
class RecordOf:
    fields: tuple[tuple[str, InputType], ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these texts."""

    options: tuple[str, ...]


InputType: TypeAlias = InputKind | ListOf | RecordOf | OneOf


@dataclass(frozen=True, slots=True)
class Input:
    """`each`: the caller gives a list, and every element is a document of its own on the shared text."""

    name: str
    type: InputType
    default: Default | None
    each: bool
    span: Span

    @property
    def is_text(self) -> bool:
        return not self.each and (self.type is InputKind.TEXT or isinstance(self.type, OneOf))


@dataclass(frozen=True, slots=True)
class TextBody:
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class JsonBody:
    """The answer is one JSON value of this type; an `Object` becomes a skeleton."""

    type: Type
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class AutoBody:
    policy: AutoPolicy
    max_tokens: int
    sampling: Sampling


Body: TypeAlias = TextBody | JsonBody | AutoBody


@dataclass(frozen=True, slots=True)
class Message:
    """`thought`: how many tokens the model may think before the message; None: the prompt asks it not to think."""

    role: Role
    body: Body
    span: Span
    thought: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The messages of an input, which stand before message number `turn`."""

    name: str
    turn: int


@dataclass(frozen=True, slots=True, repr=False)
class Template:
    """`messages` ends with the assistant message that is decoded; those before it hold no holes."""

    name: str
    inputs: tuple[Input, ...]
    messages: tuple[Message, ...]
    sampling: Sampling
    description: str | None
    span: Span
    history: History | None = None

    def __repr__(self) -> str:
        return f"<Template {self.summary}>"

    @property
    def summary(self) -> str:
        """One line: its name, its inputs, and what is decoded."""
        inputs = _listed(f"each {input.name}" if input.each else input.name for input in self.inputs)
        return f"{self.name}({inputs}), {_describe(self.messages[-1].body)}"


@dataclass(frozen=True, repr=False)
class Program:
    """A checked program: its templates, and its declared types.

    `types` holds every named type (recursive ones are referred to by `types.Named`).

    `notes` says, for a program made from a model or a schema, what only the model checks and which limits were chosen.
    """

    source: Source
    types: Mapping[str, Type]
    templates: Mapping[str, Template]
    spans: Mapping[str, Span]  # "template.field.path" -> where it is declared, for messages while decoding
    notes: tuple[str, ...] = ()

    @property
    def only_template(self) -> Template:
        assert len(self.templates) == 1
        return next(iter(self.templates.values()))

    def __repr__(self) -> str:
        named = (("template", self.templates), ("type", self.types))
        parts = [f"{word if len(names) == 1 else word + 's'} {_listed(names)}" for word, names in named if names]
        declared = f"<Program {self.source.name}: {'; '.join(parts) or 'nothing is declared'}"
        shown = [f"\n {template.summary}" for template in list(self.templates.values())[:_SHOWN_NAMES]]
        return declared + "".join(shown) + ">"


def _describe(body: Body) -> str:
    match body:
        case TextBody(pieces=pieces):
            return f"text with {_listed(piece.name for piece in pieces if isinstance(piece, Hole)) or 'no holes'}"
        case JsonBody(type=Object(fields=fields)):
            return f"JSON with {_listed(field.key for field in fields)}"
        case JsonBody():
            return "JSON"
        case AutoBody(policy=policy):
            return f"auto({policy.value})"


def _listed(names: Iterable[str]) -> str:
    """As many names as a line has room for."""
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names]
    return first_of(shown, _SHOWN_NAMES)
