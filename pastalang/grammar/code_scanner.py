"""Scan code, which is everything outside text blocks, into words, marks and comments."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from pastalang.grammar.characters import HIDDEN, describe_character, hidden_problem, is_hidden
from pastalang.grammar.escapes import resolve_pattern, resolve_string
from pastalang.grammar.foreign_types import ANY_OTHER, type_in_angles
from pastalang.grammar.nodes import Comment
from pastalang.grammar.problems import Problem
from pastalang.grammar.tokens import MARKS, WORDS, Token
from pastalang.limits import (
    MAX_NAME_CHARS,
    MAX_NESTING,
    MAX_NUMBER_CHARS,
    MAX_NUMBER_EXPONENT,
    MAX_SYNTAX_ERRORS,
    MAX_TOKENS,
)
from pastalang.source import Source, Span

LEXEME = re.compile(
    r"""[ \t]*(?:
      (?P<word>[^\W\d]\w*)
    | (?P<mark>\.\.\.|\.\.|==|[.()\[\]{},:=|~])
    | (?P<newline>\n[ \t\n]*)
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<text>\"{3})
    | (?P<string>"(?:[^"\\\n]|\\.)*"?)
    | (?P<comment>\#[^\n]*)
    | (?P<pattern>/(?:[^/\\\n]|\\.)+/)
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE]([+-]?[0-9]+))?")
FOREIGN_BLOCK = re.compile("'''.*?('''|\\Z)", re.DOTALL)
FOREIGN_QUOTES = re.compile("'[^'\\n]*'|`[^`\\n]*`|[“”„][^“”„\\n]*[“”]|[‘’][^‘’\\n]*[‘’]|[«][^»\\n]*[»]")
ANGLES = re.compile(r"<[^<>\n]*(?:<[^<>\n]*(?:<[^<>\n]*>[^<>\n]*)*>[^<>\n]*)*>")
LONGEST_TYPE = 200  # characters of a type in angle brackets that is explained
MOST_SHOWN = 3  # of a character that is repeated
ADVICE = {
    "'": 'write strings in double quotes: "like this"',
    "`": 'write strings in double quotes: "like this"',
    "\u201c": 'write strings in straight quotes: "like this"',
    "\u201d": 'write strings in straight quotes: "like this"',
    "\u201e": 'write strings in straight quotes: "like this"',
    ";": "separate members with commas or line ends",
    "/": "a comment begins with `#`; a pattern is written between slashes: /[A-Z]+/",
    "-": 'quote a key that contains a hyphen: "first-key": string',
    "?": "for a value that may be missing, write a union with null: string | null",
    "$": 'quote a key that contains a `$`: "$ref": string',
    "@": 'quote a key that contains an `@`: "@id": string',
    "<": ANY_OTHER,
}


