"""The endpoints of the server."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from pastalang import __version__
from pastalang.errors import PastaError
from pastalang.program.types import Sampling
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.runtime.errors import Cancelled, RunError
from pastalang.runtime.result import Result
from pastalang.serve import answers
from pastalang.serve.answers import Choice, Head
from pastalang.serve.driver import Driver, InternalError, Job, Ticket, TooLate
from pastalang.serve.errors import RequestError, bad_request
from pastalang.serve.metrics import Metrics
from pastalang.serve.page import PAGE
from pastalang.serve.programs import Endpoint, Programs
from pastalang.serve.settings import Settings
from pastalang.serve.tasks import AnswerKind, Task, moved, task_of
from pastalang.serve.wire import Ask, read_chat, read_responses
from pastalang.values.json import write_json

_LOG: Final = logging.getLogger("pastalang.serve")
_OPEN: Final = frozenset({"/health", "/ready", "/"})  # need no key
_MAX_DEPTH: Final = 64  # of the JSON of a body


class Server:
    """The state behind the endpoints: an engine with its driver, programs, and what is counted."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.programs = Programs(settings.programs, reload=settings.reload)
        self.driver = Driver(engine, max_in_flight=settings.max_in_flight, max_queue=settings.max_queue)
        self.metrics = Metrics(self.driver)
        self.started = int(time.time())

    # ── one answer ───────────────────────────────────────────────────────────────────────────────────────

    def submit(self, task: Task, ask: Ask, *, number: int = 0) -> Ticket:
        sampling = Sampling(temperature=ask.temperature, top_p=ask.top_p)
        options: dict[str, Any] = {"seed": (ask.seed or 0) + number, "sampling": sampling, "on_truncated": "keep"}
        if ask.pasta.mode is not None:
            options["mode"] = ask.pasta.mode.value
        options |= {
            name: value
            for name, value in (("drafts", ask.pasta.drafts), ("repair", ask.pasta.repair))
            if value is not None
        }
        return self._submit(task.program, task.inputs, options, streams=ask.stream)

    def run_program(self, endpoint: Endpoint, inputs: Mapping[str, Any], seed: int, *, streams: bool) -> Ticket:
        options = {"template": endpoint.name, "seed": seed, "on_truncated": "keep"}
        return self._submit(endpoint.program, inputs, options, streams=streams)

    def _submit(self, program: Any, inputs: Mapping[str, Any], options: dict[str, Any], *, streams: bool) -> Ticket:
        deadline = time.monotonic() + self.settings.deadline
        return self.driver.submit(Job(program, inputs, options, streams=streams, deadline=deadline))

    async def result_of(self, ticket: Ticket, request: Request) -> Result:
        """Raises `RequestError`. A client that goes away frees its place."""
        watcher = asyncio.ensure_future(_disconnected(request))
        try:
            ends: set[asyncio.Future[Any]] = {ticket.outcome, watcher}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not ticket.outcome.done():
                raise RequestError(499, "the client has gone")
            return self.checked(ticket)
        finally:
            watcher.cancel()
            self.driver.cancel(ticket)

    def checked(self, ticket: Ticket) -> Result:
        """The result of a ticket that is over. Raises `RequestError`."""
        outcome = ticket.outcome.result()
        if isinstance(outcome, PastaError):
            raise _as_error(outcome)
        first = None if ticket.first_text is None else ticket.first_text - ticket.accepted
        self.metrics.finished(outcome, seconds=time.monotonic() - ticket.accepted, first_text=first)
        return outcome

    async def choice(self, task: Task, ask: Ask, request: Request, *, number: int = 0) -> Choice:
        result = await self.result_of(self.submit(task, ask, number=number), request)
        choice = Choice(result, task.kind, ask.max_tokens, self.engine.encoder)
        if task.otherwise is not None and choice.call is None:
            return await self.choice(task.otherwise, ask, request, number=number)
        return choice


