"""A server on a fake model, called in this process, and one that listens on a port."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from pastalang import Engine
from pastalang.serve.app import config_of, make_app
from pastalang.serve.service import Settings
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model

VOCABULARY = len(byte_tokenizer())


def engine(*, model: FakeModel | None = None, cells: int = 1 << 14, words: Sequence[str] = ()) -> Engine:
    """With a token for each byte and each of the words."""
    tokenizer = byte_tokenizer(words=words)
    model = model or hashed_model(len(tokenizer))
    model.cells = cells
    return Engine(model, tokenizer)


@asynccontextmanager
async def serving(
    made: Engine | None = None, *, programs: Path | None = None, **settings: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    """A client of an application in this event loop, and its service. Nothing is left in the engine at the end."""
    made = made or engine()
    app = make_app(made, Settings(name="toy", programs=programs, drain=0.1, **settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60) as client:
            yield client, app.state.service
    made.check_integrity()
    assert app.state.service.driver.in_flight == app.state.service.driver.waiting == 0


@contextmanager
def listening(made: Engine | None = None, **settings: Any) -> Iterator[str]:
    """The address of a server on a free port, in a thread of its own."""
    server = uvicorn.Server(config_of(made or engine(), Settings(name="toy", drain=1, **settings)))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test in an event loop of its own."""

    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


def chat(text: str = "Say", **more: Any) -> dict[str, Any]:
    return {"model": "toy", "messages": [{"role": "user", "content": text}], **more}


def json_format(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


def parts_of(body: str) -> list[dict[str, Any]]:
    """The objects of a stream of server-sent events, without the mark of its end."""
    found = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    return [json.loads(one) for one in found if one != "[DONE]"]


def text_of(body: str) -> str:
    return "".join(
        choice["delta"].get("content") or "" for part in parts_of(body) for choice in part.get("choices", ())
    )
