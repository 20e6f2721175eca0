"""Three kinds of tokenizers, trained on a few lines: byte-level BPE, SentencePiece with byte fallback, plain bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.testing.byte_tokenizer import byte_tokenizer

END = "<|end|>"
CONTROL = "<sync/>"


def _corpus() -> Iterator[str]:
    for number in range(300):
        yield json.dumps(
            {"brand": "Sony", "price": number * 1.25, "tags": ["new", None, True], "sku": f"AB-{number:04}"}
        )
        day = f"2024-02-{number % 28 + 1:02}"
        yield f'The TV has a screen of {number} inches, "4K" — größer, 日本語 😀\nIt came out on {day}.'
        yield json.dumps([{"name": "x", "qty": number}], indent=2) + '",\n  "next": '


def byte_pairs(split: Any, corpus: Iterator[str], size: int) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = split
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(corpus, trainer)
    return backend


@lru_cache
def byte_level() -> Tokens:
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return Tokens(vocabulary_of(_with_control(byte_pairs(split, _corpus(), 1_500))))


def pieces(corpus: Iterator[str], size: int) -> Tokenizer:
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = (f"<0x{byte:02X}>" for byte in range(256))
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>", *bytes_], limit_alphabet=200, show_progress=False
    )
    backend.train_from_iterator(corpus, trainer)
    described = json.loads(backend.to_str())
    described["added_tokens"] = [token for token in described["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(described))


@lru_cache
def sentence_piece() -> Tokens:
    return Tokens(vocabulary_of(_with_control(pieces(_corpus(), 1_300))))


@lru_cache
def plain_bytes() -> Tokens:
    return Tokens(vocabulary_of(byte_tokenizer(control=[CONTROL])))


def _with_control(backend: Tokenizer) -> Any:
    backend.add_special_tokens([AddedToken(END, special=True)])
    backend.add_tokens([AddedToken(CONTROL, special=False)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END)


VOCABULARIES = {"byte-level": byte_level, "sentence-piece": sentence_piece, "bytes": plain_bytes}
