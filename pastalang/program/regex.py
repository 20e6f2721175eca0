"""Parse a regular expression into a tree that can be enforced token by token, or raise a `RegexError`.

The subset means the same in every engine: characters, classes, groups, alternatives and counted or unbounded
repetition, matched from end to end of the value. `\\d`, `\\w` and `\\s` are ASCII; `.` is any character but a
line feed. Look-around, back-references, word boundaries, flags and anchors inside a pattern are refused.
`spell` writes a tree back as a pattern without short-hands, which Python, Rust and llguidance read alike.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from pastalang.program.regex_tree import (
    DIGITS,
    SPACE,
    SURROGATES,
    WORD,
    Chars,
    Choice,
    Node,
    Ranges,
    Repetition,
    Sequence,
    complement,
    count_states,
    normalised,
)

MAX_PATTERN_CHARS = 1_000
MAX_PATTERN_DEPTH = 40
MAX_REPETITION = 1_000
MAX_PATTERN_STATES = 20_000  # characters of the pattern with every counted repetition written out


class RegexError(ValueError):
    """The mistake is `length` characters of the pattern, from `offset` on."""

    def __init__(self, message: str, *, offset: int, length: int = 1, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.length = length
        self.help = help


@lru_cache(maxsize=1024)
def parse_regex(pattern: str) -> Node:
    if len(pattern) > MAX_PATTERN_CHARS:
        _refuse(f"the pattern has {len(pattern)} characters; {MAX_PATTERN_CHARS} are the limit", 0, length=len(pattern))
    node = _Parser(pattern).parse()
    states = count_states(node)
    if states > MAX_PATTERN_STATES:
        _refuse(
            f"its repetitions multiply to {states} characters; {MAX_PATTERN_STATES} are the limit",
            0,
            length=len(pattern),
            help="lower the counts in `{...}`, or do not nest them",
        )
    return node


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

_SHORTHANDS = {
    "d": DIGITS,
    "w": WORD,
    "s": SPACE,
    "D": complement(DIGITS),
    "W": complement(WORD),
    "S": complement(SPACE),
}
_CONTROLS = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B, "0": 0x00}
_DOT = complement(((0x0A, 0x0A),))


def _refuse(message: str, offset: int, *, length: int = 1, help: str = "") -> NoReturn:
    raise RegexError(message, offset=offset, length=length, help=help)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def parse(self) -> Node:
        node = self.choice(whole=True)
        if self.at < len(self.pattern):
            _refuse("this `)` has no opening `(`", self.at, help="write `\\)` for the character itself")
        return node

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        character = self.pattern[self.at]
        self.at += 1
        return character

    def choice(self, *, whole: bool) -> Node:
        arms = [self.sequence(whole=whole)]
        while self.peek() == "|":
            self.take()
            arms.append(self.sequence(whole=whole))
        return arms[0] if len(arms) == 1 else Choice(tuple(arms))

    def sequence(self, *, whole: bool) -> Node:
        """One arm. At its ends `^` and `$` say what holds anyway: the whole value is matched."""
        if whole and self.peek() == "^":
            self.take()
        items: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            if self.peek() == "$" and whole and self.pattern[self.at + 1 : self.at + 2] in ("", "|"):
                self.take()
                break
            items.append(self.repeated())
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def repeated(self) -> Node:
        node = self.atom()
        counted = False
        while (bounds := self.quantifier()) is not None:
            if counted:
                _refuse("a repetition of a repetition", self.at - 1, help="put the inner one into a group: `(?:a{2})*`")
            counted = True
            node = Repetition(node, *bounds)
        return node

    def quantifier(self) -> tuple[int, int | None] | None:
        start = self.at
        match self.peek():
            case "*":
                bounds: tuple[int, int | None] = (0, None)
            case "+":
                bounds = (1, None)
            case "?":
                bounds = (0, 1)
            case "{":
                return self.count(start)
            case _:
                return None
        self.take()
        self.laziness()
        return bounds

    def laziness(self) -> None:
        """A lazy repetition matches the same whole values; a possessive one may not."""
        if self.peek() == "?":
            self.take()
        elif self.peek() == "+":
            _refuse("a possessive repetition", self.at, help="leave the second `+` out")

    def count(self, start: int) -> tuple[int, int | None]:
        end = self.pattern.find("}", start)
        inside = self.pattern[start + 1 : end] if end > 0 else ""
        low, comma, high = inside.partition(",")
        if not (low.isascii() and low.isdigit()) or not (high == "" or (high.isascii() and high.isdigit())):
            _refuse("a count that is not `{3}`, `{3,}` or `{3,5}`", start, help="write `\\{` for the character itself")
        self.at = end + 1
        minimum = int(low[:9])
        maximum = minimum if not comma else (int(high[:9]) if high else None)
        length = end + 1 - start
        if maximum is not None and maximum < minimum:
            _refuse(f"at least {minimum} and at most {maximum} time{'' if maximum == 1 else 's'}", start, length=length)
        if max(minimum, maximum or 0) > MAX_REPETITION:
            _refuse(f"a count above {MAX_REPETITION}", start, length=length)
        self.laziness()
        return minimum, maximum

    def atom(self) -> Node:
        start = self.at
        character = self.take()
        match character:
            case "(":
                return self.group(start)
            case "[":
                return Chars(self.character_class(start))
            case ".":
                return Chars(_DOT)
            case "\\":
                return Chars(self.escape(start))
            case "^" | "$":
                _refuse(f"`{character}` inside a pattern", start, help="a pattern always matches the whole value")
            case "*" | "+" | "?" | "{":
                _refuse(
                    f"nothing to repeat before `{character}`",
                    start,
                    help=f"write `\\{character}` for the character itself",
                )
            case "]" | "}":
                _refuse(
                    f"this `{character}` has no opening bracket",
                    start,
                    help=f"write `\\{character}` for the character itself",
                )
            case _:
                return Chars(((ord(character), ord(character)),))

    def group(self, start: int) -> Node:
        if self.peek() == "?":
            self.group_kind(start)
        self.depth += 1
        if self.depth > MAX_PATTERN_DEPTH:
            _refuse(f"groups nested more than {MAX_PATTERN_DEPTH} deep", start)
        node = self.choice(whole=False)
        self.depth -= 1
        if self.peek() != ")":
            _refuse("this `(` is never closed", start, help="write `\\(` for the character itself")
        self.take()
        return node

    def group_kind(self, start: int) -> None:
        rest = self.pattern[self.at :]
        if rest.startswith("?:"):
            self.at += 2
        elif rest.startswith(("?=", "?!", "?<=", "?<!")):
            length = 4 if rest.startswith("?<") else 3
            _refuse("look-around", start, length=length, help="describe the value itself, not the text around it")
        elif rest.startswith(("?P<", "?<")):
            closing = rest.find(">")
            _refuse(
                "a named group", start, length=closing + 2 if closing > 0 else 3, help="a plain group `(...)` is enough"
            )
        elif rest.startswith("?P="):
            _refuse("a back-reference", start, length=4)
        else:
            _refuse("a flag or a special group", start, length=3, help="`(?:...)` is the only kind of `(?`")

    def escape(self, start: int) -> Ranges:
        if self.at >= len(self.pattern):
            _refuse("a `\\` with nothing after it", start)
        character = self.take()
        if character in _SHORTHANDS:
            return _SHORTHANDS[character]
        code = self.escaped_code(start, character)
        return ((code, code),)

    def escaped_code(self, start: int, character: str) -> int:
        if character in _CONTROLS and not (character == "0" and self.peek().isdigit()):
            return _CONTROLS[character]
        if character in "xu":
            return self.hexadecimal(start, 2 if character == "x" else 4)
        if character.isdigit():
            _refuse("a back-reference", start, length=2, help="the value cannot be compared with itself; spell it out")
        if character in "bBAzZG":
            _refuse(f"the anchor `\\{character}`", start, length=2, help="a pattern always matches the whole value")
        if character in "pP":
            _refuse(f"the Unicode class `\\{character}`", start, length=2, help="list the characters: `[A-Za-zÀ-ÿ]`")
        if character.isascii() and character.isalpha():
            _refuse(f"an unknown escape `\\{character}`", start, length=2)
        return ord(character)

    def hexadecimal(self, start: int, digits: int) -> int:
        written = self.pattern[self.at : self.at + digits]
        if len(written) < digits or any(digit not in "0123456789abcdefABCDEF" for digit in written):
            _refuse(f"`\\{self.pattern[start + 1]}` needs {digits} hexadecimal digits", start, length=2)
        self.at += digits
        code = int(written, 16)
        if SURROGATES[0] <= code <= SURROGATES[1]:
            _refuse("a surrogate is not a character", start, length=digits + 2)
        return code

    def character_class(self, start: int) -> Ranges:
        negated = self.peek() == "^"
        if negated:
            self.take()
        found: list[tuple[int, int]] = []
        first = True
        while self.peek() != "]" or first:
            if self.at >= len(self.pattern):
                _refuse("this `[` is never closed", start, help="write `\\[` for the character itself")
            if first and self.peek() == "]":
                _refuse("a class without characters", start, length=2, help="write `\\]` for the character itself")
            found.extend(self.class_member(start))
            first = False
        self.take()
        ranges = normalised(found)
        return complement(ranges) if negated else ranges

    def class_member(self, start: int) -> Ranges:
        begin = self.at
        low = self.class_character(start)
        if self.peek() != "-" or self.pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return low
        self.take()
        high = self.class_character(start)
        single = all(len(side) == 1 and side[0][0] == side[0][1] for side in (low, high))
        if not single:
            _refuse("a range between classes", begin, length=self.at - begin, help="write `\\-` for the character")
        if high[0][0] < low[0][0]:
            _refuse("a range that ends before it begins", begin, length=self.at - begin)
        return ((low[0][0], high[0][0]),)

    def class_character(self, start: int) -> Ranges:
        if self.at >= len(self.pattern):
            _refuse("this `[` is never closed", start, help="write `\\[` for the character itself")
        begin = self.at
        character = self.take()
        if character == "\\":
            return self.escape(begin)
        if character == "[" and self.peek() in (":", ".", "="):
            _refuse("a POSIX class", begin, length=2, help="list the characters, for example `[A-Za-z0-9]`")
        return ((ord(character), ord(character)),)
