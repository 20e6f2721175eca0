"""The printer of types, values and members, with their comments: it makes a `document` of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, assert_never

from pastalang.grammar import nodes
from pastalang.grammar.document import (
    BLANK,
    HARD,
    Break,
    Document,
    Group,
    IfBroken,
    Nest,
    Suffix,
    Verbatim,
    join,
    sequence,
)
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
    """Items with commas between them, on one line or one to a line, then with a comma after the last."""
    inside = join(sequence(",", Break()), items)
    if not inside.parts:
        return opening + closing
    return Group(sequence(opening, Nest(sequence(SOFT, inside, IfBroken("," if last_comma else ""))), SOFT, closing))


def _argument(argument: nodes.Argument) -> Document:
    value = value_document(argument.value)
    return value if argument.name is None else sequence(argument.name.text, "=", value)


COMPOSITE = nodes.ObjectType | nodes.ArrayType | nodes.TupleType | nodes.MapType
Owner: TypeAlias = nodes.Declaration | nodes.Message | nodes.Member | nodes.InputNode


def type_document(node: nodes.TypeNode, *, over_lines: bool = False) -> Document:
    """A type; with `over_lines`, an object with members is never put on one line."""
    match node:
        case nodes.NamedType(name=name, arguments=arguments):
            write_arguments = schema_arguments_document if name.text == "schema" and arguments else arguments_document
            return sequence(name.text, write_arguments(arguments))
        case nodes.LiteralType(value=value):
            return value_document(value)
        case nodes.RegexType(pattern=pattern, arguments=arguments):
            return sequence(write_pattern(pattern.pattern), arguments_document(arguments))
        case nodes.ArrayType(item=item, arguments=arguments):
            return sequence(brackets("[", [type_document(item)], "]", last_comma=False), arguments_document(arguments))
        case nodes.TupleType(items=items, arguments=arguments):
            return sequence(brackets("[", map(type_document, items), "]"), arguments_document(arguments))
        case nodes.MapType(key=key, value=value_type, arguments=arguments):
            entry = sequence("{", type_document(key), ": ", type_document(value_type), "}")
            return sequence(entry, arguments_document(arguments))
        case nodes.ObjectType(members=members, closing=closing):
            return braces(members, closing, over_lines=over_lines)
        case nodes.UnionType(arms=arms):
            return sequence(*_union_on_one_line(arms, over_lines=over_lines))
        case _:
            assert_never(node)


def typed(before: Document, node: nodes.TypeNode, *, over_lines: bool = False) -> Document:
    """`before TYPE`, where a long union goes below, one arm to a line."""
    if not isinstance(node, nodes.UnionType) or _hugs(node.arms):
        return sequence(before, " ", type_document(node, over_lines=over_lines))
    arms = join(sequence(Break(), "| "), map(type_document, node.arms))
    return Group(sequence(before, Nest(sequence(Break(), IfBroken("| "), arms))))


def braces(members: Sequence[nodes.Member], closing: nodes.Trivia, *, over_lines: bool = False) -> Document:
    """The members of an object or a group between braces."""
    if not members and not closing.comments:
        return "{}"
    must_break = over_lines or any(member.trivia != nodes.NO_TRIVIA for member in members) or bool(closing.comments)
    if must_break:
        lines = sequence(
            *owner_lines((member, member_document(member)) for member in members), *_closing(members, closing)
        )
        return sequence("{", Nest(sequence(HARD, lines)), HARD, "}")
    separator = sequence(IfBroken("", flat=","), Break())
    inside = join(separator, map(member_document, members))
    return Group(sequence("{", Nest(sequence(Break(), inside)), Break(), "}"))


def member_document(member: nodes.Member) -> Document:
    match member:
        case nodes.FieldNode():
            return _field(member)
        case nodes.SequentialGroup(members=members, closing=closing):
            return sequence("sequential ", braces(members, closing))
        case nodes.Spread(name=name):
            return "..." + name.text
        case _:
            assert_never(member)


def clauses_document(clauses: Iterable[Document]) -> Document:
    """What follows a type: on the same line, or each on a line of its own."""
    return Group(Nest(sequence(*(sequence(Break(), clause) for clause in clauses))))


def sampling_document(arguments: tuple[nodes.Argument, ...]) -> Document:
    return sequence("with ", arguments_document(arguments) or "()")


def description_document(description: nodes.StringValue) -> Document:
    return write_string(description.text)


# ── comments and blank lines ─────────────────────────────────────────────────────────────────────────────


def owner_lines(owners: Iterable[tuple[Owner, Document]]) -> list[Document]:
    """Each owner on lines of its own, with its comments above and after it."""
    lines: list[Document] = []
    for owner, document in owners:
        for comment in owner.trivia.comments:
            lines += line_end(lines, blank=comment.blank_before)
            lines.append(comment_text(comment))
        lines += line_end(lines, blank=owner.trivia.blank_before)
        lines.append(document)
        if owner.trivia.trailing is not None:
            lines.append(Suffix("  " + comment_text(owner.trivia.trailing)))
    return lines


def line_end(lines: list[Document], *, blank: bool) -> list[Document]:
    if not lines:
        return []
    return [BLANK if blank else HARD]


def comment_text(comment: nodes.Comment) -> str:
    if not comment.text:
        return "#"
    return "#" + comment.text if comment.text[0] in "#!" else "# " + comment.text


def _closing(members: Sequence[nodes.Member], closing: nodes.Trivia) -> list[Document]:
    lines: list[Document] = []
    for number, comment in enumerate(closing.comments):
        if members or number:
            lines.append(BLANK if comment.blank_before else HARD)
        lines.append(comment_text(comment))
    return lines


# ── fields and unions ────────────────────────────────────────────────────────────────────────────────────


def _field(field: nodes.FieldNode) -> Document:
    key = name_or_string(field.key) + (f" as {field.name.text}" if field.name else "")
    clauses: list[Document] = []
    if field.default is not None:
        clauses.append(sequence("= ", value_document(field.default)))
    if field.after:
        clauses.append("after " + ", ".join(map(name_or_string, field.after)))
    if field.sampling:
        clauses.append(sampling_document(field.sampling))
    if field.description is not None:
        clauses.append(description_document(field.description))
    return sequence(typed(key + ":", field.type), clauses_document(clauses))


def _hugs(arms: tuple[nodes.TypeNode, ...]) -> bool:
    """Whether one arm spreads over lines by itself, so that the others stay on its lines."""
    return sum(isinstance(arm, COMPOSITE) for arm in arms) == 1


def _union_on_one_line(arms: tuple[nodes.TypeNode, ...], *, over_lines: bool) -> list[Document]:
    hugs = _hugs(arms)
    parts: list[Document] = []
    for arm in arms:
        if parts:
            parts.append(" | " if hugs else sequence(Break(), "| "))
        parts.append(type_document(arm, over_lines=over_lines and hugs))
    return [sequence(*parts)] if hugs else [Group(sequence(*parts))]