class TooMuch(Exception):
    """The file is larger, deeper or more broken than anything a person writes. Scanning stops."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*(problem.headline for problem in problems))
        self.problems = problems


@dataclass(slots=True)
class Scan:
    """What the scanner has found; `quoted` are the spans of text that are data, not code."""

    source: Source
    tokens: list[Token] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    quoted: list[Span] = field(default_factory=list)
    count: int = 0

    def add(self, token: Token) -> None:
        """Add a token to those that count towards the limit."""
        self.tokens.append(token)
        self.count += 1
        if self.count > MAX_TOKENS:
            raise TooMuch(_too_many_tokens(token.span))

    def add_comment(self, comment: Comment) -> None:
        self.comments.append(comment)
        self.count += 1
        if self.count > MAX_TOKENS:
            raise TooMuch(_too_many_tokens(comment.span))

    def report(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) > MAX_SYNTAX_ERRORS:
            raise TooMuch(*self.problems)


def scan_code(result: Scan, position: int, *, in_tag: bool = False) -> int:
    """Scan up to the next `\"\"\"`, to the end, or past the brace that closes the tag. Returns that place."""
    text = result.source.text
    match_lexeme = LEXEME.match
    add = result.add
    braces = nesting = 0
    while True:
        match = match_lexeme(text, position)
        if match is None:
            position = _skip_bad_characters(result, position)
            continue
        kind = match.lastgroup
        start, position = match.span(kind or 0)
        written = text[start:position]
        if kind == "word":
            if written in WORDS:
                add(Token(written.upper(), written, start, position))
            else:
                add(Token("NAME", written, start, position))
                if not written.isascii() or len(written) > MAX_NAME_CHARS:
                    _check_name(result, written, start)
        elif kind == "mark":
            if written in "([{":
                nesting += 1
                braces += written == "{"
                if nesting > MAX_NESTING:
                    raise TooMuch(too_deep("brackets", Span(start, position)))
            elif written in ")]}":
                nesting = max(nesting - 1, 0)
                braces -= written == "}"
                if in_tag and braces < 0:
                    add(Token("TAG_CLOSE", written, start, position))
                    return position
            add(Token(MARKS[written], written, start, position))
        elif kind == "newline":
            result.tokens.append(Token("NEWLINE", "\n", start, position))
        elif kind == "string":
            _add_string(result, written, start)
        elif kind == "number":
            _check_number(result, written, start)
            add(Token("NUMBER", written, start, position))
        elif kind == "comment":
            result.add_comment(_comment(written, start))
        elif kind == "pattern":
            add(Token("REGEX", written, start, position, resolve_pattern(written[1:-1])))
        else:  # `"""` or the end
            return start


def too_deep(things: str, span: Span) -> Problem:
    return Problem("nesting-too-deep", f"more than {MAX_NESTING} {things} inside one another", span)


def _too_many_tokens(span: Span) -> Problem:
    return Problem(
        "file-too-large",
        f"the file has more than {MAX_TOKENS:,} words and marks",
        span,
        help=("split the program: it can import types and templates from other files",),
    )


def _comment(written: str, start: int) -> Comment:
    written = written.rstrip()
    inside = written[2:] if written.startswith("# ") else written[1:]
    return Comment(inside, Span(start, start + len(written)))


def _add_string(result: Scan, written: str, start: int) -> None:
    end = start + len(written)
    if len(written) < 2 or not written.endswith('"') or _ends_in_escape(written):
        written = written.rstrip()
        end = start + len(written)
        result.report(
            Problem(
                "unclosed-string",
                "a string that is not closed on its line",
                Span(start, end),
                message='no closing `"`',
                help=('close it with `"`; write a line end inside a string as \\n',),
            )
        )
        result.add(Token("STRING", written, start, end))
        return
    value, problem = resolve_string(written[1:-1], start + 1)
    if problem is not None:
        result.report(problem)
    result.add(Token("STRING", written, start, end, value))


def _ends_in_escape(written: str) -> bool:
    """Whether the last quote is itself escaped."""
    backslashes = len(written) - 1 - len(written[:-1].rstrip("\\"))
    return backslashes % 2 == 1


def _check_number(result: Scan, written: str, start: int) -> None:
    match = PLAIN_NUMBER.fullmatch(written)
    span = Span(start, start + len(written))
    if match is None:
        advice = ("write it without leading zeros: 7, not 007",)
        result.report(Problem("bad-number", f"`{written[:20]}` is not a number", span, help=advice))
    elif len(written) > MAX_NUMBER_CHARS or len(match[1] or "") > 6 or abs(int(match[1] or 0)) > MAX_NUMBER_EXPONENT:
        advice = (f"numbers have at most {MAX_NUMBER_CHARS} characters and exponents up to {MAX_NUMBER_EXPONENT}",)
        result.report(Problem("bad-number", "a number that exceeds the limits", span, help=advice))


