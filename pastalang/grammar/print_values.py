"""From values and arguments to documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pastalang.grammar import nodes
from pastalang.grammar.document import Break, Document, Group, IfBroken, Nest, Verbatim, join, sequence
from pastalang.grammar.escapes import write_pattern, write_string
from pastalang.grammar.triple_quotes import write_quotes

SOFT = Break(flat="")


def value_document(value: nodes.Value) -> Document:
    match value:
        case nodes.StringValue(text=text):
            return write_string(text)
        case nodes.NumberValue(text=text):
            return text
        case nodes.BooleanValue(value=is_true):
            return "true" if is_true else "false"
        case nodes.NullValue():
            return "null"
        case nodes.RegexValue(pattern=pattern):
            return write_pattern(pattern)
        case nodes.ListValue(items=items):
            return brackets("[", (value_document(item) for item in items), "]")
        case nodes.RecordValue(entries=entries):
            pairs = (sequence(write_string(key.text), ": ", value_document(entry)) for key, entry in entries)
            return brackets("{", pairs, "}")
        case nodes.RangeValue(low=low, high=high):
            return (low.text if low else "") + ".." + (high.text if high else "")
        case nodes.PathValue():
            return value.text
        case _:
            assert_never(value)


def arguments_document(arguments: tuple[nodes.Argument, ...]) -> Document:
    """`(max=12)`; nothing where there are no arguments."""
    return brackets("(", (_argument(argument) for argument in arguments), ")") if arguments else ""


def schema_arguments_document(arguments: tuple[nodes.Argument, ...]) -> Document:
    """As `arguments_document`, but a document of several lines stays one."""
    items: list[Document] = []
    for argument in arguments:
        value = argument.value
        if argument.name is None and isinstance(value, nodes.StringValue) and "\n" in value.text:
            items.append(Verbatim(write_quotes(value.text)))
        else:
            items.append(_argument(argument))
    return sequence("(", join(", ", items), ")")


def name_or_string(key: nodes.Name | nodes.StringValue) -> str:
    return key.text if isinstance(key, nodes.Name) else write_string(key.text)


def brackets(opening: str, items: Iterable[Document], closing: str, *, last_comma: bool = True) -> Document:
    """Items with commas between them, on one line or one to a line, then with a comma behind the last."""
    inside = join(sequence(",", Break()), items)
    if not inside.parts:
        return opening + closing
    return Group(sequence(opening, Nest(sequence(SOFT, inside, IfBroken("," if last_comma else ""))), SOFT, closing))


def _argument(argument: nodes.Argument) -> Document:
    value = value_document(argument.value)
    return value if argument.name is None else sequence(argument.name.text, "=", value)
