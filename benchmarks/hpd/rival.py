"""The alternative: `generate` of transformers writes the whole JSON of a document, including its keys.

It stops after as many tokens as the right answer has (the longest one of a batch), so it never loses time because
it does not know when to stop. The model was not trained to write keys and braces; only its speed counts here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.hpd import clock
from benchmarks.hpd.documents import Corpus, Document, taught
from benchmarks.hpd.programs import ORDER
from pastalang.program.program import Role
from pastalang.runtime.binding.chat import turns_of


def generate(weights: Any, tokenizer: Any, corpus: Corpus, documents: Sequence[Document], batch: int) -> list[str]:
    """The text that is written for each document."""
    texts: list[str] = []
    with torch.inference_mode():
        for first in range(0, len(documents), batch):
            texts += _batch(weights, tokenizer, corpus, documents[first : first + batch])
    return texts


def generate_seconds(
    weights: Any, tokenizer: Any, corpus: Corpus, documents: Sequence[Document], batch: int
) -> float:  # fmt: skip
    began = clock.now()
    generate(weights, tokenizer, corpus, documents, batch)
    return clock.now() - began


def first_object(text: str) -> dict[str, str | None] | None:
    """The JSON object at the start of the text, with its values as texts; None if there is none."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    return {name: item if item is None or isinstance(item, str) else json.dumps(item) for name, item in value.items()}


def _batch(weights: Any, tokenizer: Any, corpus: Corpus, documents: Sequence[Document]) -> list[str]:
    prompts = [_prompt(tokenizer, corpus, document) for document in documents]
    wanted = max(_answer_tokens(tokenizer, corpus, document) for document in documents)
    width, filler = max(map(len, prompts)), tokenizer.pad_token_id or 0
    tokens = torch.tensor([[filler] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    written = weights.generate(
        tokens, attention_mask=mask, max_new_tokens=wanted, min_new_tokens=wanted, do_sample=False,
        pad_token_id=filler,
    )  # fmt: skip
    return [tokenizer.decode(row[width:], skip_special_tokens=True) for row in written]


def _prompt(tokenizer: Any, corpus: Corpus, document: Document) -> list[int]:
    """The turns that the engine writes, and the names of the attributes, which are fixed text in its plans."""
    asked = ", ".join(corpus.asked[document.category])
    said = (f"{ORDER} Attributes: {asked}", f"Title: {document.text}", "")
    turns = turns_of(tokenizer, (Role.SYSTEM, Role.USER, Role.ASSISTANT))
    text = "".join(turn.opening + words + turn.closing for turn, words in zip(turns, said, strict=True))
    return list(tokenizer.encode(text, add_special_tokens=False))


def _answer_tokens(tokenizer: Any, corpus: Corpus, document: Document) -> int:
    answer = json.dumps(taught(document, corpus.asked[document.category]), indent=2, ensure_ascii=False)
    return len(tokenizer.encode(answer, add_special_tokens=False))
