"""`POST /v1/chat/completions`."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from pastalang.serve import answers
from pastalang.serve.answers import Choice, Head
from pastalang.serve.errors import bad_request
from pastalang.serve.service import Service, while_connected
from pastalang.serve.streams import Parts, Shown, event_stream
from pastalang.serve.tasks import AnswerKind, Task, task_of
from pastalang.serve.wire import Ask, read_chat


def add_chat(app: FastAPI, service: Service) -> None:
    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        ask, task = await service.asked(request, read_chat, task_of)
        head = Head(ask.model)
        if ask.stream:
            return await event_stream(request, _chunks(service, task, ask, head, request))
        choices = await while_connected(request, service.choices([task], ask, request))
        return JSONResponse(answers.completion(head, choices, service.engine.encoder, logprobs=ask.logprobs))


async def _chunks(service: Service, task: Task, ask: Ask, head: Head, request: Request) -> Parts:
    if ask.choices > 1:
        raise bad_request("`n` greater than 1 cannot be streamed", "n")
    if ask.logprobs:
        raise bad_request("`logprobs` cannot be streamed: values are decoded in parallel", "logprobs")
    is_first = True
    while True:
        ticket, shown = service.submit(task, ask, request), Shown(ask.max_tokens, service.engine.encoder)
        try:
            await service.begun(ticket)
            if is_first:
                yield answers.chunk(head, 0, {"role": "assistant", "content": ""})
            async for update in ticket.updates():
                if ask.pasta.events and update.events:
                    yield answers.event_chunk(head, 0, update.events)
                if (text := shown.add(update.text)) and task.kind is not AnswerKind.CALL:
                    yield answers.chunk(head, 0, {"content": text})
            choice = Choice(service.checked(ticket), task.kind, ask.max_tokens, service.engine.encoder)
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
