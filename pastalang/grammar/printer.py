"""The printer: a syntax tree as canonical text."""

from __future__ import annotations

import re
from typing import assert_never

from pastalang.grammar import nodes
from pastalang.grammar.document import (
    HARD,
    Break,
    Document,
    Group,
    IfBroken,
    Nest,
    Verbatim,
    join,
    render,
    sequence,
)
from pastalang.grammar.escapes import write_string
from pastalang.grammar.print_types import (
    SOFT,
    Owner,
    arguments_document,
    clauses_document,
    comment_text,
    description_document,
    owner_lines,
    sampling_document,
    type_document,
    typed,
    value_document,
)
from pastalang.grammar.triple_quotes import write_quotes


def print_file(file: nodes.File) -> str:
    """The whole file. It ends with one line end; a file with nothing in it is empty."""
    blocks: list[str] = []
    before: nodes.Declaration | None = None
    for declaration in file.declarations:
        if before is not None:
            blocks.append("\n" if _may_touch(before, declaration) else "\n\n")
        blocks.append(print_declaration(declaration))
        before = declaration
    if file.closing.comments and blocks:
        blocks.append("\n\n" if file.closing.comments[0].blank_before else "\n")
    blocks.append(_comment_block(file.closing.comments))
    text = "".join(blocks)
    return text + "\n" if text else ""


def print_declaration(declaration: nodes.Declaration) -> str:
    """One declaration with its comments, without a line end."""
    lines = _owner_text(declaration, _head(declaration))
    if isinstance(declaration, nodes.TemplateDeclaration):
        for number, message in enumerate(declaration.messages):
            blank = number == 0 or _begins_blank(message)
            lines += ("\n\n" if blank else "\n") + _owner_text(message, _message(message))
    return lines


def print_type(node: nodes.TypeNode) -> str:
    """A type alone, as it is written after a field's colon."""
    return render(typed("", node), width=WIDTH).lstrip()


def _may_touch(before: nodes.Declaration, declaration: nodes.Declaration) -> bool:
    """Imports and types may follow one another without blank lines; anything else has a blank line before it."""
    alike = type(before) is type(declaration) and not isinstance(declaration, nodes.TemplateDeclaration)
    return alike and not _begins_blank(declaration)


def _begins_blank(owner: Owner) -> bool:
    comments = owner.trivia.comments
    return comments[0].blank_before if comments else owner.trivia.blank_before


def _owner_text(owner: Owner, document: Document) -> str:
    return render(sequence(*owner_lines([(owner, document)])), width=WIDTH)


def _comment_block(comments: tuple[nodes.Comment, ...]) -> str:
    lines: list[str] = []
    for comment in comments:
        if lines and comment.blank_before:
            lines.append("")
        lines.append(comment_text(comment))
    return "\n".join(lines)


# ── declarations ─────────────────────────────────────────────────────────────────────────────────────────


def _head(declaration: nodes.Declaration) -> Document:
    """A declaration without the messages of a template."""
    match declaration:
        case nodes.ImportNode(names=names, path=path):
            return f"import {', '.join(name.text for name in names)} from {write_string(path.text)}"
        case nodes.TypeDeclaration(name=name, type=type_node, description=description):
            clauses = [description_document(description)] if description else []
            return sequence(typed(f"type {name.text} =", type_node, over_lines=True), clauses_document(clauses))
        case nodes.TemplateDeclaration():
            return _template_head(declaration)
        case _:
            assert_never(declaration)


def _template_head(template: nodes.TemplateDeclaration) -> Document:
    clauses: list[Document] = []
    if template.sampling:
        clauses.append(sampling_document(template.sampling))
    if template.description is not None:
        clauses.append(description_document(template.description))
    return sequence(f"template {template.name.text}", _inputs(template.inputs), clauses_document(clauses))


def _inputs(inputs: tuple[nodes.InputNode, ...]) -> Document:
    if not inputs:
        return "()"
    if any(node.trivia != nodes.NO_TRIVIA for node in inputs):
        lines = sequence(*owner_lines((node, _input(node)) for node in inputs))
        return sequence("(", Nest(sequence(HARD, lines)), HARD, ")")
    inside = join(sequence(IfBroken("", flat=","), Break()), map(_input, inputs))
    return Group(sequence("(", Nest(sequence(SOFT, inside)), SOFT, ")"))


def _input(node: nodes.InputNode) -> Document:
    head = typed(f"{'each ' if node.each else ''}{node.name.text}:", node.type)
    return head if node.default is None else sequence(head, " = ", value_document(node.default))


def _message(message: nodes.Message) -> Document:
    if isinstance(message.body, nodes.ExampleBody):
        return _example(message.body)
    if isinstance(message.body, nodes.HistoryBody):
        return f"...{message.body.name.text}"
    role: Document = message.role.value
    if message.thought is not None:
        role = sequence(role, " think", arguments_document(message.thought.arguments))
    match message.body:
        case nodes.TextBlock() as block:
            word = sequence(role, " text") if message.role is nodes.Role.ASSISTANT else role
            return sequence(word, " ", Verbatim(print_text_block(block)))
        case nodes.JsonBody(type=type_node):
            return typed(sequence(role, " json"), type_node, over_lines=True)
        case nodes.AutoBody(policy=policy, arguments=arguments):
            named = nodes.Argument(None, nodes.PathValue((policy,), policy.span), policy.span)
            return sequence(role, " auto", arguments_document((named, *arguments)))
        case _:
            assert_never(message.body)


