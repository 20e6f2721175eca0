"""Checks the messages before the answer: text, inputs, and the schema of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from pastalang.check.arguments import constant, is_constant, read_arguments
from pastalang.check.inputs import value_type
from pastalang.check.modules import DeclaredType, Module
from pastalang.check.names import ITEM_NUMBER, SCHEMA, Resolver
from pastalang.check.report import Report, listed
from pastalang.check.scopes import Scope
from pastalang.grammar import nodes
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import AutoBody, Body, History, InputKind, InputType, JsonBody, OneOf, RecordOf, TextBody
from pastalang.source import Span
from pastalang.values.fit import find_mismatches
from pastalang.values.json import write_json
from pastalang.values.to_prompt import Style, prompt_text, shape_of_text

STYLES = tuple(style.value for style in Style)


@dataclass(slots=True)
class PromptChecker:
    """Checks the messages of one template, given its answer. `shows_schema`: whether one of them has a `{schema}`."""

    resolver: Resolver
    answer: Body | None
    types: Mapping[str, t.Type]
    description: str | None
    report: Report
    shows_schema: bool = field(default=False, init=False)

    def check(self, block: nodes.TextBlock, role: nodes.Role) -> tuple[p.Piece, ...]:
        return self._pieces(block.pieces, role, Scope())

    def _pieces(self, pieces: tuple[nodes.Piece, ...], role: nodes.Role, scope: Scope) -> tuple[p.Piece, ...]:
        found = (self._piece(piece, role, scope) for piece in pieces)
        return tuple(piece for piece in found if piece is not None)

    def _piece(self, piece: nodes.Piece, role: nodes.Role, scope: Scope) -> p.Piece | None:
        match piece:
            case nodes.TextPiece(text=text):
                return p.Text(text)
            case nodes.SchemaTag(arguments=arguments):
                return p.Text(self._schema(arguments, piece.span))
            case nodes.Reference() if self._is_schema(piece):
                return p.Text(self._schema((), piece.span))
            case nodes.Reference():
                return self.resolver.reference(piece, scope)
            case nodes.ForNode():
                return self._for(piece, role, scope)
            case nodes.IfNode():
                return self._if(piece, role, scope)
            case nodes.EachNode(name=name, over=over):
                advice = f"to repeat text for each item, write `{{for {name.text} in {over.text}}} ... {{end}}`"
                report_hole_outside_answer(role, piece.span, self.report, help=advice)
            case _:
                report_hole_outside_answer(role, piece.span, self.report)
        return None

    def _for(self, node: nodes.ForNode, role: nodes.Role, scope: Scope) -> p.Piece | None:
        name = node.name.text
        if name in self.resolver.declared or name in scope.items:
            self.report.add(
                "duplicate-name",
                f"`{name}` names two things in one template",
                node.name.span,
                help="give the item another name",
            )
        if name == ITEM_NUMBER:
            self.report.add("reserved-name", "`n` is reserved for the number of the item", node.name.span)
        over = self.resolver.list_of(node.over, scope, what="`for`")
        inner = scope.inner(owner="", is_loop=True)
        inner.items[name] = over.item if over is not None else t.Anything()
        body = self._pieces(node.body, role, inner)
        return None if over is None else p.For(name, over.path, body, node.span)

    def _if(self, node: nodes.IfNode, role: nodes.Role, scope: Scope) -> p.Piece:
        type = self.resolver.value_of(node.path, scope, node.path.span)
        equals = None if type is None else self._condition(node, type)
        body = self._pieces(node.body, role, scope)
        otherwise = self._pieces(node.otherwise or (), role, scope)
        path = tuple(name.text for name in node.path.names)
        return p.If(path, node.is_negated, equals, body, otherwise, node.span)

    def _condition(self, node: nodes.IfNode, type: InputType | t.Type) -> t.Literal | None:
        """The value that the input is compared with. Reports conditions that make no sense for its type."""
        shown = node.path.text
        if node.equals is None:
            example = _example(type)
            if example is not None:
                headline = f"`{shown}` is neither true nor false, and never empty"
                help = f"compare it: `{{if {shown} == {example}}}`" if example else "test one of its fields"
                self.report.add("wrong-argument", headline, node.path.span, help=help)
            return None
        wanted = constant(node.equals) if is_constant(node.equals) else None
        if isinstance(type, InputKind | OneOf) and isinstance(wanted, str | bool | int | Decimal):
            fits = not find_mismatches(value_type(type), wanted)
            if fits:
                return t.Literal(wanted)
        options = type.options if isinstance(type, OneOf) else ()
        expected = f"it is {listed(options)}" if options else "compare an input with a value that it can have"
        help = self.report.suggest(wanted, options, otherwise=expected) if isinstance(wanted, str) else expected
        if isinstance(node.equals, nodes.PathValue):
            headline, help = (
                "a condition compares an input with a value",
                f'write a text in quotes: "{node.equals.text}"',
            )
        else:
            headline = f"`{shown}` can never be this value"
        self.report.add("wrong-argument", headline, node.equals.span, help=help)
        return None

    def history(self, body: nodes.HistoryBody, turn: int, before: History | None) -> History | None:
        """The place of `...history`, before message number `turn`."""
        name = body.name.text
        input = self.resolver.inputs.get(name)
        histories = [one for one, known in self.resolver.inputs.items() if known.type is InputKind.MESSAGES]
        if input is None or input.type is not InputKind.MESSAGES:
            headline = f"`{name}` is not a chat history" if input is not None else f"there is no input called `{name}`"
            advice = f"declare it as an input: `{name}: messages`"
            help = self.report.suggest(name, histories, otherwise=advice)
            self.report.add("unknown-name" if input is None else "wrong-argument", headline, body.span, help=help)
            return before
        self.resolver.used.add(name)
        if before is not None:
            self.report.add("wrong-messages", "a template has at most one history", body.span, help="remove this one")
            return before
        return History(name, turn)

    def _is_schema(self, piece: nodes.Piece) -> bool:
        """`{schema}`, unless an input has that name."""
        return isinstance(piece, nodes.Reference) and piece.path.text == SCHEMA and SCHEMA not in self.resolver.inputs

    def _schema(self, arguments: tuple[nodes.Argument, ...], span: Span) -> str:
        self.shows_schema = True
        given = read_arguments(arguments, owner="`schema`", allowed=("style",), report=self.report)
        style = given.string("style") or Style.SKELETON.value
        if style not in STYLES:
            self.report.add(
                "wrong-argument",
                f"`schema` has no style `{style}`",
                given.span_of("style"),
                help=self.report.suggest(style, STYLES, otherwise=f"the styles are {listed(STYLES)}"),
            )
            return ""
        type = _shape(self.answer)
        if type is None:
            if isinstance(self.answer, AutoBody):
                self.report.add(
                    "wrong-messages",
                    "the answer has no schema: the model itself decides about its parts",
                    span,
                    help="describe the answer in words",
                )
            return ""
        return prompt_text(type, self.types, style=Style(style), description=self.description)


def _shape(answer: Body | None) -> t.Type | None:
    match answer:
        case JsonBody(type=type):
            return type
        case TextBody(pieces=pieces):
            return shape_of_text(pieces)
        case _:
            return None


def _example(type: InputType | t.Type) -> str | None:
    """A value to compare an input with that cannot be tested alone; empty for records; None: it can be."""
    match type:
        case OneOf(options=options):
            return write_json(options[0])
        case InputKind.INTEGER | InputKind.NUMBER:
            return "0"
        case RecordOf():
            return ""
        case _:
            return None


def report_hole_outside_answer(role: nodes.Role, span: Span, report: Report, *, help: str = "") -> None:
    if help:
        headline = "the model writes nothing in a message before the answer"
    elif role is nodes.Role.ASSISTANT:
        headline = "only the last message is written by the model"
        help = "an earlier assistant message is an example: it holds only text and inputs"
    else:
        headline = f"the model writes nothing in a {role.value} message"
        help = "holes and tags such as `{sync}` belong in the assistant message"
    report.add("hole-outside-answer", headline, span, help=help)


# ── descriptions that nobody reads ───────────────────────────────────────────────────────────────────────

Described: TypeAlias = tuple[str, Span]  # the name of what is described, and a place in the template's file


def check_descriptions(node: nodes.TemplateDeclaration, module: Module, report: Report) -> None:
    """Warn about the descriptions of a template whose messages do not show them."""
    found: list[Described] = []
    seen: set[DeclaredType] = set()
    if node.description is not None:
        found.append((node.name.text, node.description.span))
    for message in node.messages:
        match message.body:
            case nodes.JsonBody(type=type):
                found += _in_type(type, module, None, seen)
            case nodes.TextBlock(pieces=pieces):
                found += _in_pieces(pieces, module, seen)
            case nodes.AutoBody() | nodes.ExampleBody() | nodes.HistoryBody():
                pass
    if found:
        report.add(
            "description-not-shown",
            f"no message shows the model the description of {listed(dict(found), most=4)}",
            min(span for _, span in found),
            message="the model never sees this",
            help=("show it: put `{schema}` into a message", "a note for people is a comment: `# ...`"),
        )


def _in_pieces(pieces: tuple[nodes.Piece, ...], module: Module, seen: set[DeclaredType]) -> Iterator[Described]:
    for piece in pieces:
        match piece:
            case nodes.HoleNode(type=type):
                yield from _in_type(type, module, None, seen)
            case nodes.AsyncNode(type=type, body=body):
                if type is not None:
                    yield from _in_type(type, module, None, seen)
                yield from _in_pieces(body or (), module, seen)
            case nodes.ForkNode(body=body) | nodes.EachNode(body=body):
                yield from _in_pieces(body, module, seen)
            case _:
                pass


def _in_type(node: nodes.TypeNode, module: Module, outer: Span | None, seen: set[DeclaredType]) -> Iterator[Described]:
    """`outer` is the place in the template's file that names a type of another file, if the walk is in one.

    `seen` are the declared types that were walked: each of them once, however often it is named.
    """
    match node:
        case nodes.NamedType(name=name):
            declared = module.types.get(name.text)
            if declared is None or declared in seen:
                return
            seen.add(declared)
            place = outer if outer is not None else (node.span if declared.module is not module else None)
            if declared.node.description is not None:
                yield name.text, place or declared.node.description.span
            yield from _in_type(declared.node.type, declared.module, place, seen)
        case nodes.ArrayType(item=item):
            yield from _in_type(item, module, outer, seen)
        case nodes.MapType(value=value):
            yield from _in_type(value, module, outer, seen)
        case nodes.TupleType(items=parts) | nodes.UnionType(arms=parts):
            for part in parts:
                yield from _in_type(part, module, outer, seen)
        case nodes.ObjectType(members=members):
            for member in members:
                yield from _in_member(member, module, outer, seen)
        case nodes.LiteralType() | nodes.RegexType():
            pass


def _in_member(
    member: nodes.Member, module: Module, outer: Span | None, seen: set[DeclaredType]
) -> Iterator[Described]:
    match member:
        case nodes.FieldNode(key=key, type=type, description=description):
            if description is not None:
                yield key.text, outer or description.span
            yield from _in_type(type, module, outer, seen)
        case nodes.SequentialGroup(members=fields):
            for inner in fields:
                yield from _in_member(inner, module, outer, seen)
        case nodes.Spread(name=name, span=span):
            yield from _in_type(nodes.NamedType(name, (), span), module, outer, seen)
