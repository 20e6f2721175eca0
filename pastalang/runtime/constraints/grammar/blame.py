"""Which part of a refused schema is to blame: the deepest one that is refused by itself, for the same reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from pastalang.values.json_text import JsonValue

_MAX_TRIES = 60  # parts that are compiled by themselves, a millisecond each
_LISTS = ("prefixItems", "anyOf", "allOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLE = (
    "items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
_EMPTY = "Unsatisfiable"
_SHARED = ("$defs", "definitions", "$schema")


def blame(document: JsonValue, reason: str, refusal: Callable[[JsonValue], str | None]) -> tuple[str, str]:
    """The JSON pointer of the part, and its reason. `refusal` says why a document is refused, None where it is not.

    A part without values is what makes the whole without values, in other words.
    """
    pointer, here, left = "", document, _MAX_TRIES
    shared = {key: document[key] for key in _SHARED if key in document} if isinstance(document, dict) else {}
    descended = True
    while descended:
        descended = False
        for step, part in _parts(here):
            if not left:
                return pointer, reason
            left -= 1
            alone = {**shared, **part} if isinstance(part, dict) else part
            why = refusal(alone)
            if why is not None and (why == reason or (_EMPTY in why and _EMPTY in reason)):
                reason = why
                pointer, here, descended = f"{pointer}/{step}", part, True
                break
    return pointer, reason


def reason_of(error: str) -> str:
    """The refusal in one line, without places in a grammar that nobody wrote."""
    line = next(iter(error.strip().splitlines()), "unknown")
    return re.sub(r"^(at )?\d+\(\d+\): ", "", line).removeprefix("failed to compile JSON schema: ")


def _parts(schema: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if not isinstance(schema, dict):
        return
    for keyword in _NAMED:
        named = schema.get(keyword)
        for key, part in named.items() if isinstance(named, dict) else ():
            yield f"{keyword}/{key.replace('~', '~0').replace('/', '~1')}", part
    for keyword in _LISTS:
        listed = schema.get(keyword)
        for at, part in enumerate(listed) if isinstance(listed, list) else ():
            yield f"{keyword}/{at}", part
    for keyword in _SINGLE:
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword]
