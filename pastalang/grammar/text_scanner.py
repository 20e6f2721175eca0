"""Scan a text block into stretches of text and tags, with its white space resolved.

The rules of white space (SPEC.md, "Text"): a text begins after the line of its opening quotes, the common
indentation and the last line end are removed, and a line of nothing but structural tags leaves no trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar.code_scanner import Scan, TooMuch, scan_code, too_deep
from pastalang.grammar.problems import Problem
from pastalang.grammar.tokens import CLOSING, NAME_TERMINALS, OPENING, Token
from pastalang.grammar.triple_quotes import indentation, shared_indentation
from pastalang.limits import MAX_NESTING
from pastalang.source import Span

QUOTES = '"""'
MARK = re.compile(r'\\"""|"""|\{\{|\}\}|\{|\}')
OPENING_LINE = re.compile(r"[ \t]*\n")
TAG_START = re.compile(r"\{\s*[^\W\d]")
# A line that begins a message: quotes at its end open the next text, so the one before was never closed.
NEXT_MESSAGE = re.compile(r"(?:system|user|assistant(?:[ \t]+text)?)[ \t]*\Z")
ESCAPED = {'\\"""': '"""', "{{": "{", "}}": "}"}
TAG_WORDS = ("async", "promise", "sync", "fork", "for", "if", "else", "end")


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
    """Whether a tag shapes the text without writing anything itself."""
    first, second = _first_words(tag)
    if first in ("SYNC", "END", "ELSE"):
        return second not in ("COLON", "DOT")
    if first in ("FORK", "PROMISE"):
        return second in NAME_TERMINALS
    return opens_block(tag)


def opens_block(tag: list[Token]) -> bool:
    """Whether the tag needs an `{end}`."""
    first, second = _first_words(tag)
    if second not in NAME_TERMINALS:
        return False
    return first in ("FORK", "FOR", "IF") or (first == "ASYNC" and not _gives_type(tag))


def _gives_type(tag: list[Token]) -> bool:
    """Whether the tag has a colon outside of all brackets."""
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
    """Whether the tag is `{else}`."""
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
        result.report(
            Problem(
                "unclosed-tag",
                "a tag that is not closed",
                Span(start, end),
                message="no closing `}`",
                help=("close the tag with `}`, or double the brace to write it as text: `{{`",),
            )
        )
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
                    raise TooMuch(too_deep("blocks", Span(fragment.start, fragment.end)))
            elif turns_block(fragment.tag):
                block = open_blocks[-1] if open_blocks and _first_words(open_blocks[-1].tag)[0] == "IF" else None
                if block is None or block.start in with_else:
                    _report_stray_else(result, fragment, is_second=block is not None)
                else:
                    with_else.add(block.start)
            elif closes_block(fragment.tag):
                if open_blocks:
                    open_blocks.pop()
                else:
                    _report_stray_end(result, fragment)
        line.fragments = [fragment for fragment in line.fragments if fragment.tag or fragment.text]
    for fragment in reversed(open_blocks):
        _report_unclosed_block(result, fragment)
        at = lines[-1].fragments[-1].end if lines[-1].fragments else lines[-1].start
        tag = [Token("TAG_OPEN", "{", at, at), Token("END", "end", at, at), Token("TAG_CLOSE", "}", at, at)]
        lines[-1].fragments.append(Fragment(at, at, tag=tag))


def _report_stray_end(result: Scan, fragment: Fragment) -> None:
    result.report(
        Problem(
            "stray-end",
            "an `{end}` without an open block",
            Span(fragment.start, fragment.end),
            message="no block is open here",
            help=("remove it, or write the opening tag of its block before it",),
        )
    )
    fragment.tag = []
    fragment.text = ""


def _report_stray_else(result: Scan, fragment: Fragment, *, is_second: bool) -> None:
    result.report(
        Problem(
            "stray-end",
            "a second `{else}` of one `{if}`" if is_second else "an `{else}` without an open `{if}`",
            Span(fragment.start, fragment.end),
            help=("remove it, or write the `{if ...}` before it",),
        )
    )
    fragment.tag = []
    fragment.text = ""


def _report_unclosed_block(result: Scan, fragment: Fragment) -> None:
    word = next(token.text for token in fragment.tag[1:] if token.type != "NEWLINE")
    result.report(
        Problem(
            "unclosed-block",
            f"a `{word}` block without its `{{end}}`",
            Span(fragment.start, fragment.end),
            message="the text ends while this block is open",
            help=("write `{end}` after the last line of the block",),
        )
    )


def _report_stray_brace(result: Scan, start: int) -> None:
    brace = result.source.text[start]
    headline = "a `{` that does not open a tag" if brace == "{" else "a `}` that does not close a tag"
    advice = (f"to write a brace as text, double it: `{brace}{brace}`",)
    result.report(Problem("stray-brace", headline, Span(start, start + 1), help=advice))


def _report_unclosed_text(result: Scan, start: int, next_quotes: int | None) -> None:
    related: tuple[Label, ...] = ()
    if next_quotes is not None:
        line_start = result.source.text.rfind("\n", 0, next_quotes) + 1
        related = (Label(Span(line_start, next_quotes), "the next message begins here"),)
    result.report(
        Problem(
            "unclosed-text",
            "a text that is not closed",
            Span(start, start + 3),
            message='no closing `"""`',
            help=('close it with `"""` on a line of its own',),
            related=related,
        )
    )
