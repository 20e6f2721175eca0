"""Build a node of the syntax tree for each rule of `pasta.lark`: one method per rule.

Lark calls `rule([...])` with the tokens and the nodes of the rule, in order. What the grammar cannot say
(a limit on an object, a clause twice) is reported here, as a SyntaxProblem.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from pastalang.grammar import nodes
from pastalang.grammar.messages import KINDS_OF_TAGS
from pastalang.grammar.tokens import SyntaxProblem, Token
from pastalang.source import Span

Parts = list[Any]
T = TypeVar("T")


class Clause(NamedTuple):
    """One of the things that may follow a field's type, in any order."""

    word: str
    content: Any
    span: Span


class Arguments(NamedTuple):
    items: tuple[nodes.Argument, ...]
    span: Span


class Inputs(NamedTuple):
    items: tuple[nodes.InputNode, ...]
    span: Span


class ElseTag(NamedTuple):
    span: Span


class TreeBuilder:
    """The methods are the rules of the grammar."""

    # ── a file ───────────────────────────────────────────────────────────────────────────────────────────

    def file(self, parts: Parts) -> nodes.File:
        return nodes.File(tuple(parts), _span(parts) if parts else Span(0, 0))

    def import_declaration(self, parts: Parts) -> nodes.ImportNode:
        return nodes.ImportNode(_all(parts, nodes.Name), _string(parts[-1]), _span(parts))

    def type_declaration(self, parts: Parts) -> nodes.TypeDeclaration:
        description = _string(parts[4]) if len(parts) > 4 else None
        return nodes.TypeDeclaration(parts[1], parts[3], description, _span(parts))

    def template_declaration(self, parts: Parts) -> nodes.TemplateDeclaration:
        inputs = next((part.items for part in parts if isinstance(part, Inputs)), ())
        sampling = next((part.items for part in parts if isinstance(part, Arguments)), ())
        description = next((_string(part) for part in parts if isinstance(part, Token) and part.type == "STRING"), None)
        messages = _all(parts, nodes.Message)
        header = _span([part for part in parts if not isinstance(part, nodes.Message)])
        return nodes.TemplateDeclaration(parts[1], inputs, sampling, description, messages, _span(parts), header=header)

    def inputs(self, parts: Parts) -> Inputs:
        return Inputs(_all(parts, nodes.InputNode), _span(parts))

    def input(self, parts: Parts) -> nodes.InputNode:
        each = isinstance(parts[0], Token)
        name, _, type_node = parts[each : each + 3]
        default = parts[-1] if len(parts) == each + 5 else None
        return nodes.InputNode(name, each, type_node, default, _span(parts))

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────

    def message(self, parts: Parts) -> nodes.Message:
        if parts[0].type == "ELLIPSIS":
            return nodes.Message(nodes.Role.USER, nodes.HistoryBody(parts[1], _span(parts)), _span(parts))
        if parts[0].type == "EXAMPLE":
            return nodes.Message(nodes.Role.USER, parts[1], _span(parts))
        thought = next((part for part in parts if isinstance(part, nodes.Thought)), None)
        return nodes.Message(nodes.Role(parts[0].text), parts[-1], _span(parts), thought=thought)

    def thought(self, parts: Parts) -> nodes.Thought:
        return nodes.Thought(_arguments(parts), _span(parts))

    def example_body(self, parts: Parts) -> nodes.ExampleBody:
        return nodes.ExampleBody(tuple(part for part in parts if not isinstance(part, Token)), _span(parts))

    def example_value(self, parts: Parts) -> tuple[nodes.Name, nodes.Value]:
        return parts[0], parts[2]

    def json_body(self, parts: Parts) -> nodes.JsonBody:
        return nodes.JsonBody(parts[1], _span(parts))

    def auto_body(self, parts: Parts) -> nodes.AutoBody:
        return nodes.AutoBody(parts[2], _all(parts, nodes.Argument), _span(parts))

    # ── types ────────────────────────────────────────────────────────────────────────────────────────────

    def type(self, parts: Parts) -> nodes.TypeNode:
        arms = tuple(part for part in parts if not isinstance(part, Token))
        if len(arms) == 1:
            return arms[0]  # type: ignore[no-any-return]
        return nodes.UnionType(arms, _span(list(arms)))

    def named_type(self, parts: Parts) -> nodes.NamedType:
        return nodes.NamedType(parts[0], _arguments(parts), _span(parts))

    def literal_type(self, parts: Parts) -> nodes.LiteralType:
        value = _value(parts[0])
        assert isinstance(value, nodes.StringValue | nodes.NumberValue | nodes.BooleanValue | nodes.NullValue)
        return nodes.LiteralType(value, parts[0].span)

    def regex_type(self, parts: Parts) -> nodes.RegexType:
        return nodes.RegexType(_regex(parts[0]), _arguments(parts), _span(parts))

    def list_type(self, parts: Parts) -> nodes.ArrayType | nodes.TupleType:
        items = tuple(part for part in parts if not isinstance(part, Token | Arguments))
        if len(items) == 1:
            return nodes.ArrayType(items[0], _arguments(parts), _span(parts))
        return nodes.TupleType(items, _arguments(parts), _span(parts))

    def map_key(self, parts: Parts) -> nodes.NamedType | nodes.RegexType:
        if isinstance(parts[0], Token):
            return self.regex_type(parts)
        return self.named_type(parts)

    def map_type(self, parts: Parts) -> nodes.MapType:
        return nodes.MapType(parts[1], parts[3], _arguments(parts), _span(parts))

    def object_type(self, parts: Parts) -> nodes.ObjectType | nodes.MapType:
        members = _members(parts)
        only = members[0] if len(members) == 1 else None
        if isinstance(only, nodes.FieldNode) and _is_map_entry(only):
            assert isinstance(only.key, nodes.Name)
            key = nodes.NamedType(only.key, (), only.key.span)
            return nodes.MapType(key, only.type, _arguments(parts), _span(parts))
        if isinstance(parts[-1], Arguments):
            advice = "give limits to its fields; a map `{string: T}(max=5)` takes limits"
            raise SyntaxProblem("misplaced-limits", "an object takes no limits", parts[-1].span, advice)
        return nodes.ObjectType(members, _span(parts))

    def field(self, parts: Parts) -> nodes.FieldNode:
        clauses = [part for part in parts if isinstance(part, Clause)]
        colon = next(index for index, part in enumerate(parts) if isinstance(part, Token) and part.type == "COLON")
        contents = _once_each(clauses)
        return nodes.FieldNode(
            key=parts[0],
            name=parts[2] if colon == 3 else None,
            type=parts[colon + 1],
            default=contents.get("="),
            after=contents.get("after", ()),
            sampling=contents.get("with", ()),
            description=contents.get("description"),
            span=_span(parts),
        )

    def key(self, parts: Parts) -> nodes.Name | nodes.StringValue:
        part = parts[0]
        return _string(part) if isinstance(part, Token) else part

    def sequential_group(self, parts: Parts) -> nodes.SequentialGroup:
        members = _members(parts)
        for member in members:
            if not isinstance(member, nodes.FieldNode):
                headline = "a sequential group holds fields and nothing else"
                advice = "write the fields of the group out, one after the other"
                raise SyntaxProblem("misplaced-member", headline, member.span, advice)
        return nodes.SequentialGroup(tuple(m for m in members if isinstance(m, nodes.FieldNode)), _span(parts))

    def spread(self, parts: Parts) -> nodes.Spread:
        return nodes.Spread(parts[1], _span(parts))

    def clause(self, parts: Parts) -> Clause:
        first = parts[0]
        if isinstance(first, Arguments):
            return Clause("with", first.items, first.span)
        if first.type == "STRING":
            return Clause("description", _string(first), first.span)
        if first.type == "EQUALS":
            return Clause("=", parts[1], _span(parts))
        keys = tuple(part for part in parts if not isinstance(part, Token))
        return Clause("after", keys, _span(parts))

    def sampling(self, parts: Parts) -> Arguments:
        return Arguments(parts[1].items, _span(parts))

    # ── arguments and values ─────────────────────────────────────────────────────────────────────────────

    def arguments(self, parts: Parts) -> Arguments:
        return Arguments(_all(parts, nodes.Argument), _span(parts))

    def argument(self, parts: Parts) -> nodes.Argument:
        return nodes.Argument(parts[0] if len(parts) == 3 else None, parts[-1], _span(parts))

    def value(self, parts: Parts) -> nodes.Value:
        return _value(parts[0]) if isinstance(parts[0], Token) else parts[0]

    def range(self, parts: Parts) -> nodes.RangeValue:
        low = _number(parts[0]) if parts[0].type == "NUMBER" else None
        high = _number(parts[-1]) if parts[-1].type == "NUMBER" and len(parts) > 1 else None
        return nodes.RangeValue(low, high, _span(parts))

    def list(self, parts: Parts) -> nodes.ListValue:
        return nodes.ListValue(tuple(part for part in parts if not isinstance(part, Token)), _span(parts))

    def record(self, parts: Parts) -> nodes.RecordValue:
        entries = tuple(part for part in parts if not isinstance(part, Token))
        return nodes.RecordValue(entries, _span(parts))

    def entry(self, parts: Parts) -> tuple[nodes.StringValue, nodes.Value]:
        key = parts[0]
        return key if isinstance(key, nodes.StringValue) else nodes.StringValue(key.text, key.span), parts[2]

    def path(self, parts: Parts) -> nodes.PathValue:
        return nodes.PathValue(_all(parts, nodes.Name), _span(parts))

    # ── running text ─────────────────────────────────────────────────────────────────────────────────────

    def text_block(self, parts: Parts) -> nodes.TextBlock:
        return nodes.TextBlock(_pieces(parts), _span(parts))

    def reference(self, parts: Parts) -> nodes.Reference:
        return nodes.Reference(parts[1], _span(parts))

    def tag_path(self, parts: Parts) -> nodes.PathValue:
        first = nodes.Name(parts[0].text, parts[0].span)
        return nodes.PathValue((first, *_all(parts, nodes.Name)), _span(parts))

    def schema_tag(self, parts: Parts) -> nodes.SchemaTag:
        if parts[1].text != "schema":
            headline = f"`{parts[1].text}` takes no arguments: `schema` is the only tag that does"
            raise SyntaxProblem("unknown-tag", headline, parts[1].span, KINDS_OF_TAGS)
        return nodes.SchemaTag(parts[2].items, _span(parts))

    def hole(self, parts: Parts) -> nodes.HoleNode:
        return nodes.HoleNode(parts[1], parts[3], _sampling(parts), _span(parts))

    def async_hole(self, parts: Parts) -> nodes.AsyncNode:
        colon = next(index for index, part in enumerate(parts) if isinstance(part, Token) and part.type == "COLON")
        return nodes.AsyncNode(parts[2], _reserve(parts), parts[colon + 1], None, _sampling(parts), _span(parts))

    def async_block(self, parts: Parts) -> nodes.AsyncNode:
        body = _body(parts)
        return nodes.AsyncNode(parts[2], _reserve(parts), None, body, _sampling(parts), _span(parts))

    def promise(self, parts: Parts) -> nodes.PromiseNode:
        return nodes.PromiseNode(parts[2], _string(parts[3]), _reserve(parts), _span(parts))

    def sync(self, parts: Parts) -> nodes.SyncNode:
        return nodes.SyncNode(_all(parts, nodes.Name), _span(parts))

    def fork(self, parts: Parts) -> nodes.ForkNode:
        count = _number(parts[4]) if isinstance(parts[4], Token) else parts[4]
        return nodes.ForkNode(parts[2], count, _body(parts), _span(parts))

    def each(self, parts: Parts) -> nodes.EachNode:
        return nodes.EachNode(parts[2], parts[4], _reserve(parts), _body(parts), _span(parts))

    def for_block(self, parts: Parts) -> nodes.ForNode:
        return nodes.ForNode(parts[2], parts[4], _body(parts), _span(parts))

    def if_block(self, parts: Parts) -> nodes.IfNode:
        opened = next(i for i, part in enumerate(parts) if isinstance(part, Token) and part.type == "TAG_CLOSE")
        path = next(part for part in parts if isinstance(part, nodes.PathValue))
        is_negated = isinstance(parts[2], Token) and parts[2].type == "NOT"
        is_compared = isinstance(parts[opened - 2], Token) and parts[opened - 2].type == "IS_EQUAL"
        equals = parts[opened - 1] if is_compared else None
        inside = parts[opened + 1 : -3]
        turn = next((i for i, part in enumerate(inside) if isinstance(part, ElseTag)), None)
        body, otherwise = (inside, None) if turn is None else (inside[:turn], _pieces(inside[turn + 1 :]))
        return nodes.IfNode(path, is_negated, equals, _pieces(body), otherwise, _span(parts))

    def else_tag(self, parts: Parts) -> ElseTag:
        return ElseTag(_span(parts))

    def reserve(self, parts: Parts) -> nodes.NumberValue:
        return _number(parts[1])

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────

    def name(self, parts: Parts) -> nodes.Name:
        return nodes.Name(parts[0].text, parts[0].span)

    type_name = name


