"""Stands around every endpoint: keys, errors as answers, one line of log and one count for Prometheus."""

from __future__ import annotations

import hmac
import logging
import time
from typing import Final

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pastalang.runtime.result import Result
from pastalang.serve.driver import Driver
from pastalang.serve.errors import RequestError

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


_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """One registry for each server, so that two of them in a process do not count together."""

    def __init__(self, driver: Driver) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "pastalang_requests_total", "Requests by endpoint and status.", ["endpoint", "status"], registry=registry
        )
        self._latency = Histogram(
            "pastalang_request_seconds",
            "From accepting a request to its last token.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._first = Histogram(
            "pastalang_first_text_seconds", "From accepting a streamed request to its first text.", buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._tokens = Counter("pastalang_tokens_total", "Tokens by kind.", ["kind"], registry=registry)
        gauges = {
            "pastalang_in_flight": ("Requests that are being decoded.", lambda: driver.in_flight),
            "pastalang_waiting": ("Requests that wait for a place.", lambda: driver.waiting),
            "pastalang_passes_total": ("Forward passes so far.", lambda: driver.passes),
        }
        for name, (about, read) in gauges.items():
            Gauge(name, about, registry=registry).set_function(read)

    def finished(self, result: Result, *, seconds: float, first_text: float | None) -> None:
        self._latency.observe(seconds)
        if first_text is not None:
            self._first.observe(first_text)
        usage = result.usage
        for kind, count in (
            ("prompt", usage.input_tokens), ("cached", usage.reused_tokens), ("drawn", usage.output_tokens),
            ("known", usage.forced_tokens),
        ):  # fmt: skip
            self._tokens.labels(kind).inc(count)

    def text(self) -> bytes:
        return generate_latest(self._registry)
