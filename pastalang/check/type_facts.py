"""What is known about lowered types: their size, the inputs that they quote, and the fields that wait for later ones.

Checks that need finished types are here, too: waits against the order, limits that cannot be enforced inside a value
that is written as a whole, and too many branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from pastalang.check.modules import Module
from pastalang.check.report import Report
from pastalang.grammar import nodes
from pastalang.limits import MAX_BRANCHES
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import JsonBody, Template, TextBody
from pastalang.source import Span
from pastalang.values.answer_text import has_threads, is_structured
from pastalang.values.token_limits import (
    ADVICE,
    is_always_one_hole,
    unenforced_limit_of_recursion,
    unenforced_limit_written_in,
)
from pastalang.values.unique_places import DIFFER_ADVICE, ambiguous_items
from pastalang.values.walk import named_types


@dataclass(frozen=True, slots=True)
class VerbatimUse:
    """A `verbatim` inside a type: the input it copies from, and its place."""

    path: str
    span: Span
    module: Module


@dataclass(frozen=True, slots=True)
class Wait:
    """A field that waits for a later one."""

    span: Span
    module: Module


@dataclass(frozen=True, slots=True)
class Facts:
    """A lowered type, its size with every name expanded, the inputs it copies from, the fields that wait for later
    ones, and whether the model opens threads in it."""

    type: t.Type
    places: int = 1
    depth: int = 0
    verbatims: tuple[VerbatimUse, ...] = ()
    waits: tuple[Wait, ...] = ()
    has_threads: bool = False


class LowerType(Protocol):
    """Lowers a type of one module. With `in_json` the type belongs to a JSON answer, not to running text."""

    def __call__(self, node: nodes.TypeNode, *, in_json: bool = False) -> Facts: ...


@dataclass(slots=True)
class TypeTable:
    """The declared types of the program, by key, and the facts about them. Types in `recursive` stay names."""

    facts: dict[str, Facts] = field(default_factory=dict)
    types: dict[str, t.Type] = field(default_factory=dict)
    recursive: set[str] = field(default_factory=set)

    def add(self, key: str, facts: Facts) -> None:
        self.facts[key] = facts
        self.types[key] = facts.type


def report_waits(waits: Iterable[Wait], report: Report) -> None:
    for wait in waits:
        report.for_source(wait.module.source).add(
            "wait-against-order",
            "this field waits for a later one, in a value that is written as a whole",
            wait.span,
            help="move the field that it waits for before it",
        )


_TELL_APART = "next to the text, the union may have `null`, objects and lists of objects: their first characters differ"
_PART_OF_ITS_OWN = "make the text a field, or an item of a list without `unique` and `max_tokens`"
_NOT_RECURSIVE = (
    "a recursive type is written as a whole: take the text out of it, or write out as many levels as you need"
)


def _report_threads(span: Span, report: Report, advice: str) -> None:
    """Report a text with threads inside a value that is written as a whole."""
    headline = "the model cannot open threads inside a value that is written as a whole"
    report.add("misplaced-auto", headline, span, help=advice)


def report_one_hole(type: t.Type, node: nodes.TypeNode, report: Report, *, has_threads: bool) -> None:
    """Report what cannot be inside a value that is written as a whole, where a program writes its type."""
    if has_threads and not isinstance(node, nodes.NamedType) and not is_structured(type):
        _report_threads(node.span, report, _TELL_APART if isinstance(node, nodes.UnionType) else _PART_OF_ITS_OWN)
    elif isinstance(node, nodes.ArrayType | nodes.TupleType | nodes.MapType) and is_always_one_hole(type):
        _report_unenforced(type, node.span, report)


def _report_unenforced(type: t.Type, span: Span, report: Report) -> None:
    """Report what cannot be enforced, without the types that it names."""
    if (problem := unenforced_limit_written_in(type)) is not None:
        report.add("wrong-argument", problem, span, help=ADVICE)
    elif (problem := ambiguous_items(type)) is not None:
        report.add("not-enforceable", problem, span, help=DIFFER_ADVICE)


def report_unenforced_recursion(name: str, types: Mapping[str, t.Type], span: Span, report: Report) -> None:
    """Report what cannot be enforced in a recursive type, which is always written as a whole."""
    if any(map(has_threads, named_types(t.Named(name), types).values())):
        _report_threads(span, report, _NOT_RECURSIVE)
    elif (problem := unenforced_limit_of_recursion(name, types)) is not None:
        report.add("wrong-argument", problem, span, help=ADVICE)
    elif (problem := ambiguous_items(t.Named(name), types)) is not None:
        report.add("not-enforceable", problem, span, help=DIFFER_ADVICE)


def check_branches(template: Template, report: Report) -> None:
    for message in template.messages:
        match message.body:
            case TextBody(pieces=pieces):
                count = _in_pieces(pieces)
            case JsonBody(type=type):
                count = _in_type(type)
            case _:
                count = 0
        if count > MAX_BRANCHES:
            report.add(
                "too-large",
                f"`{template.name}` may grow to {count:,} branches; the limit is {MAX_BRANCHES:,}",
                message.span,
                help="lower the maximum number of items of its nested lists and forks",
            )


def _in_pieces(pieces: tuple[p.Piece, ...]) -> int:
    return sum(map(_in_piece, pieces))


def _in_piece(piece: p.Piece) -> int:
    match piece:
        case p.Async(body=body) | p.Each(body=body):
            return 1 + _in_pieces(body)
        case p.Fork(maximum=maximum, body=body):
            return maximum * _in_pieces(body)
        case p.Text() | p.InputValue() | p.ItemNumber() | p.Hole() | p.Promise() | p.Sync() | p.For() | p.If():
            return 0
        case _:
            assert_never(piece)


def _in_type(type: t.Type) -> int:
    """One branch for each value of a skeleton; a list of objects has one for each field of each item."""
    match type:
        case t.Object(fields=fields):
            return sum(_in_type(field.type) for field in fields)
        case t.Array(item=t.Object() as item, max_items=most):
            return 1 + (most or 1) * _in_type(item)
        case t.Union(arms=arms):
            return 1 + max((_in_type(arm) for arm in arms), default=0)
        case _:
            return 1
