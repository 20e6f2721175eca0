"""What servers cannot be asked, found before anything is sent. Each error says what can be done instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pastalang.hosts.errors import Unsupported
from pastalang.plan.branches import Form, Hole, Mode
from pastalang.plan.plan import Plan
from pastalang.plan.structure import fields_of
from pastalang.program.types import Sampling

_HERE: Final = "which needs the model in this process"
_RAW: Final = "a server that takes raw prompts (vLLM, SGLang, llama.cpp) or a model in this process"
_NOT_IN_CHATS: Final = ("top_k", "min_p", "repetition_penalty")


def check_plan(plan: Plan) -> None:
    """Raises `Unsupported` for what no server can be asked."""
    if plan.mode is Mode.LOCKSTEP:
        raise Unsupported("lock-step needs the model in this process: use strict or sequential with a server")
    for _, _, segment in fields_of(plan):
        if segment.sampling.drafts not in (None, "off"):
            raise Unsupported(f"`{segment.field}` is guessed ahead (`drafts`), {_HERE}")
        if isinstance(segment, Hole) and segment.auto is not None:
            raise Unsupported(f"`{segment.field}` lets the model open threads, {_HERE}")
        if isinstance(segment, Hole) and segment.form is Form.THOUGHT:
            raise Unsupported(f"the answer begins with a thought of at most {segment.max_tokens} tokens, {_HERE}")


def check_whole(plan: Plan) -> None:
    """Raises `Unsupported` for a program whose answer cannot be asked for as one JSON value."""
    check_plan(plan)
    if plan.output is None:
        raise Unsupported(f"this server takes chats only, and answers them as JSON: a text with holes needs {_RAW}")
    if any(input.each for input in plan.inputs):
        raise Unsupported("this server takes chats only: call `batch` or `map` in place of an `each` input")


def whole_sampling(plan: Plan, base: Sampling) -> Sampling:
    """How all of an answer is drawn. Raises `Unsupported` for values that are drawn each in its own way, and for what
    a chat cannot be asked."""
    drawn: dict[Sampling, str] = {}
    for _, _, segment in fields_of(plan):
        drawn.setdefault(replace(segment.sampling.over(base), on_truncated=None, drafts=None), segment.field)
    if len(drawn) > 1:
        one, other, *_ = drawn.values()
        raise Unsupported(
            f"this server takes chats only: `{one}` and `{other}` are drawn differently, which needs {_RAW}"
        )
    found = next(iter(drawn), base)
    for name in _NOT_IN_CHATS:
        if getattr(found, name) is not None:
            raise Unsupported(f"this server takes chats only, which have no `{name}`: it needs {_RAW}")
    return found
