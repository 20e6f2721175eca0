"""The scanner: a source as words, marks and comments, with the problems of single characters.

Code is everything outside of text blocks. A text block becomes stretches of text and tags, its white space resolved:
a text begins after the line of its opening quotes, the common indentation and the last line end are removed, and a
line of nothing but structural tags leaves no trace (SPEC.md, "Text").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from pastalang.diagnostics.diagnostic import Label, Severity
from pastalang.grammar.messages import FOREIGN_TYPE, MAX_TYPE_CHARS, type_in_angles
from pastalang.grammar.nodes import Comment
from pastalang.grammar.quotes import (
    OPENING_LINE,
    QUOTES,
    indentation,
    resolve_pattern,
    resolve_quotes,
    resolve_string,
    shared_indentation,
)
from pastalang.grammar.tokens import CLOSING, MARKS, NAME_TERMINALS, OPENING, WORDS, Problem, Token
from pastalang.limits import (
    MAX_NAME_CHARS,
    MAX_NESTING,
    MAX_NUMBER_CHARS,
    MAX_NUMBER_EXPONENT,
    MAX_SYNTAX_ERRORS,
    MAX_TOKENS,
)
from pastalang.source import Source, Span


class LimitExceeded(Exception):
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
            raise LimitExceeded(_too_many_tokens(token.span))

    def add_comment(self, comment: Comment) -> None:
        self.comments.append(comment)
        self.count += 1
        if self.count > MAX_TOKENS:
            raise LimitExceeded(_too_many_tokens(comment.span))

    def report(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) > MAX_SYNTAX_ERRORS:
            raise LimitExceeded(*self.problems)

    def refuse(
        self,
        code: str,
        headline: str,
        span: Span,
        help: str = "",
        *,
        message: str = "",
        related: tuple[Label, ...] = (),
    ) -> None:
        self.report(Problem(code, headline, span, message, (help,) if help else (), related))


# Quotes after one of these hold a value, such as a JSON Schema, and no tags.
BEFORE_A_VALUE = frozenset({"LEFT_PARENTHESIS", "COMMA", "COLON", "EQUALS", "LEFT_BRACKET"})


def scan(source: Source) -> Scan:
    """All words and marks of a source, with line ends."""
    result = Scan(source)
    result.problems.extend(find_control(source.text))
    if len(result.problems) == MAX_PROBLEMS:
        raise LimitExceeded(*result.problems)  # this is not a text file
    position = 0
    while position < len(source.text):
        position = scan_code(result, position)
        if position == len(source.text):
            break
        scan_quotes = scan_schema_text if _expects_value(result) else scan_text
        position = scan_quotes(result, position)
    for problem in find_reordering(source.text, result.quoted):
        result.report(problem)
    return result


def _expects_value(result: Scan) -> bool:
    before = (token.type for token in reversed(result.tokens) if token.type != "NEWLINE")
    return next(before, "") in BEFORE_A_VALUE


# ── code ─────────────────────────────────────────────────────────────────────────────────────────────────

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
MAX_SHOWN = 3  # of a character that is repeated
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
    "<": FOREIGN_TYPE,
}


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
                    raise LimitExceeded(too_deep("brackets", Span(start, position)))
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
        advice = 'close it with `"`; write a line end inside a string as \\n'
        headline = "a string that is not closed on its line"
        result.refuse("unclosed-string", headline, Span(start, end), advice, message='no closing `"`')
        result.add(Token("STRING", written, start, end))
        return
    value, problem = resolve_string(written[1:-1], start + 1)
    if problem is not None:
        result.report(problem)
    result.add(Token("STRING", written, start, end, value))


def _ends_in_escape(written: str) -> bool:
    """Returns True if the last quote is itself escaped."""
    backslashes = len(written) - 1 - len(written[:-1].rstrip("\\"))
    return backslashes % 2 == 1


def _check_number(result: Scan, written: str, start: int) -> None:
    match = PLAIN_NUMBER.fullmatch(written)
    span = Span(start, start + len(written))
    if match is None:
        advice = "write it without leading zeros: 7, not 007"
        result.refuse("bad-number", f"`{written[:20]}` is not a number", span, advice)
    elif len(written) > MAX_NUMBER_CHARS or len(match[1] or "") > 6 or abs(int(match[1] or 0)) > MAX_NUMBER_EXPONENT:
        advice = f"numbers have at most {MAX_NUMBER_CHARS} characters and exponents up to {MAX_NUMBER_EXPONENT}"
        result.refuse("bad-number", "a number that exceeds the limits", span, advice)


def _check_name(result: Scan, written: str, start: int) -> None:
    span = Span(start, start + len(written))
    if len(written) > MAX_NAME_CHARS:
        headline = f"a name of {len(written):,} characters; the limit is {MAX_NAME_CHARS}"
        result.refuse("name-too-long", headline, span)
        return
    hidden = next((character for character in written if is_hidden(character)), None)
    if hidden is not None:
        result.report(hidden_problem(span, hidden))
    elif not written.isidentifier():
        odd = next(character for character in written if not ("a" + character).isidentifier())
        result.refuse(
            "bad-character", f"{describe_character(odd)} is not allowed in a name", span, "put the key in quotes"
        )
    elif unicodedata.normalize("NFC", written) != written:
        headline = f"the name `{written}` is not written in composed form"
        advice = f"write `{unicodedata.normalize('NFC', written)}` in Unicode's normal form C"
        result.refuse("bad-character", headline, span, advice)


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
    angles = ANGLES.match(text, position, position + MAX_TYPE_CHARS)
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
    result.refuse("bad-character", "a text in the wrong kind of quotes", Span(start, start + 3), advice)
    result.add(Token("TEXT_OPEN", text=match[0][:3], start=start, end=start + 3))
    closing = max(start + 3, end - 3)
    result.add(Token("TEXT_CLOSE", text=match.string[closing:end], start=closing, end=end))
    return end


def _add_foreign_string(result: Scan, match: re.Match[str]) -> int:
    """A string in the quotes of another language: one problem, and parsing continues as if the quotes were right."""
    advice = f'write strings in straight double quotes: "{match[0][1:-1]}"'
    result.refuse("bad-character", "a string in the wrong kind of quotes", Span(*match.span()), advice)
    result.add(Token("STRING", match[0], match.start(), match.end(), match[0][1:-1]))
    return match.end()


def _report_angles(result: Scan, match: re.Match[str]) -> int:
    """A type such as `List<string>`: one problem, and parsing continues as if only the word stood there."""
    shown = match.string[result.tokens[-1].start : match.end()]
    result.report(type_in_angles(result.tokens, shown))
    return match.end()


def _report_bad_character(result: Scan, character: str, span: Span) -> None:
    """Control characters and those that re-order the line are reported for the whole file."""
    if character in HIDDEN:
        result.report(hidden_problem(span, character))
    elif unicodedata.category(character).startswith("M"):
        advice = "write the letter and its mark as one character, or put the key in quotes"
        headline = f"{describe_character(character)} is not allowed in a name"
        result.refuse("bad-character", headline, span, advice)
    elif character.isspace() and character not in "\r\f\v\x1c\x1d\x1e\x1f\x85":
        headline = f"{describe_character(character)} is not a space in a program"
        result.refuse("bad-character", headline, span, "write an ordinary space")
    elif character.isprintable():
        shown = character * min(span.end - span.start, MAX_SHOWN)
        result.refuse("bad-character", f"`{shown}` is not allowed here", span, ADVICE.get(character, ""))
    elif unicodedata.category(character) != "Cc" and not is_hidden(character):
        result.report(hidden_problem(span, character))


# ── characters: what cannot be seen must not have a meaning ──────────────────────────────────────────────

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]+")
# Overrides and isolates re-order what is shown; marks such as U+200F only help the order and stay allowed in text.
REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]+")
HIDDEN = frozenset(
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200d\u200e\u200f"
    "\u2060\u2061\u2062\u2063\u2064\u3164\uffa0\ufeff"
)
MAX_PROBLEMS = 10


def find_control(text: str) -> list[Problem]:
    """Control characters, which are not allowed anywhere; the first few of them."""
    matches = islice(CONTROL.finditer(text), MAX_PROBLEMS)
    return [_control(Span(match.start(), match.end()), text[match.start()]) for match in matches]


def find_reordering(text: str, quoted: Iterable[Span]) -> Iterator[Problem]:
    """Characters that re-order what is shown; in `quoted` text they only warn. The first few of them."""
    regions = tuple(quoted)
    for match in islice(REORDERING.finditer(text), MAX_PROBLEMS):
        inside = any(region.start <= match.start() < region.end for region in regions)
        yield _reordering(Span(match.start(), match.end()), text[match.start()], is_text=inside)


def is_hidden(character: str) -> bool:
    return character in HIDDEN or REORDERING.match(character) is not None


def describe_character(character: str) -> str:
    """`U+200B ZERO WIDTH SPACE`"""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" {name}" if name else "")


def hidden_problem(span: Span, character: str) -> Problem:
    return Problem(
        "hidden-character",
        f"an invisible character: {describe_character(character)}",
        span,
        message="hidden here",
        help=("remove it; in a quoted string, write it as an escape: " + f"\\u{ord(character):04x}",),
    )


def _control(span: Span, character: str) -> Problem:
    if character == "\r":
        headline, advice = "a carriage return without a line feed", "end lines with LF or CRLF"
    else:
        headline, advice = f"a control character, U+{ord(character):04X}", "remove it"
    return Problem("bad-character", headline, span, help=(advice,))


def _reordering(span: Span, character: str, *, is_text: bool) -> Problem:
    return Problem(
        "hidden-character",
        f"a character that re-orders what is shown: {describe_character(character)}",
        span,
        message="the text after this is not in the order in which it is shown",
        help=("remove it; in a quoted string, write it as an escape: " + f"\\u{ord(character):04x}",),
        severity=Severity.WARNING if is_text else Severity.ERROR,
    )


# ── values in triple quotes ──────────────────────────────────────────────────────────────────────────────

END = re.compile(r'(?<!\\)"""')


