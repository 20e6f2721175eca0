"""`POST /v1/responses`: the answers of chats in the shape of responses, without stored state."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from pastalang.serve import answers
from pastalang.serve.answers import Choice, Head
from pastalang.serve.service import Service, while_connected
from pastalang.serve.streams import Parts, Shown, event_stream
from pastalang.serve.tasks import AnswerKind, Task, task_of
from pastalang.serve.wire import Ask, read_responses


def add_responses(app: FastAPI, service: Service) -> None:
    @app.post("/v1/responses")
    async def responses(request: Request) -> Response:
        ask, task = await service.asked(request, read_responses, task_of)
        head = Head(ask.model, "resp")
        if ask.stream:
            return await event_stream(request, _events(service, task, ask, head, request), named=True)
        [choice] = await while_connected(request, service.choices([task], ask, request))
        return JSONResponse(answers.response(head, choice, service.engine.encoder, status=answers.status_of(choice)))


async def _events(service: Service, task: Task, ask: Ask, head: Head, request: Request) -> Parts:
    numbers = iter(range(1_000_000_000))

    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(numbers), **more}

    created = event(
        "response.created", response=answers.response(head, None, service.engine.encoder, status="in_progress")
    )
    is_first = True
    place = {"item_id": f"msg_{head.id}", "output_index": 0, "content_index": 0}
    while True:
        ticket, shown = service.submit(task, ask, request), Shown(ask.max_tokens, service.engine.encoder)
        has_text = task.kind is not AnswerKind.CALL
        try:
            await service.begun(ticket)
            if is_first:
                yield created
            if has_text:
                yield event("response.output_item.added", output_index=0, item=answers.begun_message(head))
                yield event("response.content_part.added", **place, part=answers.text_part(""))
            async for update in ticket.updates():
                if has_text and (text := shown.add(update.text)):
                    yield event("response.output_text.delta", **place, delta=text, logprobs=[])
            choice = Choice(service.checked(ticket), task.kind, ask.max_tokens, service.engine.encoder)
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
