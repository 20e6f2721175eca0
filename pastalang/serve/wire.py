"""Reads the bodies of requests: chat completions and responses, as OpenAI's clients write them.

A body is bounded in size, in nesting and in time, and all of it is Unicode. Nothing is dropped in silence. A parameter
that changes the answer is honoured or rejected with an error that names it; parameters that cannot change it (`user`,
`store`, `metadata`) are accepted and ignored.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fastapi import Request

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.plan.branches import Mode
from pastalang.program.program import Role
from pastalang.serve.errors import RequestError, bad_request

MAX_CHOICES: Final = 16
MAX_MESSAGES: Final = 1_000
MAX_STOPS: Final = 4
MAX_STOP: Final = 200  # characters
_IGNORED: Final = frozenset(
    (
        "metadata", "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_retention",
        "safety_identifier", "service_tier", "store", "user", "verbosity",
    )
)  # fmt: skip
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {  # accepted with these values only, since nothing else is carried out
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logit_bias": (None, {}),
    "top_logprobs": (None, 0),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "functions": (None, []),
    "function_call": (None,),
    "reasoning_effort": (None, "none"),
    "web_search_options": (None,),
    "suffix": (None, ""),
    "truncation": (None, "disabled"),
}


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON Schema that the answer has to fit, as text, and the parameter that gave it."""

    text: str
    param: str
    name: str = "answer"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools, and whether one has to be called."""

    tools: tuple[Tool, ...]
    is_required: bool


@dataclass(frozen=True, slots=True)
class PastaOptions:
    """The options of our own, under `pasta`."""

    mode: Mode | None = None
    drafts: str | int | None = None
    repair: int | None = None
    events: bool = False  # a streamed answer reports fields as they grow, next to the text
    priority: int = 0  # a lower one goes first
    deadline: float | None = None  # seconds


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for, checked."""

    model: str
    messages: tuple[Message, ...] = ()
    prompts: tuple[str, ...] = ()  # of a completion, which has no messages
    echo: bool = False  # a completion begins with its prompt
    schema: Schema | None = None
    tools: ToolUse | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    choices: int = 1
    logprobs: bool = False
    stream: bool = False
    include_usage: bool = False
    pasta: PastaOptions = field(default_factory=PastaOptions)


def read_chat(body: Any) -> Ask:
    """The body of `POST /v1/chat/completions`. Raises `RequestError`."""
    reader = _Reader(body)
    reader.refuse_unknown(_CHAT)
    messages = read_messages(reader.required("messages", list, "a list of messages"), "messages")
    schema = _format(reader.optional("response_format", dict, "an object"), "response_format", inside="json_schema")
    tools = _tools(reader.optional("tools", list, "a list"), body.get("tool_choice"), nested=True)
    return _with_sampling(
        reader, messages, schema, tools, limits=("max_completion_tokens", "max_tokens"),
        include_usage=_includes_usage(reader),
    )  # fmt: skip


def read_completion(body: Any) -> Ask:
    """The body of `POST /v1/completions`. Raises `RequestError`."""
    reader = _Reader(body)
    reader.refuse_unknown(_COMPLETION)
    given = body.get("prompt")
    prompts = [given] if isinstance(given, str) else given
    if not isinstance(prompts, list) or not prompts or not all(isinstance(one, str) and one for one in prompts):
        raise bad_request("`prompt` must be a text or a list of texts, none of them empty", "prompt")
    choices = reader.whole("n", 1, MAX_CHOICES) or 1
    if len(prompts) * choices > MAX_CHOICES:
        raise bad_request(f"a request may ask for at most {MAX_CHOICES} completions", "prompt")
    if reader.whole("best_of", 1, MAX_CHOICES) not in (None, choices):
        raise bad_request("`best_of` is not supported: leave it out", "best_of", "unsupported_parameter")
    logprobs = reader.whole("logprobs", 0, 0)
    return replace(
        _with_sampling(reader, (), None, None, limits=("max_tokens",), include_usage=_includes_usage(reader)),
        prompts=tuple(prompts), echo=reader.flag("echo"), logprobs=logprobs is not None,
    )  # fmt: skip


