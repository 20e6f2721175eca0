"""The parser: it makes a syntax tree of a source, or a list of all its syntax errors.

Every place where a member, tag or declaration may begin is an anchor: the parser keeps its state there. After a
mistake it skips to the next place of the same kind and continues from the kept state, as if the text in between
had not been written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pastalang.diagnostics.diagnostic import Diagnostic, Severity
from pastalang.grammar import nodes, parse_tables
from pastalang.grammar.attach_comments import attach_comments
from pastalang.grammar.code_scanner import TooMuch
from pastalang.grammar.error_messages import unexpected
from pastalang.grammar.layout import lay_out
from pastalang.grammar.lexer import scan
from pastalang.grammar.parse_tables import ParseState, start
from pastalang.grammar.problems import Problem, SyntaxProblem
from pastalang.grammar.text_scanner import closes_block, opens_block
from pastalang.grammar.tokens import CLOSING, OPENING, Token
from pastalang.limits import MAX_SYNTAX_ERRORS
from pastalang.reading import read_text
from pastalang.source import Source, Span


@dataclass(frozen=True, slots=True)
class ParseResult:
    """`file` is None if there is an error, and `rest` the part that could be read. Warnings may come with a file."""

    file: nodes.File | None
    diagnostics: tuple[Diagnostic, ...]
    rest: nodes.File | None = None


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
    except TooMuch as refusal:
        return ParseResult(None, _diagnostics(source, refusal.problems))
    file, problems = _feed(tokens, scanned.problems, len(source.text))
    if file is not None and not file.declarations and not problems:
        problems = [_empty_file(source)]
    if any(problem.in_source(source).is_error for problem in problems) or file is None:
        return ParseResult(None, _diagnostics(source, problems), file)
    return ParseResult(attach_comments(source, file, scanned.comments), _diagnostics(source, problems))


def _feed(tokens: list[Token], found: list[Problem], end: int) -> tuple[nodes.File | None, list[Problem]]:
    """Feed the tokens to the automaton; after a mistake, continue at the next member, tag or declaration.

    The tree lacks what was skipped.
    """
    problems = list(found)
    mistakes = [problem for problem in found if problem.severity is Severity.ERROR]
    recovery = Recovery(tokens)
    state = parse_tables.start()
    before: parse_tables.ParseState | None = None  # kept from the first mistake on, when replaying would repeat it
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


def _feed_one(
    state: parse_tables.ParseState, tokens: list[Token], index: int, before: parse_tables.ParseState | Recovery
) -> Problem | None:
    try:
        if state.feed(tokens[index]):
            return None
    except SyntaxProblem as refused:
        return refused.problem
    return _unexpected(tokens[index], tokens, index, before)


def _finish(
    state: parse_tables.ParseState, tokens: list[Token], end: int, before: parse_tables.ParseState | Recovery
) -> tuple[nodes.File | None, Problem | None]:
    last = Token(parse_tables.LAST, "", end, end)
    try:
        file = state.finish(last)
    except SyntaxProblem as refused:
        return None, refused.problem
    return file, None if file is not None else _unexpected(last, tokens, len(tokens), before)


def _unexpected(token: Token, tokens: list[Token], index: int, before: parse_tables.ParseState | Recovery) -> Problem:
    state = before.replay(index) if isinstance(before, Recovery) else before
    return unexpected(token, state.expected(), tokens, index)


def _diagnostics(source: Source, problems: Iterable[Problem]) -> tuple[Diagnostic, ...]:
    ordered = sorted(problems, key=lambda problem: (problem.span, problem.code))
    return tuple(problem.in_source(source) for problem in ordered[:MAX_SYNTAX_ERRORS])


def _empty_file(source: Source) -> Problem:
    return Problem(
        "empty-file",
        "the file declares nothing",
        Span(0, 0),
        help=("a file consists of imports, types and templates",),
    )


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
    state = start()
    state.feed(before._replace(type="TEMPLATE"))
    state.feed(before._replace(type="NAME"))
    return state
