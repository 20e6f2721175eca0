"""Facts about lowered types that later checks need, and how many branches a template can have."""

from __future__ import annotations

from collections.abc import Iterable
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


@dataclass(frozen=True, slots=True)
class VerbatimUse:
    """Where a type copies from an input: which one, and where that is written."""

    path: str
    span: Span
    module: Module


@dataclass(frozen=True, slots=True)
class Wait:
    """A field that waits for one written behind it."""

    span: Span
    module: Module


@dataclass(frozen=True, slots=True)
class Facts:
    """A lowered type, how large it is with every name written out, what it copies from, and which of its
    fields wait for later ones."""

    type: t.Type
    places: int = 1
    depth: int = 0
    verbatims: tuple[VerbatimUse, ...] = ()
    waits: tuple[Wait, ...] = ()


class LowerType(Protocol):
    """Lowers a type of one module. `in_json`: it stands in a JSON answer, not in running text."""

    def __call__(self, node: nodes.TypeNode, *, in_json: bool = False) -> Facts: ...


@dataclass(slots=True)
class TypeTable:
    """What is known about the declared types of the program, by key. `recursive` stay as names."""

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
            "this field waits for one that is written behind it, in a value that is written as a whole",
            wait.span,
            help="put the field that is waited for first",
        )


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
                f"`{template.name}` may grow to {count:,} branches; {MAX_BRANCHES:,} are the limit",
                message.span,
                help="lower the highest number of items of its lists and forks, where they stand inside one another",
            )


def _in_pieces(pieces: tuple[p.Piece, ...]) -> int:
    return sum(map(_in_piece, pieces))


def _in_piece(piece: p.Piece) -> int:
    match piece:
        case p.Async(body=body) | p.Each(body=body):
            return 1 + _in_pieces(body)
        case p.Fork(maximum=maximum, body=body):
            return maximum * _in_pieces(body)
        case p.Text() | p.InputValue() | p.ItemNumber() | p.Hole() | p.Promise() | p.Sync():
            return 0
        case _:
            assert_never(piece)


def _in_type(type: t.Type) -> int:
    """One branch for each value of a skeleton; a list of objects has its fields beside each item."""
    match type:
        case t.Object(fields=fields):
            return sum(_in_type(field.type) for field in fields)
        case t.Array(item=t.Object() as item, max_items=most):
            return 1 + (most or 1) * _in_type(item)
        case t.Union(arms=arms):
            return 1 + max((_in_type(arm) for arm in arms), default=0)
        case _:
            return 1
