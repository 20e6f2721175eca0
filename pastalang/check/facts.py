"""What is known about a lowered type besides the type itself, for whoever uses it further on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from pastalang.check.modules import Module
from pastalang.check.report import Report
from pastalang.grammar import nodes
from pastalang.program import types as t
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