def scan_schema_text(result: Scan, start: int) -> int:
    """Scan the value whose opening quotes are at `start`. Returns the place after its closing quotes."""
    text = result.source.text
    closing = END.search(text, start + 3)
    end, close = (closing.start(), closing.end()) if closing else (len(text), len(text))
    if closing is None:
        span = Span(start, start + 3)
        result.refuse("unclosed-text", "a text that is not closed", span, message='no closing `"""`')
    result.quoted.append(Span(start, close))
    result.add(Token("STRING", text[start:close], start, close, resolve_quotes(text[start + 3 : end])))
    return close


# ── text blocks ──────────────────────────────────────────────────────────────────────────────────────────

MARK = re.compile(r'\\"""|"""|\{\{|\}\}|\{|\}')
TAG_START = re.compile(r"\{\s*[^\W\d]")
# A line that begins a message: quotes at its end open the next text, so the one before was never closed.
NEXT_MESSAGE = re.compile(r"(?:system|user|assistant(?:[ \t]+text)?)[ \t]*\Z")
ESCAPED = {'\\"""': '"""', "{{": "{", "}}": "}"}


@dataclass(slots=True)
class Fragment:
    """A stretch of one line: text without a line end, or a whole tag."""

    start: int
    end: int
    text: str = ""
    tag: list[Token] = field(default_factory=list)


