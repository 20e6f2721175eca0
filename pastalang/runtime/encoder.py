"""Turns text into tokens and back, and keeps data from ever becoming a control token.

Three kinds of text are tokenized apart:

    the chat template's words    with added tokens: <|im_start|> is one token
    text hidden from the caller  with added tokens: control tags such as <sync/>
    everything else              without added tokens, whatever the text holds
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from tokenizers import Tokenizer

from pastalang.runtime.errors import LoadError

_REMEMBERED: Final = 1 << 20  # characters of texts whose tokens are remembered, each with some that it always counts
_EACH: Final = 64


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
        self._known = _Known(self._encode)
        self._known_control = _Known(lambda text: tuple(self._with_added.encode(text, add_special_tokens=False).ids))

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

    @cached_property
    def size(self) -> int:
        """One more than the highest token."""
        return 1 + int(max(self.tokenizer.get_vocab().values()))

    def text(self, text: str) -> tuple[int, ...]:
        """The tokens of a text. None of them is a control token, whatever the text holds."""
        return self._known[text]

    def afresh(self, text: str) -> tuple[int, ...]:
        """The tokens of a text that is hardly met again."""
        return self._encode(text)

    def count(self, text: str) -> int:
        return len(self.afresh(text))

    def crosses(self, before: str, after: str) -> bool:
        """Whether some token of the two texts written together spans the border between them."""
        border = len(before)
        offsets = self._plain.encode(before + after, add_special_tokens=False).offsets
        return any(start < border < end for start, end in offsets)

    def control(self, text: str) -> tuple[int, ...]:
        """The tokens of a text that the runtime itself writes, control tokens included."""
        return self._known_control[text]

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


class _Known(dict[str, tuple[int, ...]]):
    """The tokens of texts, encoded when they are first asked for. When they become too many, all but the last go: a
    request asks twice for the parts of its prompt, however long they are, and the next plan asks for others."""

    def __init__(self, encode: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._encode = encode
        self._room = _REMEMBERED

    def __missing__(self, text: str) -> tuple[int, ...]:
        tokens = self._encode(text)
        self._room -= len(text) + _EACH
        if self._room < 0:
            self.clear()
            self._room = _REMEMBERED
        self[text] = tokens
        return tokens


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