# ── parts of a rule ──────────────────────────────────────────────────────────────────────────────────────


def _span(parts: Parts) -> Span:
    return Span(parts[0].span.start, parts[-1].span.end)


def _all(parts: Iterable[Any], kind: type[T]) -> tuple[T, ...]:
    return tuple(part for part in parts if isinstance(part, kind))


def _arguments(parts: Parts) -> tuple[nodes.Argument, ...]:
    return parts[-1].items if isinstance(parts[-1], Arguments) else ()


def _sampling(parts: Parts) -> tuple[nodes.Argument, ...]:
    return next((part.items for part in parts if isinstance(part, Arguments)), ())


def _reserve(parts: Parts) -> nodes.NumberValue | None:
    return next((part for part in parts if isinstance(part, nodes.NumberValue)), None)


def _members(parts: Parts) -> tuple[nodes.Member, ...]:
    kinds = nodes.FieldNode | nodes.SequentialGroup | nodes.Spread
    return tuple(part for part in parts if isinstance(part, kinds))


def _pieces(parts: Parts) -> tuple[nodes.Piece, ...]:
    pieces: list[nodes.Piece] = []
    for part in parts:
        if isinstance(part, Token):
            if part.type == "TEXT_PIECE":
                pieces.append(nodes.TextPiece(part.value, part.span))
        else:
            pieces.append(part)
    return tuple(pieces)


