"""Stands around every endpoint: keys, errors as answers, and one line of log and one count for each request."""

from __future__ import annotations

import hmac
import logging
import time
from typing import Final

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pastalang.serve.errors import RequestError
from pastalang.serve.metrics import Metrics

_LOG: Final = logging.getLogger("pastalang.serve")
_OPEN: Final = frozenset({"/health", "/ready", "/"})  # need no key
_CALLER: Final = "pastalang.caller"


def caller_of(request: Request) -> str:
    """The number of the caller's key, as text; empty where none is asked for."""
    return str(request.scope.get(_CALLER, ""))


class Guard:
    """An ASGI middleware. A stream is logged and counted when it has ended, with the time of the whole."""

    def __init__(self, app: ASGIApp, *, keys: tuple[str, ...], metrics: Metrics) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status = time.monotonic(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check_key(scope)
            await self._app(scope, receive, watched)
        except RequestError as problem:
            await error_response(problem)(scope, receive, watched)
        except Exception:
            _LOG.exception("an endpoint failed")
            if status:
                raise  # a part of the answer is sent: only closing the connection says that the rest is missing
            await error_response(RequestError(500, "internal error"))(scope, receive, watched)
        finally:
            self._note(scope, status or 499, time.monotonic() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        endpoint = getattr(scope.get("route"), "path", "unknown")
        self._metrics.requests.labels(endpoint, str(status)).inc()
        _LOG.info("request", extra={"endpoint": endpoint, "status": status, "seconds": round(seconds, 4)})

    def _check_key(self, scope: Scope) -> None:
        if not self._keys or scope["path"] in _OPEN:
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = given.partition(b" ")
        equal = [hmac.compare_digest(key, one.encode()) for one in self._keys]  # all of them, in constant time
        if scheme.lower() != b"bearer" or not any(equal):
            raise RequestError(401, "a valid API key is needed: `Authorization: Bearer KEY`", code="invalid_api_key")
        scope[_CALLER] = str(equal.index(True) + 1)


def error_response(problem: RequestError) -> Response:
    return JSONResponse(problem.body, status_code=problem.status, headers=problem.headers)
