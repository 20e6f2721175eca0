"""The alternative: `generate` of transformers writes the whole JSON of a document, including its keys.

A copy may be tuned for it, on the same documents: *free JSON*. It ends by itself. Where only speed is compared,
`generate` stops after as many tokens as the right answer has (the longest one of a batch), so it never loses time
because it does not know when to stop.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.hpd import clock
from benchmarks.hpd.documents import Corpus, Document, taught
from benchmarks.hpd.programs import ORDER
from pastalang.plan.branches import Mode
from pastalang.program.program import Role
from pastalang.runtime.binding.chat import turns_of
from pastalang.training.recording import IGNORED, TrainingRow

FREE = "free"  # the name of the copy that is tuned to write everything
AT_ONCE = 160  # documents
_SPARE = 1.5  # how much longer than the longest right answer an answer may be


def free_row(tokenizer: Any, corpus: Corpus, document: Document) -> TrainingRow:
    """The prompt and the right answer as plain text. Only the answer and its end are taught."""
    prompt, answer = _prompt(tokenizer, corpus, document), _answer(tokenizer, corpus, document)
    tokens = np.array([*prompt, *answer[:-1]], dtype=np.int32)
    labels = np.full(len(tokens), IGNORED, dtype=np.int32)
    labels[len(prompt) - 1 :] = answer
    sees = np.packbits(np.tri(len(tokens), dtype=np.bool_), axis=1)
    positions = np.arange(len(tokens), dtype=np.int32)
    return TrainingRow(tokens, positions, labels, sees, (), Mode.SEQUENTIAL, len(answer), document.title)


def generate(
    weights: Any, tokenizer: Any, corpus: Corpus, documents: Sequence[Document], batch: int, *, ends: bool = False
) -> tuple[list[str], list[int]]:  # fmt: skip
    """The text that is written for each document, and its tokens. `ends`: by itself."""
    texts: list[str] = []
    counts: list[int] = []
    with torch.inference_mode():
        for first in range(0, len(documents), batch):
            for tokens in _batch(weights, tokenizer, corpus, documents[first : first + batch], ends=ends):
                texts.append(tokenizer.decode(tokens, skip_special_tokens=True))
                counts.append(len(tokens))
    return texts, counts


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


def _batch(
    weights: Any, tokenizer: Any, corpus: Corpus, documents: Sequence[Document], *, ends: bool
) -> list[list[int]]:  # fmt: skip
    prompts = [_prompt(tokenizer, corpus, document) for document in documents]
    wanted = max(len(_answer(tokenizer, corpus, document)) for document in documents)
    width, end = max(map(len, prompts)), tokenizer.eos_token_id
    tokens = torch.tensor([[end] * (width - len(prompt)) + prompt for prompt in prompts], device=weights.device)
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts], device=weights.device)
    most, least = (int(_SPARE * wanted), 1) if ends else (wanted, wanted)
    written = weights.generate(
        tokens, attention_mask=mask, max_new_tokens=most, min_new_tokens=least, do_sample=False,
        pad_token_id=end, eos_token_id=end,
    )  # fmt: skip
    found = [row[width:] for row in written.tolist()]
    return [row[: row.index(end) + 1] if end in row else row for row in found]


def _prompt(tokenizer: Any, corpus: Corpus, document: Document) -> list[int]:
    """The turns that the engine writes, and the names of the attributes, which are fixed text in its plans."""
    asked = ", ".join(corpus.asked[document.category])
    said = (f"{ORDER} Attributes: {asked}", f"Title: {document.text}", "")
    turns = turns_of(tokenizer, (Role.SYSTEM, Role.USER, Role.ASSISTANT))
    text = "".join(turn.opening + words + turn.closing for turn, words in zip(turns, said, strict=True))
    return list(tokenizer.encode(text, add_special_tokens=False))


def _answer(tokenizer: Any, corpus: Corpus, document: Document) -> list[int]:
    """In one line, which takes fewer tokens, and with the end of the turn."""
    answer = json.dumps(taught(document, corpus.asked[document.category]), ensure_ascii=False)
    return [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
