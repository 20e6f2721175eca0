"""Documents through many processes, any of which may die: every document has its row, in order, anyway.

A batch of documents whose process dies is given to another one. A batch that two processes have died of is taken apart,
so that a document which kills whoever decodes it costs three processes and not the run: its row says so. A process that
takes far longer than all others is killed and counts as one that has died.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import Final, Protocol

from pastalang.bulk.documents import Document
from pastalang.bulk.rows import Row
from pastalang.failures import RuntimeFailure

_DEATHS_OF_A_BATCH: Final = 2  # then its documents are decoded one by one
_DEATHS_OF_A_DOCUMENT: Final = 3  # of processes that decoded nothing else; then it has failed
_DEATHS_IN_A_ROW: Final = 4  # for each worker, without a batch between them
_AHEAD: Final = 4  # the batches that may wait for an earlier one, for each worker
_PATIENCE: Final = 20.0  # times the usual time of a batch
_SHORTEST: Final = 600.0  # seconds that any batch may take
_OFTEN: Final = 30.0  # seconds between two looks at which are slow


class WorkersDied(RuntimeFailure):
    """Processes die whatever they are given, so that a run makes no progress."""

    code = "workers_died"


class Workers(Protocol):
    """Processes that decode. Each of them has at most one batch."""

    @property
    def idle(self) -> Sequence[Hashable]:
        """Those that can be given a batch, by names of theirs."""
        ...

    @property
    def size(self) -> int: ...

    def start(self, worker: Hashable, documents: Sequence[Document]) -> None: ...

    def wait(self, seconds: float) -> Mapping[Hashable, list[Row] | str]:
        """Those that have ended, soon after the first of them: their rows, or how they died."""
        ...

    def kill(self, worker: Hashable) -> None:
        """It counts as one that has died."""
        ...

    def failed(self, document: Document, reason: str) -> Row:
        """The row of a document that cannot be decoded."""
        ...


@dataclass
class _Batch:
    """Documents that are decoded together, and the rows of those that are decoded alone."""

    documents: list[Document]
    rows: list[Row] | None = None  # when all have theirs
    alone: list[Row | None] = field(default_factory=list)  # of each document, once the batch is taken apart


@dataclass
class _Task:
    """What a worker does: a batch, or the document of it with this number."""

    batch: _Batch
    number: int | None = None
    deaths: int = 0
    began: float = 0.0

    @property
    def documents(self) -> list[Document]:
        return self.batch.documents if self.number is None else [self.batch.documents[self.number]]


def rows_of_pool(
    workers: Workers, documents: Iterator[Document], *, batch: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Document, Row]]:
    """The row of each document, in order. Documents are taken as workers need them.

    If `documents` raises, the rows of those before are yielded first. Raises `WorkersDied`.
    """
    return _Pool(workers, batch, clock).rows(documents)


class _Pool:
    def __init__(self, workers: Workers, batch: int, clock: Callable[[], float]) -> None:
        self._workers = workers
        self._size = batch
        self._clock = clock
        self._order: deque[_Batch] = deque()  # those that have not been yielded
        self._again: deque[_Task] = deque()  # those whose worker has died
        self._running: dict[Hashable, _Task] = {}
        self._seconds: deque[float] = deque(maxlen=64)  # of the last whole batches
        self._looked = clock()
        self._deaths = 0  # since a worker has ended as it should

    def rows(self, documents: Iterator[Document]) -> Iterator[tuple[Document, Row]]:
        ended: Exception | None = None
        while True:
            ended = self._start(documents, ended)
            while self._order and (rows := self._order[0].rows) is not None:
                yield from zip(self._order.popleft().documents, rows, strict=True)
            if self._running:
                self._collect()
            elif not self._again and ended is not None:
                break
        if not isinstance(ended, StopIteration):
            raise ended

    def _start(self, documents: Iterator[Document], ended: Exception | None) -> Exception | None:
        """Give idle workers something to do. Returns how the documents have ended."""
        for worker in self._workers.idle:
            if self._again:
                task = self._again.popleft()
            elif ended is None and len(self._order) < self._workers.size * (1 + _AHEAD):
                taken, ended = _taken(documents, self._size)
                if not taken:
                    break
                task = _Task(_Batch(taken))
                self._order.append(task.batch)
            else:
                break
            task.began = self._clock()
            self._running[worker] = task
            self._workers.start(worker, task.documents)
        return ended

    def _collect(self) -> None:
        for worker, found in self._workers.wait(_OFTEN).items():
            task = self._running.pop(worker)
            if isinstance(found, str):
                self._died(task, found)
            else:
                self._deaths = 0
                self._ended(task, found)
        if self._clock() - self._looked >= _OFTEN:
            self._kill_the_slow()

    def _kill_the_slow(self) -> None:
        self._looked = self._clock()
        usual = median(self._seconds) if self._seconds else 0.0
        for worker, task in self._running.items():
            if self._looked - task.began > max(_SHORTEST, _PATIENCE * usual):
                self._workers.kill(worker)

    def _ended(self, task: _Task, rows: list[Row]) -> None:
        batch = task.batch
        if task.number is None:
            self._seconds.append(self._clock() - task.began)
            batch.rows = rows
            return
        [batch.alone[task.number]] = rows
        if all(row is not None for row in batch.alone):
            batch.rows = [row for row in batch.alone if row is not None]

    def _died(self, task: _Task, reason: str) -> None:
        self._deaths += 1
        if self._deaths > _DEATHS_IN_A_ROW * self._workers.size + _DEATHS_OF_A_DOCUMENT:
            raise WorkersDied(f"{self._deaths} workers died one after another, the last one so: {reason}")
        task.deaths += 1
        batch = task.batch
        if task.number is not None and task.deaths >= _DEATHS_OF_A_DOCUMENT:
            document = batch.documents[task.number]
            why = f"the process that decoded it died {task.deaths} times: {reason}"
            self._deaths = 0
            self._ended(task, [self._workers.failed(document, why)])
        elif task.number is None and task.deaths >= _DEATHS_OF_A_BATCH and len(batch.documents) > 1:
            batch.alone = [None] * len(batch.documents)
            self._again.extend(_Task(batch, number) for number in range(len(batch.documents)))
        elif task.number is None and len(batch.documents) == 1:
            batch.alone = [None]
            self._again.append(_Task(batch, 0, task.deaths))
        else:
            self._again.append(task)


def _taken(documents: Iterator[Document], count: int) -> tuple[list[Document], Exception | None]:
    """The next documents, and how they ended if they did."""
    found: list[Document] = []
    try:
        for document in islice(documents, count):
            found.append(document)
    except Exception as problem:
        return found, problem
    return found, None if len(found) == count else StopIteration()