def read_responses(body: Any) -> Ask:
    """The body of `POST /v1/responses`. Raises `RequestError`."""
    reader = _Reader(body)
    reader.refuse_unknown(_RESPONSES)
    for name in ("previous_response_id", "conversation", "prompt", "include", "background"):
        if body.get(name):
            raise bad_request(f"`{name}` is not supported: this server keeps no state", name)
    given = body.get("input")
    if isinstance(given, str):
        messages: tuple[Message, ...] = (Message(Role.USER, given),)
    elif isinstance(given, list):
        messages = read_messages(given, "input")
    else:
        raise bad_request("`input` must be a text or a list of messages", "input")
    instructions = reader.optional("instructions", str, "a text")
    if instructions:
        messages = (Message(Role.SYSTEM, instructions), *messages)
    _includes_usage(reader)
    for name, value in reader.part("reasoning", ("effort", "summary", "generate_summary")).body.items():
        if value not in (None, "none"):
            raise _unsupported(f"reasoning.{name}")
    reader.whole("max_tool_calls", 1, 1_000_000)  # there is one at most
    text = reader.part("text", ("format", "verbosity"))
    schema = _format(text.body.get("format"), "text.format")
    tools = _tools(reader.optional("tools", list, "a list"), body.get("tool_choice"), nested=False)
    return _with_sampling(reader, messages, schema, tools, limits=("max_output_tokens",), include_usage=True)


def _with_sampling(
    reader: _Reader,
    messages: tuple[Message, ...],
    schema: Schema | None,
    tools: ToolUse | None,
    *,
    limits: Sequence[str],
    include_usage: bool,
) -> Ask:
    if schema is not None and tools is not None:
        raise bad_request("`tools` and a JSON schema for the answer cannot be combined", "tools")
    stop = _stops(reader.body.get("stop"))
    if stop and (schema is not None or tools is not None):
        raise bad_request("`stop` is for plain text; a structured answer ends where its schema says", "stop")
    return Ask(
        model=reader.required("model", str, "the name of a model"),
        messages=messages,
        schema=schema,
        tools=tools,
        max_tokens=next((found for name in limits if (found := reader.whole(name, 1, 1_000_000)) is not None), None),
        stop=stop,
        temperature=reader.number("temperature", 0, 2),
        top_p=reader.number("top_p", 0, 1),
        seed=reader.whole("seed", -(2**63), 2**63),
        choices=reader.whole("n", 1, MAX_CHOICES) or 1,
        logprobs=bool(messages) and reader.flag("logprobs"),
        stream=reader.flag("stream"),
        include_usage=include_usage,
        pasta=_pasta(reader.part("pasta", ("mode", "drafts", "repair", "events", "priority", "deadline"))),
    )


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────


def read_messages(given: Sequence[Any], param: str) -> tuple[Message, ...]:
    """The messages as turns of system, user and assistant. Raises `RequestError`.

    All system and developer messages come first, joined, since that is where chat templates put them. A call of a
    tool and its result become text: the model sees the call as JSON, and the result as a message of the user.
    """
    if len(given) > MAX_MESSAGES:
        raise bad_request(f"`{param}` may have at most {MAX_MESSAGES:,} messages", param)
    turns: list[Message] = []
    system: list[str] = []
    for at, one in enumerate(given):
        place = f"{param}[{at}]"
        if not isinstance(one, Mapping):
            raise bad_request(f"`{place}` must be an object with `role` and `content`", place)
        message = _message(one, place)
        if message.role is Role.SYSTEM:
            system.append(message.text)
        else:
            turns.append(message)
    if not turns:
        raise bad_request(f"`{param}` needs at least one message that is not a system message", param)
    if turns[-1].role is Role.ASSISTANT:
        raise bad_request("the last message must not be the assistant's: continuing an answer is not supported", param)
    return (*([Message(Role.SYSTEM, "\n\n".join(system))] if system else []), *turns)


