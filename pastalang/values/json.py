"""JSON with exact numbers: parsing, writing, and the place of each part of a value in its text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from pastalang import limits
from pastalang.program.types import Scalar

JsonValue: TypeAlias = "str | bool | int | Decimal | list[JsonValue] | dict[str, JsonValue] | None"


class NotJson(ValueError):
    """Why a text is not valid JSON here. `offset` is the place of the problem, None for the whole text."""

    def __init__(self, reason: str, offset: int | None = None, text: str = "") -> None:
        super().__init__(reason if offset is None else f"{reason} (at {_place(text, offset)})")
        self.reason = reason
        self.offset = offset


class NotJsonPart(NotJson):
    """A part of a Python value that JSON cannot write, and its JSON pointer."""

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(reason)
        self.pointer = pointer


class _Unplaced(Exception):
    """A problem that the decoder reports without a place. `wanted` is the text to search for to find it."""

    def __init__(self, reason: str, wanted: str) -> None:
        self.reason = reason
        self.wanted = wanted


def parse_json(text: str) -> JsonValue:
    check_nesting(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise NotJson("not JSON: nothing is written there") from None
        raise NotJson(_translate_json_error(error.msg), error.pos, text) from None
    except _Unplaced as problem:
        raise NotJson(problem.reason, _offset_of(problem.wanted, text), text) from None
    _check_surrogates(text, value)
    return value  # type: ignore[no-any-return]


def exact_json(value: object, pointer: str = "#") -> JsonValue:
    """The exact value of what Python's `json` reads and writes: a float is the number that its shortest text says.

    Raises `NotJsonPart`.
    """
    match value:
        case Mapping() | list() | tuple() if pointer.count("/") >= limits.MAX_JSON_NESTING:
            raise NotJsonPart(pointer, f"nests more than {limits.MAX_JSON_NESTING} deep")
        case Mapping():
            if odd := [key for key in value if not isinstance(key, str)]:
                raise NotJsonPart(pointer, f"the key {odd[0]!r:.60} is not a string")
            parts = ((str(exact_json(key, pointer)), part) for key, part in value.items())
            return {key: exact_json(part, f"{pointer}/{pointer_step(key)}") for key, part in parts}
        case list() | tuple():
            return [exact_json(part, f"{pointer}/{number}") for number, part in enumerate(value)]
    try:
        is_exact = isinstance(value, Decimal) and value.is_finite()
        return parse_json(decimal_text(value) if is_exact else json.dumps(value))  # type: ignore[arg-type]
    except NotJson as problem:
        raise NotJsonPart(pointer, problem.reason) from None
    except (TypeError, ValueError):
        raise NotJsonPart(pointer, f"{value!r:.60} is not JSON") from None


def json_at(text: str, start: int) -> str:
    """The JSON value that begins there, white space skipped, in a text that may go on after it."""
    rest = text[start:].lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(rest)
    except json.JSONDecodeError:
        return rest
    return rest[:end]


def write_json(value: JsonValue) -> str:
    """The compact text of an exact value. `parse_json` reads the same value from it."""
    return _text(value, "")


def spell_json(value: JsonValue) -> str:
    """JSON with a space after commas and colons, as holes write lists and objects."""
    return _text(value, " ")


def _text(value: JsonValue, space: str) -> str:
    match value:
        case bool() | None | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return str(value)
        case Decimal():
            return decimal_text(value)
        case list():
            return "[" + f",{space}".join(_text(item, space) for item in value) + "]"
        case dict():
            pairs = (f"{_text(key, space)}:{space}{_text(item, space)}" for key, item in value.items())
            return "{" + f",{space}".join(pairs) + "}"


def with_scalars(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with `change` of each part that is neither a list nor an object."""
    match value:
        case Mapping():
            return {str(key): with_scalars(item, change) for key, item in value.items()}
        case list() | tuple():
            return [with_scalars(item, change) for item in value]
        case _:
            return change(value)


