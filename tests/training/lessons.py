"""Shared by the tests of training: a byte tokenizer, a small program, and rows of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import pastalang
from pastalang import Mode
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.training.recording import Lesson, Recorder, TrainingRow, planner
from pastalang.values.json import parse_json

TOKENIZER = byte_tokenizer()
PRODUCT = '''
template product(title: text)
user """{title}"""
assistant json {
  brand: string(max=12) | null
  kind: "tv" | "phone"
  quote: verbatim(title, max=20) | null
}
'''


def lesson(source: str, inputs: dict[str, Any], value: Any, *, origin: str = "rows.jsonl:1") -> Lesson:
    return Lesson(planner(pastalang.compile(source)), inputs, parse_json(json.dumps(value)), origin)


def row_of(source: str, inputs: dict[str, Any], value: Any, mode: Mode = Mode.STRICT) -> TrainingRow:
    return Recorder(TOKENIZER).row(lesson(source, inputs, value), mode)


def product(title: str, *, mode: Mode = Mode.STRICT, **value: Any) -> TrainingRow:
    return row_of(PRODUCT, {"title": title}, {"brand": None, "kind": "tv", "quote": None} | value, mode)


def taught_text(row: TrainingRow, field: str) -> str:
    """The tokens that carry loss, of one field."""
    return "".join(chr(taught.token) for taught in row.taught if taught.field == field)


def toy_llama(folder: Path) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=257, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1024, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=256,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


class PulledPlug(BaseException):
    """The machine is off: nothing reaches the disk any more."""


def pulled_at(words: str) -> Callable[[str], None]:
    """A report whose run ends at the line with these words."""

    def report(line: str) -> None:
        if words in line:
            raise PulledPlug

    return report


def silent(_: str) -> None:
    pass