def _message(one: Mapping[str, Any], place: str) -> Message:
    match one.get("role"), one.get("type"):
        case (("system" | "developer"), _):
            return Message(Role.SYSTEM, _content(one, place))
        case "user", _:
            return Message(Role.USER, _content(one, place))
        case "assistant", _:
            return Message(Role.ASSISTANT, _assistant_text(one, place))
        case "tool", _:
            return Message(Role.USER, f"Result of the call {one.get('tool_call_id', '')}:\n{_content(one, place)}")
        case None, "function_call":
            return Message(Role.ASSISTANT, _call_text(one, place))
        case None, "function_call_output":
            return Message(Role.USER, f"Result of the call {one.get('call_id', '')}:\n{_content(one, place, 'output')}")
        case role, _:
            raise bad_request(f"`{place}.role` must be system, developer, user, assistant or tool, not {role!r}", place)


def _assistant_text(one: Mapping[str, Any], place: str) -> str:
    calls = one.get("tool_calls") or []
    parts = [_content(one, place)] if one.get("content") else []
    if not isinstance(calls, list):
        raise bad_request(f"`{place}.tool_calls` must be a list", place)
    for at, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        parts.append(_call_text(function, f"{place}.tool_calls[{at}]"))
    return "\n".join(parts)


def _call_text(call: Any, place: str) -> str:
    """A call as the model writes it, so that it reads in the history what it would have written."""
    if not isinstance(call, Mapping) or not isinstance(name := call.get("name"), str):
        raise bad_request(f"`{place}` must be the call of a function with its `name`", place)
    arguments = call.get("arguments")
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        parsed = arguments
    return json.dumps({"name": name, "arguments": parsed}, ensure_ascii=False)


def _content(one: Mapping[str, Any], place: str, name: str = "content") -> str:
    content = one.get(name)
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part, f"{place}.{name}[{at}]") for at, part in enumerate(content))
    raise bad_request(f"`{place}.{name}` must be a text or a list of parts", f"{place}.{name}")


def _part(part: Any, place: str) -> str:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str() as text}:
            return text
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise bad_request(f"`{place}` must be a part of type text: {kind} is not supported", place)


# ── what the answer is ───────────────────────────────────────────────────────────────────────────────────


def _format(given: Any, param: str, *, inside: str = "") -> Schema | None:
    """`inside`: the key of the object that holds the schema and its name, if they do not stand beside the type."""
    if given is None:
        return None
    match _mapping(given, param).get("type"):
        case "text":
            return None
        case "json_object":
            return Schema('{"type": "object"}', param)
        case "json_schema" if inside:
            return _schema(_mapping(given.get(inside), f"{param}.{inside}"), f"{param}.{inside}")
        case "json_schema":
            return _schema(given, param)
        case kind:
            wrong = f"`{param}.type` must be text, json_object or json_schema, not {kind!r}"
            raise bad_request(wrong, f"{param}.type")


