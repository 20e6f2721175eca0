"""Pictures of plans, without a run: of what a chat asks for, and of the programs."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from pastalang.failures import PastaError
from pastalang.plan.draw.svg import draw_svg
from pastalang.runtime.plan_cache import Runnable
from pastalang.serve.errors import bad_request
from pastalang.serve.service import Service
from pastalang.serve.tasks import task_of
from pastalang.serve.wire import read_chat


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
