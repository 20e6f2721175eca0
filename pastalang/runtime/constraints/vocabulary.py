"""The vocabulary of a tokenizer: the bytes of every token that may be generated, and the tokens that end a turn.

Three kinds of tokenizers are supported: byte-level (every character of a token stands for a byte), SentencePiece (`▁`
is a space, `<0x41>` a byte) and plain text. Control tokens have no bytes here, so no guide ever allows one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

# Longer tokens are runs of white space and rules of dashes; leaving them out keeps white space bounded.
MAX_TOKEN_BYTES = 64


@dataclass(frozen=True)
class Vocabulary:
    """`spelling[t]` are the bytes that token t adds to a text; None if it may never be generated.

    The tokens `ends` end the model's turn. `encode` tokenises a text as the tokenizer does, if it is known.
    """

    spelling: tuple[bytes | None, ...]
    ends: frozenset[int]
    encode: Callable[[str], Sequence[int]] | None = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        return len(self.spelling)

    @cached_property
    def covers_bytes(self) -> bool:
        """Whether every single byte has a token, so that every text can be written."""
        return len({text for text in self.spelling if text is not None and len(text) == 1}) == 256

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(str(sorted(self.ends)).encode())
        for text in self.spelling:
            digest.update(b"\x00" if text is None else b"\x01" + len(text).to_bytes(4, "big") + text)
        return digest.hexdigest()


def vocabulary_of(
    tokenizer: Any,
    *,
    size: int | None = None,
    ends: Iterable[int] | None = None,
    encode: Callable[[str], Sequence[int]] | None = None,
) -> Vocabulary:
    """The vocabulary of a fast tokenizer from transformers. `size` is the width of the model's logits."""
    described = json.loads(tokenizer.backend_tokenizer.to_str())
    spell = _speller(described)
    added = frozenset(tokenizer.added_tokens_decoder)
    finish = frozenset(ends) if ends is not None else frozenset(_end_tokens(tokenizer))
    known = tokenizer.get_vocab()
    width = size if size is not None else 1 + max(known.values())
    spelling: list[bytes | None] = [None] * width
    for token, id in known.items():
        if id < width and id not in added and id not in finish:
            text = spell(token)
            spelling[id] = text if text and len(text) <= MAX_TOKEN_BYTES else None
    return Vocabulary(tuple(spelling), frozenset(id for id in finish if id < width), encode)


def _end_tokens(tokenizer: Any) -> Iterable[int]:
    return () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)


def _speller(described: Any) -> Callable[[str], bytes | None]:
    parts = json.dumps([described.get("decoder"), described.get("pre_tokenizer"), described.get("normalizer")])
    if '"ByteLevel"' in parts:
        table = {character: byte for byte, character in enumerate(_byte_spelling())}
        return lambda token: _byte_level(token, table)
    if "▁" in parts or "\\u2581" in parts or '"Metaspace"' in parts:
        return _sentence_piece
    return lambda token: token.encode("utf-8", "surrogatepass")


def _byte_level(token: str, table: dict[str, int]) -> bytes | None:
    found = [table.get(character) for character in token]
    return None if None in found else bytes(byte for byte in found if byte is not None)


_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _sentence_piece(token: str) -> bytes | None:
    if (found := _BYTE_TOKEN.fullmatch(token)) is not None:
        return bytes.fromhex(found[1])
    return token.replace("▁", " ").encode("utf-8", "surrogatepass")


def _byte_spelling() -> tuple[str, ...]:
    """The character for each byte in byte-level vocabularies: printable bytes as they are, the others from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in printable else chr(next(substitutes)) for byte in range(256))
