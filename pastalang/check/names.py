"""Names in running text: what is in scope at a place, and what a reference reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pastalang.check.report import Report, listed
from pastalang.check.types import VerbatimUse
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, InputType, ListOf, RecordOf
from pastalang.source import Span

ITEM_NUMBER = "n"
SCHEMA = "schema"


# ── what can be seen at one place ───────────────────────────────────────────────────────────────────────


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

    def outwards(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find_open(self, name: str) -> OpenBranch | None:
        return next((scope.open[name] for scope in self.outwards() if name in scope.open), None)

    def find_branch_of(self, value: str) -> str | None:
        """The branch that runs in parallel with this place and writes the value."""
        begun = (pair for scope in self.outwards() for pair in scope.open.items())
        return next((name for name, branch in begun if value in branch.shows), None)

    def is_inside(self, name: str) -> bool:
        return any(scope.owner == name for scope in self.outwards())


# ── what a template declares, and what a reference reads ────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NameDeclaration:
    """A declaration of a name anywhere in the answer: what it names, and where."""

    kind: str  # "hole", "async", "fork", "fan-out", "input"
    span: Span


KINDS = {nodes.HoleNode: "hole", nodes.AsyncNode: "async", nodes.ForkNode: "fork", nodes.EachNode: "fan-out"}


def declared_names(inputs: tuple[Input, ...], pieces: tuple[nodes.Piece, ...]) -> dict[str, list[NameDeclaration]]:
    """Every name of a template with all its declarations, in the order of the text."""
    declared = {input.name: [NameDeclaration("input", input.span)] for input in inputs}
    for piece in nodes.walk_pieces(pieces):
        if isinstance(piece, nodes.HoleNode | nodes.AsyncNode | nodes.ForkNode | nodes.EachNode):
            declared.setdefault(piece.name.text, []).append(NameDeclaration(KINDS[type(piece)], piece.name.span))
    return declared


@dataclass(frozen=True, slots=True)
class LoopList:
    """The list that a fan-out loops over, and the type of its items."""

    path: tuple[str, ...]
    item: InputType | t.Type
    is_hole: bool


@dataclass(slots=True)
class Resolver:
    """Resolves names of one template; `used` collects the inputs that are read."""

    inputs: dict[str, Input]
    declared: dict[str, list[NameDeclaration]]
    types: dict[str, t.Type]
    report: Report
    used: set[str] = field(default_factory=set)
    has_unknown: bool = False  # an unknown name was read, perhaps a misspelling of an input that seems unused

    # ── {title}, {item.name}, {n} ────────────────────────────────────────────────────────────────────────

    def reference(self, node: nodes.Reference, scope: Scope) -> p.InputValue | p.ItemNumber | None:
        first = node.path.names[0]
        if first.text == ITEM_NUMBER and scope.is_in_loop and len(node.path.names) == 1:
            return p.ItemNumber(node.span)
        type = self.value_of(node.path, scope, node.span)
        if type is InputKind.MESSAGES:
            advice = f"write `...{first.text}` on a line of its own, between the messages"
            self.report.add(
                "unsupported-reference", "a chat history cannot be inserted into text", node.span, help=advice
            )
        if type is None or type is InputKind.MESSAGES:
            return None
        return p.InputValue(tuple(name.text for name in node.path.names), node.span)

    def _readable(self, name: nodes.Name, scope: Scope) -> InputType | t.Type | None:
        if name.text in scope.items:
            return scope.items[name.text]
        if name.text in self.inputs:
            self.used.add(name.text)
            return self.inputs[name.text].type
        return None

    def value_of(self, path: nodes.PathValue, scope: Scope, span: Span) -> InputType | t.Type | None:
        """The type of an input, an item or a part; None, with a diagnostic at `span`, if there is none."""
        first, *rest = path.names
        if (type := self._readable(first, scope)) is not None:
            return self._part(type, tuple(rest), first.text)
        self._report_unreadable(first, span, scope)
        return None

    def _report_unreadable(self, name: nodes.Name, span: Span, scope: Scope) -> None:
        if name.text == ITEM_NUMBER:
            self.report.add("unknown-name", "`{n}`, the number of an item, exists only inside a fork", span)
            return
        declared = self.declared.get(name.text)
        if declared is None and name.text == SCHEMA:
            self.schema_in_answer(span)
        elif declared is None:
            known = [*self.inputs, *scope.items]
            self._report_unknown(name, known, f"unknown input or item `{name.text}`", self.report)
        elif name.text in scope.known:
            self.report.add(
                "unsupported-reference",
                f"`{name.text}` is written by the model; a reference can repeat only inputs",
                name.span,
                related=[Label(declared[0].span, f"`{name.text}` is written here")],
                help="the model already sees it; to repeat it in the answer, add a second hole",
            )
        else:
            self._report_unseen(name, declared[0], scope)

    def schema_in_answer(self, span: Span) -> None:
        self.report.add(
            "wrong-messages",
            "`{schema}` describes the answer, so it cannot be a part of it",
            span,
            help="put it into the system message or a user message",
        )

    def _report_unseen(self, name: nodes.Name, declared: NameDeclaration, scope: Scope) -> None:
        if declared.span.start > name.span.start:
            why, help = "it is written further below", ""
        elif declared.kind in ("async", "fan-out"):
            why, help = "it runs in parallel with this text", f"wait for it first: `{{sync {name.text}}}`"
        elif declared.kind == "fork":
            why, help = "a fork has items, but no value of its own", ""
        elif (branch := scope.find_branch_of(name.text)) is not None:
            why, help = (
                f"it is written in `{branch}`, in parallel with this text",
                f"wait for it first: `{{sync {branch}}}`",
            )
        else:
            why, help = "it is written in another block, or in the items of a fork", ""
        self.report.add(
            "used-before-known",
            f"`{name.text}` is not known here",
            name.span,
            message=why,
            related=[Label(declared.span, f"`{name.text}` is declared here")],
            help=help,
        )

    def _report_unknown(self, name: nodes.Name, known: list[str], headline: str, report: Report) -> None:
        self.has_unknown = True
        inputs = f"the inputs are {listed(self.inputs)}" if self.inputs else "the template has no inputs"
        report.add("unknown-name", headline, name.span, help=report.suggest(name.text, known, otherwise=inputs))

    def _part(self, type: InputType | t.Type, rest: tuple[nodes.Name, ...], shown: str) -> InputType | t.Type | None:
        """The type that `.name.name` leads to, or None with a diagnostic."""
        for name in rest:
            resolved = self.types.get(type.name, t.Anything()) if isinstance(type, t.Named) else type
            if isinstance(resolved, RecordOf):
                fields: dict[str, InputType | t.Type] = dict(resolved.fields)
            elif isinstance(resolved, t.Object):
                fields = {field.key: field.type for field in resolved.fields}
            elif isinstance(resolved, t.Anything | t.Schema):
                return t.Anything()
            else:
                self._report_no_fields(name, resolved, shown)
                return None
            if name.text not in fields:
                self.report.add(
                    "unknown-name",
                    f"`{shown}` has no field `{name.text}`",
                    name.span,
                    help=self.report.suggest(
                        name.text, fields, otherwise=f"its fields are {listed(fields)}" if fields else ""
                    ),
                )
                return None
            type, shown = fields[name.text], f"{shown}.{name.text}"
        return type

    def _report_no_fields(self, name: nodes.Name, type: InputType | t.Type, shown: str) -> None:
        is_list = isinstance(type, ListOf | t.Array)
        self.report.add(
            "unknown-name",
            f"`{shown}` is a list, so it has no field `{name.text}`" if is_list else f"`{shown}` has no fields",
            name.span,
            help=f"loop over its items: `{{fork item in {shown}}} ... {{item.{name.text}}} ... {{end}}`"
            if is_list
            else "",
        )

    # ── verbatim ─────────────────────────────────────────────────────────────────────────────────────────

    def verbatim(self, use: VerbatimUse, scope: Scope) -> None:
        """Check that the source of a verbatim hole is a text that is visible here."""
        report = self.report.for_source(use.module.source)
        first, *rest = (nodes.Name(name, use.span) for name in use.path.split("."))
        type = self._readable(first, scope)
        if type is None and first.text in scope.known and not rest:
            type = scope.known[first.text].type
        if type is None:
            self._report_no_source(use, first, scope, report)
            return
        part = self._quoted_part(type, rest, first.text)
        if part is not None and not _is_text(part):
            report.add(
                "wrong-argument",
                f"`{use.path}` is not a text, so nothing can be copied from it",
                use.span,
                help=_quotable(part, use.path),
            )

    def _quoted_part(
        self, type: InputType | t.Type | None, rest: list[nodes.Name], shown: str
    ) -> InputType | t.Type | None:
        """The type that `.name.name` leads to, through at most one list of an input: any of its items is quoted."""
        is_in_list = False
        while type is not None:
            if isinstance(type, ListOf) and not is_in_list:
                type, is_in_list = type.item, True
            elif not rest:
                return type
            else:
                name = rest.pop(0)
                type, shown = self._part(type, (name,), shown), f"{shown}.{name.text}"
        return None

    def _report_no_source(self, use: VerbatimUse, name: nodes.Name, scope: Scope, report: Report) -> None:
        declared = self.declared.get(name.text)
        if declared is not None and report.source is self.report.source:
            self._report_unseen(name, declared[0], scope)
        else:
            known = [*self.inputs, *scope.items, *scope.known]
            self._report_unknown(name, known, f"unknown input `{name.text}` in `verbatim({use.path})`", report)

    # ── {fork item in list} ──────────────────────────────────────────────────────────────────────────────

    def list_of(self, over: nodes.PathValue, scope: Scope, *, what: str) -> LoopList | None:
        """The list that `what`, a fork or a block of a message, goes over."""
        first, rest = over.names[0], over.names[1:]
        is_hole = first.text in scope.known and first.text not in scope.items and first.text not in self.inputs
        type = scope.known[first.text].type if is_hole else self._readable(first, scope)
        if type is None:
            declared = self.declared.get(first.text)
            if declared is not None:
                self._report_unseen(first, declared[0], scope)
            else:
                known = [*self.inputs, *scope.items, *scope.known]
                self._report_unknown(first, known, f"unknown list `{first.text}`", self.report)
            return None
        part = self._part(type, rest, first.text)
        if part is None:
            return None
        return self._items(part, over, what, is_hole=is_hole)

    def _items(self, type: InputType | t.Type, over: nodes.PathValue, what: str, *, is_hole: bool) -> LoopList | None:
        path = tuple(name.text for name in over.names)
        resolved = self.types.get(type.name, t.Anything()) if isinstance(type, t.Named) else type
        if isinstance(resolved, ListOf | t.Array):
            if isinstance(resolved, t.Array) and resolved.max_items == 0:
                self.report.add(
                    "unreachable-fork",
                    f"`{over.text}` is always empty, so this fork writes nothing",
                    over.span,
                )
            return LoopList(path, resolved.item, is_hole)
        if not isinstance(resolved, t.Anything):
            self.report.add(
                "wrong-argument",
                f"`{over.text}` is not a list, so {what} cannot loop over it",
                over.span,
                help="loop over an input such as `points: [text]`"
                + (" or a hole such as `{points: [string](2..5)}`" if what == "a fork" else ""),
            )
        return None


def _quotable(part: InputType | t.Type, path: str) -> str:
    texts = [f"{path}.{name}" for name, type in part.fields if _is_text(type)] if isinstance(part, RecordOf) else []
    return f"name one of its texts: {listed(texts)}" if texts else "name an input of type `text` or `[text]`"


def _is_text(type: InputType | t.Type) -> bool:
    return type is InputKind.TEXT or isinstance(type, t.String | t.Regex | t.Verbatim | t.Anything)
