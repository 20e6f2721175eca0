"""The syntax tree: what the parser hands to the checker. Plain frozen data with spans, nothing resolved.

Every node knows its span in the source. Comments are kept: `comments` holds the whole-line comments that
stand directly above a node, `trailing` the one at the end of its line. Of blank lines it is kept that there
was one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pastalang.grammar.trivia import NO_TRIVIA as NO_TRIVIA
from pastalang.grammar.trivia import Comment as Comment
from pastalang.grammar.trivia import Trivia as Trivia
from pastalang.grammar.type_nodes import Argument as Argument
from pastalang.grammar.type_nodes import ArrayType as ArrayType
from pastalang.grammar.type_nodes import BooleanValue as BooleanValue
from pastalang.grammar.type_nodes import FieldNode as FieldNode
from pastalang.grammar.type_nodes import ListValue as ListValue
from pastalang.grammar.type_nodes import LiteralType as LiteralType
from pastalang.grammar.type_nodes import MapType as MapType
from pastalang.grammar.type_nodes import Member as Member
from pastalang.grammar.type_nodes import Name as Name
from pastalang.grammar.type_nodes import NamedType as NamedType
from pastalang.grammar.type_nodes import NullValue as NullValue
from pastalang.grammar.type_nodes import NumberValue as NumberValue
from pastalang.grammar.type_nodes import ObjectType as ObjectType
from pastalang.grammar.type_nodes import PathValue as PathValue
from pastalang.grammar.type_nodes import RangeValue as RangeValue
from pastalang.grammar.type_nodes import RecordValue as RecordValue
from pastalang.grammar.type_nodes import RegexType as RegexType
from pastalang.grammar.type_nodes import RegexValue as RegexValue
from pastalang.grammar.type_nodes import SequentialGroup as SequentialGroup
from pastalang.grammar.type_nodes import Spread as Spread
from pastalang.grammar.type_nodes import StringValue as StringValue
from pastalang.grammar.type_nodes import TupleType as TupleType
from pastalang.grammar.type_nodes import TypeNode as TypeNode
from pastalang.grammar.type_nodes import UnionType as UnionType
from pastalang.grammar.type_nodes import Value as Value
from pastalang.source import Span

NOWHERE = Span(0, 0)

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
