"""Asks for a whole answer in one chat, where a server takes nothing else. What does not fit is asked for again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pastalang.hosts.errors import HostError
from pastalang.hosts.transport import Transport, text_in, understood
from pastalang.plan.branches import InputText, Text, TurnEnd, TurnStart
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.program.types import Sampling
from pastalang.runtime.binding.shown_keys import with_keys_in_words
from pastalang.runtime.repair.validation import CheckedValue, Objection, Policy, judge
from pastalang.runtime.result import Answer
from pastalang.values.absent import absent_in, without_cuts
from pastalang.values.fit import read, to_python, without_absent
from pastalang.values.json import JsonValue, NotJson, parse_json, write_json
from pastalang.values.paths import path_text
from pastalang.values.quotes import no_texts, quotable_texts
from pastalang.values.text import message_texts
from pastalang.values.to_schema import schema_of

ATTEMPTS: Final = 3
_CUT: Final = {
    "length": "its limit of tokens ended the last one (finish_reason length)",
    "content_filter": "its filter ended the last one (finish_reason content_filter)",
}


@dataclass(slots=True)
class WholeAnswer:
    """An answer that fits its type, and what it took. `model` is the validated value, or `objections` says why not.

    `prompt` are the messages: which words the server writes around them is not known.
    """

    answer: Answer
    model: Any
    objections: tuple[Objection, ...]
    requests: int
    prompt_tokens: int
    written_tokens: int
    cached_tokens: int
    prompt: str


def messages_of(plan: Plan, values: Mapping[str, Any]) -> list[dict[str, str]]:
    """The turns before the answer, as messages of a chat."""
    messages: list[dict[str, str]] = []
    for segment in plan.branches[0].segments:
        match segment:
            case TurnStart(role=role):
                messages.append({"role": role.value, "content": ""})
            case Text(shown=True) if messages:
                messages[-1]["content"] += segment.fed_text
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

    def __init__(self, transport: Transport, model: str, *, keys_in_words: bool = False) -> None:
        self.transport = transport
        self.model = model
        self.keys_in_words = keys_in_words

    async def answer(
        self, plan: Plan, values: Mapping[str, Any], *, sampling: Sampling, seed: int, end: float | None,
        policy: Policy | None,
    ) -> WholeAnswer:  # fmt: skip
        """Ask once more for what does not fit its type, and for what a validator rejects as often as `policy` says.

        Raises `HostError`.
        """
        assert plan.output is not None
        output, types = plan.output, dict(plan.types)
        sources = no_texts(plan.inputs) | quotable_texts(values)
        messages = messages_of(with_keys_in_words(plan) if self.keys_in_words else plan, values)
        chat = _Chat(self, messages, output, types, sampling, seed, end)
        text = await chat.ask(output)
        misfits = rejected = 0
        while True:
            reading = read(text, output, types, sources=sources)
            written = without_absent(output, parse_json(text), types) if reading.fits else None
            checked = CheckedValue(written, reading.mismatches)
            model, objections = judge(checked, None if policy is None else policy.model)
            if reading.mismatches:
                misfits += 1
                if misfits == ATTEMPTS:
                    reason = f"the server's {ATTEMPTS} answers do not fit their type: {reading.mismatches[0]}"
                    raise HostError(reason + chat.cut_by, plan=plan)
            elif not objections or policy is None or rejected == policy.repair:
                break
            else:
                rejected += 1
            text = await chat.again(text, objections)
        text = without_cuts(text, absent_in(text, output, types))
        exact = without_absent(output, reading.value, types)
        answer = Answer(to_python(output, reading.value, types), text, (), exact=exact)
        asked = "\n\n".join(one["content"] for one in chat.messages)
        return WholeAnswer(answer, model, objections, chat.requests, chat.prompt, chat.written, chat.cached, asked)


@dataclass(slots=True)
class _Chat:
    """The requests for one answer."""

    chats: Chats
    messages: Sequence[Mapping[str, str]]
    output: t.Type
    types: Mapping[str, t.Type]
    sampling: Sampling
    seed: int
    end: float | None
    requests: int = 0
    prompt: int = 0
    written: int = 0
    cached: int = 0
    cut_by: str = ""  # what has ended the last answer before the model did

    async def again(self, text: str, objections: Sequence[Objection]) -> str:
        """The answer with other values in place of those that are rejected; all of it anew if they have no keys."""
        text = text.encode(errors="replace").decode()  # of half a character, which cannot be sent
        reasons = "\n".join(f"- {path_text(one.path) or 'all of it'}: {one.reason}" for one in objections[:10])
        keys = _rejected_keys(objections, self.output, text)
        reply = {"role": "assistant", "content": text}
        if not keys or not isinstance(self.output, t.Object):
            request = f"This answer is not accepted:\n{reasons}\nWrite it again, corrected."
            return await self.ask(self.output, reply, {"role": "user", "content": request})
        part = t.Object(tuple(one for one in self.output.fields if one.key in keys))
        names = ", ".join(f'"{key}"' for key in keys)
        request = f"These values are not accepted:\n{reasons}\nWrite {names} again, corrected."
        more = await self.ask(part, reply, {"role": "user", "content": request})
        return _merged(text, more, self.output)

    async def ask(self, output: t.Type, *more: Mapping[str, str]) -> str:
        asked = output if isinstance(output, t.Object) else _wrapped(output)
        schema = json.loads(write_json(schema_of(asked, self.types)))
        body: dict[str, Any] = {
            "model": self.chats.model,
            "messages": [*self.messages, *more],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": _may_be_strict(schema), "schema": schema},
            },
            "seed": self.seed + self.requests,
            **({} if self.sampling.temperature is None else {"temperature": self.sampling.temperature}),
            **({} if self.sampling.top_p is None else {"top_p": self.sampling.top_p}),
        }
        answer = await self.chats.transport.post("/v1/chat/completions", body, end=self.end)
        text = understood(self.chats.transport.url, answer, self._read)
        return _without_others(text, asked) if asked is output else _unwrapped(text)

    def _read(self, answer: Any) -> str:
        """The text of an answer, whose tokens are counted."""
        choice, usage = answer["choices"][0], answer.get("usage") or {}
        message, ended = choice["message"], choice.get("finish_reason")
        self.cut_by = f"; {_CUT[ended]}" if isinstance(ended, str) and ended in _CUT else ""
        content = message["content"]
        if content is None:
            refusal = message.get("refusal") or f"it gives no reason{self.cut_by}"
            raise HostError(f"the server refuses: {refusal}")
        text = "".join(text_in(part["text"]) for part in content) if isinstance(content, list) else text_in(content)
        self.requests += 1
        self.prompt += int(usage.get("prompt_tokens") or 0)
        self.written += int(usage.get("completion_tokens") or 0)
        self.cached += int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        return text


_STRICT: Final = frozenset({
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum",
    "multipleOf", "pattern", "properties", "required", "title", "type",
})  # fmt: skip
_SAYS_WHAT: Final = frozenset({"$ref", "anyOf", "const", "enum", "type"})  # one of them says what a value is
_STRICT_FORMATS: Final = frozenset({
    "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid",
})  # fmt: skip


def _may_be_strict(schema: Any) -> bool:
    """Whether OpenAI keeps an answer to the schema. It refuses a strict one with other keywords, with keys that may be
    left out, with maps, or with any value; one that is not strict is a hint to its model, and the answer is checked
    here."""
    if not isinstance(schema, dict) or not schema.keys() & _SAYS_WHAT:
        return False
    properties = schema.get("properties", {})
    is_closed = schema.get("additionalProperties") is False and properties.keys() == {*schema.get("required", ())}
    if not schema.keys() <= _STRICT or (schema.get("type") == "object" and not is_closed):
        return False
    parts = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    parts += [schema["items"]] if "items" in schema else []
    return schema.get("format", "date") in _STRICT_FORMATS and all(map(_may_be_strict, parts))


_KEY: Final = "value"  # of the object around an answer that is none: servers take objects only


def _wrapped(output: t.Type) -> t.Object:
    return t.Object((t.Field(_KEY, output),))


def _unwrapped(text: str) -> str:
    try:
        found = parse_json(text)
    except NotJson:
        return text
    return write_json(found[_KEY]) if isinstance(found, dict) and _KEY in found else text


def _rejected_keys(objections: Sequence[Objection], output: t.Type, text: str) -> tuple[str, ...]:
    """The keys of an object that are rejected or missing, or that a validator which rejects all of it reads; empty if
    some objection is to something else."""
    fields, given = output.fields if isinstance(output, t.Object) else (), _object_in(text) or {}
    known = [field.key for field in fields]
    missing = {field.key for field in fields if field.default is None and field.key not in given}
    found: set[str] = set()
    for one in objections:
        keys = {str(one.path[0])} if one.path else {key for key in one.fields if key in known} or missing
        if not keys or not keys.issubset(known):
            return ()
        found |= keys
    return tuple(key for key in known if key in found)


def _without_others(text: str, output: t.Object) -> str:
    """An answer without keys that its type does not have."""
    found, known = _object_in(text) or {}, {field.key for field in output.fields}
    if found.keys() <= known:
        return text
    return write_json({key: value for key, value in found.items() if key in known})


def _merged(text: str, again: str, output: t.Object) -> str:
    """The answer with the values that were asked for again, in the order of its type."""
    old, new = _object_in(text), _object_in(again)
    if old is None or new is None:
        return text
    both = {**old, **new}
    return write_json({field.key: both[field.key] for field in output.fields if field.key in both})


def _object_in(text: str) -> dict[str, JsonValue] | None:
    try:
        found = parse_json(text)
    except NotJson:
        return None
    return found if isinstance(found, dict) else None


def spelled_at(value: Any, path: Sequence[str | int]) -> str:
    """The part of an answer at a place, as JSON; empty if there is none, as for a key that is missing."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return ""
    return write_json(value)
