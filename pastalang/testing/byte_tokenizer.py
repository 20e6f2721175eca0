"""A fast tokenizer of transformers whose tokens are bytes.

It needs no files and encodes every text. Every byte is a token, so a test can count tokens by hand. The engine, the
guides and the chat template treat it as any other tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

END = "<end>"


def byte_tokenizer(*, words: Sequence[str] = (), control: Sequence[str] = (), chat_template: str | None = None) -> Any:
    """Token b is the byte b. After the 256 bytes come the `words` with their beginnings, `<end>`, and `control`.

    Each of `words` becomes one token, and so does every beginning of it. Tests use them for merges across a border.
    """
    spelling = byte_spelling()
    vocabulary = {spelling[byte]: byte for byte in range(256)}
    merges = _merges([[spelling[byte] for byte in word.encode()] for word in words])
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    backend = Tokenizer(BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = ByteLevelDecoder()
    backend.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in control])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, clean_up_tokenization_spaces=False)
    tokenizer.chat_template = chat_template
    return tokenizer


def byte_spelling() -> tuple[str, ...]:
    """How byte-level vocabularies write each byte: printable ones as themselves, the others above U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in printable else chr(next(substitutes)) for byte in range(256))


def _merges(words: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Each beginning of a word is merged as before, and what is left of it gets new merges.

    These come later than all others, so they are never taken before those that have made the earlier words.
    """
    ranks: dict[tuple[str, str], int] = {}
    for parts in (list(word[:length]) for word in words for length in range(2, len(word) + 1)):
        while len(parts) > 1:
            pairs = list(pairwise(parts))
            pair = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
            ranks.setdefault(pair, len(ranks))
            at = pairs.index(pair)
            parts[at : at + 2] = ["".join(pair)]
    return list(ranks)
