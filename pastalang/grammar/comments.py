"""Attach each comment of a source to the node of the syntax tree that it belongs to.

A comment belongs to the declaration, message, input or member that follows it, or that ends on its line. A
comment inside a member that no node can hold (between the arms of a union, in an argument list) moves above that
member.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from pastalang.grammar import nodes
from pastalang.grammar.nodes import NO_TRIVIA, Comment, Trivia
from pastalang.source import Source, Span

Owner: TypeAlias = nodes.Declaration | nodes.Message | nodes.Member | nodes.InputNode
O = TypeVar("O", bound=Owner)  # noqa: E741
Comments: TypeAlias = tuple[Comment, ...]


def attach_comments(source: Source, file: nodes.File, comments: list[Comment]) -> nodes.File:
    """The file with its comments and its blank lines."""
    attacher = Attacher(source)
    declarations, closing = attacher.sequence(file.declarations, tuple(comments))
    return replace(file, declarations=declarations, closing=Trivia(closing))


@dataclass(frozen=True, slots=True)
class Attacher:
    source: Source

    def sequence(
        self, owners: tuple[O, ...], comments: Comments, *, after_bracket: bool = True
    ) -> tuple[tuple[O, ...], Comments]:
        """The owners with their comments, and the comments after the last of them.

        Blank lines directly after an opening bracket, or at the top of the file, do not count.
        """
        done: list[O] = []
        at = 0
        for owner in owners:
            until = _first_at(comments, owner.span.start, at)
            leading = self._trail(done, comments[at:until])
            at = _first_at(comments, owner.span.end, until)
            owner, homeless = self._fill(owner, comments[until:at])
            first = after_bracket and not done
            done.append(self._lead(owner, leading, homeless, is_first=first))
        closing = self._trail(done, comments[at:])
        return tuple(done), tuple(
            self._spaced(comment, is_first=not done and n == 0) for n, comment in enumerate(closing)
        )

    # ── around an owner ──────────────────────────────────────────────────────────────────────────────────

    def _lead(self, owner: O, leading: Comments, homeless: Comments, *, is_first: bool) -> O:
        above = tuple(self._spaced(comment, is_first=is_first and n == 0) for n, comment in enumerate(leading))
        moved = tuple(replace(comment, blank_before=False) for comment in homeless)
        blank = self._has_blank_above(owner.span) and not (is_first and not above) and not moved
        trivia = replace(owner.trivia, comments=above + moved, blank_before=blank)
        return owner if trivia == NO_TRIVIA else replace(owner, trivia=trivia)

    def _trail(self, done: list[O], comments: Comments) -> Comments:
        """Give the first comment to the owner before it if it is on the line where that ends."""
        if not comments or not done or not self._same_line(done[-1].span.end, comments[0].span.start):
            return comments
        last = done[-1]
        done[-1] = replace(last, trivia=replace(last.trivia, trailing=comments[0]))
        if isinstance(last, nodes.TemplateDeclaration) and last.messages:
            *others, message = last.messages
            message = replace(message, trivia=replace(message.trivia, trailing=comments[0]))
            done[-1] = replace(last, messages=(*others, message))
        return comments[1:]

    def _spaced(self, comment: Comment, *, is_first: bool) -> Comment:
        return replace(comment, blank_before=True) if not is_first and self._has_blank_above(comment.span) else comment

    def _same_line(self, start: int, end: int) -> bool:
        return "\n" not in self.source.text[start:end]

    def _has_blank_above(self, span: Span) -> bool:
        text = self.source.text
        line_start = text.rfind("\n", 0, span.start) + 1
        if line_start == 0 or text[line_start : span.start].strip():
            return False
        above = text.rfind("\n", 0, line_start - 1) + 1
        return not text[above : line_start - 1].strip()

    # ── inside an owner ──────────────────────────────────────────────────────────────────────────────────

    def _fill(self, owner: O, comments: Comments) -> tuple[O, Comments]:
        """The owner with what is inside it, and the comments that found no place there."""
        filled, homeless = self._fill_owner(owner, comments)
        assert type(filled) is type(owner)
        return filled, homeless

    def _fill_owner(self, owner: Owner, comments: Comments) -> tuple[Owner, Comments]:
        match owner:
            case nodes.TemplateDeclaration():
                return self._fill_template(owner, comments)
            case nodes.TypeDeclaration() | nodes.FieldNode() | nodes.InputNode():
                type_node, homeless = self._fill_type(owner.type, comments)
                return replace(owner, type=type_node), homeless
            case nodes.SequentialGroup():
                inside, homeless = _inside(comments, owner.span)
                members, closing = self.sequence(owner.members, inside)
                return replace(owner, members=members, closing=Trivia(closing)), homeless
            case nodes.Message():
                return self._fill_message(owner, comments)
            case nodes.ImportNode() | nodes.Spread():
                return owner, comments

    def _fill_template(
        self, template: nodes.TemplateDeclaration, comments: Comments
    ) -> tuple[nodes.TemplateDeclaration, Comments]:
        split = _first_at(comments, template.header.end, 0)
        inputs, homeless = self.sequence(template.inputs, comments[:split])
        header = replace(template, inputs=inputs, messages=(), span=template.header)
        headers = [header]
        rest = self._trail(headers, comments[split:])
        messages, left = self.sequence(template.messages, rest, after_bracket=False)
        assert not left  # a template ends with its last message
        filled = replace(template, inputs=inputs, messages=messages, trivia=headers[0].trivia)
        return filled, homeless

    def _fill_message(self, message: nodes.Message, comments: Comments) -> tuple[nodes.Message, Comments]:
        match message.body:
            case nodes.JsonBody() as body:
                type_node, homeless = self._fill_type(body.type, comments)
                return replace(message, body=replace(body, type=type_node)), homeless
            case nodes.TextBlock() as block:
                pieces, homeless = self._fill_pieces(block.pieces, comments)
                return replace(message, body=replace(block, pieces=pieces)), homeless
            case nodes.AutoBody() | nodes.ExampleBody() | nodes.HistoryBody():
                return message, comments

    def _fill_pieces(
        self, pieces: tuple[nodes.Piece, ...], comments: Comments
    ) -> tuple[tuple[nodes.Piece, ...], Comments]:
        if not comments:
            return pieces, ()
        filled: list[nodes.Piece] = []
        for piece in pieces:
            match piece:
                case nodes.HoleNode(type=inner) | nodes.AsyncNode(type=inner) if inner is not None:
                    type_node, comments = self._fill_type(inner, comments)
                    filled.append(replace(piece, type=type_node))
                case nodes.AsyncNode() | nodes.ForkNode() | nodes.EachNode() | nodes.ForNode():
                    body, comments = self._fill_pieces(piece.body or (), comments)
                    filled.append(replace(piece, body=body))
                case nodes.IfNode():
                    body, comments = self._fill_pieces(piece.body, comments)
                    otherwise, comments = self._fill_pieces(piece.otherwise or (), comments)
                    filled.append(replace(piece, body=body, otherwise=piece.otherwise and otherwise))
                case _:
                    filled.append(piece)
        return tuple(filled), comments

    def _fill_type(self, node: nodes.TypeNode, comments: Comments) -> tuple[nodes.TypeNode, Comments]:
        match node:
            case nodes.ObjectType():
                inside, homeless = _inside(comments, node.span)
                members, closing = self.sequence(node.members, inside)
                return replace(node, members=members, closing=Trivia(closing)), homeless
            case nodes.ArrayType():
                item, comments = self._fill_type(node.item, comments)
                return replace(node, item=item), comments
            case nodes.MapType():
                value, comments = self._fill_type(node.value, comments)
                return replace(node, value=value), comments
            case nodes.UnionType(arms=parts) | nodes.TupleType(items=parts):
                filled = []
                for part in parts:
                    part, comments = self._fill_type(part, comments)
                    filled.append(part)
                if isinstance(node, nodes.UnionType):
                    return replace(node, arms=tuple(filled)), comments
                return replace(node, items=tuple(filled)), comments
            case nodes.NamedType() | nodes.LiteralType() | nodes.RegexType():
                return node, comments


def _first_at(comments: Comments, offset: int, start: int) -> int:
    """The index of the first comment at or after the offset."""
    while start < len(comments) and comments[start].span.start < offset:
        start += 1
    return start


def _inside(comments: Comments, span: Span) -> tuple[Comments, Comments]:
    """The comments within the span, and the others."""
    inside = tuple(comment for comment in comments if span.start <= comment.span.start < span.end)
    others = tuple(comment for comment in comments if not span.start <= comment.span.start < span.end)
    return inside, others
