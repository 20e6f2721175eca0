r"""Patterns of strings: the named formats, matching in linear time, and the patterns of JSON Schema.

`program.regex` defines which patterns can be enforced and what they mean. A pattern of PastaLang matches the whole
value. A `pattern` of JSON Schema or Pydantic matches anywhere unless it is anchored. Each format is one pattern: it
constrains the decoding, checks a value, and is exported to JSON Schema. Every day exists in its month, leap years
included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from pastalang.program import types as t
from pastalang.program.regex import RegexError, characters, lengths, parse_regex, spell
from pastalang.program.types import Moment


@dataclass(frozen=True, slots=True)
class Format:
    pattern: str
    meaning: str  # for people


# ── dates and times ──────────────────────────────────────────────────────────────────────────────────────

_LEAP_CENTURY: Final = "(?:0[48]|[2468][048]|[13579][26])00"
_LEAP_IN_CENTURY: Final = "[0-9]{2}(?:0[48]|[2468][048]|[13579][26])"
_YEAR: Final = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # 0001 to 9999
_DATE: Final = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|(?:{_LEAP_IN_CENTURY}|{_LEAP_CENTURY})-02-29)"
)
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET: Final = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

MOMENTS: Final[Mapping[Moment, str]] = MappingProxyType(
    {
        Moment.DATE: _DATE,
        Moment.TIME: f"{_CLOCK}{_OFFSET}?",
        Moment.DATETIME: f"{_DATE}T{_CLOCK}{_OFFSET}?",
    }
)

UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────

_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM: Final = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_HEX: Final = "[0-9A-Fa-f]{1,4}"
_LAST_32_BITS: Final = f"(?:{_HEX}:{_HEX}|{_IPV4})"
_IPV6_BEFORE: Final = "|".join(
    [f"(?:{_HEX}:){{6}}", f"::(?:{_HEX}:){{5}}"]
    + [f"(?:{_HEX}(?::{_HEX}){{0,{before}}})?::(?:{_HEX}:){{{4 - before}}}" for before in range(5)]
)
_IPV6: Final = (
    f"(?:{_IPV6_BEFORE}){_LAST_32_BITS}|(?:{_HEX}(?::{_HEX}){{0,5}})?::{_HEX}|(?:{_HEX}(?::{_HEX}){{0,6}})?::"
)
_BEYOND_ASCII: Final = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd"


def _of(marks: str) -> str:
    """One character of an address, of these and those that may stand in each of its parts."""
    return rf"(?:[A-Za-z0-9\-._~!$&'()*+,;={marks}]|%[0-9A-Fa-f]{{2}})"


def _address(more: str, *, is_relative: bool = False) -> str:
    """An address with its scheme, or any. `more` are characters that it may have beyond those of a URI."""
    part, first = _of(f":@/?{more}"), _of(f":@?{more}")  # the first may not begin a host
    host = rf"//(?:{_of(f':{more}')}*@)?{_of(more)}*(?::[0-9]*)?(?:[/?]{part}*)?"
    scheme, path = r"[A-Za-z][A-Za-z0-9+.\-]*:", rf"{host}|/(?:{first}{part}*)?"
    found = f"{scheme}(?:{path}|{first}{part}*)"
    if is_relative:
        found = (
            rf"(?:(?:{scheme})?(?:{path})|{scheme}{first}{part}*|(?:{_of(f'@{more}')}+(?:/{part}*)?)?(?:\?{part}*)?)"
        )
    return f"{found}(?:#{part}*)?"


_URI_CHARACTER: Final = _of(":@/?")
_VARIABLE: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*(?::[1-9][0-9]{0,3}|\*)?"
_URI_TEMPLATE: Final = rf"(?:{_URI_CHARACTER}|#|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
_JSON_POINTER: Final = "(?:/(?:[^~/]|~[01])*)*"
_PORT: Final = "(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_WEB_LABEL: Final = "[a-z](?:[a-z0-9]|-[a-z0-9]){0,20}"  # stricter than the standard, so that every parser agrees
_SITE: Final = rf"{_WEB_LABEL}(?:\.{_WEB_LABEL})*(?::{_PORT})?"
_PATH: Final = f"/{_URI_CHARACTER}*(?:#{_URI_CHARACTER}*)?"
_URL: Final = f"https?://{_SITE}(?:{_PATH})?"
_TIME_PART: Final = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION: Final = (
    f"P(?:[0-9]+W|{_TIME_PART}|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:{_TIME_PART})?)"
)

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "date": Format(_DATE, "a date that exists, `2024-02-29`"),
        "date-time": Format(f"{_DATE}T{_CLOCK}{_OFFSET}", "an RFC 3339 date and time with its offset"),
        "local-date-time": Format(f"{_DATE}T{_CLOCK}", "a date and time without an offset, `2024-02-29T12:00:00`"),
        "time": Format(f"{_CLOCK}{_OFFSET}", "an RFC 3339 time of day with its offset"),
        "duration": Format(_DURATION, "an RFC 3339 duration, `P1DT12H`"),
        "email": Format(rf"{_ATOM}(?:\.{_ATOM})*@{_HOST}", "an e-mail address, `name@example.org`"),
        "hostname": Format(_HOST, "a host name, `www.example.org`"),
        "ipv4": Format(_IPV4, "an IPv4 address, `192.0.2.1`"),
        "ipv6": Format(_IPV6, "an IPv6 address, `2001:db8::1`"),
        "uri": Format(_address(""), "an address with its scheme, `https://example.org/`"),
        "uri-reference": Format(
            _address("", is_relative=True), "an address, or a path relative to one, `../images/a.png#b`"
        ),
        "iri": Format(_address(_BEYOND_ASCII), "a `uri` with characters of all scripts"),
        "iri-reference": Format(
            _address(_BEYOND_ASCII, is_relative=True), "a `uri-reference` with characters of all scripts"
        ),
        "uri-template": Format(_URI_TEMPLATE, "an address with variables, `https://example.org/{name}`"),
        "json-pointer": Format(_JSON_POINTER, "a JSON pointer, `/items/0`"),
        "relative-json-pointer": Format(rf"(?:0|[1-9][0-9]*)(?:#|{_JSON_POINTER})", "a JSON pointer from here, `1/a`"),
        "url": Format(_URL, "a web address, `https://example.org/`"),
        "uuid": Format(UUID, "a UUID in lower case, `01234567-89ab-cdef-0123-456789abcdef`"),
    }
)


# Formats that JSON Schema has under the same name and with the same meaning.
STANDARD_FORMATS: Final[Mapping[str, str]] = {name: name for name in FORMATS if name not in ("local-date-time", "url")}


def anchored(pattern: str) -> str:
    """A pattern for whole values as JSON Schema needs it, where a pattern without anchors matches anywhere."""
    return f"^(?:{pattern})$"


def url_pattern(schemes: Collection[str]) -> str:
    """The addresses with one of these schemes. Those of files name no host."""
    hosted = [scheme for scheme in schemes if scheme != "file"]
    either = [f"(?:{'|'.join(map(re.escape, hosted))})://{_SITE}(?:{_PATH})?"] if hosted else []
    return "|".join([*either, *([f"file://{_PATH}"] if "file" in schemes else [])])


def patterns_of(type: t.Type) -> tuple[str, ...]:
    """The patterns that a whole string must match; none for a free string or another type."""
    match type:
        case t.Regex(pattern=pattern):
            return (pattern,)
        case t.Temporal(kind=kind):
            return (MOMENTS[kind],)
        case t.Uuid():
            return (UUID,)
        case t.String(format=format, pattern=pattern):
            named = () if format is None else (FORMATS[format].pattern,)
            return named if pattern is None else (*named, pattern)
        case _:
            return ()


def find_problem(pattern: str) -> str | None:
    """Why the pattern cannot be enforced; None if it can."""
    try:
        parse_regex(pattern)
    except RegexError as problem:
        return problem.message
    return None


def width(pattern: str) -> tuple[int, int | None] | None:
    """The minimum and maximum characters of a match; None if the pattern cannot be enforced or matches nothing."""
    try:
        found = lengths(parse_regex(pattern))
    except RegexError:
        return None
    return None if found is None else (found.shortest, found.longest)


def is_spelled_plainly(pattern: str) -> bool:
    """Returns True if every character that can match is one byte, in JSON too: printable ASCII without `"` and `\\`."""
    ranges = [one for place in characters(parse_regex(pattern)) for one in place]
    return all(
        low >= 0x20 and high < 0x7F and not any(low <= ord(escaped) <= high for escaped in '"\\')
        for low, high in ranges
    )


def engine_pattern(pattern: str) -> str:
    """The same pattern in a syntax that every engine reads alike: explicit classes, no anchors, no short-hands."""
    return spell(parse_regex(pattern))


def escaped(text: str) -> str:
    """The pattern that only this text matches."""
    return re.sub(r"([\\.^$|?*+()\[\]{}/-])", r"\\\1", text)


def matches(pattern: str, text: str) -> bool:
    """Returns True if the whole text matches, in time linear in the text."""
    return _matcher(pattern)(text)


@lru_cache(maxsize=1024)
def whole_pattern(search: str) -> str:
    r"""The pattern that matches a whole value exactly where `search` finds a match anywhere in it.

    Keeps the author's spelling, without anchors, where the meaning allows. `\S` takes no white space of any script: in
    JSON Schema it is that of Unicode. Raises `RegexError`.
    """
    alternatives = [_whole_alternative(alternative) for alternative in _split(_with_closing_brackets_escaped(search))]
    whole = _without_group(alternatives[0]) if len(alternatives) == 1 else "|".join(alternatives)
    return narrowed(whole, of=(r"\s",))


@lru_cache(maxsize=1024)
def _matcher(pattern: str) -> Callable[[str], bool]:
    """Uses Pydantic's engine, which never backtracks, so no text makes a match slow."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    whole = f"^(?:{engine_pattern(pattern)})$"
    try:
        return SchemaValidator(core_schema.str_schema(pattern=whole, strict=True)).isinstance_python
    except SchemaError:
        raise RegexError("the pattern is too large", offset=0, length=len(pattern)) from None


