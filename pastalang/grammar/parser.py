"""The parser: it makes a syntax tree of a source, or a list of all its syntax errors.

    source ── scanner ── words ── layout ── tokens ── automaton of `pasta.lark` ── syntax tree

Layout turns line ends into separators and gives every bracket its partner. Every place where a member, tag or
declaration may begin is an anchor: the parser keeps its state there. After a mistake it skips to the next place of the
same kind and continues from the kept state, as if the text in between had not been written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from pastalang.diagnostics.diagnostic import Diagnostic, Label, Severity
from pastalang.grammar import nodes
from pastalang.grammar.comments import attach_comments
from pastalang.grammar.messages import block, unexpected
from pastalang.grammar.quotes import indentation
from pastalang.grammar.scanner import LimitExceeded, Scan, closes_block, opens_block, scan, too_deep
from pastalang.grammar.tokens import (
    CLOSING,
    CLOSING_TEXT,
    DECLARATION_WORDS,
    NAME_TERMINALS,
    OPENING,
    Problem,
    SyntaxProblem,
    Token,
)
from pastalang.grammar.tree_builder import TreeBuilder
from pastalang.limits import MAX_NESTING, MAX_SYNTAX_ERRORS
from pastalang.reading import read_text
from pastalang.source import Source, Span


@dataclass(frozen=True, slots=True)
class ParseResult:
    """`file` is None if there is an error, and `rest` the part that could be read. Warnings may come with a file.

    `tokens` are what a file was made of.
    """

    file: nodes.File | None
    diagnostics: tuple[Diagnostic, ...]
    rest: nodes.File | None = None
    tokens: tuple[Token, ...] = ()


def parse_text(text: str, *, name: str = "<text>") -> ParseResult:
    """Read and parse a text, as if it were a file of this name."""
    reading = read_text(name, text)
    if not reading.is_usable:
        return ParseResult(None, reading.diagnostics)
    result = parse(reading.source)
    return ParseResult(result.file, (*reading.diagnostics, *result.diagnostics))


def parse(source: Source) -> ParseResult:
    """The syntax tree of a source with its comments, or all its syntax errors."""
    try:
        scanned = scan(source)
        tokens = lay_out(scanned)
    except LimitExceeded as refusal:
        return ParseResult(None, _diagnostics(source, refusal.problems))
    file, problems = _feed(tokens, scanned.problems, len(source.text))
    if file is not None and not file.declarations and not problems:
        problems = [_empty_file()]
    if any(problem.in_source(source).is_error for problem in problems) or file is None:
        return ParseResult(None, _diagnostics(source, problems), file)
    whole = attach_comments(source, file, scanned.comments)
    return ParseResult(whole, _diagnostics(source, problems), tokens=tuple(tokens))


def tokens_of(source: Source) -> list[Token]:
    """The tokens that the tree of a source would be made of; none where something is wrong with them."""
    try:
        scanned = scan(source)
        tokens = lay_out(scanned)
    except LimitExceeded:
        return []
    return [] if scanned.problems else tokens


def _feed(tokens: list[Token], scanned: list[Problem], end: int) -> tuple[nodes.File | None, list[Problem]]:
    """Feed the tokens to the automaton; after a mistake, continue at the next member, tag or declaration.

    The tree lacks what was skipped.
    """
    problems = list(scanned)
    mistakes = [problem for problem in scanned if problem.severity is Severity.ERROR]
    recovery = Recovery(tokens)
    state = start_state()
    before: ParseState | None = None  # kept from the first mistake on, when replaying would repeat it
    index, last_mistake = 0, -1
    while index < len(tokens):
        if len(problems) > MAX_SYNTAX_ERRORS:
            return None, problems
        recovery.remember(index, state)
        problem = _feed_one(state, tokens, index, before or recovery)
        if problem is None:
            index += 1
        else:
            begin = recovery.region_start(index)
            state, resumed = recovery.resume(index)
            last_mistake, index = index, max(resumed, index + (index == last_mistake))  # twice is enough
            stop = tokens[index].start if index < len(tokens) else end
            if not any(begin <= mistake.span.start <= stop for mistake in mistakes):
                problems.append(problem)
            before = state
        before = state.copy() if before is not None else None
    file, problem = _finish(state, tokens, end, before or recovery)
    if problem is not None and not mistakes and before is None:
        problems.append(problem)
    return file, problems


def _feed_one(state: ParseState, tokens: list[Token], index: int, before: ParseState | Recovery) -> Problem | None:
    try:
        if state.feed(tokens[index]):
            return None
    except SyntaxProblem as refused:
        return refused.problem
    return _unexpected(tokens[index], tokens, index, before)


def _finish(
    state: ParseState, tokens: list[Token], end: int, before: ParseState | Recovery
) -> tuple[nodes.File | None, Problem | None]:
    last = Token(LAST, "", end, end)
    try:
        file = state.finish(last)
    except SyntaxProblem as refused:
        return None, refused.problem
    return file, None if file is not None else _unexpected(last, tokens, len(tokens), before)


def _unexpected(token: Token, tokens: list[Token], index: int, before: ParseState | Recovery) -> Problem:
    state = before.replay(index) if isinstance(before, Recovery) else before
    return unexpected(token, state.expected(), tokens, index)


def _diagnostics(source: Source, problems: Iterable[Problem]) -> tuple[Diagnostic, ...]:
    ordered = sorted(problems, key=lambda problem: (problem.span, problem.code))
    return tuple(problem.in_source(source) for problem in ordered[:MAX_SYNTAX_ERRORS])


def _empty_file() -> Problem:
    return Problem(
        "empty-file",
        "the file declares nothing",
        Span(0, 0),
        help=("a file consists of imports, types and templates",),
    )


# ── recovery ─────────────────────────────────────────────────────────────────────────────────────────────

TOP = frozenset({"IMPORT", "TYPE", "TEMPLATE"})
MESSAGES = frozenset({"SYSTEM", "USER", "ASSISTANT", "EXAMPLE"})
DECLARATIONS = TOP | MESSAGES
OPENS = frozenset({*OPENING, "TEXT_OPEN"})
CLOSES = CLOSING | {"TEXT_CLOSE"}


@dataclass(frozen=True, slots=True)
class Anchor:
    state: ParseState
    index: int
    depth: int
    is_tag: bool = False


class Recovery:
    """The anchors around the token that is fed now."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._depths = _depths(tokens)  # before each token
        self._anchors: list[Anchor] = []

    def remember(self, index: int, state: ParseState) -> None:
        """Keep the state if a member, tag or declaration may begin at this token."""
        kind, depth = self._tokens[index].type, self._depths[index]
        before = self._tokens[index - 1].type if index else ""
        begins_tag = kind == "TAG_OPEN"
        begins_member = before in ("SEPARATOR", "LEFT_BRACE")
        if index and not begins_member and not begins_tag and not (kind in DECLARATIONS and state.fits(kind)):
            return
        while self._anchors and self._anchors[-1].depth >= depth:
            self._anchors.pop()
        self._anchors.append(Anchor(state.copy(), index, depth, is_tag=begins_tag))

    def replay(self, index: int) -> ParseState:
        """The state before the token at `index`, as it was until that token did not fit."""
        anchor = self._anchors[-1]
        state = anchor.state.copy()
        for token in self._tokens[anchor.index : index]:
            state.feed(token)
        return state

    def region_start(self, index: int) -> int:
        """The start of the member, tag or declaration around the token at `index`."""
        return self._tokens[self._anchor(index).index].start

    def resume(self, index: int) -> tuple[ParseState, int]:
        """The state and the token to continue with after the mistake at `index`."""
        anchor = self._anchor(index)
        if anchor.depth == 0:
            return self._resume_declaration(anchor, index)
        for position in range(index, len(self._tokens)):
            depth, kind = self._depths[position], self._tokens[position].type
            if anchor.is_tag and kind == "TAG_CLOSE" and depth == anchor.depth + 1:
                return anchor.state.copy(), max(self._after_tag(anchor.index, position), position + 1)
            if depth == anchor.depth and kind == "SEPARATOR":
                return anchor.state.copy(), position + 1
            if depth == anchor.depth and kind in CLOSES:
                if anchor.state.fits(kind):
                    return anchor.state.copy(), position
                self._anchors.remove(anchor)  # the mistake is around the anchor, too
                return self.resume(index)
        return anchor.state.copy(), len(self._tokens)

    def _anchor(self, index: int) -> Anchor:
        """The innermost anchor whose brackets are still open at the token."""
        depth = self._depths[index]
        while len(self._anchors) > 1 and self._anchors[-1].depth > depth:
            self._anchors.pop()
        return self._anchors[-1]

    def _resume_declaration(self, anchor: Anchor, index: int) -> tuple[ParseState, int]:
        state = anchor.state.copy()
        position = index if index > anchor.index else index + 1
        while position < len(self._tokens) and not self._begins_declaration(position):
            position += 1
        kind = self._tokens[position].type if position < len(self._tokens) else ""
        if kind in MESSAGES and not state.fits(kind):
            return _inside_template(self._tokens[position]), position
        return state, position

    def _begins_declaration(self, position: int) -> bool:
        return self._depths[position] == 0 and self._tokens[position].type in DECLARATIONS

    def _after_tag(self, start: int, close: int) -> int:
        """The token after the tag, and after its `{end}` if it opens a block."""
        position, level = start, 0
        while position < len(self._tokens):
            if self._tokens[position].type == "TAG_OPEN":
                tag_end = self._tag_end(position)
                tag = self._tokens[position : tag_end + 1]
                level += opens_block(tag) - (closes_block(tag) if level else 0)
                position = tag_end
                if level == 0:
                    return position + 1
            elif self._tokens[position].type == "TEXT_CLOSE":
                return close + 1
            position += 1
        return close + 1

    def _tag_end(self, position: int) -> int:
        depth = self._depths[position]
        position += 1
        while position + 1 < len(self._tokens) and self._depths[position + 1] > depth:
            position += 1
        return position


