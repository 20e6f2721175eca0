"""What a run will take, measured on a few of its documents, and how many documents a machine should decode at once.

The second measurement is of one machine, one model and one program. It is kept in the folder for caches of the user,
and does not change any row.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from pastalang.bulk.documents import Document, drawn_from
from pastalang.bulk.rows import Origin, Task, extractions_of
from pastalang.failures import TruncationWarning
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.result import Extraction
from pastalang.version import __version__

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
    rate, found = _decoded(engine, task, chosen, in_flight)
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
        documents_per_second=rate,
        statuses=dict(Counter(one.status for one in found)),
        calibrated=len(chosen),
    )


def _decoded(
    engine: Engine, task: Task, documents: Sequence[Document], in_flight: int
) -> tuple[float, list[Extraction[Any]]]:
    """The documents per second in the middle of a run, and their extractions: the guides of the program are made and
    what all prompts share is kept, but no document has been read before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        engine.loop.forget_prompts()
        first = [one for _, one in extractions_of(engine, task, documents[:1], in_flight=1)]
        others = documents[1:]
        if not others:
            engine.loop.forget_prompts()
        began = time.perf_counter()
        found = [one for _, one in extractions_of(engine, task, others or documents, in_flight=in_flight)]
        rate = len(found) / max(time.perf_counter() - began, 1e-9)
        return rate, [*first, *found] if others else found


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


# ── documents at once ────────────────────────────────────────────────────────────────────────────────────────


SAMPLE: Final = 32  # documents that are decoded for each number that is tried
CELLS: Final = 8192  # of a pool, unless documents need more
_MOST: Final = 32  # in flight
_FEWEST: Final = 4
_BETTER: Final = 1.05  # times as fast, for a number further from the usual one
_BUDGET: Final = 60.0  # seconds after which no further number is tried
_ROOM: Final = 1.25  # times the cells of the longest document that was tried
_SHARE: Final = 0.5  # of the memory that is free


@dataclass(frozen=True, slots=True)
class Tuning:
    """`rates` are documents per second, by how many were in flight, as they were measured."""

    in_flight: int
    cells: int
    rates: tuple[tuple[int, float], ...]

    @property
    def described(self) -> str:
        rates = ", ".join(f"{rate:.1f}/s with {count}" for count, rate in sorted(self.rates))
        return f"{self.in_flight} documents in flight and {self.cells:,} cells, measured: {rates}"


def tune(load: Callable[[int], Engine], task: Task, documents: Sequence[Document]) -> Tuning:
    """Measure with these documents. `load` makes an engine of at least so many cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        engine = load(CELLS)
        peak = _peak_cells(engine, task, documents)
        cells = min(max(CELLS, _rounded(_MOST * peak * _ROOM)), _cells_that_fit(engine))
        del engine  # its memory is free before more is taken
        engine = load(cells)
        rates: dict[int, float] = {}
        began = time.perf_counter()
        for count in _tried(rates):
            rates[count], _ = _decoded(engine, task, documents, count)
            if time.perf_counter() - began > _BUDGET:
                break
    return Tuning(_best(rates), engine.model.cells, tuple(sorted(rates.items())))


def _tried(rates: dict[int, float]) -> Iterator[int]:
    """The usual number, more as long as that is faster, and fewer if more is not."""
    yield IN_FLIGHT
    count = IN_FLIGHT
    while count < _MOST and _best(rates) == count:
        count *= 2
        yield count
    count = IN_FLIGHT
    while count > _FEWEST and _best(rates) == count:
        count //= 2
        yield count


def _best(rates: dict[int, float]) -> int:
    """The fastest number. One further from the usual one has to be faster by enough to be no chance."""
    return max(rates, key=lambda count: rates[count] / _BETTER ** (count != IN_FLIGHT))


def _peak_cells(engine: Engine, task: Task, documents: Sequence[Document]) -> int:
    """Of the longest of the documents. This also makes the guides of the program."""
    longest = sorted(documents, key=lambda one: sum(len(str(value)) for value in one.record.values()))[-2:]
    found = extractions_of(engine, task, longest, in_flight=1)
    return max((one.usage.peak_cells for _, one in found if one.run is not None), default=0)


def _rounded(cells: float) -> int:
    return -(-int(cells) // 1024) * 1024


def _cells_that_fit(engine: Engine) -> int:
    """As many as take a part of the memory that is free; those of a pool as usual if nobody knows how much that is."""
    cache: Any = getattr(engine.model, "kv_cache", None)
    free = 0
    if cache is not None and engine.model.device.type == "cpu":
        with suppress(ValueError, OSError, AttributeError):
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    elif cache is not None and engine.model.device.type == "cuda":
        import torch

        free = torch.cuda.mem_get_info(engine.model.device)[0]
    if not free:
        return CELLS
    return max(CELLS, int(free * _SHARE / (cache.bytes / engine.model.cells)) // 1024 * 1024)


# ── remembered ───────────────────────────────────────────────────────────────────────────────────────────


class Memory:
    """What was measured on this machine. A file that is damaged or cannot be written is as one that is not there."""

    def __init__(self, task: Task, origin: Origin, device: str | None) -> None:
        import torch

        machine = [platform.machine(), platform.processor(), os.cpu_count(), torch.get_num_threads(), device]
        machine += [torch.cuda.get_device_name() if torch.cuda.is_available() else None]
        asked = [origin.model, origin.revision, origin.program, origin.dtype, task.mode, __version__]
        self._key = hashlib.sha256(json.dumps([machine, asked]).encode()).hexdigest()[:16]
        self._path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pastalang" / "tuning.json"

    def get(self) -> Tuning | None:
        try:
            found = self._read()[self._key]
            return Tuning(found["in_flight"], found["cells"], tuple((count, rate) for count, rate in found["rates"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, found: Tuning) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            known: dict[str, Any] = {}
            with suppress(OSError, ValueError, TypeError):
                known = dict(self._read())
            draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            draft.write_text(json.dumps(known | {self._key: asdict(found)}), encoding="utf-8")
            draft.replace(self._path)

    def _read(self) -> Any:
        return json.loads(self._path.read_text("utf-8"))