# ── short-hands of all scripts ───────────────────────────────────────────────────────────────────────────

_PLACE: Final = re.compile(r"\\.|\[\^?(?P<class>(?:\\.|[^\]\\])+)\]", re.DOTALL)
_OPERATOR: Final = re.compile(r"\\.|(?P<operator>&&|--|~~|\[)", re.DOTALL)
# With the digits, letters and spaces of any other script, and with those that a script may get.
_IN_ANY_SCRIPT: Final = {
    r"\d": "\\d\\u0660-\\u1dff\\ua620-\\uabff\\uff10-\\uff19\U00010000-\U0001efff\U0001fbf0-\U0001ffff",
    r"\w": "\\w\\x80-\U0010ffff",
    r"\s": r"\s\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
}
_IN_NO_SCRIPT: Final = {name.upper(): f"[^{inside}]" for name, inside in _IN_ANY_SCRIPT.items()}
_IN_NO_SCRIPT_OF_A_CLASS: Final = {name: engine_pattern(outside)[1:-1] for name, outside in _IN_NO_SCRIPT.items()}
_EVERY_CHARACTER: Final = frozenset((r"[\d\D]", r"[\D\d]", r"[\s\S]", r"[\S\s]", r"[\w\W]", r"[\W\w]"))


def narrowed(pattern: str, *, of: Collection[str] = (r"\d", r"\w", r"\s")) -> str:
    r"""The pattern without what an engine refuses for which these short-hands are of all scripts: `\W` takes no `ß`."""

    def narrow(match: re.Match[str]) -> str:
        place = match[0]
        if match["class"] is None or place in _EVERY_CHARACTER:
            return _IN_NO_SCRIPT.get(place, place) if place.lower() in of else place
        shorthands = _IN_ANY_SCRIPT if place.startswith("[^") else _IN_NO_SCRIPT_OF_A_CLASS
        return re.sub(r"\\.", lambda one: shorthands.get(one[0], one[0]) if one[0].lower() in of else one[0], place)

    return _PLACE.sub(narrow, pattern)


