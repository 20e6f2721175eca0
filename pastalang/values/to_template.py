"""Writes the template that asks for a type: its inputs, its messages, and the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from pastalang.grammar import nodes
from pastalang.source import Span

Example: TypeAlias = tuple[str, nodes.Value]  # a text and its right answer

_NOWHERE: Final = Span(0, 0)
_INSTRUCTION: Final = "Read the text and fill in the record."
SHOW_SCHEMA: Final = "show_schema"  # the input of an extraction program that leaves the schema out
_BOOLEAN: Final = nodes.NamedType(nodes.Name("boolean", _NOWHERE), (), _NOWHERE)
_TEXT: Final = nodes.NamedType(nodes.Name("text", _NOWHERE), (), _NOWHERE)


def template_of(
    name: str,
    body: nodes.TypeNode,
    description: str | None,
    examples: Iterable[Example],
    *,
    is_instructed: bool,
) -> nodes.TemplateDeclaration:
    """A template that reads a text. With `is_instructed` it has the inputs of `extract`; see `program_source`."""
    inputs = [_text_input("text", None)]
    reads: tuple[nodes.Piece, ...] = (_reference("text"),)
    instruction: tuple[nodes.Piece, ...] = (nodes.TextPiece(f"{_INSTRUCTION}\n\n", _NOWHERE), _reference("schema"))
    if is_instructed:
        texts = nodes.ArrayType(_TEXT, (), _NOWHERE)
        inputs.append(_text_input("instructions", _INSTRUCTION))
        inputs.append(nodes.InputNode(_name("context"), False, texts, nodes.ListValue((), _NOWHERE), _NOWHERE))
        reads = (_context(), *reads)
        inputs.append(
            nodes.InputNode(_name(SHOW_SCHEMA), False, _BOOLEAN, nodes.BooleanValue(True, _NOWHERE), _NOWHERE)
        )
        schema = (nodes.TextPiece("\n\n", _NOWHERE), _reference("schema"))
        shown = nodes.PathValue((_name(SHOW_SCHEMA),), _NOWHERE)
        instruction = (_reference("instructions"), nodes.IfNode(shown, False, None, schema, None, _NOWHERE))
    messages = (
        nodes.Message(nodes.Role.SYSTEM, nodes.TextBlock(instruction, _NOWHERE), _NOWHERE),
        *(nodes.Message(nodes.Role.USER, _example(text, answer), _NOWHERE) for text, answer in examples),
        nodes.Message(nodes.Role.USER, nodes.TextBlock(reads, _NOWHERE), _NOWHERE),
        nodes.Message(nodes.Role.ASSISTANT, nodes.JsonBody(body, _NOWHERE), _NOWHERE),
    )
    return nodes.TemplateDeclaration(
        name=_name(_template_name(name)),
        inputs=tuple(inputs),
        sampling=(),
        description=nodes.StringValue(description, _NOWHERE) if description else None,
        messages=messages,
        span=_NOWHERE,
    )


def _example(text: str, answer: nodes.Value) -> nodes.ExampleBody:
    entries = ((_name("text"), nodes.StringValue(text, _NOWHERE)), (_name("answer"), answer))
    return nodes.ExampleBody(entries, _NOWHERE)


def _context() -> nodes.IfNode:
    """`{if context}Context: {for part in context} ... {end}Text: {end}`."""
    context = nodes.PathValue((_name("context"),), _NOWHERE)
    part = (_reference("part"), nodes.TextPiece("\n\n", _NOWHERE))
    body = (
        nodes.TextPiece("Context:\n\n", _NOWHERE),
        nodes.ForNode(_name("part"), context, part, _NOWHERE),
        nodes.TextPiece("Text:\n\n", _NOWHERE),
    )
    return nodes.IfNode(context, False, None, body, None, _NOWHERE)


def _text_input(name: str, default: str | None) -> nodes.InputNode:
    value = None if default is None else nodes.StringValue(default, _NOWHERE)
    return nodes.InputNode(_name(name), False, _TEXT, value, _NOWHERE)


def _reference(name: str) -> nodes.Reference:
    return nodes.Reference(nodes.PathValue((_name(name),), _NOWHERE), _NOWHERE)


def _template_name(name: str) -> str:
    """The name of the template for a type: `invoice_line` for `InvoiceLine`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", snake).strip("_")
    return plain if re.match("[a-z]", plain) else f"record_{plain}".rstrip("_")


def _name(text: str) -> nodes.Name:
    return nodes.Name(text, _NOWHERE)
