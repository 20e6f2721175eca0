"""Programs as endpoints: `POST /programs/NAME`, and what describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response

from pastalang.runtime.result import Result
from pastalang.serve import answers
from pastalang.serve.answers import Choice
from pastalang.serve.errors import bad_request
from pastalang.serve.programs import Endpoint
from pastalang.serve.service import Service, while_connected
from pastalang.serve.streams import Parts, event_stream
from pastalang.serve.tasks import AnswerKind, moved
from pastalang.values.json import write_json
from pastalang.version import __version__

Seed = Annotated[int, Query(ge=-(2**63), le=2**63)]


def add_programs(app: FastAPI, service: Service) -> None:
    @app.get("/programs")
    async def programs() -> dict[str, Any]:
        return await service.in_thread(_listed, service)

    @app.get("/openapi.json")
    async def openapi() -> dict[str, Any]:
        return await service.in_thread(_openapi, service)

    @app.post("/programs/{name}")
    async def run(name: str, request: Request, stream: bool = False, seed: Seed = 0) -> Response:
        endpoint = await service.in_thread(service.programs.find, name)
        inputs = await service.body(request)
        if not isinstance(inputs, dict):
            raise bad_request("the body must be a JSON object of the inputs")
        if stream:
            return await event_stream(request, _events(service, endpoint, inputs, request, seed=seed), named=True)
        ticket = service.run_program(endpoint, inputs, request, seed=seed, streams=False)
        result = await while_connected(request, service.result_of(ticket))
        return Response(_answer_of(service, result), media_type="application/json")


def _listed(service: Service) -> dict[str, Any]:
    found = service.programs.endpoints.values()
    return {
        "programs": [
            {"name": one.name, "description": one.template.description, "inputs": one.inputs_schema} for one in found
        ]
    }


def _answer_of(service: Service, result: Result) -> str:
    choice = Choice(result, AnswerKind.JSON, None, service.engine.encoder)
    more = {"text": result.text, "pasta": answers.pasta_of([choice], with_fields=True)}
    return f'{{"value": {write_json(result.exact)}, {json.dumps(more, ensure_ascii=False)[1:]}'


async def _events(
    service: Service, endpoint: Endpoint, inputs: Mapping[str, Any], request: Request, *, seed: int
) -> Parts:
    ticket = service.run_program(endpoint, inputs, request, seed=seed, streams=True)
    try:
        await service.begun(ticket)
        yield {"type": "started", "program": endpoint.name}
        async for update in ticket.updates():
            for one in update.events:
                if (shown := answers.event_of(one)) is not None:
                    yield {"type": shown.pop("event"), **shown}
        result = service.checked(ticket)
    finally:
        service.driver.cancel(ticket)
    yield {"type": "result", **json.loads(_answer_of(service, result))}


def _openapi(service: Service) -> dict[str, Any]:
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
                    "200": {
                        "description": "The answer.",
                        "content": {"application/json": {"schema": _answer_schema(one)}},
                    }
                },
            }
        }
        for one in service.programs.endpoints.values()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "PastaLang programs", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {
                one.name: moved(one.answer_schema, f"#/components/schemas/{one.name}")
                for one in service.programs.endpoints.values()
            }
        },
    }


def _answer_schema(endpoint: Endpoint) -> dict[str, Any]:
    value = {"$ref": f"#/components/schemas/{endpoint.name}"}
    properties = {"value": value, "text": {"type": "string"}, "pasta": {"type": "object"}}
    return {"type": "object", "properties": properties, "required": ["value", "text"]}