def _example(body: nodes.ExampleBody) -> Document:
    if not body.entries:
        return "example {}"
    entries = join(HARD, (sequence(name.text, ": ", _example_value(value)) for name, value in body.entries))
    return sequence("example {", Nest(sequence(HARD, entries)), HARD, "}")


def _example_value(value: nodes.Value) -> Document:
    if isinstance(value, nodes.StringValue) and "\n" in value.text and not CONTROL.search(value.text):
        return Verbatim(write_quotes(value.text))
    return value_document(value)


__all__ = ["print_declaration", "print_file", "print_type"]


WIDTH = 100
CONTROL = re.compile(r"[^\S \n]|[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
QUOTES = '"""'
TO_ESCAPE = re.compile(r'"""|\{|\}')
ESCAPES = {QUOTES: '\\"""', "{": "{{", "}": "}}"}


def print_text_block(block: nodes.TextBlock) -> str:
    """The block with its quotes."""
    writer = Writer()
    writer.write_pieces(block.pieces)
    return f"{QUOTES}\n{writer.finish()}{QUOTES}"


class Writer:
    """The text so far, and whether a structural tag waits for its line end."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._at_line_start = True
        self._owes_line_end = False

    def finish(self) -> str:
        """The text and its last line end."""
        return "".join(self._parts) + "\n" if self._parts else ""

    def write_pieces(self, pieces: tuple[nodes.Piece, ...]) -> None:
        for piece in pieces:
            self._write_piece(piece)

    def _write_piece(self, piece: nodes.Piece) -> None:
        match piece:
            case nodes.TextPiece(text=text):
                self._write(TO_ESCAPE.sub(lambda match: ESCAPES[match[0]], text))
            case nodes.Reference(path=path):
                self._write(f"{{{path.text}}}")
            case nodes.SchemaTag(arguments=arguments):
                self._write_tag(sequence("schema", arguments_document(arguments) or "()"))
            case nodes.HoleNode():
                self._write_tag(sequence(piece.name.text, ": ", type_document(piece.type), _sampling(piece.sampling)))
            case nodes.AsyncNode(type=type_node, body=None) if type_node is not None:
                self._write_tag(
                    sequence(*_async_head(piece), ": ", type_document(type_node), _sampling(piece.sampling))
                )
            case nodes.AsyncNode(body=body):
                self._write_structural(sequence(*_async_head(piece), _sampling(piece.sampling)))
                self.write_pieces(body or ())
                self._write_structural("end")
            case nodes.PromiseNode(name=name, topic=topic, reserve=reserve):
                self._write_structural(f"promise {name.text} {write_string(topic.text)}{_reserve(reserve)}")
            case nodes.SyncNode(names=names):
                self._write_structural(" ".join(["sync", ", ".join(name.text for name in names)]).rstrip())
            case nodes.ForkNode(name=name, count=count, body=body):
                self._write_structural(sequence(f"fork {name.text} (", value_document(count), ")"))
                self.write_pieces(body)
                self._write_structural("end")
            case nodes.EachNode(name=name, over=over, reserve=reserve, body=body):
                self._write_structural(f"fork {name.text} in {over.text}{_reserve(reserve)}")
                self.write_pieces(body)
                self._write_structural("end")
            case nodes.ForNode(name=name, over=over, body=body):
                self._write_structural(f"for {name.text} in {over.text}")
                self.write_pieces(body)
                self._write_structural("end")
            case nodes.IfNode():
                self._write_if(piece)
            case _:
                assert_never(piece)

    def _write_if(self, node: nodes.IfNode) -> None:
        compared = "" if node.equals is None else sequence(" == ", value_document(node.equals))
        self._write_structural(sequence(f"if {'not ' if node.is_negated else ''}{node.path.text}", compared))
        self.write_pieces(node.body)
        if node.otherwise is not None:
            self._write_structural("else")
            self.write_pieces(node.otherwise)
        self._write_structural("end")

    def _write(self, text: str) -> None:
        """Text, or a tag within a line."""
        self._pay()
        self._parts.append(text)
        self._at_line_start = text.endswith("\n")

    def _write_tag(self, inside: Document) -> None:
        self._write(_tag(inside))

    def _write_structural(self, inside: Document) -> None:
        """A tag that gets a line of its own where a line begins; such a line leaves no trace in the text."""
        self._pay()
        self._parts.append(_tag(inside))
        self._owes_line_end = self._at_line_start

    def _pay(self) -> None:
        if self._owes_line_end:
            self._parts.append("\n")
        self._owes_line_end = False


def _tag(inside: Document) -> str:
    return "{" + render(inside, width=WIDTH * WIDTH) + "}"


def _async_head(node: nodes.AsyncNode) -> tuple[str, str]:
    return f"async {node.name.text}", _reserve(node.reserve)


def _reserve(reserve: nodes.NumberValue | None) -> str:
    return f" ~{reserve.text}" if reserve is not None else ""


def _sampling(arguments: tuple[nodes.Argument, ...]) -> Document:
    return sequence(" ", sampling_document(arguments)) if arguments else ""