@dataclass(slots=True)
class Line:
    start: int
    fragments: list[Fragment] = field(default_factory=list)
    has_end: bool = False

    @property
    def is_blank(self) -> bool:
        return all(not fragment.tag and not fragment.text.strip(" \t") for fragment in self.fragments)

    @property
    def is_structural(self) -> bool:
        """Nothing but structural tags and white space."""
        tags = [fragment.tag for fragment in self.fragments if fragment.tag]
        others = "".join(fragment.text for fragment in self.fragments)
        return bool(tags) and not others.strip(" \t") and all(is_structural(tag) for tag in tags)


def scan_text(result: Scan, start: int) -> int:
    """Scan the text whose opening quotes are at `start`. Returns the place after its closing quotes."""
    opening = OPENING_LINE.match(result.source.text, start + 3)
    result.add(Token("TEXT_OPEN", QUOTES, start, start + 3))
    lines, end, is_closed = _split_lines(result, start, opening.end() if opening else start + 3)
    if opening:
        _remove_last_line_end(lines)
        margin = _margin(lines, result.source.text, end)
        for line in lines:
            _remove_margin(line, margin)
    lines = [_without_white_space(line) if line.is_structural else line for line in lines]
    _check_blocks(result, lines)
    _add_pieces(result, lines)
    close = end + 3 if is_closed else end
    result.quoted.append(Span(start, close))
    result.add(Token("TEXT_CLOSE", QUOTES, end, close))
    return close


def is_structural(tag: list[Token]) -> bool:
    """Returns True if a tag shapes the text without writing anything itself."""
    first, second = _first_words(tag)
    if first in ("SYNC", "END", "ELSE"):
        return second not in ("COLON", "DOT")
    if first in ("FORK", "PROMISE"):
        return second in NAME_TERMINALS
    return opens_block(tag)


