"""What can be read at one place of a running text: inputs, items of the loops around it, values already there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pastalang.grammar import nodes
from pastalang.program import types as t
from pastalang.program.program import Input, InputType
from pastalang.source import Span


@dataclass(frozen=True, slots=True)
class Written:
    """A value that the model has written and that can be seen here."""

    type: t.Type
    span: Span


@dataclass(slots=True)
class OpenBranch:
    """A branch that runs beside this place; joining it shows `shows`."""

    span: Span
    shows: dict[str, Written]


@dataclass(frozen=True, slots=True)
class Promised:
    """A promise that waits for its async, and what could be seen where it was made."""

    node: nodes.PromiseNode
    known: dict[str, Written]
    sync_behind: Span | None


@dataclass(slots=True)
class Scope:
    """One sequence of pieces: the answer, the body of an async, or one item of a fork.

    `known`: values visible here; `added`: those of them that came here. `open`: branches begun here and not
    joined. `items`: the variables of the fan-outs around. `sync_behind`: a sync after which no text has come
    yet. `hole_behind`: a hole after which no text has come yet.
    """

    known: dict[str, Written] = field(default_factory=dict)
    added: dict[str, Written] = field(default_factory=dict)
    open: dict[str, OpenBranch] = field(default_factory=dict)
    items: dict[str, InputType | t.Type] = field(default_factory=dict)
    promises: dict[str, Promised] = field(default_factory=dict)
    parent: Scope | None = None
    owner: str = ""  # the async or fan-out whose body this is
    is_in_loop: bool = False
    sync_behind: Span | None = None
    hole_behind: nodes.HoleNode | None = None

    def inner(self, *, owner: str, is_loop: bool = False) -> Scope:
        """The scope of a body that begins here."""
        return Scope(
            known=dict(self.known),
            items=dict(self.items),
            parent=self,
            owner=owner,
            is_in_loop=self.is_in_loop or is_loop,
            sync_behind=self.sync_behind,
            hole_behind=self.hole_behind,
        )

    def add(self, values: Mapping[str, Written]) -> None:
        self.known.update(values)
        self.added.update(values)

    def find_open(self, name: str) -> OpenBranch | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.open:
                return scope.open[name]
            scope = scope.parent
        return None

    def find_branch_of(self, value: str) -> str | None:
        """The branch that runs beside this place and writes the value."""
        scope: Scope | None = self
        while scope is not None:
            for name, branch in scope.open.items():
                if value in branch.shows:
                    return name
            scope = scope.parent
        return None

    def is_inside(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if scope.owner == name:
                return True
            scope = scope.parent
        return False


@dataclass(frozen=True, slots=True)
class Declared:
    """A name of the answer, wherever it stands: what it names, and where."""

    kind: str  # "hole", "async", "fork", "fan-out", "input"
    span: Span


def declared_names(inputs: tuple[Input, ...], pieces: tuple[nodes.Piece, ...]) -> dict[str, list[Declared]]:
    """Every name of a template with all its declarations, in the order of the text."""
    found: dict[str, list[Declared]] = {one.name: [Declared("input", one.span)] for one in inputs}

    def visit(pieces: tuple[nodes.Piece, ...]) -> None:
        for piece in pieces:
            match piece:
                case nodes.HoleNode(name=name):
                    found.setdefault(name.text, []).append(Declared("hole", name.span))
                case nodes.AsyncNode(name=name, body=body):
                    found.setdefault(name.text, []).append(Declared("async", name.span))
                    visit(body or ())
                case nodes.ForkNode(name=name, body=body):
                    found.setdefault(name.text, []).append(Declared("fork", name.span))
                    visit(body)
                case nodes.EachNode(name=name, body=body):
                    found.setdefault(name.text, []).append(Declared("fan-out", name.span))
                    visit(body)
                case nodes.TextPiece() | nodes.Reference() | nodes.PromiseNode() | nodes.SyncNode():
                    pass

    visit(pieces)
    return found