def _body(parts: Parts) -> tuple[nodes.Piece, ...]:
    """The pieces between the opening tag and the three tokens of `{end}`."""
    opened = next(i for i, part in enumerate(parts) if isinstance(part, Token) and part.type == "TAG_CLOSE")
    return _pieces(parts[opened + 1 : -3])


def _once_each(clauses: Iterable[Clause]) -> dict[str, Any]:
    contents: dict[str, Any] = {}
    for clause in clauses:
        if clause.word in contents:
            word = clause.word if clause.word == "description" else f"`{clause.word}`"
            raise SyntaxProblem("duplicate-clause", f"a field has at most one {word}", clause.span)
        contents[clause.word] = clause.content
    return contents


def _is_map_entry(field: nodes.FieldNode) -> bool:
    """`{string: T}` with nothing else is a map with free keys, not an object with a field of that name."""
    is_plain = not (field.name or field.default or field.after or field.sampling or field.description)
    return is_plain and isinstance(field.key, nodes.Name) and field.key.text == "string"


def _string(token: Token) -> nodes.StringValue:
    return nodes.StringValue(token.value, token.span)


def _number(token: Token) -> nodes.NumberValue:
    return nodes.NumberValue(token.text, token.span)


def _regex(token: Token) -> nodes.RegexValue:
    return nodes.RegexValue(token.value, token.span)


def _value(token: Token) -> nodes.Value:
    match token.type:
        case "STRING":
            return _string(token)
        case "NUMBER":
            return _number(token)
        case "REGEX":
            return _regex(token)
        case "NULL":
            return nodes.NullValue(token.span)
        case word:
            return nodes.BooleanValue(word == "TRUE", token.span)
