"""Prepare tokens for the grammar: line ends become separators, and every bracket gets its partner.

Inside `{ }` (and the inputs of a template) a line end or a comma separates members; elsewhere a line end has no
meaning. As every bracket has its partner, the parser can recover from a mistake at the end of any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar.code_scanner import Scan, TooMuch, too_deep
from pastalang.grammar.problems import Problem
from pastalang.grammar.tokens import CLOSING, CLOSING_TEXT, DECLARATION_WORDS, NAME_TERMINALS, OPENING, Token
from pastalang.grammar.triple_quotes import indentation
from pastalang.limits import MAX_NESTING

CONTINUED = frozenset({"COLON", "EQUALS", "BAR", "COMMA"})  # a member does not end after these
KEYS = NAME_TERMINALS | {"STRING"}
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
        layout.tokens.append(token)
        at_line_start = False
    if layout.open:
        end = len(scan.source.text)
        _report_never_closed(layout, None)
        _close_all(layout, 0, end)
    return layout.tokens


# ── separators ───────────────────────────────────────────────────────────────────────────────────────────


def _separates(layout: Layout, raw: list[Token], index: int) -> bool:
    """Whether the line end at `index` ends a member."""
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
        raise TooMuch(too_deep("brackets", token.span))
    before = [before.type for before in layout.tokens[-2:]]
    is_inputs = token.type == "LEFT_PARENTHESIS" and before[:1] == ["TEMPLATE"] and len(before) == 2
    layout.open.append(Open(token, holds_members=is_inputs or token.type == "LEFT_BRACE"))


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
    layout.scan.report(
        Problem("stray-bracket", f"a `{token.text}` without an opening bracket", token.span, help=("remove it",))
    )


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
    layout.scan.report(
        Problem(
            "unclosed-brace",
            "a `{` that is not closed",
            opening.span,
            message="no closing `}`, going by the indentation",
            related=(Label(closing.span, "this one is indented less than the line of the `{`"),),
        )
    )


def _report_unclosed(layout: Layout, opened: Open, noticed: Token | None) -> None:
    if opened.token.type == "TAG_OPEN":
        return
    mark, code = NAMES_OF_BRACKETS[opened.token.type]
    closing = CLOSING_TEXT[OPENING[opened.token.type]]
    related = (Label(noticed.span, f"`{closing}` is missing before this"),) if noticed is not None else ()
    layout.scan.report(
        Problem(
            code,
            f"a `{mark}` that is not closed",
            opened.token.span,
            message=f"no closing `{closing}`",
            related=related,
        )
    )


def _begins_declaration(raw: list[Token], index: int) -> bool:
    """Whether the words at `index` can only be a new declaration, so that a bracket must be missing."""
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
