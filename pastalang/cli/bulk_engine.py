"""How `pasta extract` decodes: with an engine of this machine and the numbers measured for it, or on a cluster."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pastalang.cli.model_source import load_engine
from pastalang.cli.output import echo_error
from pastalang.runtime.models.source import Adapter, DTypeName

if TYPE_CHECKING:
    from pastalang.bulk.documents import Corpus
    from pastalang.bulk.run import Decode, Job
    from pastalang.runtime.engine import Engine

_CELLS: Final = 8192
_LONG: Final = 1_000  # documents, for which measuring takes a tenth of the time or less
_FASTER: Final = "this processor computes bfloat16 fast: --dtype bfloat16 takes less time and rounds more"
_LOOKED_AT: Final = 2_000  # documents that those measured are drawn from


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command is to do with the rows. `compare` is a number of documents."""

    output: Path | None
    resume: bool
    overwrite: bool
    dry_run: bool
    price: float | None
    compare: int | None
    ray: str | None
    workers: int | None
    as_json: bool
    in_flight: int | None
    cells: int | None


class LoadOnce:
    """Loads the engine when it is first needed, and again only for more cells."""

    def __init__(self, model: str, device: str | None, dtype: DTypeName | None, adapter: Adapter) -> None:
        self.device = device
        self._model = model
        self._dtype: DTypeName | None = dtype
        self._adapter: Adapter = adapter
        self._loaded: Engine | None = None

    def __call__(self, cells: int | None) -> Engine:
        if self._loaded is None or (cells is not None and cells > self._loaded.model.cells):
            self._loaded = None  # the memory is free before it is taken again
            self._loaded = load_engine(
                self._model, device=self.device, dtype=self._dtype, cells=cells or _CELLS, adapter=self._adapter
            )
        return self._loaded

    @property
    def dtype(self) -> str | None:
        """What the engine computes in, or was asked to on other machines."""
        if self._loaded is None:
            return self._dtype
        return str(self._loaded.model.dtype).removeprefix("torch.")

    @property
    def advice(self) -> str | None:
        """A faster type for this processor, which the user has to choose because it rounds more."""
        if self._loaded is None or self._dtype is not None:
            return None
        from pastalang.runtime.models.loading import is_faster_in_bfloat16

        model = self._loaded.model
        return _FASTER if is_faster_in_bfloat16(model.device, model.dtype) else None


@dataclass(frozen=True, slots=True)
class Work:
    """A job with its documents, those documents once more, and the engine with its cells."""

    job: Job
    corpus: Corpus
    reopen: Callable[[], Corpus]
    load: LoadOnce
    cells: int | None

    def engine(self) -> Engine:
        return self.load(self.cells)


def tuned(work: Work, wanted: Wanted) -> Work:
    """With the number in flight and the cells that were measured, if the run is long enough for that."""
    from pastalang.bulk.documents import drawn_from
    from pastalang.bulk.estimate import SAMPLE, Memory, tune

    count = work.corpus.count(work.job.limit) or 0
    is_long = count > 0 and (wanted.dry_run or count >= _LONG)  # without documents there is nothing to measure
    if wanted.in_flight is not None or wanted.cells is not None or wanted.ray is not None or not is_long:
        return work
    job = work.job
    memory = Memory(job.task, job.origin, work.load.device)
    found = memory.get()
    if found is None:
        _, sample = drawn_from(islice(work.reopen().documents, min(count, _LOOKED_AT)), SAMPLE)
        found = tune(work.load, job.task, sample)
        memory.put(found)
    if not wanted.as_json:
        echo_error(f"note: {found.described}; --in-flight and --cells choose others")
    return replace(work, job=replace(job, in_flight=found.in_flight), cells=found.cells)


def decoding(work: Work, wanted: Wanted, count: int | None) -> AbstractContextManager[Decode]:
    return _engine_rows(work) if wanted.ray is None else _ray_rows(work, wanted, count)


@contextmanager
def _engine_rows(work: Work) -> Iterator[Decode]:
    """Until the end, nothing that is already alive is searched for garbage: model and libraries are a million objects,
    and going through them again and again took 4 % of the time.
    """
    from pastalang.bulk.run import rows_of_engine

    engine = work.engine()
    gc.collect()
    gc.freeze()
    try:
        yield partial(rows_of_engine, engine, work.job)
    finally:
        gc.unfreeze()


@contextmanager
def _ray_rows(work: Work, wanted: Wanted, count: int | None) -> Iterator[Decode]:
    """In batches so small that all workers have some, if the number of documents is known."""
    from pastalang.bulk.pool import rows_of_pool
    from pastalang.ray import RayWorkers

    job = work.job
    assert wanted.ray is not None
    pool = RayWorkers(
        wanted.ray, job.task, job.origin, size=wanted.workers, device=work.load.device, cells=work.cells or _CELLS,
        in_flight=job.in_flight,
    )  # fmt: skip
    with pool as workers:
        most = job.chunk if count is None else max(1, count // (4 * workers.size))
        yield partial(rows_of_pool, workers, batch=min(job.chunk, most))
