"""How a server is set up, and what is behind its endpoints: an engine with its driver, programs, counts."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pastalang.failures import PastaError
from pastalang.program.types import Sampling
from pastalang.runtime.engine import Engine
from pastalang.runtime.errors import Cancelled, RunError
from pastalang.runtime.plan_cache import Runnable
from pastalang.runtime.result import Result
from pastalang.serve.answers import Choice
from pastalang.serve.driver import Driver, InternalError, Job, Ticket, TooLate
from pastalang.serve.errors import RequestError, bad_request
from pastalang.serve.programs import Endpoint, Programs
from pastalang.serve.tasks import Task
from pastalang.serve.wire import Ask, bytes_of, parsed


@dataclass(frozen=True, slots=True)
class Settings:
    """In seconds, `drain`: how long a shutdown waits for accepted requests; `deadline`: how long any request may take;
    `patience`: how long its head and its body may take to arrive. `isolate_keys`: callers with different keys share no
    kept prompts."""

    name: str  # of the model, as clients call it
    programs: Path | None = None
    reload: bool = False
    api_keys: tuple[str, ...] = ()
    max_in_flight: int = 16
    max_queue: int = 64
    max_body_bytes: int = 4 * 2**20
    deadline: float = 600.0
    drain: float = 30.0
    patience: float = 30.0
    isolate_keys: bool = False
    logs_prompts: bool = False


T = TypeVar("T")

_LOG: Final = logging.getLogger("pastalang.serve")
_READERS: Final = 2  # threads that read requests, apart from those of the driver


class Service:
    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.programs = Programs(settings.programs, reload=settings.reload)
        self.driver = Driver(engine, max_in_flight=settings.max_in_flight, max_queue=settings.max_queue)
        self.metrics = Metrics(self.driver)
        self.started = int(time.time())
        self._readers = ThreadPoolExecutor(_READERS, "pastalang reader")

    async def stop(self) -> None:
        await self.driver.stop(seconds=self.settings.drain)
        self._readers.shutdown(cancel_futures=True)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    async def body(self, request: Request) -> Any:
        """The JSON of the body. Raises `RequestError`."""
        return await self.in_thread(parsed, await self._bytes(request))

    async def asked(self, request: Request, read: Callable[[Any], Ask], make: Callable[[Ask], T]) -> tuple[Ask, T]:
        """What the body asks for, and what is made of that. Raises `RequestError`."""
        given = await self._bytes(request)

        def understand() -> tuple[Ask, T]:
            ask = read(parsed(given))
            self.check_model(ask.model)
            return ask, make(ask)

        ask, made = await self.in_thread(understand)
        if self.settings.logs_prompts:
            _LOG.info("prompt", extra={"messages": [(one.role.value, one.text) for one in ask.messages]})
        return ask, made

    async def _bytes(self, request: Request) -> bytes:
        return await bytes_of(request, most=self.settings.max_body_bytes, seconds=self.settings.patience)

    async def in_thread(self, call: Callable[..., T], *given: Any) -> T:
        """Reading large requests takes time, in which the server goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, call, *given)

    def check_model(self, name: str) -> None:
        if name != self.settings.name:
            raise RequestError(
                404, f"the model `{name}` is not served; this server has `{self.settings.name}`", param="model",
                code="model_not_found",
            )  # fmt: skip

    # ── one answer ───────────────────────────────────────────────────────────────────────────────────────

    def submit(self, task: Task, ask: Ask, request: Request, *, number: int = 0) -> Ticket:
        sampling = Sampling(temperature=ask.temperature, top_p=ask.top_p)
        options: dict[str, Any] = {"seed": (ask.seed or 0) + number, "sampling": sampling, "on_truncated": "keep"}
        if ask.pasta.mode is not None:
            options["mode"] = ask.pasta.mode.value
        if ask.pasta.drafts is not None:
            options["drafts"] = ask.pasta.drafts
        return self._submit(
            task.program, task.inputs, options, request, streams=ask.stream, priority=ask.pasta.priority,
            deadline=ask.pasta.deadline, repair=ask.pasta.repair, limit=task.limit,
        )  # fmt: skip

    def run_program(
        self, endpoint: Endpoint, inputs: Mapping[str, Any], request: Request, *, seed: int, streams: bool
    ) -> Ticket:
        options = {"template": endpoint.name, "seed": seed, "on_truncated": "keep"}
        return self._submit(endpoint.program, inputs, options, request, streams=streams)

    def _submit(
        self, program: Runnable, inputs: Mapping[str, Any], options: dict[str, Any], request: Request, *, streams: bool,
        priority: int = 0, deadline: float | None = None, repair: int | None = None, limit: int | None = None,
    ) -> Ticket:  # fmt: skip
        seconds = self.settings.deadline if deadline is None else min(deadline, self.settings.deadline)
        keeper = caller_of(request) if self.settings.isolate_keys else ""
        return self.driver.submit(
            Job(
                program, inputs, options, streams=streams, priority=priority, deadline=time.monotonic() + seconds,
                keeper=keeper, repair=repair, limit=limit,
            )
        )  # fmt: skip

    async def result_of(self, ticket: Ticket) -> Result:
        """Raises `RequestError`. Cancelling the task frees the place of the request."""
        try:
            await ticket.outcome
            return self.checked(ticket)
        finally:
            self.driver.cancel(ticket)

    async def begun(self, ticket: Ticket) -> None:
        """Once there is news of a streamed request. Raises `RequestError` if it failed before, as a prompt does that
        is too long, so that it is answered with a status."""
        await ticket.begun.wait()
        if ticket.outcome.done() and isinstance(problem := ticket.outcome.result(), PastaError):
            raise _as_error(problem)

    def checked(self, ticket: Ticket) -> Result:
        """The result of a ticket that is over. Raises `RequestError`."""
        outcome = ticket.outcome.result()
        if isinstance(outcome, PastaError):
            raise _as_error(outcome)
        first = None if ticket.first_text is None else ticket.first_text - ticket.accepted
        self.metrics.finished(outcome, seconds=time.monotonic() - ticket.accepted, first_text=first)
        return outcome

    async def choice(self, task: Task, ask: Ask, request: Request, *, number: int = 0) -> Choice:
        result = await self.result_of(self.submit(task, ask, request, number=number))
        choice = Choice(result, task.kind, task.limit, self.engine.encoder)
        if task.otherwise is not None and choice.call is None:
            return await self.choice(task.otherwise, ask, request, number=number)
        return choice

    async def choices(self, tasks: Sequence[Task], ask: Ask, request: Request) -> list[Choice]:
        """As many answers to each task as are asked for. If one of them fails, the others are given up. Raises
        `RequestError` for more than this server ever accepts, however idle it is."""
        most = self.settings.max_in_flight + self.settings.max_queue
        if len(tasks) * ask.choices > most:
            raise bad_request(f"this server takes at most {most} answers at a time: ask for fewer", "n")
        try:
            async with asyncio.TaskGroup() as group:
                running = [
                    group.create_task(self.choice(task, ask, request, number=number))
                    for task in tasks
                    for number in range(ask.choices)
                ]
        except* RequestError as problems:
            failed: BaseException = problems
            while isinstance(failed, BaseExceptionGroup):
                failed = failed.exceptions[0]
        else:
            return [one.result() for one in running]
        raise failed


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Raises `RequestError` if the client goes away; the work is cancelled then. Its body has to be read already."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RequestError(499, "the client has gone")
        return working.result()
    finally:
        for one in (working, gone):
            one.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await one


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _as_error(problem: PastaError) -> RequestError:
    """What a run failed with, as a status."""
    match problem:
        case InternalError():
            return RequestError(500, "internal error")
        case TooLate():
            return RequestError(504, str(problem), code=problem.code)
        case Cancelled():
            return RequestError(503, "the server is shutting down", retry_after=5)
    code = getattr(problem, "code", None)
    status = 422 if isinstance(problem, RunError) else 400
    return RequestError(status, str(problem), code=code if isinstance(code, str) else None)


# ── around every endpoint: keys, errors as answers, a line of log, counts for Prometheus ──────────────────────


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
        except asyncio.CancelledError:  # the server waits no longer; of a stream, only closing the connection says so
            if not status:
                await error_response(_as_error(Cancelled("the server is stopping")))(scope, receive, watched)
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
            ("prompt", usage.input_tokens), ("cached", min(usage.input_tokens, usage.reused_tokens)),
            ("drawn", usage.output_tokens), ("known", usage.forced_tokens),
        ):  # fmt: skip
            self._tokens.labels(kind).inc(count)

    def text(self) -> bytes:
        return generate_latest(self._registry)
