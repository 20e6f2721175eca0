"""Runs the application with uvicorn. Logs are JSON lines: one object for each request, without what it said."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable
from typing import Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pastalang.runtime.engine import Engine
from pastalang.serve.app import make_app
from pastalang.serve.errors import bad_request
from pastalang.serve.programs import Programs
from pastalang.serve.service import Settings

__all__ = ["Programs", "Settings", "config_of", "listener", "run"]

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


def run(engine: Engine, settings: Settings, at: socket.socket, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was accepted, or give it up after `settings.drain` seconds.

    `announce` is called with the address once clients can connect.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    log = logging.getLogger("pastalang.serve")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.propagate = False
    host, port = at.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    _Server(config_of(engine, settings), lambda: announce(address)).run(sockets=[at])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


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
