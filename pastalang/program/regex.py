r"""Regular expressions that can be enforced token by token: parsing, the tree, its lengths and texts, its spelling.

The subset means the same in every engine: characters, classes, groups, alternatives and counted or unbounded
repetition, matched from end to end of the value. `\d`, `\w` and `\s` are ASCII; `.` is any character that ends
no line. Look-around, back-references, word boundaries, flags and anchors inside a pattern raise a `RegexError`.
`spell` writes a tree back as a pattern without short-hands, which Python, Rust and llguidance read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NoReturn, TypeAlias, assert_never

LAST_CHARACTER = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
_MOST_WAYS = 200  # to go on behind a text
Ranges: TypeAlias = tuple[tuple[int, int], ...]  # inclusive, sorted, apart


DIGITS: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))


def normalised(ranges: list[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def complement(ranges: Ranges) -> Ranges:
    """Every character that is in none of the ranges; surrogates are no characters."""
    taken = normalised([*ranges, SURROGATES])
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in taken:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST_CHARACTER:
        gaps.append((start, LAST_CHARACTER))
    return tuple(gaps)


def _spell_character(code: int) -> str:
    character = chr(code)
    if character.isascii() and character.isalnum():
        return character
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if 0x20 <= code < 0x7F:
        return "\\" + character if character in "\\^$.|?*+()[]{}-&~" else character
    return f"\\x{code:02x}" if code < 0x100 else character


def spell_class(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _spell_character(ranges[0][0])
    if not ranges:
        return "[^\\x00-\U0010ffff]"
    inside = (
        _spell_character(low) if low == high else f"{_spell_character(low)}-{_spell_character(high)}"
        for low, high in ranges
    )
    return f"[{''.join(inside)}]"


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of these ranges."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    arms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    item: Node
    minimum: int
    maximum: int | None


Node: TypeAlias = Chars | Sequence | Choice | Repetition


@dataclass(frozen=True, slots=True)
class Lengths:
    """The shortest and the longest text that matches, in characters; `longest` None: no bound."""

    shortest: int
    longest: int | None


def lengths(node: Node) -> Lengths | None:
    """How long a match can be; None: nothing matches at all."""
    match node:
        case Chars(ranges):
            return Lengths(1, 1) if ranges else None
        case Sequence(items):
            return _lengths_in_a_row([lengths(item) for item in items])
        case Choice(arms):
            return _widest([found for arm in arms if (found := lengths(arm)) is not None])
        case Repetition(item, minimum, maximum):
            return _repeated(lengths(item), minimum, maximum)


def characters(node: Node) -> tuple[Ranges, ...]:
    """The ranges of every place of the expression."""
    match node:
        case Chars(ranges):
            return (ranges,)
        case Sequence(parts) | Choice(parts):
            return tuple(ranges for part in parts for ranges in characters(part))
        case Repetition(item):
            return characters(item)


def count_states(node: Node) -> int:
    match node:
        case Chars():
            return 1
        case Sequence(parts) | Choice(parts):
            return sum(map(count_states, parts))
        case Repetition(item, minimum, maximum):
            return count_states(item) * max(1, minimum, maximum or 0)


def spell(node: Node) -> str:
    """The same language as a pattern of characters, classes, `(?:...)`, `|` and `{m,n}` alone."""
    match node:
        case Chars(ranges):
            return spell_class(ranges)
        case Sequence(items):
            return "".join(f"(?:{spell(item)})" if isinstance(item, Choice) else spell(item) for item in items)
        case Choice(arms):
            return "|".join(map(spell, arms))
        case Repetition(item, minimum, maximum):
            single = spell(item) if isinstance(item, Chars) else f"(?:{spell(item)})"
            return single + _spell_count(minimum, maximum)


def after(node: Node, text: str) -> Node | None:
    """What may follow the text; None if nothing that matches begins with it, or if it takes too much to say."""
    ways = {node}
    for character in text:
        ways = {rest for way in ways for rest in _after(way, ord(character))}
        if not 0 < len(ways) <= _MOST_WAYS:
            return None
    first, *others = sorted(ways, key=spell)
    return Choice((first, *others)) if others else first


def meetings(left: Node, right: Node) -> Iterator[bool]:
    """Walk through all beginnings of texts that match both; at each step, whether such a text ends there."""
    codes = {low for ranges in (*characters(left), *characters(right)) for low, _ in ranges}
    waiting = [(left, right)]
    seen = set(waiting)
    while waiting:
        one, other = waiting.pop()
        yield _may_be_empty(one) and _may_be_empty(other)
        for code in codes:
            yield False
            new = set(product(_after(one, code), _after(other, code))) - seen
            seen |= new
            waiting += new


def _after(node: Node, code: int) -> set[Node]:
    """The ways to go on behind a character: partial derivatives, of which there are about as many as places."""
    match node:
        case Chars(ranges):
            return {Sequence(())} if any(low <= code <= high for low, high in ranges) else set()
        case Sequence(items):
            ways: set[Node] = set()
            for number, item in enumerate(items):
                ways |= {_in_a_row(rest, *items[number + 1 :]) for rest in _after(item, code)}
                if not _may_be_empty(item):
                    break
            return ways
        case Choice(arms):
            return {rest for arm in arms for rest in _after(arm, code)}
        case Repetition(item, minimum, maximum):
            if maximum == 0:
                return set()
            more = Repetition(item, max(0, minimum - 1), None if maximum is None else maximum - 1)
            return {_in_a_row(rest, more) for rest in _after(item, code)}


def _may_be_empty(node: Node) -> bool:
    found = lengths(node)
    return found is not None and found.shortest == 0


def _in_a_row(*nodes: Node) -> Node:
    items = tuple(one for node in nodes for one in (node.items if isinstance(node, Sequence) else (node,)))
    return items[0] if len(items) == 1 else Sequence(items)


def _lengths_in_a_row(parts: list[Lengths | None]) -> Lengths | None:
    shortest, longest = 0, 0
    unbounded = False
    for part in parts:
        if part is None:
            return None
        shortest += part.shortest
        unbounded = unbounded or part.longest is None
        longest += part.longest or 0
    return Lengths(shortest, None if unbounded else longest)


def _widest(parts: list[Lengths]) -> Lengths | None:
    if not parts:
        return None
    longest = [part.longest for part in parts]
    return Lengths(
        min(part.shortest for part in parts),
        None if any(length is None for length in longest) else max(length or 0 for length in longest),
    )


def _repeated(item: Lengths | None, minimum: int, maximum: int | None) -> Lengths | None:
    if item is None:
        return Lengths(0, 0) if minimum == 0 else None
    if item.longest == 0:
        return Lengths(0, 0)
    longest = None if maximum is None or item.longest is None else item.longest * maximum
    return Lengths(item.shortest * minimum, 0 if maximum == 0 else longest)


# ── spelling ─────────────────────────────────────────────────────────────────────────────────────────────


def _spell_count(minimum: int, maximum: int | None) -> str:
    match (minimum, maximum):
        case (0, None):
            return "*"
        case (1, None):
            return "+"
        case (0, 1):
            return "?"
        case (low, None):
            return f"{{{low},}}"
        case (low, high):
            return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def texts_of(node: Node, *, fewer_than: int) -> frozenset[str] | None:
    """All texts that match; None if there are not fewer than `fewer_than`."""
    if lengths(node) is None:
        return frozenset()
    try:
        found = _texts(node, fewer_than)
    except _Many:
        return None
    return frozenset(found) if len(found) < fewer_than else None


class _Many(Exception):
    """Nothing that could follow makes them fewer: an expression that matches nothing is sorted out before."""


def _texts(node: Node, limit: int) -> set[str]:
    match node:
        case Chars(ranges):
            if sum(last - first + 1 for first, last in ranges) >= limit:
                raise _Many
            return {chr(code) for first, last in ranges for code in range(first, last + 1)}
        case Sequence(items):
            found = {""}
            for item in items:
                following = _texts(item, limit)
                found = _few((left + right for left in found for right in following), limit)
            return found
        case Choice(arms):
            return _few((text for arm in arms if lengths(arm) for text in _texts(arm, limit)), limit)
        case Repetition(item, minimum, maximum):
            return _repeated_texts(item, minimum, maximum, limit)
        case _:
            assert_never(node)


def _repeated_texts(item: Node, minimum: int, maximum: int | None, limit: int) -> set[str]:
    """Nothing is added any more once a repetition brings no new text."""
    once = _texts(item, limit) if lengths(item) and maximum != 0 else {""}
    if len(once) == 1:
        return _again_and_again(min(once), minimum, maximum, limit)
    last = {""}
    for _ in range(minimum):
        last = _few((left + right for left in last for right in once), limit)
    found = set(last)
    count = minimum
    while last and (maximum is None or count < maximum):
        last = {left + right for left in last for right in once} - found
        found = _few((*found, *last), limit)
        count += 1
    return found


def _again_and_again(text: str, minimum: int, maximum: int | None, limit: int) -> set[str]:
    if not text:
        return {""}
    if maximum is None or maximum - minimum + 1 >= limit:
        raise _Many
    return {text * count for count in range(minimum, maximum + 1)}


def _few(texts: Iterable[str], limit: int) -> set[str]:
    found: set[str] = set()
    for text in texts:
        found.add(text)
        if len(found) >= limit:
            raise _Many
    return found


# ── from text to tree ──────────────────────────────────────────────────────────────────────────────────

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
_DOT = complement(((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)))  # what ECMA 262 takes for the end of a line


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
        escaped = f"write `\\{character}` for the character itself"
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
                _refuse(f"nothing to repeat before `{character}`", start, help=escaped)
            case "]" | "}":
                _refuse(f"this `{character}` has no opening bracket", start, help=escaped)
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
