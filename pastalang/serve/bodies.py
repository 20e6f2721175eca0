"""The JSON of a request's body: bounded in size, in nesting and in time, and all of it Unicode."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from fastapi import Request

from pastalang.serve.errors import RequestError, bad_request

_MAX_DEPTH: Final = 64
_NESTING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)  # strings, and brackets outside
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


async def bytes_of(request: Request, *, most: int, seconds: float) -> bytes:
    """Raises `RequestError` for a body that is too large or takes too long to arrive."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    parts = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                parts += part
                if len(parts) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {seconds:g} seconds") from None
    return bytes(parts)


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"the body of a request may have at most {most:,} bytes")


def parsed(body: bytes) -> Any:
    """Raises `RequestError` for what is no JSON, too deep, or holds half a character."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise bad_request(f"the body is not UTF-8: byte {problem.start} is wrong") from None
    _check_depth(text)
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise bad_request(f"the body is not JSON: {problem}") from None
    if "\\u" in text:
        _check_characters(found)
    return found


def _check_depth(text: str) -> None:
    """Counted before parsing, so that a body of brackets alone costs nothing."""
    depth = 0
    for match in _NESTING.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise bad_request(f"the body is nested more than {_MAX_DEPTH} deep")
        elif match[0] in "]}":
            depth -= 1


def _check_characters(value: Any) -> None:
    for place, text in _texts(value, ""):
        if (broken := _SURROGATE.search(text)) is not None:
            param = place or None
            raise bad_request(f"`{place}` has half a character (a lone surrogate) at {broken.start()}", param)


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text of a JSON value, keys included, and where it stands."""
    match value:
        case str():
            yield place, value
        case dict():
            for key, part in value.items():
                yield place, key
                yield from _texts(part, f"{place}.{key}" if place else key)
        case list():
            for at, part in enumerate(value):
                yield from _texts(part, f"{place}[{at}]")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")
