"""Turns text into tokens and back, and keeps data from ever becoming a control token.

Three kinds of text are tokenized apart:

    the chat template's words    with added tokens: <|im_start|> is one token
    text hidden from the caller  with added tokens: control tags such as <sync/>
    everything else              without added tokens, whatever the text holds
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from tokenizers import Tokenizer

from pastalang.runtime.errors import LoadError

_MOST_KNOWN: Final = 4_096  # texts whose tokens are remembered: the next plan asks for others
_MOST_KNOWN_CONTROL: Final = 1_000
_LONGEST_KNOWN: Final = 200  # characters
_MOST_LONG: Final = 4  # longer ones that are remembered: a request asks for the parts of its prompt twice


class Encoder:
    """Encodes and decodes text with one fast tokenizer of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise LoadError("the tokenizer has no fast version: a tokenizer.json is needed")
        settings = _without_additions(json.loads(backend.to_str()))
        self.tokenizer = tokenizer
        self._with_added = Tokenizer.from_str(json.dumps(settings))
        self._plain = Tokenizer.from_str(json.dumps({**settings, "added_tokens": []}))
        self._known: dict[str, tuple[int, ...]] = {}
        self._known_control: dict[str, tuple[int, ...]] = {}
        self._long: deque[tuple[str, tuple[int, ...]]] = deque(maxlen=_MOST_LONG)

    @cached_property
    def added(self) -> frozenset[int]:
        """The control tokens. No data is ever encoded to one of them."""
        decoder = self.tokenizer.added_tokens_decoder
        return frozenset(
            id for id, token in decoder.items() if token.special or _is_control(self._plain, token.content)
        )

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
        """The tokens of a text. None of them is a control token, whatever the text holds."""
        known = self._known.get(text)
        if known is None:
            known = next((tokens for other, tokens in tuple(self._long) if other == text), None)
        if known is None:
            known = self._encode(text)
            _remember(text, known, self._known, most=_MOST_KNOWN)
            if len(text) > _LONGEST_KNOWN:
                self._long.append((text, known))
        return known

    def count(self, text: str) -> int:
        """The number of tokens of a text that is hardly met again."""
        return len(self._encode(text))

    def crosses(self, before: str, after: str) -> bool:
        """Whether some token of the two texts written together spans the border between them."""
        border = len(before)
        offsets = self._plain.encode(before + after, add_special_tokens=False).offsets
        return any(start < border < end for start, end in offsets)

    def control(self, text: str) -> tuple[int, ...]:
        """The tokens of a text that the runtime itself writes, control tokens included."""
        known = self._known_control.get(text)
        if known is None:
            known = tuple(self._with_added.encode(text, add_special_tokens=False).ids)
            _remember(text, known, self._known_control, most=_MOST_KNOWN_CONTROL)
        return known

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _encode(self, text: str) -> tuple[int, ...]:
        tokens = tuple(self._plain.encode(text, add_special_tokens=False).ids)
        if self.added.isdisjoint(tokens):
            return tokens
        # Some vocabularies also hold a control token as an ordinary piece. Encoding each character alone avoids it.
        tokens = tuple(id for character in text for id in self._plain.encode(character, add_special_tokens=False).ids)
        assert self.added.isdisjoint(tokens), "data was encoded to a control token"
        return tokens


def _remember(text: str, tokens: tuple[int, ...], known: dict[str, tuple[int, ...]], *, most: int) -> None:
    if len(text) > _LONGEST_KNOWN:
        return
    if len(known) >= most:
        known.clear()
    known[text] = tokens


def _without_additions(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings under which the tokenizer adds and cuts nothing: no BOS, no leading space, no padding, no truncation."""
    settings = {**settings, "post_processor": None, "truncation": None, "padding": None}
    settings["normalizer"] = _without_prepend(settings.get("normalizer"))
    settings["pre_tokenizer"] = _without_prefix_space(settings.get("pre_tokenizer"))
    return settings


def _without_prepend(normalizer: Any) -> Any:
    if normalizer is None or normalizer.get("type") == "Prepend":
        return None
    if normalizer.get("type") == "Sequence":
        return {**normalizer, "normalizers": [one for one in normalizer["normalizers"] if one.get("type") != "Prepend"]}
    return normalizer


def _without_prefix_space(pre_tokenizer: Any) -> Any:
    if pre_tokenizer is None:
        return None
    match pre_tokenizer.get("type"):
        case "Sequence":
            return {**pre_tokenizer, "pretokenizers": list(map(_without_prefix_space, pre_tokenizer["pretokenizers"]))}
        case "Metaspace":
            return {**pre_tokenizer, "prepend_scheme": "never"}
        case "ByteLevel":
            return {**pre_tokenizer, "add_prefix_space": False}
        case _:
            return pre_tokenizer


def _is_control(plain: Tokenizer, content: str) -> bool:
    """Whether an added token is control: ordinary encoding of its text never gives it, or its text is a tag."""
    ids = plain.encode(content, add_special_tokens=False).ids
    return len(ids) != 1 or bool(content.startswith("<"))
