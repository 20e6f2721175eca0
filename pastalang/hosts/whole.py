"""Asks for a whole answer in one chat, where a server takes nothing else. What does not fit is asked for again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pastalang.hosts.errors import HostError, Unsupported
from pastalang.hosts.transport import Transport
from pastalang.plan.plan import InputText, Plan, Text, TurnEnd, TurnStart
from pastalang.program import types as t
from pastalang.program.types import Sampling
from pastalang.values.fit import read
from pastalang.values.json import NotJson, parse_json, write_json
from pastalang.values.paths import Mismatch
from pastalang.values.text import message_texts
from pastalang.values.to_schema import schema_of

ATTEMPTS: Final = 3


@dataclass(slots=True)
class WholeAnswer:
    """The answer as JSON text, and what it took. `mismatches` are left when all attempts are used up."""

    text: str
    requests: int = 1
    prompt_tokens: int = 0
    written_tokens: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    cached_tokens: int = 0


def check_plan(plan: Plan) -> None:
    """Raises `Unsupported` for a program whose answer cannot be asked for as one JSON value."""
    if plan.output is None:
        raise Unsupported(
            "this server takes chats only, and answers them as JSON: a text with holes needs a server that takes raw "
            "prompts (vLLM, SGLang, llama.cpp) or a model in this process"
        )
    if any(input.each for input in plan.inputs):
        raise Unsupported("this server takes chats only: call `batch` or `map` in place of an `each` input")


def messages_of(plan: Plan, values: Mapping[str, Any]) -> list[dict[str, str]]:
    """The turns before the answer, as messages of a chat."""
    messages: list[dict[str, str]] = []
    for segment in plan.branches[0].segments:
        match segment:
            case TurnStart(role=role):
                messages.append({"role": role.value, "content": ""})
            case Text(text=text, shown=True) if messages:
                messages[-1]["content"] += text
            case InputText(piece=piece):
                messages[-1]["content"] += "".join(message_texts([piece], partial(_value, values)))
            case TurnEnd():
                pass
            case _:
                break
    return messages[:-1]  # the last turn is the answer's


def _value(values: Mapping[str, Any], name: str) -> Any:
    return values[name]


class Chats:
    """A server that answers chats."""

    def __init__(self, transport: Transport, model: str) -> None:
        self.transport = transport
        self.model = model

    async def answer(
        self, plan: Plan, values: Mapping[str, Any], *, sampling: Sampling, seed: int, end: float | None,
        sources: Mapping[str, str], attempts: int = ATTEMPTS,
    ) -> WholeAnswer:  # fmt: skip
        """Raises `HostError`."""
        assert plan.output is not None
        types = dict(plan.types)
        messages = messages_of(plan, values)
        found = await self._ask(messages, plan.output, types, sampling, seed, end)
        for attempt in range(1, attempts):
            reading = read(found.text, plan.output, types, sources=sources)
            found.mismatches = reading.mismatches
            if reading.fits:
                return found
            await self._again(found, messages, plan.output, types, sampling, seed + attempt, end)
        found.mismatches = read(found.text, plan.output, types, sources=sources).mismatches
        return found

    async def _again(
        self, found: WholeAnswer, messages: Sequence[Mapping[str, str]], output: t.Type,
        types: Mapping[str, t.Type], sampling: Sampling, seed: int, end: float | None,
    ) -> None:  # fmt: skip
        """Ask once more: for the fields that do not fit if the answer is an object, else for all of it."""
        wrong = _wrong_fields(found.mismatches, output)
        told = "\n".join(f"- {one}" for one in found.mismatches[:10])
        reply = {"role": "assistant", "content": found.text}
        if not wrong or not isinstance(output, t.Object):
            request = {"role": "user", "content": f"This answer is not accepted:\n{told}\nWrite it again, corrected."}
            again = await self._ask([*messages, reply, request], output, types, sampling, seed, end)
            found.text = again.text
        else:
            part = t.Object(tuple(one for one in output.fields if one.key in wrong))
            keys = ", ".join(f'"{key}"' for key in wrong)
            request = {
                "role": "user",
                "content": f"These values are not accepted:\n{told}\nWrite {keys} again, corrected.",
            }
            again = await self._ask([*messages, reply, request], part, types, sampling, seed, end)
            found.text = _merged(found.text, again.text)
        found.requests += 1
        found.prompt_tokens += again.prompt_tokens
        found.written_tokens += again.written_tokens

    async def _ask(
        self, messages: Sequence[Mapping[str, str]], output: t.Type, types: Mapping[str, t.Type], sampling: Sampling,
        seed: int, end: float | None,
    ) -> WholeAnswer:  # fmt: skip
        schema = schema_of(output if isinstance(output, t.Object) else _wrapped(output), types)
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": json.loads(write_json(schema))},
            },
            "seed": seed,
            **({} if sampling.temperature is None else {"temperature": sampling.temperature}),
            **({} if sampling.top_p is None else {"top_p": sampling.top_p}),
        }
        answer = await self.transport.post("/v1/chat/completions", body, end=end)
        try:
            message, usage = answer["choices"][0]["message"], answer.get("usage") or {}
            text = message["content"]
            if text is None:
                raise HostError(f"the server refuses: {message.get('refusal') or 'it gives no reason'}")
            text = text if isinstance(output, t.Object) else _unwrapped(text)
            return WholeAnswer(text, 1, int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))
        except (KeyError, IndexError, TypeError, AttributeError) as problem:
            shown = json.dumps(answer, ensure_ascii=False)[:200]
            raise HostError(f"{self.transport.url} answered in an unknown shape: {shown}") from problem


_KEY: Final = "value"  # of the object around an answer that is none: servers take objects only


def _wrapped(output: t.Type) -> t.Object:
    return t.Object((t.Field(_KEY, output),))


def _unwrapped(text: str) -> str:
    try:
        found = parse_json(text)
    except NotJson:
        return text
    return write_json(found[_KEY]) if isinstance(found, dict) and _KEY in found else text


def _wrong_fields(mismatches: Sequence[Mismatch], output: t.Type) -> tuple[str, ...]:
    """The keys of an object whose values do not fit; empty if something else is wrong."""
    if not isinstance(output, t.Object) or not all(one.path for one in mismatches):
        return ()
    keys = dict.fromkeys(str(one.path[0]) for one in mismatches)
    return tuple(keys) if all(key in {field.key for field in output.fields} for key in keys) else ()


def _merged(text: str, again: str) -> str:
    """The answer with the values that were asked for again, in the order of its keys."""
    try:
        old, new = parse_json(text), parse_json(again)
    except NotJson:
        return text
    return write_json({**old, **new}) if isinstance(old, dict) and isinstance(new, dict) else text
