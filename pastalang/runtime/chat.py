"""From roles and texts to tokens: a tokenizer comes in, an `Encoder` and the words of its chat template go out.

Three kinds of text, tokenised apart:

    the template's turns      with added tokens: <|im_start|> is one token
    what nobody is shown      the same: control tags such as <sync/>
    everything else           without added tokens, whatever it holds: data can never act
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

from pastalang.program.program import Role
from pastalang.runtime.errors import LoadError

PLAIN_NAMES = {Role.SYSTEM: "System", Role.USER: "User", Role.ASSISTANT: "Assistant"}


class Encoder:
    """Text to tokens and back, for one fast tokenizer of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise LoadError("the tokenizer has no fast version (a tokenizer.json), which is needed")
        described = _without_additions(json.loads(backend.to_str()))
        self.tokenizer = tokenizer
        self._with_added = Tokenizer.from_str(json.dumps(described))
        self._plain = Tokenizer.from_str(json.dumps({**described, "added_tokens": []}))
        self._known: dict[str, tuple[int, ...]] = {}

    @cached_property
    def added(self) -> frozenset[int]:
        """The tokens that stand for themselves and not for a text: no data is ever encoded to one of them."""
        decoder = self.tokenizer.added_tokens_decoder
        return frozenset(id for id, token in decoder.items() if token.special or _is_beyond(self._plain, token.content))

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens that end the model's turn."""
        known = self.tokenizer.added_tokens_encoder
        named = (known.get(name) for name in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>"))
        ids = {self.tokenizer.eos_token_id, *named}
        return frozenset(id for id in ids if id is not None)

    @property
    def size(self) -> int:
        """One more than the highest token."""
        return 1 + int(max(self.tokenizer.get_vocab().values()))

    def text(self, text: str) -> tuple[int, ...]:
        """The tokens of a text in which nothing is a control token, asserted."""
        known = self._known.get(text)
        if known is None:
            known = self._encode(text)
            if len(text) <= 200 and len(self._known) < 10_000:
                self._known[text] = known
        return known

    def crosses(self, before: str, behind: str) -> bool:
        """Whether a token of the two texts written together holds something of both."""
        border = len(before)
        offsets = self._plain.encode(before + behind, add_special_tokens=False).offsets
        return any(start < border < end for start, end in offsets)

    def control(self, text: str) -> tuple[int, ...]:
        """The tokens of a text of our own, control tokens included."""
        return tuple(self._with_added.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _encode(self, text: str) -> tuple[int, ...]:
        tokens = tuple(self._plain.encode(text, add_special_tokens=False).ids)
        if self.added.isdisjoint(tokens):
            return tokens
        # A vocabulary that also spells a control token as an ordinary piece: character by character it cannot be met.
        tokens = tuple(id for character in text for id in self._plain.encode(character, add_special_tokens=False).ids)
        assert self.added.isdisjoint(tokens), "data was encoded to a control token"
        return tokens


def _without_additions(described: dict[str, Any]) -> dict[str, Any]:
    """Nothing is put before, behind or into a text: no BOS, no leading space, no padding, no cut."""
    described = {**described, "post_processor": None, "truncation": None, "padding": None}
    described["normalizer"] = _without_prefix(described.get("normalizer"), "normalizers", "Prepend")
    described["pre_tokenizer"] = _never_prepend(described.get("pre_tokenizer"))
    return described


def _without_prefix(part: Any, inner: str, kind: str) -> Any:
    if part is None or part.get("type") == kind:
        return None
    if part.get("type") == "Sequence":
        return {**part, inner: [one for one in part[inner] if one.get("type") != kind]}
    return part


def _never_prepend(part: Any) -> Any:
    if part is None:
        return None
    match part.get("type"):
        case "Sequence":
            return {**part, "pretokenizers": [_never_prepend(one) for one in part["pretokenizers"]]}
        case "Metaspace":
            return {**part, "prepend_scheme": "never"}
        case "ByteLevel":
            return {**part, "add_prefix_space": False}
        case _:
            return part


def _is_beyond(plain: Tokenizer, content: str) -> bool:
    """Whether the text itself is never spelled by this token: then the token stands for control only."""
    ids = plain.encode(content, add_special_tokens=False).ids
    return len(ids) != 1 or bool(content.startswith("<"))


@dataclass(frozen=True, slots=True)
class Turn:
    """The words of the chat template around one message."""

    opening: str
    closing: str


def turns_of(tokenizer: Any, roles: Sequence[Role], *, thinks: bool = False) -> tuple[Turn, ...]:
    """One turn per role; the last one, the model's own, stays open. Models that think first are told not to, unless
    the plan has them think: then the turn ends before the thought."""
    if not getattr(tokenizer, "chat_template", None):
        return _plain_turns(tokenizer, roles)
    try:
        openings = _openings(tokenizer, roles, thinks) if len(roles) > 1 else [_opening_alone(tokenizer, thinks)]
    except LoadError:
        if list(roles[:2]) != [Role.SYSTEM, Role.USER]:
            raise
        # A template without a system role: its text stands at the beginning of the user's first turn.
        first, *rest = _openings(tokenizer, roles[1:], thinks)
        openings = [first, "\n\n", *rest]
    last = _before_thought(openings[-1]) if thinks else _thought(openings[-1])
    return tuple(Turn(opening, "") for opening in (*openings[:-1], last))


def _openings(tokenizer: Any, roles: Sequence[Role], thinks: bool) -> list[str]:
    """What the template writes before each message; the end of the one before it included."""
    marks = [f"zq{index}qz" for index in range(len(roles) - 1)]
    messages = [{"role": role.value, "content": mark} for role, mark in zip(roles, marks, strict=False)]
    return _split(_render(tokenizer, messages, thinks), marks)


def _opening_alone(tokenizer: Any, thinks: bool) -> str:
    """Of an answer to nothing, which chat templates refuse: what the model's turn adds to somebody else's."""
    said = [{"role": Role.USER.value, "content": "zq0qz"}]
    before, after = (_render(tokenizer, said, thinks, opens=opens) for opens in (False, True))
    if not after.startswith(before):
        raise LoadError("the tokenizer's chat template cannot begin with an answer: write a message before it")
    begin = tokenizer.bos_token or ""
    return (begin if before.startswith(begin) else "") + after.removeprefix(before)


def _render(tokenizer: Any, messages: list[dict[str, str]], thinks: bool, *, opens: bool = True) -> str:
    """`opens`: with the beginning of the model's turn."""
    try:
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=opens, enable_thinking=thinks)
        )
    except Exception as problem:  # templates are programs of others and raise what they like
        roles = ", ".join(message["role"] for message in messages)
        raise LoadError(f"the tokenizer's chat template refuses the turns {roles}: {problem}") from problem


