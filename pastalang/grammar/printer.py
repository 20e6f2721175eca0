"""The printer: a syntax tree as canonical text.

A tree becomes a `Document`, a text with possible line breaks, which is laid out in lines of at most `WIDTH` columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from pastalang.grammar import nodes
from pastalang.grammar.quotes import QUOTES, write_pattern, write_quotes, write_string

WIDTH = 100
INDENTATION = "  "
CONTROL = re.compile(r"[^\S \n]|[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
TO_ESCAPE = re.compile(r'"""|\{|\}')
ESCAPES = {QUOTES: '\\"""', "{": "{{", "}": "}}"}
COMPOSITE = nodes.ObjectType | nodes.ArrayType | nodes.TupleType | nodes.MapType
Owner: TypeAlias = nodes.Declaration | nodes.Message | nodes.Member | nodes.InputNode


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
    return render(concat(*owner_lines([(owner, document)])), width=WIDTH)


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
            return concat(typed(f"type {name.text} =", type_node, over_lines=True), clauses_document(clauses))
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
    return concat(f"template {template.name.text}", _inputs(template.inputs), clauses_document(clauses))


def _inputs(inputs: tuple[nodes.InputNode, ...]) -> Document:
    if not inputs:
        return "()"
    if any(node.trivia != nodes.NO_TRIVIA for node in inputs):
        lines = concat(*owner_lines((node, _input(node)) for node in inputs))
        return concat("(", Nest(concat(HARD, lines)), HARD, ")")
    inside = join(concat(IfBroken("", flat=","), Break()), map(_input, inputs))
    return Group(concat("(", Nest(concat(SOFT, inside)), SOFT, ")"))


def _input(node: nodes.InputNode) -> Document:
    head = typed(f"{'each ' if node.each else ''}{node.name.text}:", node.type)
    return head if node.default is None else concat(head, " = ", value_document(node.default))


def _message(message: nodes.Message) -> Document:
    if isinstance(message.body, nodes.ExampleBody):
        return _example(message.body)
    if isinstance(message.body, nodes.HistoryBody):
        return f"...{message.body.name.text}"
    role: Document = message.role.value
    if message.thought is not None:
        role = concat(role, " think", arguments_document(message.thought.arguments))
    match message.body:
        case nodes.TextBlock() as block:
            word = concat(role, " text") if message.role is nodes.Role.ASSISTANT else role
            return concat(word, " ", Verbatim(print_text_block(block)))
        case nodes.JsonBody(type=type_node):
            return typed(concat(role, " json"), type_node, over_lines=True)
        case nodes.AutoBody(policy=policy, arguments=arguments):
            named = nodes.Argument(None, nodes.PathValue((policy,), policy.span), policy.span)
            return concat(role, " auto", arguments_document((named, *arguments)))
        case _:
            assert_never(message.body)


def _example(body: nodes.ExampleBody) -> Document:
    if not body.entries:
        return "example {}"
    entries = join(HARD, (concat(name.text, ": ", _example_value(value)) for name, value in body.entries))
    return concat("example {", Nest(concat(HARD, entries)), HARD, "}")


def _example_value(value: nodes.Value) -> Document:
    if isinstance(value, nodes.StringValue) and "\n" in value.text and not CONTROL.search(value.text):
        return Verbatim(write_quotes(value.text))
    return value_document(value)


# ── running text ─────────────────────────────────────────────────────────────────────────────────────────


def print_text_block(block: nodes.TextBlock) -> str:
    """The block with its quotes."""
    writer = TextWriter()
    writer.write_pieces(block.pieces)
    return f"{QUOTES}\n{writer.finish()}{QUOTES}"


