"""Types and forced text in the few words that a picture has room for."""

from __future__ import annotations

from typing import assert_never

from pastalang.plan.branches import InputText, ItemNumber, KnownText, Text
from pastalang.program import pieces as p
from pastalang.program.pieces import For, If, Piece
from pastalang.values.json import spell


def describe_words(pieces: tuple[KnownText, ...]) -> str:
    """Forced text on one line: white space collapsed, inputs as `{title}`, the item's number as `{n}`."""
    words = " ".join("".join(map(_spell, pieces)).split())
    return "" if words == "," else words.removeprefix(", ")


def split_lead(pieces: tuple[KnownText, ...]) -> tuple[str, str]:
    """The text before a fork as (all but its last line, its last line): `{` and `"brand":`."""
    lines = [" ".join(line.split()) for line in "".join(map(_spell, pieces)).split("\n")]
    filled = [line for line in lines if line]
    if not filled:
        return "", ""
    before, lead = " ".join(filled[:-1]), filled[-1].lstrip(",").strip()
    has_words = any(character.isalnum() for character in lead)
    return ("" if before == "," else before.removeprefix(", ")), (lead if has_words else "")


def _spell(piece: KnownText) -> str:
    match piece:
        case Text():
            return piece.text
        case InputText(block=For() | If() as block):
            return _spell_block(block)
        case InputText():
            return "{" + ".".join(piece.path) + "}"
        case ItemNumber():
            return "{n}"
    assert_never(piece)


def _spell_block(piece: Piece) -> str:
    match piece:
        case p.Text(text=text):
            return text
        case p.InputValue(path=path):
            return "{" + ".".join(path) + "}"
        case p.ItemNumber():
            return "{n}"
        case For(name=name, over=over, body=body):
            return f"{{for {name} in {'.'.join(over)}}}{''.join(map(_spell_block, body))}{{end}}"
        case If(path=path, is_negated=is_negated, equals=equals, body=body, otherwise=otherwise):
            compared = f" == {spell(equals.value)}" if equals is not None else ""
            head = f"{{if {'not ' if is_negated else ''}{'.'.join(path)}{compared}}}"
            other = "{else}" + "".join(map(_spell_block, otherwise)) if otherwise else ""
            return f"{head}{''.join(map(_spell_block, body))}{other}{{end}}"
        case _:
            raise AssertionError(f"{piece} is not part of a message")
