"""Every name of a file: where it is declared, where it is used, and which names are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from pastalang.check.built_in_types import BUILT_IN_TYPES, INPUT_TYPES
from pastalang.grammar import nodes
from pastalang.source import Span


class Kind(Enum):
    TYPE = "type"
    TEMPLATE = "template"
    LOCAL = "name"  # an input, an item of a loop, or what is written into a text
    FIELD = "field"
    BUILT_IN = "built-in type"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in a file. Names are the same if they have one kind, text and scope: a template, or an object."""

    kind: Kind
    text: str
    span: Span
    scope: int = 0
    declares: Any = None  # the node that it declares

    def is_same(self, other: Occurrence) -> bool:
        return (self.kind, self.text, self.scope) == (other.kind, other.text, other.scope)


def occurrences(file: nodes.File) -> list[Occurrence]:
    """The names of a file in the order of its text."""
    found = [one for node in file.declarations for one in _in_declaration(node)]
    return sorted(found, key=lambda one: one.span)


def _in_declaration(node: nodes.Declaration) -> Iterator[Occurrence]:
    match node:
        case nodes.ImportNode():
            for name in node.names:
                yield Occurrence(Kind.TYPE, name.text, name.span, declares=node)
        case nodes.TypeDeclaration():
            yield Occurrence(Kind.TYPE, node.name.text, node.name.span, declares=node)
            yield from _inside(node.type, 0, 0)
        case nodes.TemplateDeclaration():
            yield Occurrence(Kind.TEMPLATE, node.name.text, node.name.span, declares=node)
            scope = node.span.start + 1
            for one in node.inputs:
                yield Occurrence(Kind.LOCAL, one.name.text, one.name.span, scope, one)
                yield from _inside(one.type, scope, 0)
            for message in node.messages:
                yield from _inside(message.body, scope, 0)


def _inside(node: Any, scope: int, holder: int) -> Iterator[Occurrence]:
    """The names in a part of a tree. `scope` is that of the names of its template, `holder` that of its fields."""
    match node:
        case nodes.NamedType(name=name):
            is_own = name.text not in BUILT_IN_TYPES and name.text not in INPUT_TYPES
            yield Occurrence(Kind.TYPE if is_own else Kind.BUILT_IN, name.text, name.span)
            for argument in node.arguments:
                if argument.name is None:
                    yield from _inside(argument.value, scope, holder)
            return
        case nodes.Spread(name=name):
            yield Occurrence(Kind.TYPE, name.text, name.span)
            return
        case nodes.PathValue(names=(first, *_)):
            yield Occurrence(Kind.LOCAL, first.text, first.span, scope)
            return
        case nodes.HistoryBody(name=name):
            yield Occurrence(Kind.LOCAL, name.text, name.span, scope)
        case nodes.SyncNode(names=names):
            for name in names:
                yield Occurrence(Kind.LOCAL, name.text, name.span, scope)
        case nodes.ExampleBody(entries=entries):
            for name, _ in entries:
                yield Occurrence(Kind.LOCAL, name.text, name.span, scope)
            return
        case nodes.ObjectType():
            holder = node.span.start + 1
        case nodes.FieldNode():
            named = node.name or node.key
            yield Occurrence(Kind.FIELD, named.text, named.span, holder, node)
            for one in node.after:
                yield Occurrence(Kind.FIELD, one.text, one.span, holder)
            yield from _inside(node.type, scope, holder)
            return
        case (
            nodes.HoleNode(name=name) | nodes.AsyncNode(name=name) | nodes.PromiseNode(name=name)
            | nodes.ForkNode(name=name) | nodes.EachNode(name=name) | nodes.ForNode(name=name)
        ):  # fmt: skip
            yield Occurrence(Kind.LOCAL, name.text, name.span, scope, node)
        case tuple():
            for part in node:
                yield from _inside(part, scope, holder)
            return
    if is_dataclass(node):
        for field in fields(node):
            part = getattr(node, field.name)
            if isinstance(part, tuple) or (is_dataclass(part) and not isinstance(part, nodes.Name | Span)):
                yield from _inside(part, scope, holder)
