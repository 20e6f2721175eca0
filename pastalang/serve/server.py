"""Runs the application with uvicorn."""

from __future__ import annotations

import logging

import uvicorn

from pastalang.runtime.engine import Engine
from pastalang.serve.app import make_app
from pastalang.serve.logs import JsonLines
from pastalang.serve.settings import Settings

__all__ = ["Settings", "run"]

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
    config = uvicorn.Config(
        make_app(engine, settings), host=host, port=port, log_level="warning", access_log=False,
        timeout_keep_alive=_IDLE_SECONDS, h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=max(1, round(settings.drain)), server_header=False,
    )  # fmt: skip
    uvicorn.Server(config).run()