def opens_block(tag: list[Token]) -> bool:
    """Returns True if the tag needs an `{end}`."""
    first, second = _first_words(tag)
    if second not in NAME_TERMINALS:
        return False
    return first in ("FORK", "FOR", "IF") or (first == "ASYNC" and not _gives_type(tag))


def _gives_type(tag: list[Token]) -> bool:
    """Returns True if the tag has a colon outside of all brackets."""
    depth = 0
    for token in tag[1:-1]:
        if token.type == "COLON" and depth == 0:
            return True
        depth += (token.type in OPENING) - (token.type in CLOSING)
    return False


def closes_block(tag: list[Token]) -> bool:
    first, second = _first_words(tag)
    return first == "END" and second not in ("COLON", "DOT")


def turns_block(tag: list[Token]) -> bool:
    """Returns True if the tag is `{else}`."""
    first, second = _first_words(tag)
    return first == "ELSE" and second == "TAG_CLOSE"


def _first_words(tag: list[Token]) -> tuple[str, str]:
    """The types of the first two tokens after the brace, without line ends."""
    kinds = [token.type for token in tag[1:5] if token.type != "NEWLINE"]
    return kinds[0], kinds[1] if len(kinds) > 1 else ""


# ── taking the text apart ────────────────────────────────────────────────────────────────────────────────


def _split_lines(result: Scan, start: int, position: int) -> tuple[list[Line], int, bool]:
    """The lines from `position` on, the place of the closing quotes, and whether there are any."""
    text = result.source.text
    lines = [Line(position)]
    while True:
        match = MARK.search(text, position)
        if match is None or (match[0] == QUOTES and _begins_message(text, match.start(), start)):
            end = len(text) if match is None else text.rindex("\n", 0, match.start())  # the line end is code again
            _add_text(lines, text, position, max(end, position))
            _report_unclosed_text(result, start, None if match is None else match.start())
            return lines, max(end, position), False
        _add_text(lines, text, position, match.start())
        position = match.end()
        if match[0] == QUOTES:
            return lines, match.start(), True
        if match[0] in ESCAPED:
            lines[-1].fragments.append(Fragment(match.start(), position, ESCAPED[match[0]]))
        elif match[0] == "{" and TAG_START.match(text, match.start()):
            tag, position = _scan_tag(result, match.start())
            lines[-1].fragments.append(Fragment(match.start(), position, tag=tag))
        else:
            _report_stray_brace(result, match.start())
            lines[-1].fragments.append(Fragment(match.start(), position, match[0]))


def _begins_message(text: str, quotes: int, start: int) -> bool:
    line_start = text.rfind("\n", 0, quotes) + 1
    return line_start > start and NEXT_MESSAGE.match(text[line_start:quotes]) is not None


def _add_text(lines: list[Line], text: str, start: int, end: int) -> None:
    for number, part in enumerate(text[start:end].split("\n")):
        if number:
            lines[-1].has_end = True
            lines.append(Line(start))
        if part:
            lines[-1].fragments.append(Fragment(start, start + len(part), part))
        start += len(part) + 1


def _scan_tag(result: Scan, start: int) -> tuple[list[Token], int]:
    """The tokens of the tag that opens at `start`, with its braces, and the place after it."""
    before = len(result.tokens)
    result.add(Token("TAG_OPEN", "{", start, start + 1))
    position = scan_code(result, start + 1, in_tag=True)
    tag = result.tokens[before:]
    del result.tokens[before:]
    if tag[-1].type != "TAG_CLOSE":
        first_line = result.source.text.find("\n", start)
        end = min(position, first_line) if first_line >= 0 else position
        advice = "close the tag with `}`, or double the brace to write it as text: `{{`"
        span = Span(start, end)
        result.refuse("unclosed-tag", "a tag that is not closed", span, advice, message="no closing `}`")
        tag.append(Token("TAG_CLOSE", "}", position, position))
    return tag, position


# ── white space ──────────────────────────────────────────────────────────────────────────────────────────


def _remove_last_line_end(lines: list[Line]) -> None:
    """Closing quotes on a line of their own: the line end before them is not part of the text."""
    if lines[-1].is_blank:
        lines.pop()
        if lines:
            lines[-1].has_end = False


def _margin(lines: list[Line], text: str, end: int) -> int:
    """The common indentation of the lines that are not blank, and of the line of the closing quotes."""
    line_start = text.rfind("\n", 0, end) + 1
    beginnings = [line.fragments[0].text for line in lines if not line.is_blank]
    if not text[line_start:end].strip(" \t"):
        beginnings.append(text[line_start:end])
    return shared_indentation(beginnings)


