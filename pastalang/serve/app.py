"""The application: the endpoints that are about the server itself, the playground page, and pictures of plans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse

from pastalang.failures import PastaError
from pastalang.plan.draw.svg import draw_svg
from pastalang.runtime.engine import Engine
from pastalang.runtime.plan_cache import Runnable
from pastalang.serve.endpoints import add_chat, add_completions, add_programs, add_responses
from pastalang.serve.errors import RequestError, bad_request
from pastalang.serve.guard import Guard, error_response
from pastalang.serve.service import Service, Settings
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
