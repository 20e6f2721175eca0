"""A tokenizer whose tokens are bytes: nothing comes in, an ordinary fast tokenizer of transformers goes out.

It needs no files, encodes every text, and every byte is a token, so what a test expects can be counted by hand.
It takes the same way through the engine, the guides and the chat template as any other tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

END = "<end>"


def byte_tokenizer(*, words: Sequence[str] = (), control: Sequence[str] = (), chat_template: str | None = None) -> Any:
    """Token b is the byte b. Behind the 256 bytes: what `words` are merged from, then `<end>`, then `control`.

    `words` are texts that become one token each (and their beginnings too), to try what merges do at a border.
    """
    spelling = byte_spelling()
    vocabulary = {spelling[byte]: byte for byte in range(256)}
    merges = list(dict.fromkeys(merge for word in words for merge in _merges(word, spelling)))
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


def _merges(word: str, spelling: Sequence[str]) -> Iterator[tuple[str, str]]:
    letters = [spelling[byte] for byte in word.encode()]
    for length in range(1, len(letters)):
        yield "".join(letters[:length]), letters[length]