def _split(rendered: str, marks: Sequence[str]) -> list[str]:
    """What stands before, between and behind the marks."""
    pieces, rest = [], rendered
    for mark in marks:
        before, found, rest = rest.partition(mark)
        if not found:
            raise LoadError("the tokenizer's chat template drops or changes a message")
        pieces.append(before)
    return [*pieces, rest]


def _thought(opening: str) -> str:
    """A template that opens a thought whatever it is told: the thought is closed at once."""
    return opening.rstrip("\n") + "\n\n</think>\n\n" if opening.rstrip().endswith("<think>") else opening


def _before_thought(opening: str) -> str:
    """Some templates open the thought themselves; the plan opens it."""
    return opening.rstrip().removesuffix("<think>") if opening.rstrip().endswith("<think>") else opening


def _plain_turns(tokenizer: Any, roles: Sequence[Role]) -> tuple[Turn, ...]:
    """Where the tokenizer has no template: `System:`, `User:` and `Assistant:` on lines of their own."""
    begin = tokenizer.bos_token or ""
    turns = []
    for index, role in enumerate(roles):
        opening = ("" if index else begin) + f"{PLAIN_NAMES[role]}:\n"
        turns.append(Turn(opening, "" if index == len(roles) - 1 else "\n\n"))
    return tuple(turns)