class TextWriter:
    """The text so far, and whether a structural tag waits for its line end."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._at_line_start = True
        self._pending_newline = False

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
                self._write_tag(concat("schema", arguments_document(arguments) or "()"))
            case nodes.HoleNode():
                self._write_tag(concat(piece.name.text, ": ", type_document(piece.type), _sampling(piece.sampling)))
            case nodes.AsyncNode(type=type_node, body=None) if type_node is not None:
                self._write_tag(concat(*_async_head(piece), ": ", type_document(type_node), _sampling(piece.sampling)))
            case nodes.AsyncNode(body=body):
                self._write_structural(concat(*_async_head(piece), _sampling(piece.sampling)))
                self.write_pieces(body or ())
                self._write_structural("end")
            case nodes.PromiseNode(name=name, topic=topic, reserve=reserve):
                self._write_structural(f"promise {name.text} {write_string(topic.text)}{_reserve(reserve)}")
            case nodes.SyncNode(names=names):
                self._write_structural(" ".join(["sync", ", ".join(name.text for name in names)]).rstrip())
            case nodes.ForkNode(name=name, count=count, body=body):
                self._write_structural(concat(f"fork {name.text} (", value_document(count), ")"))
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
        compared = "" if node.equals is None else concat(" == ", value_document(node.equals))
        self._write_structural(concat(f"if {'not ' if node.is_negated else ''}{node.path.text}", compared))
        self.write_pieces(node.body)
        if node.otherwise is not None:
            self._write_structural("else")
            self.write_pieces(node.otherwise)
        self._write_structural("end")

    def _write(self, text: str) -> None:
        """Text, or a tag within a line."""
        self._flush_newline()
        self._parts.append(text)
        self._at_line_start = text.endswith("\n")

    def _write_tag(self, inside: Document) -> None:
        self._write(_tag(inside))

    def _write_structural(self, inside: Document) -> None:
        """A tag that gets a line of its own where a line begins; such a line leaves no trace in the text."""
        self._flush_newline()
        self._parts.append(_tag(inside))
        self._pending_newline = self._at_line_start

    def _flush_newline(self) -> None:
        if self._pending_newline:
            self._parts.append("\n")
        self._pending_newline = False


def _tag(inside: Document) -> str:
    return "{" + render(inside, width=WIDTH * WIDTH) + "}"


def _async_head(node: nodes.AsyncNode) -> tuple[str, str]:
    return f"async {node.name.text}", _reserve(node.reserve)


def _reserve(reserve: nodes.NumberValue | None) -> str:
    return f" ~{reserve.text}" if reserve is not None else ""


def _sampling(arguments: tuple[nodes.Argument, ...]) -> Document:
    return concat(" ", sampling_document(arguments)) if arguments else ""


# ── types, values and members ────────────────────────────────────────────────────────────────────────────


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
            pairs = (concat(write_string(key.text), ": ", value_document(entry)) for key, entry in entries)
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
    return concat("(", join(", ", items), ")")


def name_or_string(key: nodes.Name | nodes.StringValue) -> str:
    return key.text if isinstance(key, nodes.Name) else write_string(key.text)


def brackets(opening: str, items: Iterable[Document], closing: str, *, last_comma: bool = True) -> Document:
    """Items with commas between them, on one line or one to a line, then with a comma after the last."""
    inside = join(concat(",", Break()), items)
    if not inside.parts:
        return opening + closing
    return Group(concat(opening, Nest(concat(SOFT, inside, IfBroken("," if last_comma else ""))), SOFT, closing))


def _argument(argument: nodes.Argument) -> Document:
    value = value_document(argument.value)
    return value if argument.name is None else concat(argument.name.text, "=", value)


def type_document(node: nodes.TypeNode, *, over_lines: bool = False) -> Document:
    """A type; with `over_lines`, an object with members is never put on one line."""
    match node:
        case nodes.NamedType(name=name, arguments=arguments):
            write_arguments = schema_arguments_document if name.text == "schema" and arguments else arguments_document
            return concat(name.text, write_arguments(arguments))
        case nodes.LiteralType(value=value):
            return value_document(value)
        case nodes.RegexType(pattern=pattern, arguments=arguments):
            return concat(write_pattern(pattern.pattern), arguments_document(arguments))
        case nodes.ArrayType(item=item, arguments=arguments):
            return concat(brackets("[", [type_document(item)], "]", last_comma=False), arguments_document(arguments))
        case nodes.TupleType(items=items, arguments=arguments):
            return concat(brackets("[", map(type_document, items), "]"), arguments_document(arguments))
        case nodes.MapType(key=key, value=value_type, arguments=arguments):
            entry = concat("{", type_document(key), ": ", type_document(value_type), "}")
            return concat(entry, arguments_document(arguments))
        case nodes.ObjectType(members=members, closing=closing):
            return braces(members, closing, over_lines=over_lines)
        case nodes.UnionType(arms=arms):
            return concat(*_union_on_one_line(arms, over_lines=over_lines))
        case _:
            assert_never(node)


def typed(before: Document, node: nodes.TypeNode, *, over_lines: bool = False) -> Document:
    """`before TYPE`, where a long union goes below, one arm to a line."""
    if not isinstance(node, nodes.UnionType) or _hugs(node.arms):
        return concat(before, " ", type_document(node, over_lines=over_lines))
    arms = join(concat(Break(), "| "), map(type_document, node.arms))
    return Group(concat(before, Nest(concat(Break(), IfBroken("| "), arms))))


def braces(members: Sequence[nodes.Member], closing: nodes.Trivia, *, over_lines: bool = False) -> Document:
    """The members of an object or a group between braces."""
    if not members and not closing.comments:
        return "{}"
    must_break = over_lines or any(member.trivia != nodes.NO_TRIVIA for member in members) or bool(closing.comments)
    if must_break:
        lines = concat(
            *owner_lines((member, member_document(member)) for member in members), *_closing(members, closing)
        )
        return concat("{", Nest(concat(HARD, lines)), HARD, "}")
    separator = concat(IfBroken("", flat=","), Break())
    inside = join(separator, map(member_document, members))
    return Group(concat("{", Nest(concat(Break(), inside)), Break(), "}"))


def member_document(member: nodes.Member) -> Document:
    match member:
        case nodes.FieldNode():
            return _field(member)
        case nodes.SequentialGroup(members=members, closing=closing):
            return concat("sequential ", braces(members, closing))
        case nodes.Spread(name=name):
            return "..." + name.text
        case _:
            assert_never(member)


def clauses_document(clauses: Iterable[Document]) -> Document:
    """What follows a type: on the same line, or each on a line of its own."""
    return Group(Nest(concat(*(concat(Break(), clause) for clause in clauses))))


def sampling_document(arguments: tuple[nodes.Argument, ...]) -> Document:
    return concat("with ", arguments_document(arguments) or "()")


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
        clauses.append(concat("= ", value_document(field.default)))
    if field.after:
        clauses.append("after " + ", ".join(map(name_or_string, field.after)))
    if field.sampling:
        clauses.append(sampling_document(field.sampling))
    if field.description is not None:
        clauses.append(description_document(field.description))
    return concat(typed(key + ":", field.type), clauses_document(clauses))


def _hugs(arms: tuple[nodes.TypeNode, ...]) -> bool:
    """Returns True if one arm spreads over lines by itself, so that the others stay on its lines."""
    return sum(isinstance(arm, COMPOSITE) for arm in arms) == 1


def _union_on_one_line(arms: tuple[nodes.TypeNode, ...], *, over_lines: bool) -> list[Document]:
    hugs = _hugs(arms)
    parts: list[Document] = []
    for arm in arms:
        if parts:
            parts.append(" | " if hugs else concat(Break(), "| "))
        parts.append(type_document(arm, over_lines=over_lines and hugs))
    return [concat(*parts)] if hugs else [Group(concat(*parts))]


# ── documents: texts and possible line breaks ────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Break:
    """A line end where the group is broken, `flat` where it is not; `forced` breaks every group around it."""

    flat: str = " "
    forced: bool = False
    blank: bool = False  # leave a blank line


@dataclass(frozen=True, slots=True)
class IfBroken:
    broken: str
    flat: str = ""


@dataclass(frozen=True, slots=True)
class Suffix:
    """Text at the end of a line that does not count towards its width: a comment."""

    text: str


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text of several lines that must not be indented."""

    text: str


