"""Compare the speed of the modes and of `generate`, with the same weights and documents, taking turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from benchmarks.hpd.documents import Corpus, Document
from benchmarks.hpd.measure import Way, engine_of, example_of, run, scores
from benchmarks.hpd.rival import first_object, generate, generate_seconds
from pastalang.plan.branches import Mode
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.loading import load_weights
from pastalang.training.metrics import evaluate

BATCHES = (1, 4, 16)


def compare_speed(folder: Path, corpus: Corpus, documents: Sequence[Document], *, rounds: int) -> dict[str, Any]:
    """Median seconds of each side. The answers of `generate` are scored as well."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    engine = engine_of(_weights(folder), tokenizer)
    rival = _weights(folder)
    rival.set_attn_implementation("sdpa")
    sides: dict[str, Callable[[], float]] = {}
    for size in sorted({min(size, len(documents)) for size in BATCHES}):
        for mode in Mode:
            sides[f"{mode.value}/{size}"] = partial(_ours, engine, corpus, documents, Way(mode, batch=size))
        sides[f"generate/{size}"] = partial(generate_seconds, rival, tokenizer, corpus, documents, size)
    for side in [name for name in sides if name.endswith("/1")]:
        _warm(side, engine, rival, tokenizer, corpus, documents[:1])
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, seconds in sides.items():
            taken[side].append(seconds())
    return {
        "documents": len(documents),
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "seconds": {side: statistics.median(times) for side, times in taken.items()},
        "generate": _scored(generate(rival, tokenizer, corpus, documents, 4), corpus, documents),
    }


def _ours(engine: Engine, corpus: Corpus, documents: Sequence[Document], way: Way) -> float:
    return run(engine, corpus, documents, way)[2]


def _warm(
    side: str, engine: Engine, rival: Any, tokenizer: Any, corpus: Corpus, documents: Sequence[Document]
) -> None:  # fmt: skip
    name = side.split("/")[0]
    if name == "generate":
        generate_seconds(rival, tokenizer, corpus, documents, 1)
    else:
        _ours(engine, corpus, documents, Way(Mode(name), batch=1))


def _scored(texts: Sequence[str], corpus: Corpus, documents: Sequence[Document]) -> dict[str, Any]:
    examples = [example_of(document, first_object(text)) for document, text in zip(documents, texts, strict=True)]
    return scores(evaluate(examples), examples)


def _weights(folder: Path) -> Any:
    return load_weights(folder, device="cpu", dtype=torch.float32)
