"""The application and its process: endpoints about the server itself, the playground page, and pictures of plans."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from pastalang.failures import PastaError
from pastalang.plan.draw.svg import draw_svg
from pastalang.runtime.engine import Engine
from pastalang.runtime.plan_cache import Runnable
from pastalang.serve.endpoints import add_chat, add_completions, add_programs, add_responses
from pastalang.serve.errors import RequestError, bad_request
from pastalang.serve.programs import Programs as Programs
from pastalang.serve.service import Guard, Service, Settings, error_response
from pastalang.serve.tasks import task_of
from pastalang.serve.wire import read_chat
from pastalang.version import __version__


def make_app(engine: Engine, settings: Settings) -> FastAPI:
    """The application, to be run by uvicorn or any other ASGI server."""
    service = Service(engine, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.driver.start()
        yield
        await service.stop()

    app = FastAPI(
        title="PastaLang", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.service = service
    app.add_middleware(Guard, keys=settings.api_keys, metrics=service.metrics)
    _add_errors(app)
    _add_service(app, service)
    add_chat(app, service)
    add_completions(app, service)
    add_responses(app, service)
    add_programs(app, service)
    add_plans(app, service)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestError)
    async def refused(_: Request, problem: RequestError) -> Response:
        return error_response(problem)

    @app.exception_handler(RequestValidationError)
    async def wrong_query(_: Request, problem: RequestValidationError) -> Response:
        wrong = problem.errors()[0]
        name = str(wrong["loc"][-1])
        return error_response(bad_request(f"`{name}` is wrong: {wrong['msg']}", name))

    @app.exception_handler(404)
    async def missing(request: Request, _: Exception) -> Response:
        return error_response(RequestError(404, f"there is no {request.url.path}"))

    @app.exception_handler(405)
    async def wrong_method(request: Request, _: Exception) -> Response:
        return error_response(RequestError(405, f"{request.url.path} does not take {request.method}"))


def _add_service(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> Response:
        is_ready = not service.driver.is_draining
        return JSONResponse({"status": "ready" if is_ready else "draining"}, status_code=200 if is_ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(service)]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        service.check_model(name)
        return _model(service)

    @app.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        body = await service.body(request)
        text = body.get("prompt", body.get("content")) if isinstance(body, dict) else None
        if not isinstance(text, str):
            raise bad_request("`prompt` must be a text", "prompt")
        tokens = service.engine.encoder.text(text)
        return {"count": len(tokens), "tokens": list(tokens), "max_model_len": service.engine.model.max_position + 1}

    @app.get("/", response_class=HTMLResponse)
    async def playground() -> str:
        return PAGE


def _model(service: Service) -> dict[str, Any]:
    note = service.engine.trained_for
    return {
        "id": service.settings.name, "object": "model", "created": service.started, "owned_by": "pastalang",
        "keys_in_words": note is not None and note.keys_in_words,
    }  # fmt: skip


def add_plans(app: FastAPI, service: Service) -> None:
    @app.post("/plan")
    async def of_chat(request: Request) -> Response:
        _, task = await service.asked(request, read_chat, task_of)
        return await drawn(task.program)

    @app.get("/programs/{name}/plan")
    async def of_program(name: str) -> Response:
        endpoint = await service.in_thread(service.programs.find, name)
        return await drawn(endpoint.program, endpoint.name)

    async def drawn(program: Runnable, template: str | None = None) -> Response:
        return Response(await service.in_thread(draw, program, template), media_type="image/svg+xml")

    def draw(program: Runnable, template: str | None) -> str:
        try:
            return draw_svg(service.engine.plan(program, template=template))
        except PastaError as problem:
            raise bad_request(str(problem)) from problem


PAGE: Final = (files("pastalang.serve") / "playground.html").read_text(encoding="utf-8")


# ── in a process, with uvicorn: logs are JSON lines, one for each request, without what it said ───────────────


_HEADER_BYTES = 64 * 1024
_IDLE_SECONDS = 75


def listener(host: str, port: int) -> socket.socket:
    """Has the port alone, before a model is loaded for it. Raises `OSError`."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # or the next one who asks for it gets it, too
    except OSError:
        found.close()
        raise
    return found


def run(
    engine: Engine, settings: Settings, at: socket.socket, *, announce: Callable[[str], None],
    finishing: Callable[[int], None],
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; then finish what was accepted, or give it up after `settings.drain` seconds.

    `announce` is called with the address once clients can connect, and `finishing` with how many requests still run
    after a signal, if any do.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    log = logging.getLogger("pastalang.serve")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.propagate = False
    host, port = at.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    _Server(config_of(engine, settings), lambda: announce(address), finishing).run(sockets=[at])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], finishing: Callable[[int], None]) -> None:
        super().__init__(config)
        self._announce, self._finishing = announce, finishing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():  # it listens, so nobody else gets the port; connections that end do not keep it
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.server_state.tasks and not self.force_exit:
            self._finishing(len(self.server_state.tasks))
        await super().shutdown(sockets)
        if self.force_exit:  # a second signal: what runs is given up, and the engine left in order
            running = [*self.server_state.tasks]
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self.lifespan.shutdown()


def config_of(engine: Engine, settings: Settings) -> uvicorn.Config:
    protocol = type("Protocol", (PatientProtocol,), {"patience": settings.patience})
    return uvicorn.Config(
        make_app(engine, settings), port=0, log_level="error", access_log=False, http=protocol, ws="none",
        timeout_keep_alive=_IDLE_SECONDS, h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=max(1, round(settings.drain)), server_header=False,
    )  # fmt: skip


class PatientProtocol(H11Protocol):
    """Waits for the head of a request, and for the rest of a body that is refused already, but not without end.

    What cannot be read as HTTP is answered in the shape of all other errors, and what its client still sends is thrown
    away for a while: a connection that is closed at once would take the answer with it.
    """

    patience: float
    _waiting: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._wait()
        super().data_received(data)
        if self._is_in_request:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._waiting is None and not self._is_in_request:
            self._waiting = self.loop.call_later(self.patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self._is_refused or self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        elif not self._is_in_request and not self.transport.is_closing():
            self.send_400_response(f"no request arrived within {self.patience:g} seconds")

    def send_400_response(self, msg: str) -> None:
        body = json.dumps(bad_request(msg).body).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self._is_refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._stop_waiting()
        self._wait()


_PLAIN: Final = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """The time, the level, the message, and whatever the record was given besides."""

    def format(self, record: logging.LogRecord) -> str:
        shown = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **{name: value for name, value in record.__dict__.items() if name not in _PLAIN},
        }
        if record.exc_info:
            shown["error"] = self.formatException(record.exc_info)
        return json.dumps(shown, ensure_ascii=False, default=str)
