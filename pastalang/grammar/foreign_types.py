"""Types as other languages write them, and how PastaLang writes them: advice for messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from pastalang.grammar.problems import Problem
from pastalang.grammar.tokens import CLOSING, NAME_TERMINALS, OPENING, Token
from pastalang.source import Span

OTHER_NAMES: Final = {
    "str": "string", "text": "string", "char": "string", "varchar": "string", "int": "integer", "long": "integer",
    "float": "number", "double": "number", "decimal": "number", "bool": "boolean", "none": "null", "nil": "null",
    "undefined": "null", "nullable": "T | null", "optional": "T | null", "maybe": "T | null",
    "object": "{ ... }", "list": "[T]", "array": "[T]", "set": "[T](unique=true)", "tuple": "[T, U]",
    "dict": "{string: T}", "map": "{string: T}", "enum": '"a" | "b"', "literal": '"a" | "b"', "union": "T | U",
    "timestamp": "datetime", "quote": "verbatim",
}  # fmt: skip
OTHER_INPUT_NAMES: Final = {
    "string": "text", "str": "text", "text": "text", "int": "integer", "float": "number", "bool": "boolean",
    "list": "[text]", "array": "[text]", "dict": "{ name: text }", "record": "{ name: text }",
    "object": "{ name: text }", "chat": "messages", "history": "messages",
}  # fmt: skip
ANY_OTHER: Final = "a list is written `[T]`; limits are written in parentheses, as in `string(max=8)`"
BEFORE_A_TYPE: Final = frozenset({"COLON", "EQUALS", "BAR", "LEFT_BRACKET", "COMMA", "JSON"})
DEEPEST: Final = 8

_Spelling = Callable[[list[str]], str | None]


def _of_one(spelling: str) -> _Spelling:
    return lambda inside: spelling.format(inside[0]) if len(inside) == 1 else None


def _tuple(inside: list[str]) -> str | None:
    return f"[{inside[0]}]" if inside[1:] == ["..."] else f"[{', '.join(inside)}]"


def _map(inside: list[str]) -> str | None:
    return f"{{string: {inside[1]}}}" if len(inside) == 2 and inside[0] == "string" else None


_SPELLINGS: Final[dict[str, _Spelling]] = {
    **dict.fromkeys(("list", "array", "sequence", "iterable", "vec"), _of_one("[{}]")),
    **dict.fromkeys(("set", "frozenset"), _of_one("[{}](unique=true)")),
    **dict.fromkeys(("optional", "option", "maybe", "nullable"), _of_one("{} | null")),
    **dict.fromkeys(("dict", "map", "mapping", "record", "hashmap"), _map),
    **dict.fromkeys(("union", "literal", "enum"), " | ".join),
    "tuple": _tuple,
    "annotated": lambda inside: inside[0],
}


def foreign_type(tokens: list[Token], index: int) -> Problem | None:
    """The problem with `list[str]` or `string[]`, of which the token at `index` is the first bracket."""
    kinds = [token.type for token in tokens[max(index - 2, 0) : index + 1]]
    if len(kinds) < 3 or kinds[0] not in BEFORE_A_TYPE or kinds[1] not in NAME_TERMINALS or kinds[2] != "LEFT_BRACKET":
        return None
    reading = _Reading(tokens, index - 1, _names(tokens, index))
    spelling = reading.type()
    if spelling is None:
        return None
    written = tokens[index - 1 : reading.at]
    gaps = (" " * (after.start > before.end) for before, after in pairwise(written))
    shown = written[0].text + "".join(gap + token.text for gap, token in zip(gaps, written[1:], strict=True))
    return _problem("unexpected-token", shown, written[0].span.join(written[-1].span), spelling)


def type_in_angles(before: list[Token], shown: str, inside: list[Token] | None) -> Problem:
    """The problem with `List<string>`, whose first word is the last of the tokens before.

    `inside` are the tokens of the whole type with square brackets; None if they cannot be read.
    """
    reading = _Reading(inside or [], 0, _names(before, len(before)))
    spelling = reading.type()
    is_whole = spelling is not None and reading.at == len(reading.tokens)
    start = before[-1].start
    return _problem("bad-character", shown, Span(start, start + len(shown)), spelling if is_whole else None)


def _problem(code: str, shown: str, span: Span, spelling: str | None) -> Problem:
    advice = ANY_OTHER if spelling is None else f"in PastaLang this is `{spelling}`"
    return Problem(code, f"`{shown}` is a type of another language", span, help=(advice,))


def _names(tokens: list[Token], index: int) -> dict[str, str]:
    """Names of other languages, and ours for them: those of inputs are not those of values."""
    depth = 0
    for place in range(index - 1, 1, -1):
        kind = tokens[place].type
        depth += (kind in CLOSING) - (kind in OPENING)
        if depth < 0:
            return OTHER_NAMES | OTHER_INPUT_NAMES if tokens[place - 2].text == "template" else OTHER_NAMES
    return OTHER_NAMES


class _Reading:
    """Reads a type of another language from a list of tokens, with brackets for what it is made of."""

    def __init__(self, tokens: list[Token], at: int, names: Mapping[str, str]) -> None:
        self.at = at
        self.tokens = tokens
        self._names = names
        self._depth = 0

    def type(self) -> str | None:
        """One type or a union of types, up to the first token that does not belong to it."""
        arms = [self._arm()]
        while arms[-1] is not None and self._takes("BAR"):
            arms.append(self._arm())
        known = [arm for arm in arms if arm is not None]
        return " | ".join(known) if len(known) == len(arms) else None

    def _arm(self) -> str | None:
        found = self._atom()
        while found is not None and self._kind() == "LEFT_BRACKET" and self._kind(1) == "RIGHT_BRACKET":
            self.at += 2
            found = f"[{found}]"
        return found

    def _atom(self) -> str | None:
        kind, word = self._kind(), self._word()
        if kind in ("STRING", "NUMBER", "ELLIPSIS"):
            self.at += 1
            return word
        if kind == "LEFT_BRACKET":
            inside = self._inside()
            return None if not inside else f"[{', '.join(inside)}]"
        if kind not in NAME_TERMINALS:
            return None
        self.at += 1
        if self._kind() != "LEFT_BRACKET" or self._kind(1) == "RIGHT_BRACKET":
            return self._names.get(word.lower(), word)
        inside = self._inside()
        spelling = _SPELLINGS.get(word.lower())
        return spelling(inside) if inside and spelling is not None else None

    def _inside(self) -> list[str] | None:
        """What stands in brackets, separated by commas."""
        self._depth += 1
        if self._depth > DEEPEST:
            return None
        self.at += 1
        found: list[str] = []
        while not self._takes("RIGHT_BRACKET"):
            one = self.type()
            if one is None or (not self._takes("COMMA") and self._kind() != "RIGHT_BRACKET"):
                return None
            found.append(one)
        self._depth -= 1
        return found

    def _takes(self, kind: str) -> bool:
        if self._kind() != kind:
            return False
        self.at += 1
        return True

    def _kind(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place].type if place < len(self.tokens) else ""

    def _word(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""