def expect_no_operators(pattern: str) -> None:
    """Raises `RegexError` for what means more to the engine of Rust: operators in a class, and borders of words."""
    for place in _PLACE.finditer(pattern):
        if place[0] in (r"\<", r"\>"):
            raise RegexError(f"the anchor `{place[0]}`", offset=place.start(), length=2)
        for part in _OPERATOR.finditer(place["class"] or ""):
            if (operator := part["operator"]) is not None:
                offset = place.start("class") + part.start()
                raise RegexError(f"the operator `{operator}` in a class", offset=offset, length=len(operator))


# ── "anywhere" ───────────────────────────────────────────────────────────────────────────────────────────

_ANYTHING: Final = r"[\s\S]*"


def _whole_alternative(alternative: str) -> str:
    inside = _without_group(alternative)
    if inside != alternative:  # anchors may be inside a group around the whole alternative
        inner = whole_pattern(inside)
        return f"(?:{inner})" if len(_split(inner)) > 1 else inner
    begins = alternative.startswith("^")
    ends = alternative.endswith("$") and not _is_escaped(alternative, len(alternative) - 1)
    body = alternative[begins : len(alternative) - ends]
    parse_regex(body)  # raises for what cannot be enforced, such as an anchor anywhere else
    if body.startswith("^") or (body.endswith("$") and not _is_escaped(body, len(body) - 1)):
        raise RegexError("two anchors in a row", offset=0, length=len(alternative))
    return ("" if begins else _ANYTHING) + body + ("" if ends else _ANYTHING)