def _remove_margin(line: Line, width: int) -> None:
    if not line.fragments or line.fragments[0].tag:
        return
    first = line.fragments[0]
    first.text = first.text[min(width, len(indentation(first.text))) :]


def _without_white_space(line: Line) -> Line:
    return Line(line.start, [fragment for fragment in line.fragments if fragment.tag])


def _add_pieces(result: Scan, lines: list[Line]) -> None:
    """Add the lines to the result, joining neighbouring stretches of text."""
    value, start, end = "", 0, 0
    for line in lines:
        for fragment in line.fragments:
            if not fragment.tag:
                start = start if value else fragment.start
                value, end = value + fragment.text, fragment.end
                continue
            if value:
                result.add(Token("TEXT_PIECE", "", start, end, value))
                value = ""
            result.tokens.extend(fragment.tag)  # counted when they were scanned
        if line.has_end:
            at = line.fragments[-1].end if line.fragments else line.start
            start = start if value else at
            value, end = value + "\n", at + 1
    if value:
        result.add(Token("TEXT_PIECE", "", start, end, value))


# ── blocks: every fork has its end ───────────────────────────────────────────────────────────────────────


def _check_blocks(result: Scan, lines: list[Line]) -> None:
    """Report ends without a block and blocks without an end, and repair the text for the parser."""
    open_blocks: list[Fragment] = []
    with_else: set[int] = set()
    for line in lines:
        for fragment in line.fragments:
            if not fragment.tag:
                continue
            if opens_block(fragment.tag):
                open_blocks.append(fragment)
                if len(open_blocks) > MAX_NESTING:
                    raise LimitExceeded(too_deep("blocks", Span(fragment.start, fragment.end)))
            elif turns_block(fragment.tag):
                block = open_blocks[-1] if open_blocks and _first_words(open_blocks[-1].tag)[0] == "IF" else None
                if block is None or block.start in with_else:
                    what = "a second `{else}` of one `{if}`" if block else "an `{else}` without an open `{if}`"
                    _report_stray(result, fragment, what, "remove it, or write the `{if ...}` before it")
                else:
                    with_else.add(block.start)
            elif closes_block(fragment.tag):
                if open_blocks:
                    open_blocks.pop()
                else:
                    advice = "remove it, or write the opening tag of its block before it"
                    what = "an `{end}` without an open block"
                    _report_stray(result, fragment, what, advice, message="no block is open here")
        line.fragments = [fragment for fragment in line.fragments if fragment.tag or fragment.text]
    for fragment in reversed(open_blocks):
        _report_unclosed_block(result, fragment)
        at = lines[-1].fragments[-1].end if lines[-1].fragments else lines[-1].start
        tag = [Token("TAG_OPEN", "{", at, at), Token("END", "end", at, at), Token("TAG_CLOSE", "}", at, at)]
        lines[-1].fragments.append(Fragment(at, at, tag=tag))


def _report_stray(result: Scan, fragment: Fragment, headline: str, advice: str, *, message: str = "") -> None:
    result.refuse("stray-end", headline, Span(fragment.start, fragment.end), advice, message=message)
    fragment.tag = []
    fragment.text = ""


def _report_unclosed_block(result: Scan, fragment: Fragment) -> None:
    word = next(token.text for token in fragment.tag[1:] if token.type != "NEWLINE")
    result.refuse(
        "unclosed-block",
        f"a `{word}` block without its `{{end}}`",
        Span(fragment.start, fragment.end),
        "write `{end}` after the last line of the block",
        message="the text ends while this block is open",
    )


def _report_stray_brace(result: Scan, start: int) -> None:
    brace = result.source.text[start]
    headline = "a `{` that does not open a tag" if brace == "{" else "a `}` that does not close a tag"
    advice = f"to write a brace as text, double it: `{brace}{brace}`"
    result.refuse("stray-brace", headline, Span(start, start + 1), advice)


def _report_unclosed_text(result: Scan, start: int, next_quotes: int | None) -> None:
    related: tuple[Label, ...] = ()
    if next_quotes is not None:
        line_start = result.source.text.rfind("\n", 0, next_quotes) + 1
        related = (Label(Span(line_start, next_quotes), "the next message begins here"),)
    result.refuse(
        "unclosed-text",
        "a text that is not closed",
        Span(start, start + 3),
        'close it with `"""` on a line of its own',
        message='no closing `"""`',
        related=related,
    )
