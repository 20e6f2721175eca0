"""What a run will take, measured on a few of its documents before it is started."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from pastalang.bulk.documents import Document, drawn_from
from pastalang.bulk.rows import extractions_of
from pastalang.bulk.task import Task
from pastalang.errors import TruncationWarning
from pastalang.runtime.result import Extraction

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine

CALIBRATION: Final = 32  # documents that are decoded
_MEASURED: Final = 1_000  # documents whose tokens are counted


@dataclass(frozen=True, slots=True)
class Estimate:
    """`passes` are those of a document, and `sequential_passes` those of the same answer from left to right.

    documents              how many there are
    tokens_p50, tokens_p95 of the text of a document
    cells, pool            of the KV cache: what the documents in flight take at once, and what there is
    cache_bytes            the memory of the pool
    """

    documents: int
    tokens_p50: int
    tokens_p95: int
    passes: float
    sequential_passes: float
    output_tokens: float
    cells: int
    pool: int
    cache_bytes: int
    documents_per_second: float
    statuses: dict[str, int]
    calibrated: int

    @property
    def hours(self) -> float:
        return self.documents / self.documents_per_second / 3600 if self.documents_per_second else 0.0

    def price(self, per_hour: float) -> float:
        return self.hours * per_hour

    def as_data(self, price_per_hour: float | None) -> dict[str, Any]:
        price = {} if price_per_hour is None else {"price": round(self.price(price_per_hour), 2)}
        return {**asdict(self), "hours": round(self.hours, 4), **price}


def estimate(engine: Engine, task: Task, documents: Iterable[Document], *, in_flight: int) -> Estimate:
    """Go through all documents once, and decode a few that are drawn at random, always the same."""
    count, sample = drawn_from(documents, _MEASURED)
    lengths = sorted(_tokens(engine, task, document) for document in sample)
    chosen = sample[:CALIBRATION]
    seconds, found = _decoded(engine, task, chosen, in_flight)
    usages = [one.usage for one in found if one.run is not None]
    cache: Any = getattr(engine.model, "kv_cache", None)
    return Estimate(
        documents=count,
        tokens_p50=_quantile(lengths, 0.5),
        tokens_p95=_quantile(lengths, 0.95),
        passes=_mean([usage.forward_passes for usage in usages]),
        sequential_passes=_mean([usage.theoretical_speedup * usage.critical_path for usage in usages]),
        output_tokens=_mean([usage.output_tokens for usage in usages]),
        cells=round(_mean([usage.peak_cells for usage in usages]) * min(in_flight, max(count, 1))),
        pool=engine.model.cells,
        cache_bytes=cache.bytes if cache is not None else 0,
        documents_per_second=len(chosen) / seconds if seconds else 0.0,
        statuses=dict(Counter(one.status for one in found)),
        calibrated=len(chosen),
    )


def _decoded(
    engine: Engine, task: Task, documents: Sequence[Document], in_flight: int
) -> tuple[float, list[Extraction[Any]]]:
    """The seconds that the documents take once the guides of the program are made, and their extractions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        list(extractions_of(engine, task, documents[:1], in_flight=1))
        began = time.perf_counter()
        found = [one for _, one in extractions_of(engine, task, documents, in_flight=in_flight)]
        return time.perf_counter() - began, found


def _tokens(engine: Engine, task: Task, document: Document) -> int:
    found = task.inputs_of(document)
    if not isinstance(found, dict):
        return 0
    texts = [value for value in found.values() if isinstance(value, str)]
    return sum(len(engine.encoder.text(text)) if len(text) <= engine.longest_text else len(text) for text in texts)


def _quantile(values: Sequence[int], share: float) -> int:
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