def make_app(engine: Engine, settings: Settings) -> FastAPI:
    """The application, to be run by uvicorn or any other ASGI server."""
    server = Server(engine, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        server.driver.start()
        yield
        await server.driver.stop(seconds=settings.drain)

    app = FastAPI(
        title="PastaLang", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.server = server
    _add_guards(app, server)
    _add_service(app, server)
    _add_chat(app, server)
    _add_responses(app, server)
    _add_programs(app, server)
    return app


# ── guards ───────────────────────────────────────────────────────────────────────────────────────────────


def _add_guards(app: FastAPI, server: Server) -> None:
    @app.middleware("http")
    async def guard(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        started = time.monotonic()
        try:
            _check_key(request, server.settings.api_keys)
            response = await call(request)
        except RequestError as problem:
            response = _error_response(problem)
        except Exception:
            _LOG.exception("an endpoint failed")
            response = _error_response(RequestError(500, "internal error"))
        route = request.scope.get("route")
        endpoint = getattr(route, "path", "unknown")
        server.metrics.requests.labels(endpoint, str(response.status_code)).inc()
        _LOG.info(
            "request",
            extra={"endpoint": endpoint, "status": response.status_code, "seconds": time.monotonic() - started},
        )
        return response

    @app.exception_handler(RequestError)
    async def refused(_: Request, problem: RequestError) -> Response:
        return _error_response(problem)

    @app.exception_handler(404)
    async def missing(request: Request, _: Exception) -> Response:
        return _error_response(RequestError(404, f"there is no {request.url.path}"))

    @app.exception_handler(405)
    async def wrong_method(request: Request, _: Exception) -> Response:
        return _error_response(RequestError(405, f"{request.url.path} does not take {request.method}"))


def _check_key(request: Request, keys: tuple[str, ...]) -> None:
    if not keys or request.url.path in _OPEN:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    known = [hmac.compare_digest(given.encode(), key.encode()) for key in keys]  # all of them, in constant time
    if scheme.lower() != "bearer" or not any(known):
        raise RequestError(401, "a valid API key is needed: `Authorization: Bearer KEY`", code="invalid_api_key")


def _error_response(problem: RequestError) -> Response:
    return JSONResponse(problem.body, status_code=problem.status, headers=problem.headers)


def _as_error(problem: PastaError) -> RequestError:
    """What a run failed with, as a status. Internal errors keep their details to the log."""
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


async def _body(request: Request, most: int) -> Any:
    """The JSON of a body. Raises `RequestError` for one that is too large, too deep or no JSON."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise RequestError(413, f"the body of a request may have at most {most:,} bytes")
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > most:
            raise RequestError(413, f"the body of a request may have at most {most:,} bytes")
    try:
        text = parts.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise bad_request(f"the body is not UTF-8: byte {problem.start} is wrong") from None
    _check_depth(text)
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise bad_request(f"the body is not JSON: {problem}") from None


def _check_depth(text: str) -> None:
    """Counted before parsing, so that a body of brackets alone costs nothing."""
    depth, in_string, escaped = 0, False, False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string, escaped = True, False
        elif character in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise bad_request(f"the body is nested more than {_MAX_DEPTH} deep")
        elif character in "]}":
            depth -= 1


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")


async def _disconnected(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.1)


# ── service ──────────────────────────────────────────────────────────────────────────────────────────────


def _add_service(app: FastAPI, server: Server) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> Response:
        is_ready = not server.driver.is_draining
        return JSONResponse({"status": "ready" if is_ready else "draining"}, status_code=200 if is_ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(server)]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        _check_model(name, server)
        return _model(server)

    @app.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        body = await _body(request, server.settings.max_body_bytes)
        text = body.get("prompt", body.get("content")) if isinstance(body, dict) else None
        if not isinstance(text, str):
            raise bad_request("`prompt` must be a text", "prompt")
        tokens = server.engine.encoder.text(text)
        return {"count": len(tokens), "tokens": list(tokens), "max_model_len": server.engine.model.max_position + 1}

    @app.get("/", response_class=HTMLResponse)
    async def playground() -> str:
        return PAGE


def _model(server: Server) -> dict[str, Any]:
    return {"id": server.settings.name, "object": "model", "created": server.started, "owned_by": "pastalang"}


def _check_model(name: str, server: Server) -> None:
    if name != server.settings.name:
        raise RequestError(
            404, f"the model `{name}` is not served; this server has `{server.settings.name}`", param="model",
            code="model_not_found",
        )  # fmt: skip


# ── chat ─────────────────────────────────────────────────────────────────────────────────────────────────


def _add_chat(app: FastAPI, server: Server) -> None:
    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        ask = read_chat(await _body(request, server.settings.max_body_bytes))
        _check_model(ask.model, server)
        task = task_of(ask)
        _log_prompt(server, ask)
        head = Head(ask.model)
        if ask.stream:
            return await _event_stream(_chat_chunks(server, task, ask, head))
        choices = await asyncio.gather(
            *(server.choice(task, ask, request, number=number) for number in range(ask.choices))
        )
        return JSONResponse(answers.completion(head, choices, server.engine.encoder, logprobs=ask.logprobs))


def _log_prompt(server: Server, ask: Ask) -> None:
    if server.settings.logs_prompts:
        _LOG.info("prompt", extra={"messages": [(one.role.value, one.text) for one in ask.messages]})


class _Shown:
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


async def _chat_chunks(server: Server, task: Task, ask: Ask, head: Head) -> AsyncIterator[dict[str, Any]]:
    if ask.choices > 1:
        raise bad_request("`n` greater than 1 cannot be streamed", "n")
    if ask.logprobs:
        raise bad_request("`logprobs` cannot be streamed: values are decoded in parallel", "logprobs")
    ticket, shown = server.submit(task, ask), _Shown(ask.max_tokens, server.engine.encoder)
    try:
        yield answers.chunk(head, 0, {"role": "assistant", "content": ""})
        async for update in ticket.updates():
            if ask.pasta.events and update.events:
                yield answers.event_chunk(head, 0, update.events)
            if (text := shown.add(update.text)) and task.kind is not AnswerKind.CALL:
                yield answers.chunk(head, 0, {"content": text})
        choice = Choice(server.checked(ticket), task.kind, ask.max_tokens, server.engine.encoder)
    finally:
        server.driver.cancel(ticket)
    if task.otherwise is not None and choice.call is None:
        async for part in _rest_of_chat(server, task.otherwise, ask, head):
            yield part
        return
    if choice.call is not None:
        for part in answers.tool_chunks(head, 0, choice):
            yield part
    for part in _last_chunks(server, head, choice, ask):
        yield part


async def _rest_of_chat(server: Server, task: Task, ask: Ask, head: Head) -> AsyncIterator[dict[str, Any]]:
    """The model has decided to call no tool: its answer in words."""
    ticket, shown = server.submit(task, ask), _Shown(ask.max_tokens, server.engine.encoder)
    try:
        async for update in ticket.updates():
            if text := shown.add(update.text):
                yield answers.chunk(head, 0, {"content": text})
        choice = Choice(server.checked(ticket), task.kind, ask.max_tokens, server.engine.encoder)
    finally:
        server.driver.cancel(ticket)
    for part in _last_chunks(server, head, choice, ask):
        yield part


def _last_chunks(server: Server, head: Head, choice: Choice, ask: Ask) -> list[dict[str, Any]]:
    last = answers.chunk(head, 0, {}, choice.finish_reason)
    if not ask.include_usage:
        return [last]
    return [last, answers.usage_chunk(head, [choice], server.engine.encoder, with_fields=ask.pasta.events)]


async def _event_stream(parts: AsyncIterator[dict[str, Any]], *, named: bool = False) -> Response:
    """Server-sent events. What fails before the first part is an error with its status, later one an event."""
    first = await anext(parts)

    async def lines() -> AsyncIterator[str]:
        yield _event(first, named)
        try:
            async for part in parts:
                yield _event(part, named)
        except RequestError as problem:
            yield _event(problem.body, named=False)
        if not named:
            yield "data: [DONE]\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


def _event(part: Mapping[str, Any], named: bool) -> str:
    name = f"event: {part['type']}\n" if named else ""
    return f"{name}data: {json.dumps(part, default=str)}\n\n"  # ASCII: some clients end a line at U+2028


# ── responses ────────────────────────────────────────────────────────────────────────────────────────────


def _add_responses(app: FastAPI, server: Server) -> None:
    @app.post("/v1/responses")
    async def responses(request: Request) -> Response:
        ask = read_responses(await _body(request, server.settings.max_body_bytes))
        _check_model(ask.model, server)
        task = task_of(ask)
        _log_prompt(server, ask)
        head = Head(ask.model, "resp")
        if ask.stream:
            return await _event_stream(_response_events(server, task, ask, head), named=True)
        choice = await server.choice(task, ask, request)
        return JSONResponse(answers.response(head, choice, server.engine.encoder, status=answers.status_of(choice)))


async def _response_events(server: Server, task: Task, ask: Ask, head: Head) -> AsyncIterator[dict[str, Any]]:
    numbers = iter(range(1_000_000_000))

    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(numbers), **more}

    yield event("response.created", response=answers.response(head, None, server.engine.encoder, status="in_progress"))
    place = {"item_id": f"msg_{head.id}", "output_index": 0, "content_index": 0}
    while True:
        ticket, shown = server.submit(task, ask), _Shown(ask.max_tokens, server.engine.encoder)
        has_text = task.kind is not AnswerKind.CALL
        try:
            if has_text:
                item = {
                    "type": "message",
                    "id": place["item_id"],
                    "role": "assistant",
                    "content": [],
                    "status": "in_progress",
                }
                yield event("response.output_item.added", output_index=0, item=item)
                yield event("response.content_part.added", **place, part=answers.text_part(""))
            async for update in ticket.updates():
                if has_text and (text := shown.add(update.text)):
                    yield event("response.output_text.delta", **place, delta=text, logprobs=[])
            choice = Choice(server.checked(ticket), task.kind, ask.max_tokens, server.engine.encoder)
        finally:
            server.driver.cancel(ticket)
        if task.otherwise is None or choice.call is not None:
            break
        task = task.otherwise
    item = answers.output_item(head, choice)
    if choice.call is None:
        text = choice.text
        yield event("response.output_text.done", **place, text=text, logprobs=[])
        yield event("response.content_part.done", **place, part=answers.text_part(text))
    else:
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=begun)
        at = {"item_id": item["id"], "output_index": 0}
        yield event("response.function_call_arguments.delta", **at, delta=item["arguments"])
        yield event("response.function_call_arguments.done", **at, arguments=item["arguments"], name=item["name"])
    yield event("response.output_item.done", output_index=0, item=item)
    status = answers.status_of(choice)
    yield event(f"response.{status}", response=answers.response(head, choice, server.engine.encoder, status=status))


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────


def _add_programs(app: FastAPI, server: Server) -> None:
    @app.get("/programs")
    async def programs() -> dict[str, Any]:
        return {
            "programs": [
                {"name": one.name, "description": one.template.description, "inputs": one.inputs_schema}
                for one in server.programs.endpoints.values()
            ]
        }

    @app.get("/openapi.json")
    async def openapi() -> dict[str, Any]:
        return _openapi(server)

    @app.post("/programs/{name}")
    async def run(name: str, request: Request, stream: bool = False, seed: int = 0) -> Response:
        endpoint = server.programs.find(name)
        inputs = await _body(request, server.settings.max_body_bytes)
        if not isinstance(inputs, dict):
            raise bad_request("the body must be a JSON object of the inputs")
        if stream:
            return await _event_stream(_program_events(server, endpoint, inputs, seed), named=True)
        result = await server.result_of(server.run_program(endpoint, inputs, seed, streams=False), request)
        return Response(_program_answer(server, result), media_type="application/json")


def _program_answer(server: Server, result: Result) -> str:
    choice = Choice(result, AnswerKind.JSON, None, server.engine.encoder)
    more = {"text": result.text, "pasta": answers.pasta_of([choice], with_fields=True)}
    return f'{{"value": {write_json(result.exact)}, {json.dumps(more, ensure_ascii=False)[1:]}'


async def _program_events(
    server: Server, endpoint: Endpoint, inputs: Mapping[str, Any], seed: int
) -> AsyncIterator[dict[str, Any]]:
    ticket = server.run_program(endpoint, inputs, seed, streams=True)
    try:
        yield {"type": "started", "program": endpoint.name}
        async for update in ticket.updates():
            for one in update.events:
                if (shown := answers.event_of(one)) is not None:
                    yield {"type": shown.pop("event"), **shown}
        result = server.checked(ticket)
    finally:
        server.driver.cancel(ticket)
    yield {"type": "result", **json.loads(_program_answer(server, result))}


def _openapi(server: Server) -> dict[str, Any]:
    """The programs in the words of OpenAPI, made of their inputs and the types of their answers."""
    paths = {
        f"/programs/{one.name}": {
            "post": {
                "operationId": one.name,
                "summary": one.template.description or f"Runs the program `{one.name}`.",
                "parameters": [
                    {"name": "seed", "in": "query", "schema": {"type": "integer", "default": 0}},
                    {"name": "stream", "in": "query", "schema": {"type": "boolean", "default": False}},
                ],
                "requestBody": {"required": True, "content": {"application/json": {"schema": one.inputs_schema}}},
                "responses": {
                    "200": {"description": "The answer.", "content": {"application/json": {"schema": _answer(one)}}}
                },
            }
        }
        for one in server.programs.endpoints.values()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "PastaLang programs", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {
                one.name: moved(one.answer_schema, f"#/components/schemas/{one.name}")
                for one in server.programs.endpoints.values()
            }
        },
    }


def _answer(endpoint: Endpoint) -> dict[str, Any]:
    value = {"$ref": f"#/components/schemas/{endpoint.name}"}
    properties = {"value": value, "text": {"type": "string"}, "pasta": {"type": "object"}}
    return {"type": "object", "properties": properties, "required": ["value", "text"]}