def _mapping(given: Any, param: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise bad_request(f"`{param}` must be an object", param)
    return given


def _schema(given: Mapping[str, Any], param: str) -> Schema:
    schema = given.get("schema")
    if not isinstance(schema, Mapping):
        raise bad_request(f"`{param}.schema` must be a JSON Schema", f"{param}.schema")
    name = given.get("name", "answer")
    text = json.dumps(schema, ensure_ascii=False)
    return Schema(text, f"{param}.schema", name if isinstance(name, str) else "answer")


def _tools(given: Sequence[Any] | None, choice: Any, *, nested: bool) -> ToolUse | None:
    """`nested`: a tool of a chat holds its function in an object of its own, one of a response does not."""
    tools = tuple(_tool(one, f"tools[{at}]", nested) for at, one in enumerate(given or ()))
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise bad_request("two tools have the same name", "tools")
    match choice:
        case None | "auto" | "none" if not tools or choice == "none":
            return None
        case None | "auto":
            return ToolUse(tools, is_required=False)
        case "required" if tools:
            return ToolUse(tools, is_required=True)
        case {"type": "function"}:
            named = choice.get("function") if nested else choice
            name = named.get("name") if isinstance(named, Mapping) else None
            chosen = tuple(tool for tool in tools if tool.name == name)
            if not chosen:
                raise bad_request(f"`tool_choice` names {name!r}, which is not one of the tools", "tool_choice")
            return ToolUse(chosen, is_required=True)
        case _:
            raise bad_request(
                "`tool_choice` must be none, auto, required (with tools) or the name of a function", "tool_choice"
            )


def _tool(one: Any, place: str, nested: bool) -> Tool:
    if not isinstance(one, Mapping) or one.get("type") != "function":
        raise bad_request(f"`{place}.type` must be function", place)
    function = one.get("function") if nested else one
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise bad_request(f"`{place}` must have a name", place)
    parameters = function.get("parameters") or {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(parameters, Mapping):
        raise bad_request(f"`{place}.parameters` must be a JSON Schema", place)
    return Tool(function["name"], str(function.get("description") or ""), parameters)


def _includes_usage(reader: _Reader) -> bool:
    return reader.part("stream_options", _STREAM).flag("include_usage")


def _stops(given: Any) -> tuple[str, ...]:
    stops = [given] if isinstance(given, str) else given
    if stops is None:
        return ()
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops):
        raise bad_request("`stop` must be a text or a list of texts, none of them empty", "stop")
    if len(stops) > MAX_STOPS or any(len(one) > MAX_STOP for one in stops):
        raise bad_request(f"`stop` may have at most {MAX_STOPS} texts of at most {MAX_STOP} characters", "stop")
    return tuple(stops)


def _pasta(reader: _Reader) -> PastaOptions:
    mode = reader.body.get("mode")
    if mode is not None and mode not in [one.value for one in Mode]:
        raise bad_request("`pasta.mode` must be strict, lockstep or sequential", "pasta.mode")
    drafts = reader.body.get("drafts")
    if drafts not in (None, "auto", "off") and (isinstance(drafts, bool) or not isinstance(drafts, int) or drafts < 1):
        raise bad_request('`pasta.drafts` must be "auto", "off" or a whole number of at least 1', "pasta.drafts")
    return PastaOptions(
        mode=None if mode is None else Mode(mode),
        drafts=drafts,
        repair=reader.whole("repair", 0, 10),
        events=reader.flag("events"),
        priority=reader.whole("priority", -100, 100) or 0,
        deadline=reader.number("deadline", 0.001, 86_400),
    )


# ── single parameters ────────────────────────────────────────────────────────────────────────────────────

_SHARED: Final = ("model", "tools", "tool_choice", "temperature", "top_p", "stream", "pasta")
_CHAT: Final = (
    *_SHARED, "messages", "response_format", "max_tokens", "max_completion_tokens", "stop", "seed", "n", "logprobs",
    "stream_options",
)  # fmt: skip
_COMPLETION: Final = (
    "model", "prompt", "max_tokens", "temperature", "top_p", "n", "best_of", "stream", "stream_options", "logprobs",
    "echo", "stop", "seed", "pasta",
)  # fmt: skip
_RESPONSES: Final = (
    *_SHARED, "input", "instructions", "text", "max_output_tokens", "previous_response_id", "conversation", "prompt",
    "include", "background", "reasoning", "max_tool_calls", "stream_options",
)  # fmt: skip


_STREAM: Final = ("include_usage", "include_obfuscation")  # the second pads streams, and changes no answer


def _unknown(name: str, known: Sequence[str]) -> Exception:
    hint = did_you_mean(name, known)
    return bad_request(f"unknown parameter `{name}`" + (f"; did you mean `{hint}`?" if hint else ""), name)


def _unsupported(name: str) -> Exception:
    return bad_request(f"`{name}` is not supported: leave it out", name, "unsupported_parameter")


class _Reader:
    """Reads the parameters of an object, each with an error that names it."""

    def __init__(self, body: Any, prefix: str = "") -> None:
        if not isinstance(body, Mapping):
            raise bad_request("the body of the request must be a JSON object")
        self.body = body
        self._prefix = prefix

    def refuse_unknown(self, known: Sequence[str]) -> None:
        for name, value in self.body.items():
            if name in _NEUTRAL:
                if value not in _NEUTRAL[name]:
                    raise _unsupported(name)
            elif name not in known and name not in _IGNORED:
                raise _unknown(name, known)

    def required(self, name: str, kind: type, expected: str) -> Any:
        if self.body.get(name) is None:
            raise bad_request(f"`{self._prefix}{name}` is missing: it is {expected}", self._prefix + name)
        return self.optional(name, kind, expected)

    def optional(self, name: str, kind: type, expected: str) -> Any:
        value = self.body.get(name)
        if value is not None and not isinstance(value, kind):
            raise self._wrong(name, expected)
        return value

    def part(self, name: str, known: Sequence[str]) -> _Reader:
        """Of a parameter that is an object, with these parameters of its own."""
        found = _Reader(self.optional(name, dict, "an object") or {}, f"{self._prefix}{name}.")
        for inner in found.body:
            if inner not in known:
                raise _unknown(found._prefix + inner, [found._prefix + one for one in known])
        return found

    def flag(self, name: str) -> bool:
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return bool(value)

    def whole(self, name: str, least: int, most: int) -> int | None:
        found: int | None = self._bounded(name, lambda value: isinstance(value, int), "a whole number", least, most)
        return found

    def number(self, name: str, least: float, most: float) -> float | None:
        found: float | None = self._bounded(name, lambda value: isinstance(value, int | float), "a number", least, most)
        return found

    def _bounded(self, name: str, fits: Callable[[Any], bool], kind: str, least: float, most: float) -> Any:
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not fits(value) or not least <= value <= most:
            raise self._wrong(name, f"{kind} from {least:,} to {most:,}")
        return value

    def _wrong(self, name: str, expected: str) -> Exception:
        return bad_request(f"`{self._prefix}{name}` must be {expected}", self._prefix + name)


_MAX_DEPTH: Final = 64
_NESTING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)  # strings, and brackets outside
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


