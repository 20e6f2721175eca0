"""Checks templates: their messages and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from pastalang.check.arguments import TOKENS, Signature, check_sampling, read_arguments
from pastalang.check.built_in_types import policy
from pastalang.check.inputs import check_inputs
from pastalang.check.modules import Module
from pastalang.check.names import Resolver, Scope, declared_names
from pastalang.check.prompts import ExampleWriter, PromptChecker, check_descriptions, report_hole_outside_answer
from pastalang.check.report import Report
from pastalang.check.text import TextChecker
from pastalang.check.types import LowerType
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.limits import MAX_BRANCHES
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
    Role,
    Template,
    TextBody,
)
from pastalang.program.types import Sampling
from pastalang.program.visit import parts_of
from pastalang.source import Span

DEFAULT_AUTO_TOKENS = 1_024
DEFAULT_THOUGHT_TOKENS = 1_024
THINK = Signature("`think`", {"max": TOKENS})
AUTO_MESSAGE = Signature("`auto`", {"max": TOKENS})


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
        resolver = Resolver({input.name: input for input in inputs}, declared, self.types, self.report)
        body = self._answer_body(answer, resolver) if answer is not None else None
        description = node.description.text if node.description is not None else None
        prompts = PromptChecker(resolver, body, self.types, description, self.report)
        messages, history = self._messages(answer, body, prompts, {input.name: input for input in inputs})
        self._check_system()
        self._check_unused(resolver)
        if not prompts.shows_schema and not self.report.has_errors:  # types that are too large have been refused
            check_descriptions(node, self.module, self.report)
        return Template(
            name=node.name.text,
            inputs=inputs,
            messages=messages,
            sampling=check_sampling(node.sampling, self.report),
            description=description,
            span=node.span,
            history=history,
        )

    def _messages(
        self, answer: nodes.Message | None, body: Body | None, prompts: PromptChecker, inputs: Mapping[str, Input]
    ) -> tuple[tuple[Message, ...], History | None]:
        """The checked messages, and the place of a history among them. Examples become what they stand for."""
        checked = [self._message(node, answer, body, prompts) for node in self.node.messages]
        is_example = [isinstance(node.body, nodes.ExampleBody) for node in self.node.messages]
        last = max((index for index, is_one in enumerate(is_example) if is_one), default=-1)
        repeated = tuple(
            message for message in checked[last + 1 :] if message is not None and message.role is Role.USER
        )
        examples = ExampleWriter(inputs, repeated, body, self.types, self.report)
        messages: list[Message] = []
        history: History | None = None
        for node, message in zip(self.node.messages, checked, strict=True):
            if message is not None:
                messages.append(message)
            elif isinstance(node.body, nodes.ExampleBody):
                messages.extend(examples.messages(node, node.body))
            elif isinstance(node.body, nodes.HistoryBody):
                history = prompts.history(node.body, len(messages), history)
        return tuple(messages), history

    def _message(
        self, node: nodes.Message, answer: nodes.Message | None, body: Body | None, prompts: PromptChecker
    ) -> Message | None:
        """None for an example or a history."""
        if isinstance(node.body, nodes.ExampleBody | nodes.HistoryBody):
            return None
        thought = self._thought(node, is_answer=node is answer)
        if node is answer and body is not None:
            return Message(Role.ASSISTANT, body, node.span, thought)
        return Message(Role(node.role.value), self._prompt(node, prompts), node.span, thought)

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
            case nodes.ExampleBody() | nodes.HistoryBody():
                raise AssertionError("examples and histories are not written by the model")

    def _prompt(self, message: nodes.Message, prompts: PromptChecker) -> TextBody:
        if isinstance(message.body, nodes.TextBlock):
            return TextBody(prompts.check(message.body, message.role))
        report_hole_outside_answer(message.role, message.body.span, self.report)
        return TextBody(())

    def _answer(self, block: nodes.TextBlock, resolver: Resolver) -> TextBody:
        checker = TextChecker(resolver, resolver.declared, self.lower, self.report)
        answer = TextBody(checker.check(block))
        declared = {name: every[0] for name, every in resolver.declared.items()}
        self.spans.update({name: one.span for name, one in declared.items() if one.kind != "input"})
        if not _has_hole(block):
            self._report_nothing_to_write(block.span)
        return answer

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
        given = read_arguments(message.thought.arguments, THINK, self.report)
        return given["max"] or DEFAULT_THOUGHT_TOKENS

    def _auto(self, body: nodes.AutoBody) -> AutoBody:
        max_tokens = read_arguments(body.arguments, AUTO_MESSAGE, self.report)["max"] or DEFAULT_AUTO_TOKENS
        return AutoBody(policy(body.policy.text, body.policy.span, self.report), max_tokens, Sampling())

    # ── use ──────────────────────────────────────────────────────────────────────────────────────────────

    def _check_unused(self, resolver: Resolver) -> None:
        for input in () if resolver.has_unknown else self.node.inputs:
            is_only_one = len(resolver.declared[input.name.text]) == 1  # else it was reported as a duplicate
            if (
                input.name.text not in resolver.used
                and resolver.inputs[input.name.text].span == input.span
                and is_only_one
            ):
                self.report.add(
                    "input-never-used",
                    f"the input `{input.name.text}` is never used",
                    input.name.span,
                    help=_how_to_use(input.name.text, resolver.inputs[input.name.text].type),
                )


def _how_to_use(name: str, type: InputType) -> str:
    if type is InputKind.MESSAGES:
        return f"write `...{name}` between the messages, or remove the input"
    return f"put `{{{name}}}` into a message, or remove the input"


def _has_hole(block: nodes.TextBlock) -> bool:
    pieces = nodes.walk_pieces(block.pieces)
    return any(isinstance(piece, nodes.HoleNode | nodes.AsyncNode) and piece.type is not None for piece in pieces)


def _leaves_a_choice(type: t.Type) -> bool:
    if isinstance(type, t.Object | t.Tuple):
        return any(_leaves_a_choice(part) for _, part in parts_of(type))
    return not isinstance(type, t.Literal | t.Null)


def check_branches(template: Template, report: Report) -> None:
    for message in template.messages:
        match message.body:
            case TextBody(pieces=pieces):
                count = _in_pieces(pieces)
            case JsonBody(type=type):
                count = _in_type(type)
            case _:
                count = 0
        if count > MAX_BRANCHES:
            report.add(
                "too-large",
                f"`{template.name}` may grow to {count:,} branches; the limit is {MAX_BRANCHES:,}",
                message.span,
                help="lower the maximum number of items of its nested lists and forks",
            )


def _in_pieces(pieces: tuple[p.Piece, ...]) -> int:
    return sum(map(_in_piece, pieces))


def _in_piece(piece: p.Piece) -> int:
    match piece:
        case p.Async(body=body) | p.Each(body=body):
            return 1 + _in_pieces(body)
        case p.Fork(maximum=maximum, body=body):
            return maximum * _in_pieces(body)
        case p.Text() | p.InputValue() | p.ItemNumber() | p.Hole() | p.Promise() | p.Sync() | p.For() | p.If():
            return 0
        case _:
            assert_never(piece)


def _in_type(type: t.Type) -> int:
    """One branch for each value of a skeleton; a list of objects has one for each field of each item."""
    parts = [_in_type(part) for _, part in parts_of(type)]
    if isinstance(type, t.Object):
        return sum(parts)
    if isinstance(type, t.Array) and isinstance(type.item, t.Object):
        return 1 + (type.max_items or 1) * parts[0]
    return 1 + max(parts, default=0) if isinstance(type, t.Union) else 1