def _depths(tokens: list[Token]) -> list[int]:
    depths, depth = [], 0
    for token in tokens:
        depths.append(depth)
        depth += (token.type in OPENS) - (token.type in CLOSES)
    return depths


def _inside_template(before: Token) -> ParseState:
    """Pretend that a template begins, so that its messages are read although its first line was not."""
    state = start_state()
    state.feed(before._replace(type="TEMPLATE"))
    state.feed(before._replace(type="NAME"))
    return state


# ── the automaton of `pasta.lark` ────────────────────────────────────────────────────────────────────────


GRAMMAR = Path(__file__).with_name("pasta.lark")
LAST = "$END"


class NoLexer(Lexer):  # type: ignore[misc]  # untyped base
    """Lark wants a lexer; tokens are fed by hand, so this one never runs."""

    def __init__(self, configuration: object) -> None:
        pass

    def lex(self, data: object) -> Iterator[Any]:
        return iter(())


class ParseState:
    """A stack of states of the LALR automaton. Feeding changes it; `copy` is cheap."""

    __slots__ = ("_state",)

    def __init__(self, state: Any) -> None:
        self._state = state

    def copy(self) -> ParseState:
        return ParseState(self._state.copy(deepcopy_values=False))

    def feed(self, token: Token) -> bool:
        """Take the token. False if it does not fit; the state is then no longer usable."""
        try:
            self._state.feed_token(token)
        except UnexpectedToken:
            return False
        return True

    def finish(self, token: Token) -> Any:
        """The whole tree at the end of the tokens; None where something is missing."""
        try:
            return self._state.feed_token(token._replace(type=LAST), is_end=True)
        except UnexpectedToken:
            return None

    def expected(self) -> frozenset[str]:
        """The terminals that fit here."""
        row = self._state.parse_conf.states[self._state.position]
        return frozenset(kind for kind in row if kind.isupper() and self.fits(kind))

    def fits(self, kind: str) -> bool:
        """Returns True if a token of this kind could be fed now."""
        trial = self._state.copy(deepcopy_values=False)
        trial.parse_conf = copy(trial.parse_conf)
        trial.parse_conf.callbacks = {}  # nothing is built
        try:
            trial.feed_token(Token(kind, "", 0, 0), is_end=kind == LAST)
        except UnexpectedToken:
            return False
        return True


