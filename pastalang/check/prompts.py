"""Checks the messages before the answer: text, inputs, and the schema of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from pastalang.check.arguments import Signature, Word, constant, is_constant, read_arguments
from pastalang.check.inputs import value_type
from pastalang.check.modules import DeclaredType, Module
from pastalang.check.names import ITEM_NUMBER, SCHEMA, Resolver, Scope
from pastalang.check.report import Report, listed
from pastalang.grammar import nodes
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import (
    AutoBody,
    Body,
    History,
    Input,
    InputKind,
    InputType,
    JsonBody,
    Message,
    OneOf,
    RecordOf,
    Role,
    TextBody,
)
from pastalang.source import Span
from pastalang.values.describe import Style, prompt_text, shape_of_text
from pastalang.values.fit import find_mismatches, fit
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.quotes import quotable_texts
from pastalang.values.text import answer_text, message_texts, running_text

STYLES = tuple(style.value for style in Style)
SCHEMA_TAG = Signature(
    "`schema`", {"style": Word(STYLES, unknown="unknown style `{}` of `schema`", called="the styles are")}
)


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
        checked = (self._piece(piece, role, scope) for piece in pieces)
        return tuple(piece for piece in checked if piece is not None)

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
                f"the name `{name}` is declared twice in this template",
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
                headline = f"`{shown}` alone is not a condition: it is neither true nor false, and never empty"
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
                "`==` compares an input with a value, not with a name",
                f'write a text in quotes: "{node.equals.text}"',
            )
        else:
            headline = f"`{shown}` can never equal this value"
        self.report.add("wrong-argument", headline, node.equals.span, help=help)
        return None

    def history(self, body: nodes.HistoryBody, turn: int, before: History | None) -> History | None:
        """The place of `...history`, before message number `turn`."""
        name = body.name.text
        input = self.resolver.inputs.get(name)
        histories = [other for other, known in self.resolver.inputs.items() if known.type is InputKind.MESSAGES]
        if input is None or input.type is not InputKind.MESSAGES:
            headline = f"`{name}` is not a chat history" if input is not None else f"unknown input `{name}`"
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
        style = read_arguments(arguments, SCHEMA_TAG, self.report)["style"] or Style.SKELETON.value
        type = _shape(self.answer)
        if type is None:
            if isinstance(self.answer, AutoBody):
                self.report.add(
                    "wrong-messages",
                    "the answer has no schema, because the model decides its parts",
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
        headline = "the model writes only in the answer"
    elif role is nodes.Role.ASSISTANT:
        headline = "only the last message is written by the model"
        help = "an earlier assistant message is an example: it holds only text and inputs"
    else:
        headline = f"the model does not write in a {role.value} message"
        help = "holes and tags such as `{sync}` belong in the assistant message"
    report.add("hole-outside-answer", headline, span, help=help)


# ── descriptions that nobody reads ───────────────────────────────────────────────────────────────────────

Described: TypeAlias = tuple[str, Span]  # the name of what is described, and a place in the template's file


def check_descriptions(node: nodes.TemplateDeclaration, module: Module, report: Report) -> None:
    """Warn about the descriptions of a template whose messages do not show them."""
    described: list[Described] = []
    seen: set[DeclaredType] = set()
    if node.description is not None:
        described.append((node.name.text, node.description.span))
    for message in node.messages:
        match message.body:
            case nodes.JsonBody(type=type):
                described += _in_type(type, module, None, seen)
            case nodes.TextBlock(pieces=pieces):
                described += _in_pieces(pieces, module, seen)
            case nodes.AutoBody() | nodes.ExampleBody() | nodes.HistoryBody():
                pass
    if described:
        report.add(
            "description-not-shown",
            f"no message shows the model the description of {listed(dict(described), max_shown=4)}",
            min(span for _, span in described),
            message="the model never sees this",
            help=("show it: put `{schema}` into a message", "a note for people is a comment: `# ...`"),
        )


def _in_pieces(pieces: tuple[nodes.Piece, ...], module: Module, seen: set[DeclaredType]) -> Iterator[Described]:
    for piece in nodes.walk_pieces(pieces):
        if isinstance(piece, nodes.HoleNode | nodes.AsyncNode) and piece.type is not None:
            yield from _in_type(piece.type, module, None, seen)


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
        case nodes.ObjectType(members=members):
            for member in members:
                yield from _in_member(member, module, outer, seen)
        case _:
            for inner in nodes.inner_types(node):
                yield from _in_type(inner, module, outer, seen)


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


# ── examples, and the messages that they stand for ──────────────────────────────────────────────────────

ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class ExampleWriter:
    """Writes the examples of one template. `repeated` are the messages that each of them repeats with its values."""

    inputs: Mapping[str, Input]
    repeated: tuple[Message, ...]
    answer: Body | None
    types: Mapping[str, t.Type]
    report: Report

    def messages(self, node: nodes.Message, body: nodes.ExampleBody) -> tuple[Message, ...]:
        """The messages of an example; none, with diagnostics, where it is wrong."""
        before = len(self.report.diagnostics)
        if not self.repeated:
            self.report.add(
                "wrong-example",
                "an example needs a message after it to repeat",
                node.span,
                help="write the examples above the user message",
            )
        given = self._given(body)
        values = self._values(body, given)
        written = self._answer(given, values)
        if len(self.report.diagnostics) > before or written is None:
            return ()
        turns = [self._turn(message, values) for message in self.repeated]
        return (*turns, Message(Role.ASSISTANT, TextBody((p.Text(written),)), node.span))

    def _turn(self, message: Message, values: Mapping[str, JsonValue]) -> Message:
        assert isinstance(message.body, TextBody)
        text = "".join(message_texts(message.body.pieces, values.__getitem__))
        return Message(message.role, TextBody((p.Text(text),)), message.span)

    # ── inputs ───────────────────────────────────────────────────────────────────────────────────────────

    def _given(self, body: nodes.ExampleBody) -> dict[str, nodes.Value]:
        given: dict[str, nodes.Value] = {}
        known = (*self.inputs, ANSWER)
        for name, value in body.entries:
            if name.text not in known:
                headline = f"unknown input `{name.text}` in the example"
                advice = self.report.suggest(name.text, known, otherwise=f"an example has {listed(known)}")
                self.report.add("wrong-example", headline, name.span, help=advice)
            elif name.text in given:
                self.report.add("wrong-example", f"the example gives `{name.text}` twice", name.span)
            given[name.text] = value
        if ANSWER not in given:
            self._report_missing(body, ANSWER, "write it as a record: `answer: { ... }`")
        return given

    def _values(self, body: nodes.ExampleBody, given: Mapping[str, nodes.Value]) -> dict[str, JsonValue]:
        """The values of the inputs that the repeated messages and the answer read."""
        pieces = [
            piece for message in self.repeated if isinstance(message.body, TextBody) for piece in message.body.pieces
        ]
        if isinstance(self.answer, TextBody):
            pieces += self.answer.pieces
        needed = set(_names_read(pieces))
        values: dict[str, JsonValue] = {}
        for name, input in self.inputs.items():
            if name in given:
                values[name] = self._constant(given[name], value_type(input.type), f"`{name}`")
            elif input.default is not None:
                values[name] = parse_json(input.default.json)
            elif name in needed:
                self._report_missing(body, name, "give it a value, or give the input a default")
        return values

    def _report_missing(self, body: nodes.ExampleBody, name: str, help: str) -> None:
        self.report.add(
            "wrong-example",
            f"missing {'answer' if name == ANSWER else f'input `{name}`'} in the example",
            body.span,
            help=help,
        )

    def _constant(self, value: nodes.Value, type: t.Type, what: str) -> JsonValue:
        if not is_constant(value):
            self._report_wrong(what, value.span, "a text, a number, true, false, null, or a list or record of these")
            return None
        plain = constant(value)
        mismatches = find_mismatches(type, plain)
        if mismatches:
            self._report_wrong(what, value.span, str(mismatches[0]))
        return plain

    def _report_wrong(self, what: str, span: Span, reason: str) -> None:
        self.report.add("wrong-example", f"{what} does not fit its type", span, message=reason)

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, given: Mapping[str, nodes.Value], values: Mapping[str, JsonValue]) -> str | None:
        node = given.get(ANSWER)
        if node is None:
            return None
        match self.answer:
            case JsonBody(type=type):
                fitted = self._fitted(node, type, values)
                return None if fitted is None else answer_text(type, fitted[0], self.types)
            case TextBody(pieces=pieces):
                fitted = self._fitted(node, shape_of_text(pieces), values)
                if fitted is None or not isinstance(fitted[0], dict):
                    return None
                return running_text(pieces, fitted[0], lambda name: values.get(name, ""), self.types)
            case _:
                text = self._constant(node, t.String(), "the answer")
                return text if isinstance(text, str) else None

    def _fitted(self, node: nodes.Value, type: t.Type, values: Mapping[str, JsonValue]) -> tuple[JsonValue] | None:
        """The answer with its keys in order and its defaults, if it fits."""
        if not is_constant(node):
            self._constant(node, type, "the answer")
            return None
        answer, mismatches = fit(type, constant(node), self.types, sources=quotable_texts(values))
        for mismatch in mismatches:
            what = f"`{mismatch.where}` of the answer" if mismatch.path else "the answer"
            self._report_wrong(what, _place(node, mismatch.path), mismatch.reason)
        return None if mismatches else (answer,)


def _place(node: nodes.Value, path: tuple[str | int, ...]) -> Span:
    """Where a part of a constant is written; the innermost part around it, if it is missing."""
    for step in path:
        match node:
            case nodes.RecordValue(entries=entries):
                inner = next((value for key, value in entries if key.text == step), None)
            case nodes.ListValue(items=items) if isinstance(step, int) and step < len(items):
                inner = items[step]
            case _:
                inner = None
        if inner is None:
            break
        node = inner
    return node.span


def _names_read(pieces: Iterable[p.Piece]) -> Iterator[str]:
    for piece in pieces:
        match piece:
            case p.InputValue(path=path):
                yield path[0]
            case p.For(over=path, body=body) | p.Each(over=path, over_hole=False, body=body):
                yield path[0]
                yield from _names_read(body)
            case p.If(path=path, body=body, otherwise=otherwise):
                yield path[0]
                yield from _names_read((*body, *otherwise))
            case p.Async(body=body) | p.Fork(body=body) | p.Each(body=body):
                yield from _names_read(body)
            case _:
                pass
