"""Checks the inputs of a template."""

from __future__ import annotations

from typing import assert_never

from pastalang.check.arguments import check_default
from pastalang.check.built_in_types import INPUT_TYPES
from pastalang.check.modules import Module
from pastalang.check.report import Report
from pastalang.check.types import LowerType
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.grammar.messages import OTHER_INPUT_NAMES
from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, InputType, ListOf, OneOf, RecordOf
from pastalang.source import Span


def check_inputs(
    node: nodes.TemplateDeclaration, module: Module, lower: LowerType, report: Report
) -> tuple[Input, ...]:
    inputs: dict[str, Input] = {}
    each: nodes.InputNode | None = None
    for written in node.inputs:
        name = written.name.text
        type = _input_type(written.type, module, lower, report)
        if name in inputs:
            headline = f"the input `{name}` is declared twice"
            report.add_twice("duplicate-name", headline, written.name.span, inputs[name].span)
            continue
        if written.each and each is not None:
            _report_second_each(written, each, report)
        each = written if written.each and each is None else each
        if _holds_messages(type) and (written.each or type is not InputKind.MESSAGES):
            headline = "a chat history is an input of its own: `history: messages`"
            _refuse(written.span, headline, "move what belongs to each document to another input", report)
        default = _default(written, type, report)
        inputs[name] = Input(name, type, default, written.each, written.span)
    return tuple(inputs.values())


def _input_type(node: nodes.TypeNode, module: Module, lower: LowerType, report: Report) -> InputType:
    match node:
        case nodes.NamedType():
            return _named(node, module, lower, report)
        case nodes.ArrayType():
            if node.arguments:
                _refuse(
                    node.arguments[0].span,
                    "a list input takes no limits",
                    "callers may pass any number of items",
                    report,
                )
            return ListOf(_input_type(node.item, module, lower, report))
        case nodes.ObjectType():
            return _record(node, module, lower, report)
        case nodes.LiteralType() | nodes.UnionType():
            options = _options(lower(node).type)
            return OneOf(options) if options else _refused_type(node.span, report)
        case nodes.RegexType() | nodes.TupleType() | nodes.MapType():
            return _refused_type(node.span, report)
        case _:
            assert_never(node)


def _holds_messages(type: InputType) -> bool:
    match type:
        case ListOf(item=item):
            return _holds_messages(item)
        case RecordOf(fields=fields):
            return any(_holds_messages(inner) for _, inner in fields)
        case _:
            return type is InputKind.MESSAGES


def _options(type: t.Type) -> tuple[str, ...]:
    """The texts of an enum; empty for any other type."""
    arms = type.arms if isinstance(type, t.Union) else (type,)
    texts = tuple(arm.value for arm in arms if isinstance(arm, t.Literal) and isinstance(arm.value, str))
    return texts if len(texts) == len(arms) else ()


def _refused_type(span: Span, report: Report) -> InputType:
    _refuse(
        span,
        "an input cannot have this type",
        'inputs are text, integer, number, boolean, texts to choose from (`"a" | "b"`), lists `[text]` and'
        " records `{name: text}`",
        report,
    )
    return InputKind.TEXT


def _named(node: nodes.NamedType, module: Module, lower: LowerType, report: Report) -> InputType:
    name = node.name.text
    if name not in INPUT_TYPES and name in module.types and (options := _options(lower(node).type)):
        return OneOf(options)
    if name not in INPUT_TYPES:
        instead = OTHER_INPUT_NAMES.get(name.lower())
        if instead is None and name in module.types:
            is_record = isinstance(module.types[name].node.type, nodes.ObjectType)
            help = (
                "write the record out: `{name: text, count: integer}`"
                if is_record
                else 'a declared type of an input is an enum of texts: `"a" | "b"`'
            )
        else:
            help = f"write `{instead}`" if instead else report.suggest(name, INPUT_TYPES)
        known = ", ".join(INPUT_TYPES[:-1])
        _refuse(node.span, f"`{name}` is not an input type", help or f"inputs are {known} or {INPUT_TYPES[-1]}", report)
        return InputKind.TEXT
    if node.arguments:
        _refuse(
            node.arguments[0].span,
            f"the input type `{name}` takes no limits",
            "limits apply only to what the model writes",
            report,
        )
    return InputKind(name)


def _record(node: nodes.ObjectType, module: Module, lower: LowerType, report: Report) -> InputType:
    fields: dict[str, InputType] = {}
    for member in node.members:
        if not isinstance(member, nodes.FieldNode):
            _refuse(member.span, "a record input has only plain fields", "", report)
            continue
        extra = member.default or member.description or (member.after and member.after[0]) or member.name
        if extra or member.sampling:
            span = extra.span if extra else member.sampling[0].span
            _refuse(span, "a field of a record input takes only a name and a type", "", report)
        if member.key.text in fields:
            report.add("duplicate-field", f"the field `{member.key.text}` is declared twice", member.key.span)
        fields[member.key.text] = _input_type(member.type, module, lower, report)
    return RecordOf(tuple(fields.items()))


def _default(node: nodes.InputNode, type: InputType, report: Report) -> t.Default | None:
    if node.default is None:
        return None
    return check_default(node.default, value_type(type), {}, report, what=f"the default of `{node.name.text}`")


def value_type(type: InputType) -> t.Type:
    """The hole type with the same values, for checking a default."""
    match type:
        case InputKind.TEXT:
            return t.String()
        case InputKind.INTEGER:
            return t.Integer()
        case InputKind.NUMBER:
            return t.Number()
        case InputKind.BOOLEAN:
            return t.Boolean()
        case InputKind.MESSAGES:
            role = t.Union((t.Literal("user"), t.Literal("assistant")))
            return t.Array(t.Object((t.Field("role", role), t.Field("content", t.String()))))
        case ListOf(item=item):
            return t.Array(value_type(item))
        case OneOf(options=options):
            return t.Union(tuple(map(t.Literal, options))) if options[1:] else t.Literal(options[0])
        case RecordOf(fields=fields):
            return t.Object(tuple(t.Field(name, value_type(inner)) for name, inner in fields))
        case _:
            assert_never(type)


def _refuse(span: Span, headline: str, help: str, report: Report) -> None:
    report.add("wrong-input-type", headline, span, help=help)


def _report_second_each(node: nodes.InputNode, first: nodes.InputNode, report: Report) -> None:
    report.add(
        "several-each",
        "only one input of a template can be marked `each`",
        node.span,
        message="the second one",
        related=[Label(first.span, "the first one")],
        help="put both into one record: `each document: {title: text, body: text}`",
    )