def _check_name(result: Scan, written: str, start: int) -> None:
    span = Span(start, start + len(written))
    if len(written) > MAX_NAME_CHARS:
        headline = f"a name of {len(written):,} characters; the limit is {MAX_NAME_CHARS}"
        result.report(Problem("name-too-long", headline, span))
        return
    hidden = next((character for character in written if is_hidden(character)), None)
    if hidden is not None:
        result.report(hidden_problem(span, hidden))
    elif not written.isidentifier():
        odd = next(character for character in written if not ("a" + character).isidentifier())
        headline = f"{describe_character(odd)} is not allowed in a name"
        advice = ("put the key in quotes",)
        result.report(Problem("bad-character", headline, span, help=advice))
    elif unicodedata.normalize("NFC", written) != written:
        headline = f"the name `{written}` is not written in composed form"
        advice = (f"write `{unicodedata.normalize('NFC', written)}` in Unicode's normal form C",)
        result.report(Problem("bad-character", headline, span, help=advice))


def _skip_bad_characters(result: Scan, position: int) -> int:
    """Report a run of characters without a meaning, and return the place after it."""
    text = result.source.text
    while text[position] in " \t":
        position += 1
    block = FOREIGN_BLOCK.match(text, position)
    if block is not None:
        return _add_foreign_block(result, block)
    quoted = FOREIGN_QUOTES.match(text, position)
    if quoted is not None:
        return _add_foreign_string(result, quoted)
    angles = ANGLES.match(text, position, position + LONGEST_TYPE)
    if angles is not None and result.tokens and result.tokens[-1].end == position:
        return _report_angles(result, angles)
    start, character = position, text[position]
    while position < len(text) and text[position] == character:
        position += 1
    _report_bad_character(result, character, Span(start, position))
    return position


def _add_foreign_block(result: Scan, match: re.Match[str]) -> int:
    """A text in three single quotes: one problem, and parsing continues as if it were an empty text."""
    start, end = match.span()
    advice = 'write texts of several lines in three double quotes: """'
    result.report(
        Problem("bad-character", "a text in the wrong kind of quotes", Span(start, start + 3), help=(advice,))
    )
    result.add(Token("TEXT_OPEN", text=match[0][:3], start=start, end=start + 3))
    closing = max(start + 3, end - 3)
    result.add(Token("TEXT_CLOSE", text=match.string[closing:end], start=closing, end=end))
    return end


def _add_foreign_string(result: Scan, match: re.Match[str]) -> int:
    """A string in the quotes of another language: one problem, and parsing continues as if the quotes were right."""
    result.report(
        Problem(
            "bad-character",
            "a string in the wrong kind of quotes",
            Span(*match.span()),
            help=(f'write strings in straight double quotes: "{match[0][1:-1]}"',),
        )
    )
    result.add(Token("STRING", match[0], match.start(), match.end(), match[0][1:-1]))
    return match.end()


def _report_angles(result: Scan, match: re.Match[str]) -> int:
    """A type such as `List<string>`: one problem, and parsing continues as if only the word stood there."""
    shown = match.string[result.tokens[-1].start : match.end()]
    inside = Scan(Source("", shown.replace("<", "[").replace(">", "]")))
    scan_code(inside, 0)
    result.report(type_in_angles(result.tokens, shown, None if inside.problems else inside.tokens))
    return match.end()


def _report_bad_character(result: Scan, character: str, span: Span) -> None:
    """Control characters and those that re-order the line are reported by `characters.py`, for the whole file."""
    if character in HIDDEN:
        result.report(hidden_problem(span, character))
    elif unicodedata.category(character).startswith("M"):
        advice = "write the letter and its mark as one character, or put the key in quotes"
        headline = f"{describe_character(character)} is not allowed in a name"
        result.report(Problem("bad-character", headline, span, help=(advice,)))
    elif character.isspace() and character not in "\r\f\v\x1c\x1d\x1e\x1f\x85":
        headline = f"{describe_character(character)} is not a space in a program"
        result.report(Problem("bad-character", headline, span, help=("write an ordinary space",)))
    elif character.isprintable():
        known = (ADVICE[character],) if character in ADVICE else ()
        shown = character * min(span.end - span.start, MOST_SHOWN)
        result.report(Problem("bad-character", f"`{shown}` is not allowed here", span, help=known))
    elif unicodedata.category(character) != "Cc" and not is_hidden(character):
        result.report(hidden_problem(span, character))
