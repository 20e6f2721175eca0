"""The bodies that answer requests: completions, their chunks, responses and their events."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from pastalang.runtime.answer_parts import FieldResult, Truncation
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.events import Event, FieldAgain, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.result import Result
from pastalang.serve.tasks import AnswerKind
from pastalang.serve.token_limit import within
from pastalang.serve.wire import Ask
from pastalang.values.json import spell_json
from pastalang.values.paths import is_inside

_PLAIN: Final = (AnswerKind.TEXT, AnswerKind.COMPLETION)
_TEXT: Final = "text_completion"
_HELD: Final = 64  # tokens at most of which each shares a character with the next


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer as the wire has it: its text, or the call of a tool."""

    result: Result
    kind: AnswerKind
    limit: int | None  # the most tokens of its text
    encoder: Encoder

    @property
    def call(self) -> Mapping[str, Any] | None:
        return self.result.exact if self.kind is AnswerKind.CALL and isinstance(self.result.exact, Mapping) else None

    @property
    def arguments(self) -> str:
        assert self.call is not None
        return spell_json(self.call["arguments"])

    @property
    def text(self) -> str:
        """The text of the answer, as far as its limit reaches."""
        return within(self.result.text, self.limit, self.encoder)

    @property
    def fields(self) -> list[FieldResult]:
        """Those that end in its text."""
        end = len(self.text)
        return [one for one in self.result.fields if one.span[1] <= end]

    @property
    def truncations(self) -> list[Truncation]:
        """Those of values that end in its text."""
        end = len(self.text)
        behind = [one.where for one in self.result.fields if one.span[1] > end]
        return [cut for cut in self.result.truncations if not any(is_inside(one, cut.where) for one in behind)]

    @property
    def finish_reason(self) -> str:
        """`length` if the text was cut. A value inside a whole answer that its own limit cut is named under `pasta`."""
        if self.call is not None:
            return "tool_calls"
        was_cut = self.kind in _PLAIN and self.result.truncated
        return "length" if was_cut or len(self.text) < len(self.result.text) else "stop"


@dataclass(frozen=True, slots=True)
class Head:
    """What all parts of one answer repeat."""

    model: str
    prefix: str = "chatcmpl"
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def name(self) -> str:
        return f"{self.prefix}-{self.id}"


# ── chat completions ─────────────────────────────────────────────────────────────────────────────────────


def completion(head: Head, choices: Sequence[Choice], encoder: Encoder, *, logprobs: bool) -> dict[str, Any]:
    parts = [_choice(index, one, encoder, logprobs) for index, one in enumerate(choices)]
    return _body(head, "chat.completion", parts, usage=usage_of(choices, encoder), pasta=pasta_of(choices))


