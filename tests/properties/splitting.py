"""Tokenizers that write white space together with the word behind it, as those of real models do; and plain bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.properties.vocabularies import byte_pairs, pieces

END = "<|end|>"
NEWER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORDS = "the tv phone Sony in cm active archived good bad price is of 4K größer null true false"
WORDS = _WORDS.split()


def _corpus() -> Iterator[str]:
    rng = random.Random(1)
    for number in range(400):
        value = {
            "brand": rng.choice(WORDS),
            "price": number * 1.25,
            "tags": ["new", None, True, False],
            "size": {"w": number},
        }
        yield json.dumps(value, indent=2 if number % 2 else None)
        yield " ".join(rng.choice(WORDS) for _ in range(20)) + f". The price is {number}, 日本 😀\n"


@lru_cache
def older() -> Any:
    """Words split as by GPT-2."""
    return _with_end(byte_pairs(pre_tokenizers.ByteLevel(add_prefix_space=False), _corpus(), 900))


@lru_cache
def newer() -> Any:
    """Words split as by Llama 3 and Qwen: digits stand apart from white space."""
    split = pre_tokenizers.Split(Regex(NEWER), behavior="isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return _with_end(byte_pairs(pre_tokenizers.Sequence([split, bytes_]), _corpus(), 900))


@lru_cache
def sentence_piece() -> Any:
    return _with_end(pieces(_corpus(), 1_100))


@lru_cache
def plain_bytes() -> Any:
    return byte_tokenizer()


def _with_end(backend: Tokenizer) -> Any:
    backend.add_special_tokens([END])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, clean_up_tokenization_spaces=False)


MERGING = {"older": older, "newer": newer, "sentence piece": sentence_piece}
TOKENIZERS = MERGING | {"bytes": plain_bytes}


@lru_cache
def tools(kind: str) -> tuple[Any, Encoder, Tokens]:
    tokenizer = TOKENIZERS[kind]()
    encoder = Encoder(tokenizer)
    return tokenizer, encoder, Tokens(vocabulary_of(tokenizer, ends=encoder.ends, encode=encoder.text))
