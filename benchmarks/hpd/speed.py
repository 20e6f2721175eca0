"""Compare the speed of the modes and of `generate`, with the same weights and documents, taking turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.hpd.documents import Corpus, Document
from benchmarks.hpd.measure import Bench, Way, plain_weights, run
from benchmarks.hpd.rival import generate_seconds
from pastalang.plan.branches import Mode
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.loading import load_tokenizer

BATCHES = (1, 4, 16)


def compare_speed(
    bench: Bench, folder: Path, corpus: Corpus, documents: Sequence[Document], *, rounds: int
) -> dict[str, Any]:  # fmt: skip
    """Median seconds of each side."""
    tokenizer, engine = load_tokenizer(folder), bench.engine(folder)
    rival = plain_weights(folder, bench.device)
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