def start_state() -> ParseState:
    """The state before the first token."""
    return ParseState(_lark().parse_interactive().parser_state)


@cache
def _lark() -> Lark:
    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        lexer=NoLexer,
        start="file",
        keep_all_tokens=True,
        transformer=TreeBuilder(),
        cache=_cache(),
    )


def _cache() -> str | bool:
    """The file in which lark keeps the tables of the grammar: to make them takes longer than to check most programs.

    Lark makes them anew if the grammar, lark or Python is another one, or the file cannot be read.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pastalang"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # there is no home
        return False
    return str(folder / f"grammar-{sys.version_info[0]}.{sys.version_info[1]}.lark")


# ── layout ───────────────────────────────────────────────────────────────────────────────────────────────

CONTINUED = frozenset({"COLON", "EQUALS", "BAR", "COMMA"})  # a member does not end after these
KEYS = NAME_TERMINALS | {"STRING"}
BEFORE_BRACES = frozenset({"JSON", "EXAMPLE", "EQUALS", "BAR"})  # outside all brackets
NAMES_OF_BRACKETS = {
    "LEFT_PARENTHESIS": ("(", "unclosed-parenthesis"),
    "LEFT_BRACKET": ("[", "unclosed-bracket"),
    "LEFT_BRACE": ("{", "unclosed-brace"),
}


@dataclass(frozen=True, slots=True)
class Open:
    """A bracket that waits for its partner."""

    token: Token
    holds_members: bool


@dataclass(slots=True)
class Layout:
    """The tokens laid out so far, and the brackets that are open."""

    scan: Scan
    tokens: list[Token] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    head: Token | None = None  # the first word of the last line outside all brackets
    is_wrapped: bool = False  # between braces around messages, which are read as if they were not there
    suspect: tuple[Token, Token] | None = None  # a pair of braces whose second is too far to the left

    @property
    def in_members(self) -> bool:
        return bool(self.open) and self.open[-1].holds_members

    @property
    def in_tag(self) -> bool:
        return bool(self.open) and self.open[0].token.type == "TAG_OPEN"

    @property
    def last_type(self) -> str:
        return self.tokens[-1].type if self.tokens else ""


def lay_out(scan: Scan) -> list[Token]:
    """The tokens of a scan as the grammar wants them; problems with brackets are added to the scan."""
    layout = Layout(scan)
    raw = scan.tokens
    at_line_start = True
    for index, token in enumerate(raw):
        kind = token.type
        if kind == "NEWLINE":
            is_first = index == 0 or raw[index - 1].type != "NEWLINE"  # comments leave several in a row
            at_line_start = True
            if is_first and layout.in_members and _separates(layout, raw, index):
                layout.tokens.append(Token("SEPARATOR", "\n", token.start, token.end))
            continue
        if kind == "LEFT_BRACE" and (head := _head_of_block(layout, raw, index)) is not None:
            layout.scan.report(block(head, token))
            layout.is_wrapped = at_line_start = True
            continue
        if kind == "COMMA" and layout.in_members:
            kind = _comma(layout, raw, index)
            token = token._replace(type=kind)
        elif kind in OPENING:
            _open(layout, token)
        elif kind in CLOSING:
            _close(layout, token)
            at_line_start = False
            continue
        elif kind == "NAME" and at_line_start and token.text in DECLARATION_WORDS:
            if layout.open and not layout.in_tag and _begins_declaration(raw, index):
                _report_never_closed(layout, token)
                _close_all(layout, 0, token.start)
            if not layout.open:
                token = token._replace(type=token.text.upper())
        if kind == "NAME" and at_line_start and not layout.open:
            layout.head = token
        layout.tokens.append(token)
        at_line_start = False
    if layout.open:
        end = len(scan.source.text)
        _report_never_closed(layout, None)
        _close_all(layout, 0, end)
    return layout.tokens


# ── separators ───────────────────────────────────────────────────────────────────────────────────────────


def _separates(layout: Layout, raw: list[Token], index: int) -> bool:
    """Returns True if the line end at `index` ends a member."""
    if layout.last_type in CONTINUED or layout.last_type == "SEPARATOR" or layout.tokens[-1] is layout.open[-1].token:
        return False
    kinds = _kinds_after(raw, index, 5)
    match kinds[0]:
        case "BAR" | "EQUALS" | "COMMA":
            return False
        case "WITH":
            return kinds[1] != "LEFT_PARENTHESIS"
        case "AFTER":
            return kinds[1] not in KEYS or kinds[1:4] in (["AS", "NAME", "COLON"],)
        case "STRING":
            return kinds[1] == "COLON" or kinds[1] == "AS"
        case _:
            return True


def _comma(layout: Layout, raw: list[Token], index: int) -> str:
    """SEPARATOR for a comma between members, COMMA for one inside a member (`after a, b`)."""
    if layout.last_type == "SEPARATOR" or layout.tokens[-1] is layout.open[-1].token:
        return "COMMA"
    kinds = _kinds_after(raw, index, 3)
    first, second = kinds[0], kinds[1]
    is_member = (
        first in CLOSING
        or first == "ELLIPSIS"
        or (first == "SEQUENTIAL" and second == "LEFT_BRACE")
        or (first in KEYS and second in ("COLON", "AS"))
        or (first == "EACH" and kinds[2] == "COLON")
    )
    return "SEPARATOR" if is_member else "COMMA"


def _kinds_after(raw: list[Token], index: int, count: int) -> list[str]:
    """The types of the next tokens, without line ends; empty after the last one."""
    kinds: list[str] = []
    index += 1
    while len(kinds) < count and index < len(raw):
        if raw[index].type != "NEWLINE":
            kinds.append(raw[index].type)
        index += 1
    return kinds + [""] * (count - len(kinds))


# ── brackets ─────────────────────────────────────────────────────────────────────────────────────────────


def _open(layout: Layout, token: Token) -> None:
    if len(layout.open) >= MAX_NESTING:
        raise LimitExceeded(too_deep("brackets", token.span))
    before = [before.type for before in layout.tokens[-2:]]
    is_inputs = token.type == "LEFT_PARENTHESIS" and before[:1] == ["TEMPLATE"] and len(before) == 2
    layout.open.append(Open(token, holds_members=is_inputs or token.type == "LEFT_BRACE"))


def _head_of_block(layout: Layout, raw: list[Token], index: int) -> Token | None:
    """The first word of the declaration whose messages the brace at `index` holds, as a block of other languages does.

    None where the brace may begin a value, or what follows is no message.
    """
    head = layout.head
    if layout.open or layout.last_type in BEFORE_BRACES or head is None or head.type in ("TYPE", "IMPORT"):
        return None
    first = next((token for token in raw[index + 1 :] if token.type != "NEWLINE"), head)
    is_field = _kinds_after(raw, index, 2)[1] in ("COLON", "AS")
    return head if first.type == "NAME" and first.text.upper() in MESSAGES and not is_field else None


def _close(layout: Layout, token: Token) -> None:
    """Close the bracket that the token closes, and those inside it that were forgotten."""
    for depth in range(len(layout.open) - 1, -1, -1):
        if OPENING[layout.open[depth].token.type] == token.type:
            if depth < len(layout.open) - 1:
                _report_unclosed(layout, layout.open[-1], token)
                _close_all(layout, depth + 1, token.start)
            _suspect(layout, layout.open.pop().token, token)
            layout.tokens.append(token)
            return
        if layout.open[depth].token.type == "TAG_OPEN":
            break
    if layout.is_wrapped and token.type == "RIGHT_BRACE" and not layout.open:
        layout.is_wrapped = False
        return
    layout.scan.refuse("stray-bracket", f"a `{token.text}` without an opening bracket", token.span, "remove it")


def _close_all(layout: Layout, depth: int, at: int) -> None:
    while len(layout.open) > depth:
        closing = OPENING[layout.open.pop().token.type]
        layout.tokens.append(Token(closing, CLOSING_TEXT[closing], at, at))


def _suspect(layout: Layout, opening: Token, closing: Token) -> None:
    """Remember the first pair inside another whose closing brace begins a line further left than its opening one."""
    if not layout.open:
        layout.suspect = None
    elif layout.suspect is None and closing.type == "RIGHT_BRACE":
        text = layout.scan.source.text
        line_start = text.rfind("\n", 0, closing.start) + 1
        before = text[line_start : closing.start]
        opening_line = text[text.rfind("\n", 0, opening.start) + 1 : opening.start]
        if not before.strip() and line_start > opening.start and len(before) < len(indentation(opening_line)):
            layout.suspect = (opening, closing)


def _report_never_closed(layout: Layout, noticed: Token | None) -> None:
    """Report the bracket that was probably forgotten: by indentation, or else the outermost."""
    if layout.suspect is None or layout.open[0].token.type != "LEFT_BRACE":
        _report_unclosed(layout, layout.open[0], noticed)
        return
    opening, closing = layout.suspect
    layout.scan.refuse(
        "unclosed-brace",
        "a `{` that is not closed",
        opening.span,
        message="no closing `}`, going by the indentation",
        related=(Label(closing.span, "this one is indented less than the line of the `{`"),),
    )


def _report_unclosed(layout: Layout, opened: Open, noticed: Token | None) -> None:
    if opened.token.type == "TAG_OPEN":
        return
    mark, code = NAMES_OF_BRACKETS[opened.token.type]
    closing = CLOSING_TEXT[OPENING[opened.token.type]]
    related = (Label(noticed.span, f"`{closing}` is missing before this"),) if noticed is not None else ()
    headline, message = f"a `{mark}` that is not closed", f"no closing `{closing}`"
    layout.scan.refuse(code, headline, opened.token.span, message=message, related=related)


def _begins_declaration(raw: list[Token], index: int) -> bool:
    """Returns True if the words at `index` can only be a new declaration, so that a bracket must be missing."""
    first, second, third = _kinds_after(raw, index, 3)
    match raw[index].text:
        case "system" | "user":
            return first == "TEXT_OPEN"
        case "assistant":
            return first in ("TEXT_OPEN", "JSON", "THINK") or (first, second) in (
                ("TEXT", "TEXT_OPEN"),
                ("AUTO", "LEFT_PARENTHESIS"),
            )
        case "example":
            return first == "LEFT_BRACE"
        case "template":
            return first in NAME_TERMINALS and second == "LEFT_PARENTHESIS"
        case "type":
            return first in NAME_TERMINALS and second == "EQUALS"
        case _:
            return first in NAME_TERMINALS and (second == "FROM" or (second == "COMMA" and third in NAME_TERMINALS))
