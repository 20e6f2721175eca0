"""The endpoints that ask a model: chats, responses, texts that go on, and the programs of a folder.

    POST /v1/chat/completions
    POST /v1/responses           the answers of chats in the shape of responses, without stored state
    POST /v1/completions         a text that goes on where the prompt ends, with no chat around it
    POST /programs/NAME          and what describes the programs

Each answers at once or as server-sent events.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from pastalang.runtime.result import Result
from pastalang.serve import answers
from pastalang.serve.answers import Choice, Head
from pastalang.serve.errors import RequestError, bad_request
from pastalang.serve.programs import Endpoint
from pastalang.serve.service import Service, while_connected
from pastalang.serve.tasks import AnswerKind, Task, completion_tasks, moved, task_of
from pastalang.serve.wire import Ask, read_chat, read_completion, read_responses
from pastalang.values.json import write_json
from pastalang.version import __version__


def add_chat(app: FastAPI, service: Service) -> None:
    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        ask, task = await service.asked(request, read_chat, task_of)
        head = Head(ask.model)
        if ask.stream:
            return await event_stream(request, _chat_chunks(service, task, ask, head, request))
        choices = await while_connected(request, service.choices([task], ask, request))
        return JSONResponse(answers.completion(head, choices, service.engine.encoder, logprobs=ask.logprobs))


async def _chat_chunks(service: Service, task: Task, ask: Ask, head: Head, request: Request) -> Parts:
    if ask.choices > 1:
        raise bad_request("`n` greater than 1 cannot be streamed", "n")
    if ask.logprobs:
        raise bad_request("`logprobs` cannot be streamed: values are decoded in parallel", "logprobs")
    is_first = True
    while True:
        ticket = service.submit(task, ask, request)
        try:
            await service.begun(ticket)
            if is_first:
                yield answers.chunk(head, 0, {"role": "assistant", "content": ""})
            async for update in ticket.updates():
                if ask.pasta.events and update.events:
                    yield answers.event_chunk(head, 0, update.events)
                if update.text and task.kind is not AnswerKind.CALL:
                    yield answers.chunk(head, 0, {"content": update.text})
            choice = Choice(service.checked(ticket), task.kind, task.limit, service.engine.encoder)
        finally:
            service.driver.cancel(ticket)
        if task.otherwise is None or choice.call is not None:
            break
        task, is_first = task.otherwise, False  # the model has decided to call no tool, and answers in words
    if choice.call is not None:
        for part in answers.tool_chunks(head, 0, choice):
            yield part
    yield answers.chunk(head, 0, {}, choice.finish_reason)
    if ask.include_usage:
        yield answers.usage_chunk(head, [choice], service.engine.encoder, with_fields=ask.pasta.events)


def add_responses(app: FastAPI, service: Service) -> None:
    @app.post("/v1/responses")
    async def responses(request: Request) -> Response:
        ask, task = await service.asked(request, read_responses, task_of)
        head = Head(ask.model, "resp")
        if ask.stream:
            return await event_stream(request, _response_events(service, task, ask, head, request), named=True)
        [choice] = await while_connected(request, service.choices([task], ask, request))
        return JSONResponse(answers.response(head, choice, service.engine.encoder, status=answers.status_of(choice)))


async def _response_events(service: Service, task: Task, ask: Ask, head: Head, request: Request) -> Parts:
    numbers = iter(range(1_000_000_000))

    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(numbers), **more}

    created = event(
        "response.created", response=answers.response(head, None, service.engine.encoder, status="in_progress")
    )
    is_first = True
    place = {"item_id": f"msg_{head.id}", "output_index": 0, "content_index": 0}
    while True:
        ticket = service.submit(task, ask, request)
        has_text = task.kind is not AnswerKind.CALL
        try:
            await service.begun(ticket)
            if is_first:
                yield created
            if has_text:
                yield event("response.output_item.added", output_index=0, item=answers.begun_message(head))
                yield event("response.content_part.added", **place, part=answers.text_part(""))
            async for update in ticket.updates():
                if has_text and update.text:
                    yield event("response.output_text.delta", **place, delta=update.text, logprobs=[])
            choice = Choice(service.checked(ticket), task.kind, task.limit, service.engine.encoder)
        finally:
            service.driver.cancel(ticket)
        if task.otherwise is None or choice.call is not None:
            break
        task, is_first = task.otherwise, False
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
    yield event(f"response.{status}", response=answers.response(head, choice, service.engine.encoder, status=status))


def add_completions(app: FastAPI, service: Service) -> None:
    make = partial(completion_tasks, encoder=service.engine.encoder)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        ask, tasks = await service.asked(request, read_completion, make)
        head = Head(ask.model, "cmpl")
        if ask.stream:
            if len(tasks) * ask.choices > 1:
                raise bad_request("only one completion at a time can be streamed", "stream")
            return await event_stream(request, _text_chunks(service, tasks[0], ask, head, request))
        choices = await while_connected(request, service.choices(tasks, ask, request))
        return JSONResponse(answers.text_completion(head, choices, service.engine.encoder, ask))


async def _text_chunks(service: Service, task: Task, ask: Ask, head: Head, request: Request) -> Parts:
    [prompt] = ask.prompts
    ticket = service.submit(task, ask, request)
    try:
        await service.begun(ticket)
        yield answers.text_chunk(head, prompt if ask.echo else "")
        async for update in ticket.updates():
            if update.text:
                yield answers.text_chunk(head, update.text)
        choice = Choice(service.checked(ticket), task.kind, task.limit, service.engine.encoder)
    finally:
        service.driver.cancel(ticket)
    yield answers.text_chunk(head, "", choice.finish_reason)
    if ask.include_usage:
        yield answers.text_usage_chunk(head, choice, service.engine.encoder)


Seed = Annotated[int, Query(ge=-(2**63), le=2**63)]


def add_programs(app: FastAPI, service: Service) -> None:
    @app.get("/programs")
    async def programs() -> dict[str, Any]:
        return await service.in_thread(_program_list, service)

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
            return await event_stream(
                request, _program_events(service, endpoint, inputs, request, seed=seed), named=True
            )
        ticket = service.run_program(endpoint, inputs, request, seed=seed, streams=False)
        result = await while_connected(request, service.result_of(ticket))
        return Response(_answer_of(service, result), media_type="application/json")


def _program_list(service: Service) -> dict[str, Any]:
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


async def _program_events(
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


_LOG: Final = logging.getLogger("pastalang.serve")
Parts = AsyncGenerator[dict[str, Any], None]


class EventStream(StreamingResponse):
    """Closes the generator of its events however it ends, so that the request behind them leaves at once."""

    def __init__(self, lines: AsyncGenerator[str, None]) -> None:
        super().__init__(lines, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._lines):
            await super().__call__(scope, receive, send)


async def event_stream(request: Request, parts: Parts, *, named: bool = False) -> EventStream:
    """What fails before the first part is an error with its status, later it is an event."""
    first = await while_connected(request, _first_part(parts))

    async def lines() -> AsyncGenerator[str, None]:
        async with aclosing(parts):
            yield _line_of(first, named)
            try:
                async for part in parts:
                    yield _line_of(part, named)
            except RequestError as problem:
                yield _line_of(problem.body, named=False)
            except Exception:
                _LOG.exception("a stream failed")
                yield _line_of(RequestError(500, "internal error").body, named=False)
            if not named:
                yield "data: [DONE]\n\n"

    return EventStream(lines())


async def _first_part(parts: Parts) -> dict[str, Any]:
    return await anext(parts)


def _line_of(part: Mapping[str, Any], named: bool) -> str:
    name = f"event: {part['type']}\n" if named else ""
    return f"{name}data: {json.dumps(part)}\n\n"  # ASCII: some clients end a line at U+2028
