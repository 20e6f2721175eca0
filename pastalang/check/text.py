"""Checks the running text of an answer: which values are visible where, which branches are joined, what is promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pastalang.check.arguments import ITEMS, Whole, check_sampling, read_value, report_null, whole
from pastalang.check.names import NameDeclaration, OpenBranch, Promised, Resolver, Scope, Written
from pastalang.check.report import Report, listed
from pastalang.check.types import LowerType, report_waits
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.limits import MAX_HOLE_TOKENS
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.source import Span
from pastalang.values.describe import counted
from pastalang.values.lengths import declared_max_tokens, ends_by_itself
from pastalang.values.schema.split import has_checks

LENGTH = Whole(0, MAX_HOLE_TOKENS)


@dataclass(slots=True)
class TextChecker:
    """Checks one running text. `lower` lowers a type of its module."""

    resolver: Resolver
    declared: dict[str, list[NameDeclaration]]
    lower: LowerType
    report: Report

    def check(self, block: nodes.TextBlock) -> tuple[p.Piece, ...]:
        self._check_duplicates()
        scope = Scope()
        pieces = self._pieces(block.pieces, scope)
        check_borders(block.pieces, self.report)
        return pieces

    def _check_duplicates(self) -> None:
        for name, declarations in self.declared.items():
            if name == "n" and declarations[0].kind != "input":
                headline = "`n` is reserved for the number of the item in a fork"
                self.report.add("reserved-name", headline, declarations[0].span, help="choose another name")
            for again in declarations[1:]:
                self.report.add(
                    "duplicate-name",
                    f"the name `{name}` is declared twice in this template",
                    again.span,
                    message=f"{_article(again.kind)} of this name",
                    related=[Label(declarations[0].span, f"{_article(declarations[0].kind)} of the same name")],
                    help="give one of them another name",
                )

    def _asyncs(self, name: str) -> list[NameDeclaration]:
        return [declared for declared in self.declared.get(name, ()) if declared.kind == "async"]

    def _pieces(self, written: tuple[nodes.Piece, ...], scope: Scope) -> tuple[p.Piece, ...]:
        checked = [self._piece(piece, scope) for piece in written]
        for promised in scope.promises.values():
            self._report_unkept(promised)
        return tuple(piece for piece in checked if piece is not None)

    def _piece(self, piece: nodes.Piece, scope: Scope) -> p.Piece | None:
        match piece:
            case nodes.TextPiece(text=text):
                if text:
                    scope.last_sync = scope.last_hole = None
                return p.Text(text)
            case nodes.Reference():
                scope.last_hole = None
                reference = self.resolver.reference(piece, scope)
                if isinstance(reference, p.ItemNumber):
                    scope.last_sync = None
                return reference
            case nodes.ForNode() | nodes.IfNode():
                self._report_prompt_block(piece)
                return None
            case nodes.SchemaTag():
                self.resolver.schema_in_answer(piece.span)
                return None
            case nodes.HoleNode():
                return self._hole(piece, scope)
            case nodes.AsyncNode():
                return self._async(piece, scope)
            case nodes.PromiseNode():
                return self._promise(piece, scope)
            case nodes.SyncNode():
                return self._sync(piece, scope)
            case nodes.ForkNode():
                return self._fork(piece, scope)
            case nodes.EachNode():
                return self._each(piece, scope)
            case _:
                assert_never(piece)

    def _report_prompt_block(self, piece: nodes.ForNode | nodes.IfNode) -> None:
        is_loop = isinstance(piece, nodes.ForNode)
        self.report.add(
            "wrong-messages",
            f"`{{{'for' if is_loop else 'if'}}}` shapes messages, not the answer",
            piece.span,
            help="in the answer, `{fork item in list} ... {end}` has a branch for each item" if is_loop else "",
        )

    # ── holes ────────────────────────────────────────────────────────────────────────────────────────────

    def _hole(self, node: nodes.HoleNode, scope: Scope) -> p.Hole:
        self._check_place(node, scope)
        facts = self.lower(node.type)
        if has_checks([facts.type]):
            self.report.add(
                "bad-schema",
                f"the schema of `{node.name.text}` is checked after decoding, which needs a JSON answer",
                node.span,
                help="write the template's answer as `assistant json { … }`, or leave out what no token can be held to",
            )
        if isinstance(facts.type, t.Union) and any(isinstance(a, t.String) and a.auto for a in facts.type.arms):
            self.report.add(
                "misplaced-auto",
                "a text with threads cannot have alternatives in running text",
                node.type.span,
                help="leave out the other alternatives, or write the answer as `assistant json { ... }`",
            )
        for use in facts.verbatims:
            self.resolver.verbatim(use, scope)
        report_waits(facts.waits, self.report)
        sampling = check_sampling(node.sampling, self.report)
        report_null(sampling, facts.type, node.sampling, self.report)
        scope.add({node.name.text: Written(facts.type, node.name.span)})
        scope.last_sync, scope.last_hole = None, node
        return p.Hole(node.name.text, facts.type, sampling, node.span)

    def _check_place(self, node: nodes.HoleNode, scope: Scope) -> None:
        if scope.last_sync is not None:
            self.report.add(
                "sync-needs-text",
                f"the hole `{node.name.text}` directly follows a sync",
                node.span,
                related=[Label(scope.last_sync, "the sync")],
                help=(
                    "put some text between them: the model sees the joined values only when it reads on",
                    "a line with only a tag on it leaves no line break",
                ),
            )
        elif scope.last_hole is not None and not ends_by_itself(self._type_of(scope.last_hole, scope)):
            before = scope.last_hole
            self.report.add(
                "touching-holes",
                f"there is no text between `{before.name.text}` and `{node.name.text}`",
                node.span,
                related=[Label(before.span, "this value has no visible end")],
                help="put text between them: a space, a comma, a line break",
            )

    def _type_of(self, node: nodes.HoleNode, scope: Scope) -> t.Type:
        known = scope.known.get(node.name.text)
        return known.type if known is not None else t.Anything()

    # ── branches ─────────────────────────────────────────────────────────────────────────────────────────

    def _async(self, node: nodes.AsyncNode, scope: Scope) -> p.Async:
        name = node.name.text
        promised = scope.promises.pop(name, None)
        inner = scope.inner(owner=name)
        if promised is not None:
            inner.known, inner.last_sync = dict(promised.known), promised.last_sync
        reserve = self._agreed_reserve(node, promised)
        if node.type is not None:
            hole = nodes.HoleNode(node.name, node.type, node.sampling, node.span)
            body: tuple[p.Piece, ...] = (self._hole(hole, inner),)
        else:
            check_sampling(node.sampling, self.report)
            body = self._pieces(node.body or (), inner)
        announced = node.reserve if promised is None else promised.node.reserve or node.reserve
        self._check_reserve(name, reserve, announced, body)
        self._open(name, node.name.span, scope, inner)
        return p.Async(name, reserve, body, promised is not None, node.span)

    def _open(self, name: str, span: Span, scope: Scope, inner: Scope) -> None:
        """Open a branch. Branches that it began and did not join itself can be joined here, too."""
        scope.open[name] = OpenBranch(span, inner.added)
        scope.open.update(inner.open)

    def _reserve(self, number: nodes.NumberValue | None) -> int | None:
        if number is None:
            return None
        reserve: int | None = read_value(number, LENGTH, "an announced length", self.report)
        return reserve

    def _agreed_reserve(self, node: nodes.AsyncNode, promised: Promised | None) -> int | None:
        own = self._reserve(node.reserve)
        announced = self._reserve(promised.node.reserve) if promised is not None else None
        if own is not None and announced is not None and own != announced:
            assert promised is not None and promised.node.reserve is not None and node.reserve is not None
            self.report.add(
                "promise-out-of-order",
                f"`{node.name.text}` is promised with ~{announced} and written with ~{own}",
                node.reserve.span,
                related=[Label(promised.node.reserve.span, "announced here")],
                help="announce the length once, in the promise",
            )
        return announced if announced is not None else own

    def _check_reserve(
        self, name: str, reserve: int | None, number: nodes.NumberValue | None, body: tuple[p.Piece, ...]
    ) -> None:
        needed = tokens_needed(body)
        if reserve is not None and number is not None and needed > reserve:
            self.report.add(
                "reserve-too-small",
                f"`{name}` may take {counted(needed, 'token')}, but ~{reserve} are announced",
                number.span,
                help=f"announce ~{needed}, or lower the limits inside; a longer value overlaps the text that follows",
            )

    def _promise(self, node: nodes.PromiseNode, scope: Scope) -> p.Piece | None:
        name = node.name.text
        begun = self._asyncs(name)
        if name in scope.promises:
            self.report.add(
                "promise-out-of-order",
                f"`{name}` is promised twice",
                node.span,
                related=[Label(scope.promises[name].node.span, "first promised here")],
            )
            return None
        if any(declared.span.start < node.span.start for declared in begun):
            self.report.add(
                "promise-out-of-order",
                f"`{name}` is promised after it has begun",
                node.span,
                related=[Label(declared.span, "begun here") for declared in begun],
                help="write the promise before the async that keeps it",
            )
            return None
        scope.promises[name] = Promised(node, dict(scope.known), scope.last_sync)
        return p.Promise(name, node.topic.text, self._reserve(node.reserve), node.span)

    def _report_unkept(self, promised: Promised) -> None:
        name = promised.node.name.text
        asyncs, elsewhere = list(filter(self._asyncs, self.declared)), self._asyncs(name)
        advice = self.report.suggest(name, asyncs, otherwise=f"write `{{async {name}: ...}}` after it")
        self.report.add(
            "promise-never-kept",
            f"`{name}` is promised and never written",
            promised.node.span,
            related=[
                Label(declared.span, "this is inside another block, where the promise does not reach")
                for declared in elsewhere
            ],
            help="move the async into the same block as its promise" if elsewhere else advice,
        )

    # ── joins ────────────────────────────────────────────────────────────────────────────────────────────

    def _sync(self, node: nodes.SyncNode, scope: Scope) -> p.Sync | None:
        if not node.names:
            names = list(scope.open)
            if not names:
                self.report.add(
                    "sync-of-nothing",
                    "there is nothing to wait for here",
                    node.span,
                    help="write a sync after the `async` blocks that it waits for",
                )
                return None
        else:
            first = {name.text: name for name in reversed(node.names)}
            names = [text for text, name in first.items() if self._can_join(name, scope)]
            names.sort(key=[name.text for name in node.names].index)
        for name in names:
            branch = scope.find_open(name)
            assert branch is not None
            scope.add(branch.shows)
            scope.open.pop(name, None)
        if not names:
            return None
        scope.last_sync = node.span
        return p.Sync(tuple(names), node.span)

    def _can_join(self, name: nodes.Name, scope: Scope) -> bool:
        if scope.find_open(name.text) is not None and not scope.is_inside(name.text):
            return True
        declarations = self.declared.get(name.text)
        if declarations is None:
            branches = [
                other
                for other, declarations in self.declared.items()
                if any(declared.kind in ("async", "fan-out") for declared in declarations)
            ]
            self.report.add(
                "unknown-name",
                f"unknown branch `{name.text}` in a sync",
                name.span,
                help=self.report.suggest(
                    name.text, branches, otherwise=f"it can wait for {listed(branches)}" if branches else ""
                ),
            )
            return False
        self._report_unjoinable(name, declarations[0], scope)
        return False

    def _report_unjoinable(self, name: nodes.Name, declared: NameDeclaration, scope: Scope) -> None:
        label = [Label(declared.span, f"`{name.text}` is {_article(declared.kind)}")]
        if scope.is_inside(name.text):
            code, headline, help = "dependency-cycle", f"`{name.text}` would wait for itself", ""
        elif declared.kind not in ("async", "fan-out"):
            code, headline = (
                "sync-of-nothing",
                f"`{name.text}` does not run in parallel, so there is nothing to wait for",
            )
            help = "sync waits for `async` blocks and fan-outs"
        elif declared.span.start > name.span.start:
            code, headline = "used-before-known", f"sync waits for `{name.text}`, which begins further below"
            help = "move the sync after it"
        else:
            code, headline = (
                "sync-of-nothing",
                f"`{name.text}` has been waited for already, or belongs to another block",
            )
            help = "remove it"
        self.report.add(code, headline, name.span, related=label, help=help)

    # ── loops ────────────────────────────────────────────────────────────────────────────────────────────

    def _fork(self, node: nodes.ForkNode, scope: Scope) -> p.Fork:
        minimum, maximum = fork_count(node, self.report)
        inner = scope.inner(owner="", is_loop=True)
        body = self._pieces(node.body, inner)
        if maximum > 1 and node.body and isinstance(node.body[0], nodes.HoleNode):
            self._check_place(node.body[0], inner)  # against the end of the item before it
        scope.open.update(inner.open)
        scope.last_hole, scope.last_sync = inner.last_hole, inner.last_sync
        return p.Fork(node.name.text, minimum, maximum, body, node.span)

    def _each(self, node: nodes.EachNode, scope: Scope) -> p.Each | None:
        name = node.name.text
        over = self.resolver.list_of(node.over, scope, what="a fork")
        reserve = self._reserve(node.reserve)
        inner = scope.inner(owner=name, is_loop=True)
        inner.items[name] = over.item if over is not None else t.Anything()
        body = self._pieces(node.body, inner)
        self._check_reserve(name, reserve, node.reserve, body)
        self._open(name, node.name.span, scope, inner)
        if over is None:
            return None
        return p.Each(name, over.path, over.is_hole, reserve, body, node.span)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"


# ── forks: how many items they may have ─────────────────────────────────────────────────────────────────


def fork_count(node: nodes.ForkNode, report: Report) -> tuple[int, int]:
    """The minimum and maximum number of items. A wrong count is reported and replaced by a valid one."""
    if isinstance(node.count, nodes.NumberValue):
        exactly = _count(node.count, report)
        low, high = exactly, exactly
    else:
        low = _count(node.count.low, report) if node.count.low is not None else 0
        if node.count.high is None:
            report.add(
                "unbounded-fork",
                f"the fork `{node.name.text}` has no maximum number of items",
                node.count.span,
                help=f"give the range an end: `{low}..{low + 5}`",
            )
            return low, max(low, 1)
        high = _count(node.count.high, report)
    if high == 0:
        report.add(
            "unreachable-fork",
            f"the fork `{node.name.text}` never has an item, so it is never written",
            node.count.span,
            help="remove it, or allow at least one item",
        )
    elif low > high:
        report.add(
            "contradictory-limits",
            f"a fork of at least {low} and at most {counted(high, 'item')} cannot exist",
            node.count.span,
            help="swap the two limits",
        )
        return high, low
    return low, high


def _count(number: nodes.NumberValue, report: Report) -> int:
    count = read_value(number, ITEMS, "the number of items of a fork", report, too_large="too-large")
    return 1 if count is None else count


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────


def tokens_needed(pieces: tuple[p.Piece, ...]) -> int:
    """The most tokens that the limits in the program allow for the holes of a branch."""
    return sum(map(_tokens_of, pieces))


def _tokens_of(piece: p.Piece) -> int:
    match piece:
        case p.Hole(type=type):
            return _max_tokens(type)
        case p.Async(reserve=reserve) | p.Each(reserve=reserve):
            return reserve or 0
        case p.Fork(maximum=maximum, body=body):
            return maximum * tokens_needed(body)
        case p.Text() | p.InputValue() | p.ItemNumber() | p.Promise() | p.Sync() | p.For() | p.If():
            return 0
        case _:
            assert_never(piece)


def _max_tokens(type: t.Type) -> int:
    if isinstance(type, t.Union):
        return max(map(_max_tokens, type.arms), default=0)
    return declared_max_tokens(type) or 0


# ── borders ──────────────────────────────────────────────────────────────────────────────────────────────


def check_borders(pieces: tuple[nodes.Piece, ...], report: Report) -> None:
    """Check that the items of a fork begin with text if the model chooses their number, and that the text after
    the fork begins differently."""
    for index, piece in enumerate(pieces):
        match piece:
            case nodes.ForkNode(body=body):
                if not isinstance(piece.count, nodes.NumberValue):
                    _check_fork(piece, pieces[index + 1 :], report)
                check_borders(body, report)
            case nodes.AsyncNode(body=body) | nodes.EachNode(body=body):
                check_borders(body or (), report)
            case _:
                pass


def _check_fork(node: nodes.ForkNode, rest: tuple[nodes.Piece, ...], report: Report) -> None:
    assert isinstance(node.count, nodes.RangeValue)
    low, high = node.count.low, node.count.high
    if low is not None and high is not None and whole(low) == whole(high):
        return
    if not node.body or not (isinstance(node.body[0], nodes.TextPiece) or _is_number(node.body[0])):
        report.add(
            "ambiguous-fork",
            f"the items of the fork `{node.name.text}` do not begin with text",
            node.span if not node.body else node.body[0].span,
            help="begin each item with a mark that announces it, such as `- ` or `{n}. `",
        )
        return
    lead, following = _known_prefix(node.body), _known_prefix(rest)
    if following and (_could_begin(lead, following) or _could_begin(following, lead)):
        report.add(
            "ambiguous-fork",
            f"the text after the fork `{node.name.text}` begins like another item",
            rest[0].span,
            message="this could be the next item",
            related=[Label(node.body[0].span, "an item begins like this")],
            help="make their first characters different",
        )


def _is_number(piece: nodes.Piece) -> bool:
    return isinstance(piece, nodes.Reference) and piece.path.text == "n"


NUMBER = "\0"  # placeholder for the number of an item: any digits


def _known_prefix(pieces: tuple[nodes.Piece, ...]) -> str:
    """The text at the beginning that is known in advance."""
    lead = ""
    for piece in pieces:
        if isinstance(piece, nodes.TextPiece):
            lead += piece.text
        elif _is_number(piece):
            lead += NUMBER
        elif not isinstance(piece, nodes.SyncNode | nodes.PromiseNode):
            break
    return lead


def _could_begin(short: str, long: str) -> bool:
    """Returns True if `long` may begin with `short`, where the number of an item may be any digits."""
    at = 0
    for character in short:
        if at >= len(long):
            return False
        if character == NUMBER:
            if long[at] != NUMBER and not long[at].isdigit():
                return False
            at += 1
            while at < len(long) and long[at].isdigit():
                at += 1
        elif long[at] != character:
            return False
        else:
            at += 1
    return True
