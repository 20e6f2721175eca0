"""Makes programs of requests: the messages become turns, the schema or the tools become the type of the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from pastalang.failures import PastaError
from pastalang.interop import from_schema
from pastalang.limits import MAX_FILE_BYTES
from pastalang.plan.branches import Text
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.verify import verify
from pastalang.program import types as t
from pastalang.program.pieces import Hole, InputValue
from pastalang.program.program import (
    Body,
    History,
    Input,
    InputKind,
    JsonBody,
    Message,
    Program,
    Role,
    Template,
    TextBody,
)
from pastalang.runtime.encoder import Encoder
from pastalang.serve.errors import bad_request
from pastalang.serve.wire import Ask, Tool, ToolUse
from pastalang.serve.wire import Message as Turn
from pastalang.source import Source, Span
from pastalang.values.conversion import NotExpressible
from pastalang.values.lengths import count_values
from pastalang.values.schema.importer import type_of_schema

DEFAULT_TOKENS: Final = 512  # of a plain text that names no limit
COMPLETION_TOKENS: Final = 16  # of a completion that names no limit, as on the wire
_NOWHERE: Final = Span(0, 0)
_NEVER: Final = "\0"  # the end of a text that ends with the model's turn: no text holds it


class AnswerKind(Enum):
    TEXT = "text"
    JSON = "json"
    CALL = "call"  # of a tool, or null for none
    COMPLETION = "completion"  # of a text, with no chat around it


@dataclass(frozen=True, slots=True)
class Task:
    """A program and its inputs. `otherwise` is what answers if the model decides to call no tool. `limit` is the most
    tokens of the answer, if its program does not know them: see `token_limit`."""

    kind: AnswerKind
    program: Program | Plan
    inputs: Mapping[str, Any]
    otherwise: Task | None = None
    limit: int | None = None


def task_of(ask: Ask) -> Task:
    """Raises `RequestError` for a schema that cannot be enforced; its message names the keyword."""
    limit = ask.max_tokens or DEFAULT_TOKENS
    if ask.schema is not None:
        program = _of_schema(ask.schema.text, ask.schema.param, _has_system(ask))
        return Task(AnswerKind.JSON, program, _inputs(ask), limit=ask.max_tokens)
    text = Task(AnswerKind.TEXT, _of_text(ask.stop, _has_system(ask), limit), _inputs(ask))
    if ask.tools is None:
        return text
    told = replace(ask, messages=_with_tools(ask, ask.tools))
    program = _of_schema(_schema_of(ask.tools), "tools", True)
    return Task(AnswerKind.CALL, program, _inputs(told), None if ask.tools.is_required else text)


def completion_tasks(ask: Ask, encoder: Encoder) -> list[Task]:
    """One for each prompt."""
    plan = _of_completion(ask.stop, ask.max_tokens or COMPLETION_TOKENS, _begins(encoder.tokenizer))
    return [Task(AnswerKind.COMPLETION, plan, {"prompt": prompt}) for prompt in ask.prompts]


def _begins(tokenizer: Any) -> str:
    """The token that begins every text, if this tokenizer has one."""
    begin = tokenizer.bos_token
    return begin if begin and tokenizer.bos_token_id in tokenizer("")["input_ids"] else ""


def _has_system(ask: Ask) -> bool:
    return ask.messages[0].role is Role.SYSTEM


def _inputs(ask: Ask) -> dict[str, Any]:
    turns = [{"role": one.role.value, "content": one.text} for one in ask.messages if one.role is not Role.SYSTEM]
    return {"history": turns, **({"system": ask.messages[0].text} if _has_system(ask) else {})}


# Programs are kept, so that equal requests share their plans and guides.


@lru_cache(maxsize=256)
def _of_schema(schema: str, param: str, has_system: bool) -> Program:
    if len(schema.encode()) > MAX_FILE_BYTES:
        raise bad_request(f"`{param}` has more than {MAX_FILE_BYTES:,} bytes", param)
    try:
        converted = type_of_schema(schema, name="answer")
        if count_values(converted.type) == 1:  # nothing is decoded, as in the call of a tool without parameters
            return _program(JsonBody(converted.type, t.Sampling()), has_system, converted.types)
        found = from_schema(schema, name="answer")  # with every check of the compiler
    except NotExpressible as problem:
        listed = "; ".join(map(str, problem.problems[:5]))
        raise bad_request(f"`{param}` cannot be enforced: {listed}", param, "unsupported_schema") from problem
    except (PastaError, ValueError, RecursionError) as problem:
        raise bad_request(f"`{param}` is no JSON Schema: {problem}", param, "invalid_schema") from problem
    return _program(found.only_template.messages[-1].body, has_system, found.types)


@lru_cache(maxsize=64)
def _of_text(stop: tuple[str, ...], has_system: bool, limit: int) -> Program:
    type = t.String(max_tokens=limit, stop=stop or (_NEVER,), may_be_empty=True)
    return _program(TextBody((Hole("answer", type, t.Sampling(), _NOWHERE),)), has_system, {})


@lru_cache(maxsize=64)
def _of_completion(stop: tuple[str, ...], limit: int, begins: str) -> Plan:
    """A text that goes on where the prompt ends: the plan of an answer whose turn begins there."""
    type = t.String(max_tokens=limit, stop=stop or (_NEVER,))
    pieces = (InputValue(("prompt",), _NOWHERE), Hole("answer", type, t.Sampling(), _NOWHERE))
    message = Message(Role.ASSISTANT, TextBody(pieces), _NOWHERE)
    prompt = Input("prompt", InputKind.TEXT, None, False, _NOWHERE)
    template = Template("completion", (prompt,), (message,), t.Sampling(), None, _NOWHERE)
    plan = build_plan(template, Program(Source("<request>", ""), {}, {"completion": template}, {}))
    [branch] = plan.branches
    turn, *known, hole = branch.segments
    start = (Text(begins, shown=False),) if begins else ()
    segments = (*start, *known, turn, hole)
    found = replace(plan, branches=(replace(branch, segments=segments),))
    verify(found)
    return found


def _program(body: Body, has_system: bool, types: Mapping[str, t.Type]) -> Program:
    """A chat: the system's text if there is one, the history, the answer."""
    system = Message(Role.SYSTEM, TextBody((InputValue(("system",), _NOWHERE),)), _NOWHERE)
    answer = Message(Role.ASSISTANT, body, _NOWHERE)
    inputs = [Input("history", InputKind.MESSAGES, None, False, _NOWHERE)]
    if has_system:
        inputs.insert(0, Input("system", InputKind.TEXT, None, False, _NOWHERE))
    template = Template(
        "chat", tuple(inputs), (*([system] if has_system else []), answer), t.Sampling(), None, _NOWHERE,
        History("history", int(has_system)),
    )  # fmt: skip
    return Program(Source("<request>", ""), dict(types), {"chat": template}, {})


