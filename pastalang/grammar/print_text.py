"""From a text block to its canonical text: block form, from the first column, structural tags on lines of their own."""

from __future__ import annotations

import re
from typing import assert_never

from pastalang.grammar import nodes
from pastalang.grammar.document import Document, render, sequence
from pastalang.grammar.escapes import write_string
from pastalang.grammar.print_types import sampling_document, type_document, value_document

WIDTH = 100
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
            case _:
                assert_never(piece)

    def _write(self, text: str) -> None:
        """Text, or a tag that stands in a line."""
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
