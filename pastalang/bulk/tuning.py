"""How many documents a machine should decode at once, and the memory that they need: measured once and remembered.

The measurement is of one machine, one model and one program. It is kept in the folder for caches of the user, and does
not change any row.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pastalang import __version__
from pastalang.bulk.documents import Document
from pastalang.bulk.rows import Origin, extractions_of
from pastalang.bulk.task import Task
from pastalang.errors import TruncationWarning
from pastalang.runtime.call import IN_FLIGHT

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine

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
            rates[count] = _rate(engine, task, documents, in_flight=count)
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


def _rate(engine: Engine, task: Task, documents: Sequence[Document], *, in_flight: int) -> float:
    """Documents per second."""
    began = time.perf_counter()
    for _ in extractions_of(engine, task, documents, in_flight=in_flight):
        pass
    return len(documents) / max(time.perf_counter() - began, 1e-9)


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
