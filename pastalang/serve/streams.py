"""Answers as server-sent events."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from pastalang.runtime.encoder import Encoder
from pastalang.serve import answers
from pastalang.serve.errors import RequestError
from pastalang.serve.service import while_connected

_LOG: Final = logging.getLogger("pastalang.serve")
Parts = AsyncGenerator[dict[str, Any], None]


class EventStream(StreamingResponse):
    """Closes the generator of its events however it ends, so that the request behind them leaves at once."""

    def __init__(self, lines: AsyncGenerator[str, None]) -> None:
        super().__init__(lines, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._lines):
            await super().__call__(scope, receive, send)


async def event_stream(request: Request, parts: Parts, *, named: bool = False) -> EventStream:
    """What fails before the first part is an error with its status, later it is an event."""
    first = await while_connected(request, _first(parts))

    async def lines() -> AsyncGenerator[str, None]:
        async with aclosing(parts):
            yield _event(first, named)
            try:
                async for part in parts:
                    yield _event(part, named)
            except RequestError as problem:
                yield _event(problem.body, named=False)
            except Exception:
                _LOG.exception("a stream failed")
                yield _event(RequestError(500, "internal error").body, named=False)
            if not named:
                yield "data: [DONE]\n\n"

    return EventStream(lines())


async def _first(parts: Parts) -> dict[str, Any]:
    return await anext(parts)


def _event(part: Mapping[str, Any], named: bool) -> str:
    name = f"event: {part['type']}\n" if named else ""
    return f"{name}data: {json.dumps(part, default=str)}\n\n"  # ASCII: some clients end a line at U+2028


class Shown:
    """The text of a stream, as far as the client's limit of tokens reaches."""

    def __init__(self, limit: int | None, encoder: Encoder) -> None:
        self._limit = limit
        self._encoder = encoder
        self._text = ""
        self._sent = 0

    def add(self, text: str) -> str:
        """What is to be sent next."""
        self._text += text
        shown = answers.within(self._text, self._limit, self._encoder)
        new, self._sent = shown[self._sent :], max(self._sent, len(shown))
        return new