def _body(head: Head, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    about = {"id": head.name, "object": kind, "created": head.created, "model": head.model}
    return {**about, "choices": choices, **more}


def _choice(index: int, choice: Choice, encoder: Encoder, logprobs: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
    if choice.call is not None:
        message |= {"content": None, "tool_calls": [_tool_call(choice)]}
    return {
        "index": index,
        "message": message,
        "finish_reason": choice.finish_reason,
        "logprobs": _logprobs(choice, encoder) if logprobs else None,
    }


def _tool_call(choice: Choice) -> dict[str, Any]:
    assert choice.call is not None
    function = {"name": choice.call["name"], "arguments": choice.arguments}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def _logprobs(choice: Choice, encoder: Encoder) -> dict[str, Any]:
    content = [
        {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
        for text, value in _tokens(choice, encoder)
    ]
    return {"content": content, "refusal": None}


def _tokens(choice: Choice, encoder: Encoder) -> Iterator[tuple[str, float]]:
    """What each token adds to the text of the answer, in reading order, and the logarithm of its probability."""
    left = len(choice.text)
    for text, value in _written(choice.result, encoder):
        if text and not left:
            break
        yield text[:left], value
        left -= len(text[:left])


def _written(result: Result, encoder: Encoder) -> Iterator[tuple[str, float]]:
    """The same of the whole text. What was known before the model wrote has the probability 1.

    The tokens of a field may begin with the white space before it, and go on where it has ended.
    """
    whole, end = result.text, 0
    for one in sorted(result.fields, key=lambda field: field.span):
        start, stop = one.span
        if stop <= end:
            continue  # a thread inside a text that was listed as a whole, or a key that is left out
        pieces = list(_pieces(one.tokens, encoder))
        spelt = "".join(pieces)
        space = spelt[: len(spelt) - len(spelt.lstrip())]
        at = start - len(space) if whole.endswith(space, 0, start) else start
        yield from _certain(whole[end:at], encoder)
        end = max(end, at)
        for piece, value in zip(pieces, one.log_probabilities, strict=True):
            if whole.startswith(piece, at):
                at += len(piece)
            elif at < stop:
                at = stop  # a stop text or a limit has ended the value inside this token
            else:
                break
            yield whole[end:at], value
            end = max(end, at)
        yield from _certain(whole[end:stop], encoder)
        end = max(end, stop)
    yield from _certain(whole[end:], encoder)


def _certain(text: str, encoder: Encoder) -> Iterator[tuple[str, float]]:
    at = 0
    for piece in _pieces(encoder.text(text), encoder):
        yield text[at : at + len(piece)], 0.0
        at += len(piece)
    if at < len(text):
        yield text[at:], 0.0


def _pieces(tokens: Sequence[int], encoder: Encoder) -> Iterator[str]:
    """What each token adds to a text. Of those that share a character, the last has it."""
    before = encoder.text(".")  # some tokenizers leave out the space that a text begins with
    begun = given = len(encoder.decode(before))
    held: list[int] = []
    for token in tokens:
        held.append(token)
        text = encoder.decode([*before, *held])
        whole = text.rstrip("\ufffd") if len(held) < _HELD else text
        yield whole[given:]
        given = len(whole)
        if whole == text:
            held, given = [], begun


def usage_of(choices: Sequence[Choice], encoder: Encoder) -> dict[str, Any]:
    """As the wire counts: each token of the answers, whether it was drawn or known before the model wrote, and each
    prompt once."""
    usages = [one.result.usage for one in choices]
    prompts = {one.result.prompt: one.result.usage for one in choices}
    prompt = sum(one.input_tokens for one in prompts.values())
    written = sum(
        one.result.usage.output_tokens if one.kind in _PLAIN else len(encoder.text(one.text)) for one in choices
    )
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": min(prompt, usages[0].reused_tokens)},
    }


def pasta_of(choices: Sequence[Choice], *, with_fields: bool = False) -> dict[str, Any]:
    """What parallel decoding did: of one answer its figures, of several a list of each.

    `with_fields`: where each value of the (only) answer stands in the text, in characters, and how sure it is.
    """
    first = choices[0].result.usage
    found: dict[str, Any] = {
        "forward_passes": [one.result.usage.forward_passes for one in choices],
        "drawn_tokens": [one.result.usage.output_tokens for one in choices],
        "speedup": round(first.theoretical_speedup, 2),
        "seconds": round(first.seconds, 4),
    }
    if len(choices) == 1:
        found = {key: value[0] if isinstance(value, list) else value for key, value in found.items()}
    truncated = [
        {"field": cut.where, "limit": cut.limit, "unit": cut.unit} for one in choices for cut in one.truncations
    ]
    if with_fields:
        found["fields"] = [
            {"field": one.where, "span": one.span, "confidence": round(one.confidence, 4)} for one in choices[0].fields
        ]
    return found | ({"truncated": truncated} if truncated else {})


# ── chunks of a streamed completion ──────────────────────────────────────────────────────────────────────


def chunk(head: Head, index: int, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return _body(head, "chat.completion.chunk", [choice])


def tool_chunks(head: Head, index: int, choice: Choice) -> Iterator[dict[str, Any]]:
    yield chunk(head, index, {"tool_calls": [{"index": 0, **_tool_call(choice)}]})


def usage_chunk(head: Head, choices: Sequence[Choice], encoder: Encoder, *, with_fields: bool) -> dict[str, Any]:
    pasta = pasta_of(choices, with_fields=with_fields)
    return _body(head, "chat.completion.chunk", [], usage=usage_of(choices, encoder), pasta=pasta)


def event_chunk(head: Head, index: int, events: Sequence[Event]) -> dict[str, Any]:
    """Events of fields, for clients that asked for them with `pasta.events`."""
    return {**chunk(head, index, {}), "pasta": {"events": [shown for one in events if (shown := event_of(one))]}}


def event_of(event: Event) -> dict[str, Any] | None:
    """An event of a field as JSON; None for those that are not about a field."""
    match event:
        case FieldStarted():
            return {"event": "started", "field": event.where}
        case TextDelta(text=text):
            return {"event": "text", "field": event.where, "text": text}
        case FieldDone(text=text, truncated=truncated):
            return {"event": "done", "field": event.where, "text": text, "truncated": truncated}
        case FieldAgain(reason=reason):
            return {"event": "again", "field": event.where, "reason": reason}
        case _:
            return None


# ── completions ──────────────────────────────────────────────────────────────────────────────────────────


def text_completion(head: Head, choices: Sequence[Choice], encoder: Encoder, ask: Ask) -> dict[str, Any]:
    parts = [
        {
            "index": index,
            "text": ask.prompts[index // ask.choices] + one.text if ask.echo else one.text,
            "finish_reason": one.finish_reason,
            "logprobs": _text_logprobs(one, encoder) if ask.logprobs else None,
        }
        for index, one in enumerate(choices)
    ]
    return _body(head, _TEXT, parts, usage=usage_of(choices, encoder), pasta=pasta_of(choices))


def text_chunk(head: Head, text: str, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": finish_reason, "logprobs": None}
    return _body(head, _TEXT, [choice])


def text_usage_chunk(head: Head, choice: Choice, encoder: Encoder) -> dict[str, Any]:
    return _body(head, _TEXT, [], usage=usage_of([choice], encoder), pasta=pasta_of([choice]))


def _text_logprobs(choice: Choice, encoder: Encoder) -> dict[str, Any]:
    found = list(_tokens(choice, encoder))
    tokens, values = [text for text, _ in found], [value for _, value in found]
    offsets = [0, *accumulate(map(len, tokens))][: len(tokens)]
    return {"tokens": tokens, "token_logprobs": values, "top_logprobs": None, "text_offset": offsets}


# ── responses ────────────────────────────────────────────────────────────────────────────────────────────


def response(head: Head, choice: Choice | None, encoder: Encoder, *, status: str) -> dict[str, Any]:
    """The object of `/v1/responses`; without a choice, as it is before anything is written."""
    usage = None if choice is None else usage_of([choice], encoder)
    body: dict[str, Any] = {
        "id": head.name,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "model": head.model,
        "output": [] if choice is None else [output_item(head, choice)],
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "temperature": None,
        "top_p": None,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }
    if choice is not None and usage is not None:
        body["usage"] = {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
            "total_tokens": usage["total_tokens"],
            "input_tokens_details": usage["prompt_tokens_details"],
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        body["pasta"] = pasta_of([choice])
    return body


def output_item(head: Head, choice: Choice) -> dict[str, Any]:
    if choice.call is not None:
        return {
            "type": "function_call",
            "id": f"fc_{head.id}",
            "call_id": f"call_{head.id[:24]}",
            "name": choice.call["name"],
            "arguments": choice.arguments,
            "status": "completed",
        }
    return {
        "type": "message",
        "id": f"msg_{head.id}",
        "role": "assistant",
        "status": "completed",
        "content": [text_part(choice.text)],
    }


def begun_message(head: Head) -> dict[str, Any]:
    """The message of a response before any of its text."""
    return {"type": "message", "id": f"msg_{head.id}", "role": "assistant", "content": [], "status": "in_progress"}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def status_of(choice: Choice) -> str:
    return "incomplete" if choice.finish_reason == "length" else "completed"
