"""The part of the syntax tree below messages: names, values, arguments, types and the fields of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pastalang.grammar.trivia import NO_TRIVIA, Trivia
from pastalang.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


# ── values: defaults, arguments, literals ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StringValue:
    text: str  # escapes resolved
    span: Span


@dataclass(frozen=True, slots=True)
class NumberValue:
    text: str  # as written: "12", "-0.5", "1e3"
    span: Span


@dataclass(frozen=True, slots=True)
class BooleanValue:
    value: bool
    span: Span


@dataclass(frozen=True, slots=True)
class NullValue:
    span: Span


@dataclass(frozen=True, slots=True)
class RegexValue:
    pattern: str  # between the slashes, `\/` resolved
    span: Span


@dataclass(frozen=True, slots=True)
class ListValue:
    items: tuple[Value, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RecordValue:
    entries: tuple[tuple[StringValue, Value], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RangeValue:
    """`low..high`; an end that is left out is None."""

    low: NumberValue | None
    high: NumberValue | None
    span: Span


@dataclass(frozen=True, slots=True)
class PathValue:
    """A name, or a path of names: `title`, `item.name`."""

    names: tuple[Name, ...]
    span: Span

    @property
    def text(self) -> str:
        return ".".join(name.text for name in self.names)


Value: TypeAlias = (
    StringValue | NumberValue | BooleanValue | NullValue | RegexValue
    | ListValue | RecordValue | RangeValue | PathValue
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """`name=value`, or just `value` (a range, a path, a string)."""

    name: Name | None
    value: Value
    span: Span


# ── types ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NamedType:
    """A built-in or declared type with its limits: `string(max=12)`, `integer(0..10)`, `Money`, `verbatim(title)`."""

    name: Name
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class LiteralType:
    value: StringValue | NumberValue | BooleanValue | NullValue
    span: Span


@dataclass(frozen=True, slots=True)
class RegexType:
    pattern: RegexValue
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ArrayType:
    """`[T](2..5)`"""

    item: TypeNode
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TupleType:
    """`[T, U]`: two or more places."""

    items: tuple[TypeNode, ...]
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class MapType:
    """`{string: T}(max=5)` or `{/pattern/: T}`: free keys."""

    key: NamedType | RegexType
    value: TypeNode
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ObjectType:
    members: tuple[Member, ...]
    span: Span
    closing: Trivia = NO_TRIVIA  # comments before the closing brace


@dataclass(frozen=True, slots=True)
class UnionType:
    arms: tuple[TypeNode, ...]
    span: Span


TypeNode: TypeAlias = (
    NamedType | LiteralType | RegexType | ArrayType | TupleType | MapType | ObjectType | UnionType
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldNode:
    """`key as name: type = default after a, b with (temperature=0.2) "description"`"""

    key: Name | StringValue
    name: Name | None
    type: TypeNode
    default: Value | None
    after: tuple[Name | StringValue, ...]
    sampling: tuple[Argument, ...]
    description: StringValue | None
    span: Span
    trivia: Trivia = NO_TRIVIA


@dataclass(frozen=True, slots=True)
class SequentialGroup:
    """`sequential { ... }`: its fields are decoded one after the other, each seeing those before it."""

    members: tuple[FieldNode, ...]
    span: Span
    trivia: Trivia = NO_TRIVIA
    closing: Trivia = NO_TRIVIA


@dataclass(frozen=True, slots=True)
class Spread:
    """`...Base`: the fields of a named object type, here."""

    name: Name
    span: Span
    trivia: Trivia = NO_TRIVIA


Member: TypeAlias = FieldNode | SequentialGroup | Spread
