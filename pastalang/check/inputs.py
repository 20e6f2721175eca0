"""From the inputs of a template as written to what a caller has to give."""

from __future__ import annotations

from typing import assert_never

from pastalang.check.modules import INPUT_TYPES, Module
from pastalang.check.objects import check_default
from pastalang.check.report import Report
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, InputType, ListOf, RecordOf
from pastalang.source import Span

NOT_FOR_INPUTS = {"string": "text", "str": "text", "int": "integer", "float": "number", "bool": "boolean"}


def check_inputs(node: nodes.TemplateDeclaration, module: Module, report: Report) -> tuple[Input, ...]:
    found: dict[str, Input] = {}
    each: nodes.InputNode | None = None
    for written in node.inputs:
        name = written.name.text
        type = _input_type(written.type, module, report)
        if name in found:
            _report_duplicate(written.name, found[name], report)
            continue
        if written.each and each is not None:
            _report_second_each(written, each, report)
        each = written if written.each and each is None else each
        default = _default(written, type, report)
        found[name] = Input(name, type, default, written.each, written.span)
    return tuple(found.values())


def _input_type(node: nodes.TypeNode, module: Module, report: Report) -> InputType:
    match node:
        case nodes.NamedType():
            return _named(node, module, report)
        case nodes.ArrayType():
            if node.arguments:
                _refuse(
                    node.arguments[0].span,
                    "the list of an input has no limits here",
                    "callers may give any number",
                    report,
                )
            return ListOf(_input_type(node.item, module, report))
        case nodes.ObjectType():
            return _record(node, module, report)
        case nodes.LiteralType() | nodes.RegexType() | nodes.UnionType() | nodes.TupleType() | nodes.MapType():
            _refuse(
                node.span,
                "an input cannot have this type",
                "inputs are text, integer, number, boolean, lists `[text]` and records `{name: text}`",
                report,
            )
            return InputKind.TEXT
        case _:
            assert_never(node)


def _named(node: nodes.NamedType, module: Module, report: Report) -> InputType:
    name = node.name.text
    if name not in INPUT_TYPES:
        instead = NOT_FOR_INPUTS.get(name)
        if instead is None and name in module.types:
            help = "write the record out: `{name: text, count: integer}`"
        else:
            help = f"write `{instead}`" if instead else report.suggest(name, INPUT_TYPES)
        known = ", ".join(INPUT_TYPES[:-1])
        _refuse(node.span, f"`{name}` is no type of inputs", help or f"inputs are {known} or {INPUT_TYPES[-1]}", report)
        return InputKind.TEXT
    if node.arguments:
        _refuse(
            node.arguments[0].span,
            f"the input type `{name}` takes no limits",
            "limits belong to what the model writes",
            report,
        )
    return InputKind(name)


def _record(node: nodes.ObjectType, module: Module, report: Report) -> InputType:
    fields: dict[str, InputType] = {}
    for member in node.members:
        if not isinstance(member, nodes.FieldNode):
            _refuse(member.span, "the record of an input has plain fields only", "", report)
            continue
        extra = member.default or member.description or (member.after and member.after[0]) or member.name
        if extra or member.sampling:
            span = extra.span if extra else member.sampling[0].span
            _refuse(span, "a field of an input has a name and a type, nothing else", "", report)
        if member.key.text in fields:
            report.add("duplicate-field", f"the field `{member.key.text}` is declared twice", member.key.span)
        fields[member.key.text] = _input_type(member.type, module, report)
    return RecordOf(tuple(fields.items()))


def _default(node: nodes.InputNode, type: InputType, report: Report) -> t.Default | None:
    if node.default is None:
        return None
    return check_default(node.default, value_type(type), {}, report, what=f"the default of `{node.name.text}`")


def value_type(type: InputType) -> t.Type:
    """The hole type with the same values, to check a value against."""
    match type:
        case InputKind.TEXT:
            return t.String()
        case InputKind.INTEGER:
            return t.Integer()
        case InputKind.NUMBER:
            return t.Number()
        case InputKind.BOOLEAN:
            return t.Boolean()
        case ListOf(item=item):
            return t.Array(value_type(item))
        case RecordOf(fields=fields):
            return t.Object(tuple(t.Field(name, value_type(inner)) for name, inner in fields))
        case _:
            assert_never(type)


def _refuse(span: Span, headline: str, help: str, report: Report) -> None:
    report.add("wrong-input-type", headline, span, help=help)


def _report_duplicate(name: nodes.Name, first: Input, report: Report) -> None:
    report.add(
        "duplicate-name",
        f"the input `{name.text}` is declared twice",
        name.span,
        message="declared again",
        related=[Label(first.span, "declared here for the first time")],
    )


def _report_second_each(node: nodes.InputNode, first: nodes.InputNode, report: Report) -> None:
    report.add(
        "several-each",
        "only one input of a template can be marked `each`",
        node.span,
        message="the second one",
        related=[Label(first.span, "the first one")],
        help="put both into one record: `each document: {title: text, body: text}`",
    )