@dataclass(frozen=True, slots=True)
class _Around:
    content: Document
    is_forced: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_forced", is_forced(self.content))


class Nest(_Around):
    __slots__ = ()


class Group(_Around):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Concat:
    parts: tuple[Document, ...]
    is_forced: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_forced", any(map(is_forced, self.parts)))


Document: TypeAlias = str | Break | IfBroken | Suffix | Verbatim | Nest | Group | Concat

HARD = Break(forced=True)
BLANK = Break(forced=True, blank=True)
SOFT = Break(flat="")


def concat(*parts: Document) -> Concat:
    return Concat(parts)


def join(separator: Document, parts: Iterable[Document]) -> Concat:
    joined: list[Document] = []
    for part in parts:
        if joined:
            joined.append(separator)
        joined.append(part)
    return Concat(tuple(joined))


def is_forced(document: Document) -> bool:
    """Returns True if a line must end inside; kept by each part, so asking costs nothing."""
    match document:
        case Break():
            return document.forced
        case Suffix():
            return True
        case Nest() | Group() | Concat():
            return document.is_forced
        case _:
            return False


def render(document: Document, *, width: int) -> str:
    """The lines of the document, without white space at their ends."""
    written: list[str] = []
    column = 0
    todo: list[tuple[int, bool, Document]] = [(0, True, document)]  # indentation, broken, what
    while todo:
        depth, broken, item = todo.pop()
        match item:
            case str():
                written.append(item)
                column += len(item)
            case Concat(parts=parts):
                todo += [(depth, broken, part) for part in reversed(parts)]
            case Suffix(text=text):
                written.append(text)
            case Verbatim(text=text):
                written.append(text)
                column = len(text) - text.rfind("\n") - 1
            case IfBroken():
                written.append(item.broken if broken else item.flat)
                column += len(written[-1])
            case Break() if broken:
                written.append("\n\n" if item.blank else "\n")
                written.append(INDENTATION * depth)
                column = len(written[-1])
            case Break():
                written.append(item.flat)
                column += len(item.flat)
            case Nest(content=content):
                todo.append((depth + 1, broken, content))
            case Group(content=content):
                fits = not item.is_forced and _fits(content, width - column, todo)
                todo.append((depth, not fits, content))
    return "".join(written)


def _fits(content: Document, room: int, waiting: list[tuple[int, bool, Document]]) -> bool:
    """Returns True if the content on one line, with what follows it up to the next possible break, fits the room."""
    rest = len(waiting)
    todo: list[tuple[bool, Document]] = [(False, content)]
    while room >= 0:
        if not todo:
            if rest == 0:
                return True
            rest -= 1
            todo.append((True, waiting[rest][2]))
            if not waiting[rest][1]:
                todo[-1] = (False, waiting[rest][2])
        broken, item = todo.pop()
        match item:
            case str():
                room -= len(item)
            case Concat(parts=parts):
                todo += [(broken, part) for part in reversed(parts)]
            case Suffix() | Verbatim():
                pass
            case IfBroken():
                room -= len(item.broken if broken else item.flat)
            case Break() if broken:
                return True
            case Break():
                room -= len(item.flat)
            case Nest(content=inner) | Group(content=inner):
                todo.append((broken, inner))
    return False