def _with_closing_brackets_escaped(pattern: str) -> str:
    """Other dialects read a `]` or `}` that closes nothing as the character itself."""
    written, done, is_counting = "", 0, False
    for at, _ in _positions(pattern):
        character = pattern[at]
        if character == "]" or (character == "}" and not is_counting):
            written, done = f"{written}{pattern[done:at]}\\", at
        is_counting = character == "{" or (is_counting and character != "}")
    return written + pattern[done:]


def _split(pattern: str) -> list[str]:
    """The alternatives of a pattern at its top level."""
    parts, start = [], 0
    for at, depth in _positions(pattern):
        if pattern[at] == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
    return [*parts, pattern[start:]]


def _without_group(pattern: str) -> str:
    """The pattern without a group around all of it."""
    opening = "(?:" if pattern.startswith("(?:") else "("
    if not pattern.startswith(opening) or not pattern.endswith(")") or pattern[1:2] == "?" != opening[1:2]:
        return pattern
    closings = [at for at, depth in _positions(pattern) if depth == 1 and pattern[at] == ")"]
    return pattern[len(opening) : -1] if closings == [len(pattern) - 1] else pattern


def _positions(pattern: str) -> list[tuple[int, int]]:
    """The index of each character that is neither escaped nor in a class, with the number of groups open before it."""
    found, at, depth = [], 0, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 2
            continue
        found.append((at, depth))
        if character == "[":
            at = _end_of_class(pattern, at)
            continue
        depth += (character == "(") - (character == ")")
        at += 1
    return found


def _end_of_class(pattern: str, start: int) -> int:
    at = start + 1
    at += pattern[at : at + 1] == "^"
    at += pattern[at : at + 1] == "]"  # a bracket in the first place of a class is a character
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _is_escaped(text: str, at: int) -> bool:
    backslashes = len(text[:at]) - len(text[:at].rstrip("\\"))
    return backslashes % 2 == 1