# ── tools ────────────────────────────────────────────────────────────────────────────────────────────────


def _with_tools(ask: Ask, use: ToolUse) -> tuple[Turn, ...]:
    """The messages, with the tools described in the system message."""
    told = "\n".join(_described(tool) for tool in use.tools)
    rule = "Call one of them." if use.is_required else "Call one of them, or write null to answer without a call."
    text = f"You can call these functions:\n{told}\n{rule}"
    if _has_system(ask):
        first, *rest = ask.messages
        return (Turn(Role.SYSTEM, f"{first.text}\n\n{text}"), *rest)
    return (Turn(Role.SYSTEM, text), *ask.messages)


def _described(tool: Tool) -> str:
    shown = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps(shown, ensure_ascii=False)


def _schema_of(use: ToolUse) -> str:
    """The call of one tool, or null: `{"name": …, "arguments": …}`."""
    arms: list[Any] = [
        {
            "type": "object",
            "properties": {
                "name": {"const": tool.name},
                "arguments": moved(tool.parameters, f"#/anyOf/{at}/properties/arguments"),
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for at, tool in enumerate(use.tools)
    ]
    return json.dumps({"anyOf": arms if use.is_required else [*arms, {"type": "null"}]}, ensure_ascii=False)


def moved(schema: Any, place: str) -> Any:
    """The schema inside a larger one: its references to itself lead to the new place."""
    match schema:
        case {"$ref": str() as reference} if reference.startswith("#"):
            rest = {key: moved(part, place) for key, part in schema.items() if key != "$ref"}
            return {"$ref": place + reference[1:], **rest}
        case dict():
            return {key: moved(part, place) for key, part in schema.items()}
        case list():
            return [moved(part, place) for part in schema]
        case _:
            return schema
