"""Checks templates: their inputs, their messages and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from pastalang.check.arguments import check_sampling, read_arguments
from pastalang.check.modules import INPUT_TYPES, Module
from pastalang.check.names import Resolver, Scope, declared_names
from pastalang.check.objects import check_default
from pastalang.check.prompts import PromptChecker, check_descriptions, report_hole_outside_answer
from pastalang.check.report import Report, listed
from pastalang.check.text import TextChecker
from pastalang.check.type_facts import LowerType
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.limits import MAX_HOLE_TOKENS
from pastalang.program import types as t
from pastalang.program.program import (
    AutoBody,
    AutoPolicy,
    Body,
    Input,
    InputKind,
    InputType,
    JsonBody,
    ListOf,
    Message,
    OneOf,
    RecordOf,
    Role,
    Template,
    TextBody,
)
from pastalang.program.types import Sampling
from pastalang.source import Span

INPUT_TYPE_HINTS = {"string": "text", "str": "text", "int": "integer", "float": "number", "bool": "boolean"}


def check_inputs(
    node: nodes.TemplateDeclaration, module: Module, lower: LowerType, report: Report
) -> tuple[Input, ...]:
    found: dict[str, Input] = {}
    each: nodes.InputNode | None = None
    for written in node.inputs:
        name = written.name.text
        type = _input_type(written.type, module, lower, report)
        if name in found:
            _report_duplicate(written.name, found[name], report)
            continue
        if written.each and each is not None:
            _report_second_each(written, each, report)
        each = written if written.each and each is None else each
        default = _default(written, type, report)
        found[name] = Input(name, type, default, written.each, written.span)
    return tuple(found.values())


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
        instead = INPUT_TYPE_HINTS.get(name)
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
            _refuse(span, "a field of a record input has only a name and a type", "", report)
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


def _report_duplicate(name: nodes.Name, first: Input, report: Report) -> None:
    report.add(
        "duplicate-name",
        f"the input `{name.text}` is declared twice",
        name.span,
        message="declared again",
        related=[Label(first.span, "first declared here")],
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


POLICIES = tuple(policy.value for policy in AutoPolicy)
DEFAULT_AUTO_TOKENS = 1_024
DEFAULT_THOUGHT_TOKENS = 1_024


@dataclass(slots=True)
class TemplateChecker:
    """Checks one template. `lower` lowers a type of its module; `spans` collects the places of its holes."""

    node: nodes.TemplateDeclaration
    module: Module
    types: dict[str, t.Type]
    lower: LowerType
    report: Report
    spans: dict[str, Span] = field(default_factory=dict)

    def check(self) -> Template:
        node = self.node
        inputs = check_inputs(node, self.module, self.lower, self.report)
        answer = self._find_answer()
        block = answer.body if answer is not None and isinstance(answer.body, nodes.TextBlock) else None
        declared = declared_names(inputs, block.pieces if block is not None else ())
        resolver = Resolver({one.name: one for one in inputs}, declared, self.types, self.report)
        body = self._answer_body(answer, resolver) if answer is not None else None
        description = node.description.text if node.description is not None else None
        prompts = PromptChecker(resolver, body, self.types, description, self.report)
        messages = tuple(
            Message(
                Role(message.role.value),
                body if message is answer and body is not None else self._prompt(message, prompts),
                message.span,
                self._thought(message, is_answer=message is answer),
            )
            for message in node.messages
        )
        self._check_system()
        self._check_unused(resolver)
        if not prompts.shows_schema:
            check_descriptions(node, self.module, self.report)
        return Template(
            name=node.name.text,
            inputs=inputs,
            messages=messages,
            sampling=check_sampling(node.sampling, self.report),
            description=description,
            span=node.span,
        )

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────

    def _find_answer(self) -> nodes.Message | None:
        messages = self.node.messages
        if messages and messages[-1].role is nodes.Role.ASSISTANT:
            return messages[-1]
        name = self.node.name
        answers = [message for message in messages if message.role is nodes.Role.ASSISTANT]
        if answers:
            self.report.add(
                "wrong-messages",
                f"the template `{name.text}` does not end with the answer",
                messages[-1].span,
                message="nothing may follow the answer",
                related=[Label(answers[-1].span, "the answer")],
                help="move the assistant message to the end",
            )
        else:
            self.report.add(
                "wrong-messages",
                f"the template `{name.text}` has no answer for the model to write",
                name.span,
                help="end it with `assistant json { ... }` or with `assistant text` and a text",
            )
        return answers[-1] if answers else None

    def _check_system(self) -> None:
        for message in self.node.messages[1:]:
            if message.role is nodes.Role.SYSTEM:
                first = self.node.messages[0]
                self.report.add(
                    "wrong-messages",
                    "a template has at most one system message, and it comes first",
                    message.span,
                    related=[Label(first.span, "the first message")],
                    help="move it to the beginning, or merge the two",
                )

    def _answer_body(self, answer: nodes.Message, resolver: Resolver) -> Body:
        match answer.body:
            case nodes.TextBlock() as block:
                return self._answer(block, resolver)
            case nodes.JsonBody() as body:
                return self._json(body, resolver)
            case nodes.AutoBody() as body:
                return self._auto(body)

    def _prompt(self, message: nodes.Message, prompts: PromptChecker) -> TextBody:
        if isinstance(message.body, nodes.TextBlock):
            return TextBody(prompts.check(message.body, message.role))
        report_hole_outside_answer(message.role, message.body.span, self.report)
        return TextBody(())

    def _answer(self, block: nodes.TextBlock, resolver: Resolver) -> TextBody:
        checker = TextChecker(resolver, resolver.declared, self.lower, self.report)
        found = TextBody(checker.check(block))
        self.spans.update(checker.spans)
        if not any(map(_has_hole, block.pieces)):
            self._report_nothing_to_write(block.span)
        return found

    def _report_nothing_to_write(self, span: Span) -> None:
        self.report.add(
            "wrong-messages",
            f"the answer of `{self.node.name.text}` leaves nothing for the model to write",
            span,
            help="add a hole where the model should write: `{summary: string(max=40)}`",
        )

    def _json(self, body: nodes.JsonBody, resolver: Resolver) -> JsonBody:
        facts = self.lower(body.type, in_json=True)
        for use in facts.verbatims:
            resolver.verbatim(use, Scope())
        if not _leaves_a_choice(facts.type):
            self._report_nothing_to_write(body.span)
        return JsonBody(facts.type, Sampling())

    def _thought(self, message: nodes.Message, *, is_answer: bool) -> int | None:
        """The token limit of the model's reasoning, if the message asks for it."""
        if message.thought is None:
            return None
        if not is_answer:
            report_hole_outside_answer(message.role, message.thought.span, self.report)
        given = read_arguments(message.thought.arguments, owner="`think`", allowed=("max",), report=self.report)
        return given.integer("max", minimum=1, maximum=MAX_HOLE_TOKENS) or DEFAULT_THOUGHT_TOKENS

    def _auto(self, body: nodes.AutoBody) -> AutoBody:
        given = read_arguments(body.arguments, owner="`auto`", allowed=("max",), report=self.report)
        max_tokens = given.integer("max", minimum=1, maximum=MAX_HOLE_TOKENS) or DEFAULT_AUTO_TOKENS
        if body.policy.text not in POLICIES:
            self.report.add(
                "unknown-policy",
                f"there is no policy `{body.policy.text}`",
                body.policy.span,
                help=self.report.suggest(body.policy.text, POLICIES, otherwise=f"the policies are {listed(POLICIES)}"),
            )
            return AutoBody(AutoPolicy.PASTA, max_tokens, Sampling())
        return AutoBody(AutoPolicy(body.policy.text), max_tokens, Sampling())

    # ── use ──────────────────────────────────────────────────────────────────────────────────────────────

    def _check_unused(self, resolver: Resolver) -> None:
        for one in () if resolver.has_unknown else self.node.inputs:
            is_only_one = len(resolver.declared[one.name.text]) == 1  # else it was reported as a duplicate
            if one.name.text not in resolver.used and resolver.inputs[one.name.text].span == one.span and is_only_one:
                self.report.add(
                    "input-never-used",
                    f"the input `{one.name.text}` is never used",
                    one.name.span,
                    help=f"put `{{{one.name.text}}}` into a message, or remove the input",
                )


def _has_hole(piece: nodes.Piece) -> bool:
    match piece:
        case nodes.HoleNode():
            return True
        case nodes.AsyncNode(type=type, body=body):
            return type is not None or any(map(_has_hole, body or ()))
        case nodes.ForkNode(body=body) | nodes.EachNode(body=body):
            return any(map(_has_hole, body))
        case _:
            return False


def _leaves_a_choice(type: t.Type) -> bool:
    match type:
        case t.Literal() | t.Null():
            return False
        case t.Object(fields=fields):
            return any(_leaves_a_choice(field.type) for field in fields)
        case t.Tuple(items=items):
            return any(map(_leaves_a_choice, items))
        case _:
            return True
