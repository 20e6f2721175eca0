"""Checks the examples of a template, and writes each as the messages that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pastalang.check.arguments import constant, is_constant
from pastalang.check.inputs import value_type
from pastalang.check.report import Report, listed
from pastalang.grammar import nodes
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import Body, Input, JsonBody, Message, Role, TextBody
from pastalang.source import Span
from pastalang.values.answer_text import answer_text, running_text
from pastalang.values.fit import find_mismatches, fit
from pastalang.values.input_text import message_texts
from pastalang.values.json import JsonValue, parse_json
from pastalang.values.quotable import quotable_texts
from pastalang.values.to_prompt import shape_of_text

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
        """The messages of an example; none, with findings, where it is wrong."""
        before = len(self.report.found)
        if not self.repeated:
            self.report.add(
                "wrong-example",
                "an example repeats the messages after it, and there are none before the answer",
                node.span,
                help="write the examples above the user message",
            )
        given = self._given(body)
        values = self._values(body, given)
        written = self._answer(body, given, values)
        if len(self.report.found) > before or written is None:
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
                headline = f"the template has no input `{name.text}`"
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
        pieces = [piece for one in self.repeated if isinstance(one.body, TextBody) for piece in one.body.pieces]
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
        self.report.add("wrong-example", f"the example does not give `{name}`", body.span, help=help)

    def _constant(self, value: nodes.Value, type: t.Type, what: str) -> JsonValue:
        if not is_constant(value):
            self._report_wrong(what, value.span, "a text, a number, true, false, null, or a list or record of these")
            return None
        found = constant(value)
        mismatches = find_mismatches(type, found)
        if mismatches:
            self._report_wrong(what, value.span, str(mismatches[0]))
        return found

    def _report_wrong(self, what: str, span: Span, reason: str) -> None:
        self.report.add("wrong-example", f"{what} does not fit its type", span, message=reason)

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────

    def _answer(
        self, body: nodes.ExampleBody, given: Mapping[str, nodes.Value], values: Mapping[str, JsonValue]
    ) -> str | None:
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
        found, mismatches = fit(type, constant(node), self.types, sources=quotable_texts(values))
        for mismatch in mismatches:
            what = f"`{mismatch.where}` of the answer" if mismatch.path else "the answer"
            self._report_wrong(what, _place(node, mismatch.path), mismatch.reason)
        return None if mismatches else (found,)


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
            case p.For(over=path, body=body):
                yield path[0]
                yield from _names_read(body)
            case p.If(path=path, body=body, otherwise=otherwise):
                yield path[0]
                yield from _names_read((*body, *otherwise))
            case p.Each(over=path, over_hole=False, body=body):
                yield path[0]
                yield from _names_read(body)
            case p.Async(body=body) | p.Fork(body=body) | p.Each(body=body):
                yield from _names_read(body)
            case _:
                pass
