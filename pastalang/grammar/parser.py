"""From a Source to its syntax tree, or to everything that is wrong with its syntax."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pastalang.diagnostics.diagnostic import Diagnostic, Severity
from pastalang.grammar import nodes, parse_tables
from pastalang.grammar.expectations import unexpected
from pastalang.grammar.layout import lay_out
from pastalang.grammar.lexer import scan
from pastalang.grammar.problems import Problem, SyntaxProblem
from pastalang.grammar.recovery import Recovery
from pastalang.grammar.scanner import TooMuch
from pastalang.grammar.tokens import Token
from pastalang.grammar.trivia import attach_comments
from pastalang.limits import MAX_SYNTAX_ERRORS
from pastalang.reading import read_text
from pastalang.source import Source, Span


@dataclass(frozen=True, slots=True)
class ParseResult:
    """`file` is None when there is an error; warnings may come with a file. `rest` is then what could be read."""

    file: nodes.File | None
    diagnostics: tuple[Diagnostic, ...]
    rest: nodes.File | None = None


def parse_text(text: str, *, name: str = "<text>") -> ParseResult:
    """Read and parse a text, as if it stood in a file of this name."""
    reading = read_text(name, text)
    if not reading.is_usable:
        return ParseResult(None, reading.diagnostics)
    result = parse(reading.source)
    return ParseResult(result.file, (*reading.diagnostics, *result.diagnostics))


def parse(source: Source) -> ParseResult:
    """The syntax tree of a source with its comments, or every syntax error that can be told apart."""
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
    """Feed the tokens to the automaton; behind a mistake go on at the next member, tag or declaration.

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
        help=("a file holds imports, types and templates",),
    )
