"""The syntax tree: what the parser hands to the checker. Plain frozen data with spans, nothing resolved.

Every node knows its span in the source. Comments are kept: `comments` holds the whole-line comments that
stand directly above a node, `trailing` the one at the end of its line. Of blank lines it is kept that there
was one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from pastalang.source import Span

NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Comment:
    text: str  # without the leading `#` and the space after it
    span: Span
    blank_before: bool = False  # a blank line is above it


@dataclass(frozen=True, slots=True)
class Trivia:
    """What people write around a node and machines ignore."""

    comments: tuple[Comment, ...] = ()
    trailing: Comment | None = None
    blank_before: bool = False  # a blank line is above the node, below its comments


NO_TRIVIA = Trivia()


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


def inner_types(node: TypeNode) -> Iterator[TypeNode]:
    """The types directly inside a type. A spread is the type that it names."""
    match node:
        case ArrayType(item=inner) | MapType(value=inner):
            yield inner
        case TupleType(items=parts) | UnionType(arms=parts):
            yield from parts
        case ObjectType(members=members):
            for member in members:
                yield from _types_of_member(member)
        case NamedType() | LiteralType() | RegexType():
            pass
        case _:
            assert_never(node)


def _types_of_member(member: Member) -> Iterator[TypeNode]:
    match member:
        case FieldNode(type=type):
            yield type
        case SequentialGroup(members=members):
            yield from (field.type for field in members)
        case Spread(name=name, span=span):
            yield NamedType(name, (), span)
        case _:
            assert_never(member)


# ── running text ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str  # escapes and the block's indentation resolved
    span: Span


@dataclass(frozen=True, slots=True)
class Reference:
    """`{title}`, `{item.name}`: the value of an input, of an item, or `{n}`, the number of the item."""

    path: PathValue
    span: Span


@dataclass(frozen=True, slots=True)
class SchemaTag:
    """`{schema(style="json")}`. Without arguments it is a `Reference` until its name is resolved."""

    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class HoleNode:
    """`{summary: string(max=40) with (temperature=0.7)}`"""

    name: Name
    type: TypeNode
    sampling: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AsyncNode:
    """`{async food ~60: string(max=90)}`, or `{async food ~60} ... {end}` with pieces of its own."""

    name: Name
    reserve: NumberValue | None
    type: TypeNode | None  # exactly one of `type` and `body` is given
    body: tuple[Piece, ...] | None
    sampling: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class PromiseNode:
    """`{promise food "street food" ~60}`"""

    name: Name
    topic: StringValue
    reserve: NumberValue | None
    span: Span


@dataclass(frozen=True, slots=True)
class SyncNode:
    """`{sync}` for all that is open, `{sync food, sights}` for some."""

    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ForkNode:
    """`{fork tip (3..7)} ... {end}`: the roots form a chain; `async` parts run in parallel with the next root."""

    name: Name
    count: RangeValue | NumberValue
    body: tuple[Piece, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class EachNode:
    """`{fork point in outline ~80} ... {end}`: one branch for each item of a list."""

    name: Name
    over: PathValue
    reserve: NumberValue | None
    body: tuple[Piece, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ForNode:
    """`{for point in points} ... {end}`: text that a message repeats for each item of an input."""

    name: Name
    over: PathValue
    body: tuple[Piece, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class IfNode:
    """`{if not context} ... {else} ... {end}`, `{if tone == "formal"} ... {end}`: text that depends on an input."""

    path: PathValue
    is_negated: bool
    equals: Value | None
    body: tuple[Piece, ...]
    otherwise: tuple[Piece, ...] | None  # None where there is no `{else}`
    span: Span


Piece: TypeAlias = (
    TextPiece | Reference | SchemaTag | HoleNode | AsyncNode | PromiseNode | SyncNode | ForkNode | EachNode
    | ForNode | IfNode
)  # fmt: skip


def walk_pieces(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces and all pieces inside them, in the order of the text."""
    for piece in pieces:
        yield piece
        match piece:
            case AsyncNode(body=tuple(body)) | ForkNode(body=body) | EachNode(body=body) | ForNode(body=body):
                yield from walk_pieces(body)
            case IfNode(body=body, otherwise=otherwise):
                yield from walk_pieces((*body, *(otherwise or ())))
            case _:
                pass


@dataclass(frozen=True, slots=True)
class TextBlock:
    """The inside of a triple-quoted text."""

    pieces: tuple[Piece, ...]
    span: Span


# ── declarations ─────────────────────────────────────────────────────────────────────────────────────────


class Role(Enum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class JsonBody:
    """`assistant json { ... }` or `assistant json TYPE`"""

    type: TypeNode
    span: Span


@dataclass(frozen=True, slots=True)
class AutoBody:
    """`assistant auto(pasta)`: the model places the control tags itself."""

    policy: Name
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ExampleBody:
    """`example { title: "...", answer: { ... } }`: values of inputs, and the answer to them."""

    entries: tuple[tuple[Name, Value], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class HistoryBody:
    """`...history`: the messages of an input, in this place."""

    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Thought:
    """`think(max=200)`, or `think` alone: what the model writes for itself before its answer."""

    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Message:
    """`system`, `user` or `assistant` with its body; only an assistant message may hold holes.

    An example and a history stand for messages of users and the assistant. Their role is `USER`.
    """

    role: Role
    body: TextBlock | JsonBody | AutoBody | ExampleBody | HistoryBody
    span: Span
    trivia: Trivia = NO_TRIVIA
    thought: Thought | None = None


@dataclass(frozen=True, slots=True)
class InputNode:
    """`title: text = ""`; with `each`, one value for every document that is stacked on the shared text."""

    name: Name
    each: bool
    type: TypeNode
    default: Value | None
    span: Span
    trivia: Trivia = NO_TRIVIA


@dataclass(frozen=True, slots=True)
class ImportNode:
    names: tuple[Name, ...]
    path: StringValue
    span: Span
    trivia: Trivia = NO_TRIVIA


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    name: Name
    type: TypeNode
    description: StringValue | None
    span: Span
    trivia: Trivia = NO_TRIVIA


@dataclass(frozen=True, slots=True)
class TemplateDeclaration:
    name: Name
    inputs: tuple[InputNode, ...]
    sampling: tuple[Argument, ...]
    description: StringValue | None
    messages: tuple[Message, ...]
    span: Span
    trivia: Trivia = NO_TRIVIA
    header: Span = NOWHERE  # everything before the messages


Declaration: TypeAlias = ImportNode | TypeDeclaration | TemplateDeclaration


@dataclass(frozen=True, slots=True)
class File:
    declarations: tuple[Declaration, ...]
    span: Span
    closing: Trivia = NO_TRIVIA  # comments after the last declaration
