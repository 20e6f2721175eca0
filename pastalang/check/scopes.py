"""What can be seen at one place of a text: values, open branches and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pastalang.grammar import nodes
from pastalang.program import types as t
from pastalang.program.program import InputType
from pastalang.source import Span


@dataclass(frozen=True, slots=True)
class Written:
    """A value that the model has written and that is visible here."""

    type: t.Type
    span: Span


@dataclass(slots=True)
class OpenBranch:
    """A branch that runs in parallel with this place. Joining it makes the values in `shows` visible."""

    span: Span
    shows: dict[str, Written]


@dataclass(frozen=True, slots=True)
class Promised:
    """A promise that waits for its async, with the values visible where it was made."""

    node: nodes.PromiseNode
    known: dict[str, Written]
    last_sync: Span | None


@dataclass(slots=True)
class Scope:
    """One sequence of pieces: the answer, the body of an async, or one item of a fork.

    `known` holds the values visible here, `added` those that this sequence has added itself. `open` holds the
    branches begun here and not joined yet, `items` the variables of the enclosing fan-outs. `last_sync` and
    `last_hole` are set until text follows the sync or the hole.
    """

    known: dict[str, Written] = field(default_factory=dict)
    added: dict[str, Written] = field(default_factory=dict)
    open: dict[str, OpenBranch] = field(default_factory=dict)
    items: dict[str, InputType | t.Type] = field(default_factory=dict)
    promises: dict[str, Promised] = field(default_factory=dict)
    parent: Scope | None = None
    owner: str = ""  # the async or fan-out whose body this is
    is_in_loop: bool = False
    last_sync: Span | None = None
    last_hole: nodes.HoleNode | None = None

    def inner(self, *, owner: str, is_loop: bool = False) -> Scope:
        """The scope of a body that begins here."""
        return Scope(
            known=dict(self.known),
            items=dict(self.items),
            parent=self,
            owner=owner,
            is_in_loop=self.is_in_loop or is_loop,
            last_sync=self.last_sync,
            last_hole=self.last_hole,
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
        """The branch that runs in parallel with this place and writes the value."""
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
