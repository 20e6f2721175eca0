"""`POST /v1/completions`: a text that goes on where the prompt ends, with no chat around it."""

from __future__ import annotations

from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from pastalang.serve import answers
from pastalang.serve.answers import Choice, Head
from pastalang.serve.errors import bad_request
from pastalang.serve.service import Service, while_connected
from pastalang.serve.streams import Parts, Shown, event_stream
from pastalang.serve.tasks import Task, completion_tasks
from pastalang.serve.wire import Ask, read_completion


def add_completions(app: FastAPI, service: Service) -> None:
    make = partial(completion_tasks, encoder=service.engine.encoder)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        ask, tasks = await service.asked(request, read_completion, make)
        head = Head(ask.model, "cmpl")
        if ask.stream:
            if len(tasks) * ask.choices > 1:
                raise bad_request("only one completion at a time can be streamed", "stream")
            return await event_stream(request, _chunks(service, tasks[0], ask, head, request))
        choices = await while_connected(request, service.choices(tasks, ask, request))
        return JSONResponse(answers.text_completion(head, choices, service.engine.encoder, ask))


async def _chunks(service: Service, task: Task, ask: Ask, head: Head, request: Request) -> Parts:
    [prompt] = ask.prompts
    shown = Shown(ask.max_tokens, service.engine.encoder)
    ticket = service.submit(task, ask, request)
    try:
        await service.begun(ticket)
        yield answers.text_chunk(head, prompt if ask.echo else "")
        async for update in ticket.updates():
            if text := shown.add(update.text):
                yield answers.text_chunk(head, text)
        choice = Choice(service.checked(ticket), task.kind, ask.max_tokens, service.engine.encoder)
    finally:
        service.driver.cancel(ticket)
    yield answers.text_chunk(head, "", choice.finish_reason)
    if ask.include_usage:
        yield answers.text_usage_chunk(head, choice, service.engine.encoder)