async def bytes_of(request: Request, *, most: int, seconds: float) -> bytes:
    """Raises `RequestError` for a body that is too large or takes too long to arrive."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    parts = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                parts += part
                if len(parts) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {seconds:g} seconds") from None
    return bytes(parts)


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"the body of a request may have at most {most:,} bytes")


def parsed(body: bytes) -> Any:
    """Raises `RequestError` for what is no JSON, too deep, or holds half a character."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise bad_request(f"the body is not UTF-8: byte {problem.start} is wrong") from None
    _check_depth(text)
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise bad_request(f"the body is not JSON: {problem}") from None
    if "\\u" in text:
        _check_characters(found)
    return found


def _check_depth(text: str) -> None:
    """Counted before parsing, so that a body of brackets alone costs nothing."""
    depth = 0
    for match in _NESTING.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise bad_request(f"the body is nested more than {_MAX_DEPTH} deep")
        elif match[0] in "]}":
            depth -= 1


def _check_characters(value: Any) -> None:
    for place, text in _texts(value, ""):
        if (broken := _SURROGATE.search(text)) is not None:
            param = place or None
            raise bad_request(f"`{place}` has half a character (a lone surrogate) at {broken.start()}", param)


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text of a JSON value, keys included, and where it stands."""
    match value:
        case str():
            yield place, value
        case dict():
            for key, part in value.items():
                yield place, key
                yield from _texts(part, f"{place}.{key}" if place else key)
        case list():
            for at, part in enumerate(value):
                yield from _texts(part, f"{place}[{at}]")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")
