"""The words that a chat template writes around each message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pastalang.program.program import Role
from pastalang.runtime.errors import LoadError

PLAIN_NAMES = {Role.SYSTEM: "System", Role.USER: "User", Role.ASSISTANT: "Assistant"}


@dataclass(frozen=True, slots=True)
class Turn:
    """The words that the chat template writes around one message."""

    opening: str
    closing: str


def turns_of(tokenizer: Any, roles: Sequence[Role], *, thinks: bool = False) -> tuple[Turn, ...]:
    """One turn per role; the last one is the model's own and stays open.

    Models that think before they answer are asked not to. With `thinks` the plan holds the thought itself, so the
    last turn ends right before it.
    """
    if not getattr(tokenizer, "chat_template", None):
        return _plain_turns(tokenizer, roles)
    try:
        openings = _openings(tokenizer, roles, thinks) if len(roles) > 1 else [_opening_alone(tokenizer, thinks)]
    except LoadError:
        if list(roles[:2]) != [Role.SYSTEM, Role.USER]:
            raise
        # The template has no system role, so the system text opens the user's first turn.
        first, *rest = _openings(tokenizer, roles[1:], thinks)
        openings = [first, "\n\n", *rest]
    last = _before_thought(openings[-1]) if thinks else _with_thought_closed(openings[-1])
    return tuple(Turn(opening, "") for opening in (*openings[:-1], last))


def _openings(tokenizer: Any, roles: Sequence[Role], thinks: bool) -> list[str]:
    """What the template writes before each message, which includes the end of the previous message."""
    marks = [f"zq{index}qz" for index in range(len(roles) - 1)]
    messages = [{"role": role.value, "content": mark} for role, mark in zip(roles, marks, strict=False)]
    return _split(_render(tokenizer, messages, thinks), marks)


def _opening_alone(tokenizer: Any, thinks: bool) -> str:
    """The opening of an answer without any message before it.

    Chat templates refuse such a conversation. So a user's message is rendered with and without the model's turn, and
    the difference is the opening.
    """
    messages = [{"role": Role.USER.value, "content": "zq0qz"}]
    before, after = (_render(tokenizer, messages, thinks, opens=opens) for opens in (False, True))
    if not after.startswith(before):
        raise LoadError("the tokenizer's chat template cannot begin with an answer: write a message before it")
    begin = tokenizer.bos_token or ""
    return (begin if before.startswith(begin) else "") + after.removeprefix(before)


def _render(tokenizer: Any, messages: list[dict[str, str]], thinks: bool, *, opens: bool = True) -> str:
    """`opens`: whether the text ends with the beginning of the model's turn."""
    try:
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=opens, enable_thinking=thinks)
        )
    except Exception as problem:  # chat templates are programs by third parties and raise anything
        roles = ", ".join(message["role"] for message in messages)
        raise LoadError(f"the tokenizer's chat template refuses the turns {roles}: {problem}") from problem


def _split(rendered: str, marks: Sequence[str]) -> list[str]:
    """The texts before, between and after the marks."""
    pieces, rest = [], rendered
    for mark in marks:
        before, found, rest = rest.partition(mark)
        if not found:
            raise LoadError("the tokenizer's chat template drops or changes a message")
        pieces.append(before)
    return [*pieces, rest]


def _with_thought_closed(opening: str) -> str:
    """Some templates open a thought even with `enable_thinking=False`. Such a thought is closed at once."""
    return opening.rstrip("\n") + "\n\n</think>\n\n" if opening.rstrip().endswith("<think>") else opening


def _before_thought(opening: str) -> str:
    """Some templates open the thought themselves. That is dropped, because the plan opens it."""
    return opening.rstrip().removesuffix("<think>") if opening.rstrip().endswith("<think>") else opening


def _plain_turns(tokenizer: Any, roles: Sequence[Role]) -> tuple[Turn, ...]:
    """Turns for a tokenizer without a chat template: `System:`, `User:` and `Assistant:` on lines of their own."""
    begin = tokenizer.bos_token or ""
    turns = []
    for index, role in enumerate(roles):
        opening = ("" if index else begin) + f"{PLAIN_NAMES[role]}:\n"
        turns.append(Turn(opening, "" if index == len(roles) - 1 else "\n\n"))
    return tuple(turns)