def laid_out_json(value: JsonValue, depth: int = 0) -> str:
    """The text of an exact value for readers: objects over several lines, lists on one line while they hold none."""
    line = "\n" + "  " * (depth + 1)
    end = "\n" + "  " * depth
    match value:
        case dict() if value:
            entries = (f"{write_json(key)}: {laid_out_json(item, depth + 1)}" for key, item in value.items())
            return "{" + line + f",{line}".join(entries) + end + "}"
        case list() if any(isinstance(item, dict) for item in value):
            return "[" + line + f",{line}".join(laid_out_json(item, depth + 1) for item in value) + end + "]"
        case list():
            return "[" + ", ".join(laid_out_json(item, depth) for item in value) + "]"
        case _:
            return write_json(value)


def pointer_step(name: str) -> str:
    """A key as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def same_json(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values: 1 equals 1.0, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    return left == right


def kind_of(value: JsonValue) -> str:
    """The kind of the value in a message: "a string", "an array"."""
    match value:
        case bool():
            return json.dumps(value)
        case None:
            return "null"
        case str():
            return "a string"
        case int() | Decimal():
            return "a number"
        case list():
            return "an array"
        case dict():
            return "an object"


# ── scalars ────────────────────────────────────────────────────────────────────────────────────────────────────


_JSON = json.JSONEncoder(ensure_ascii=False)


def spell(value: Scalar, *, quoted: bool = True) -> str:
    """The text of a literal. Each literal has exactly one."""
    if isinstance(value, str):
        return _JSON.encode(value) if quoted else value
    if isinstance(value, Decimal):
        return decimal_text(value)
    return json.dumps(value)


def decimal_text(value: Decimal) -> str:
    """A decimal as a JSON number, digit for digit: no trailing zeros, no exponent where the plain spelling is short."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    if not stripped:
        return "0"
    minus = "-" if sign else ""
    if exponent >= 0 and len(stripped) + exponent <= limits.PLAIN_NUMBER_DIGITS:
        return minus + stripped + "0" * exponent
    if exponent < 0 and -exponent <= limits.PLAIN_NUMBER_DIGITS:
        whole, part = stripped[:exponent] or "0", stripped[exponent:].rjust(-exponent, "0")
        return f"{minus}{whole}.{part}"
    point = "." if len(stripped) > 1 else ""
    return f"{minus}{stripped[0]}{point}{stripped[1:]}e{exponent + len(stripped) - 1}"


def literal_bytes(value: Scalar, *, quoted: bool) -> int:
    return len(spell(value, quoted=quoted).encode("utf-8", "surrogatepass"))


# ── the decoder ──────────────────────────────────────────────────────────────────────────────────────────


def _take_integer(text: str) -> int:
    if len(text) > limits.MAX_JSON_DIGITS:
        raise NotJson(f"a number has {len(text)} digits; the limit is {limits.MAX_JSON_DIGITS}")
    return int(text)


def _take_decimal(text: str) -> Decimal:
    if len(text) > limits.MAX_JSON_DIGITS:
        raise NotJson(f"a number has {len(text)} digits; the limit is {limits.MAX_JSON_DIGITS}")
    exponent = re.search("[eE]([+-]?[0-9]+)", text)
    if exponent is not None and abs(int(exponent[1])) > limits.MAX_JSON_EXPONENT:
        raise NotJson(f"the number {_shortened(text)} has too large an exponent")
    return Decimal(text)


def _refuse_constant(name: str) -> NoReturn:
    raise _Unplaced(f"{name} is not a JSON number", name)


def _take_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = json.dumps(key, ensure_ascii=False)
                raise _Unplaced(f"the key {_shortened(shown)} occurs twice in one object", shown)
            seen.add(key)
    return found


_DECODER: Final = json.JSONDecoder(
    parse_int=_take_integer,
    parse_float=_take_decimal,
    parse_constant=_refuse_constant,
    object_pairs_hook=_take_object,
)


def check_nesting(text: str, max_depth: int = limits.MAX_JSON_NESTING) -> None:
    """Raises `NotJson` if brackets nest too deep. Counts them without recursion, before the decoder recurses."""
    depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', text, re.DOTALL):
        if found[0] in "[{":
            depth += 1
            if depth > max_depth:
                raise NotJson(f"brackets nest more than {max_depth} deep", found.start(), text)
        elif found[0] in "]}":
            depth -= 1


