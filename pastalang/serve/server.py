"""Runs the application with uvicorn."""

from __future__ import annotations

import asyncio
import logging

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pastalang.runtime.engine import Engine
from pastalang.serve.app import make_app
from pastalang.serve.logs import JsonLines
from pastalang.serve.settings import Settings

__all__ = ["Settings", "config_of", "run"]

_HEADER_BYTES = 64 * 1024
_IDLE_SECONDS = 75


def run(engine: Engine, settings: Settings, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was accepted, or give it up after `settings.drain` seconds."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    log = logging.getLogger("pastalang.serve")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.propagate = False
    uvicorn.Server(config_of(engine, settings, host=host, port=port)).run()


def config_of(engine: Engine, settings: Settings, *, host: str = "127.0.0.1", port: int = 0) -> uvicorn.Config:
    protocol = type("Protocol", (PatientProtocol,), {"patience": settings.patience})
    return uvicorn.Config(
        make_app(engine, settings), host=host, port=port, log_level="error", access_log=False, http=protocol, ws="none",
        timeout_keep_alive=_IDLE_SECONDS, h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=max(1, round(settings.drain)), server_header=False,
    )  # fmt: skip


class PatientProtocol(H11Protocol):
    """Closes a connection on which the head of a request does not arrive in time."""

    patience: float
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._wait()
        super().data_received(data)
        if self._is_in_request:
            self._stop_waiting()

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
        if not self._is_in_request and not self.transport.is_closing():
            self.send_400_response(f"No request arrived within {self.patience:g} seconds.")