def _place(text: str, offset: int) -> str:
    """The place in words: the line and column, or the character if there is only one line."""
    if "\n" not in text:
        return f"character {offset + 1}"
    line, before = text.count("\n", 0, offset), text.rfind("\n", 0, offset)
    return f"line {line + 1}, column {offset - before}"


def _offset_of(wanted: str, text: str) -> int | None:
    """Where the word occurs outside strings, or where the key occurs in one object for the second time."""
    keys: list[set[str]] = []
    for found in re.finditer(r'("(?:[^"\\]|\\.)*")(\s*:)?|[{}]|-?Infinity|NaN', text, re.DOTALL):
        if found[0] == "{":
            keys.append(set())
        elif found[0] == "}":
            keys.pop()
        elif found[1] is None and found[0] == wanted:
            return found.start()
        elif found[2] is not None:
            key = json.dumps(json.loads(found[1], strict=False), ensure_ascii=False)
            if key == wanted and key in keys[-1]:
                return found.start()
            keys[-1].add(key)
    return None


def _check_surrogates(text: str, value: JsonValue) -> None:
    """Raises `NotJson` for half of a surrogate pair. It is not a character, so it cannot be encoded as UTF-8."""
    if not re.search(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]", text):
        return
    try:
        write_json(value).encode()
    except UnicodeEncodeError:
        raise NotJson("a string holds half of a surrogate pair") from None


def _translate_json_error(message: str) -> str:
    return f"not JSON: {message[:1].lower()}{message[1:]}"


def _shortened(text: str) -> str:
    return text if len(text) <= limits.MAX_NAME_CHARS else text[: limits.MAX_NAME_CHARS] + "…"


_SCALAR: Final = re.compile(r"[^\s,\]}]+")
_SPACE: Final = re.compile(r"\s*")
_STRING_DECODER: Final = json.JSONDecoder(strict=False)


class Place(NamedTuple):
    """The characters from `start` to `end` of a text."""

    start: int
    end: int

    def contains(self, other: Place) -> bool:
        return self.start <= other.start and other.end <= self.end

    def touches(self, other: Place) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Node:
    """A value in the text, and its parts by key or index."""

    place: Place
    parts: dict[str | int, Node]

    def at(self, path: Iterable[str | int]) -> Node:
        """The part that a path leads to. Steps that name no part are skipped: validators also name the arms of
        unions and their own functions, and a missing key belongs to the whole object."""
        node = self
        for step in path:
            node = node.parts.get(step, node)
        return node

    def all(self) -> Iterator[Node]:
        """The value and everything in it."""
        yield self
        for part in self.parts.values():
            yield from part.all()


def places_of(text: str) -> Node:
    """The place of every value in a valid JSON text, as a tree."""
    return _Reader(text).value()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self) -> Node:
        self._skip_space()
        start = self._at
        match self._text[start : start + 1]:
            case "{":
                parts = self._members("}", has_keys=True)
            case "[":
                parts = self._members("]", has_keys=False)
            case '"':
                parts = {}
                self._string()
            case _:
                parts = {}
                self._at = self._matched(_SCALAR)
        return Node(Place(start, self._at), parts)

    def _members(self, closing: str, *, has_keys: bool) -> dict[str | int, Node]:
        parts: dict[str | int, Node] = {}
        self._at += 1
        self._skip_space()
        while self._text[self._at] != closing:
            step: str | int = len(parts)
            if has_keys:
                step = self._string()
                self._skip_space()
                self._at += 1  # the colon
            parts[step] = self.value()
            self._skip_space()
            if self._text[self._at] == ",":
                self._at += 1
                self._skip_space()
        self._at += 1
        return parts

    def _string(self) -> str:
        value, self._at = _STRING_DECODER.raw_decode(self._text, self._at)
        return str(value)

    def _skip_space(self) -> None:
        self._at = self._matched(_SPACE)

    def _matched(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        assert found is not None, f"no JSON at character {self._at}"
        return found.end()
