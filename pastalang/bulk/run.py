"""One run over files: documents in, committed chunks of rows out, until the end or until it is stopped.

    documents ── limit ── those after the committed ones ── decode, in order ── rows ── chunks ── OUT

Stopping takes no more documents, lets those in flight end, and commits them.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pastalang import __version__
from pastalang.bulk.documents import Document
from pastalang.bulk.files import Corpus
from pastalang.bulk.ledger import Chunk, Digest, Ledger
from pastalang.bulk.rows import FAILED, STATUSES, Origin, Row, extractions_of, row_of, without_value
from pastalang.bulk.task import Task
from pastalang.errors import PastaError, TruncationWarning
from pastalang.program.types import Sampling
from pastalang.values.describe import counted
from pastalang.values.json import write_json

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine

Decode: TypeAlias = "Callable[[Iterator[Document]], Iterator[tuple[Document, Row]]]"

CHUNK: Final = 256  # rows


@dataclass(frozen=True, slots=True)
class Job:
    """What a run does, apart from where it reads and writes.

    max_error_rate   the share of rows without a usable value above which a run stops, checked at every chunk
    stop_on_error    stop at the first such row, which is not written
    """

    task: Task
    origin: Origin
    in_flight: int
    chunk: int = CHUNK
    limit: int | None = None
    max_error_rate: float = 1.0
    stop_on_error: bool = False


@dataclass
class Totals:
    """The rows so far: those of earlier processes, and those of this one."""

    statuses: Counter[str] = field(default_factory=Counter)
    input_tokens: int = 0
    output_tokens: int = 0
    passes: int = 0
    resumed: int = 0  # rows of earlier processes
    began: float = field(default_factory=time.perf_counter)

    @property
    def rows(self) -> int:
        return sum(self.statuses.values())

    @property
    def failed(self) -> int:
        return sum(self.statuses[status] for status in FAILED)

    @property
    def seconds(self) -> float:
        """Of this process."""
        return time.perf_counter() - self.began

    def add(self, row: Row) -> None:
        self.statuses[row["_status"]] += 1
        self.input_tokens += row["_meta"]["input_tokens"]
        self.output_tokens += row["_meta"]["output_tokens"]
        self.passes += row["_meta"]["passes"]

    def add_chunk(self, chunk: Chunk) -> None:
        self.statuses.update(chunk.statuses)
        self.input_tokens += chunk.input_tokens
        self.output_tokens += chunk.output_tokens
        self.passes += chunk.passes


class Stopped(PastaError):
    """The run ended before its documents. What it had done is committed; `reason` says why it ended.

    `change` is the option without which the run would end at the same place again.
    """

    def __init__(self, reason: str, *, by_caller: bool = False, change: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_caller = by_caller
        self.change = change


def fingerprint_of(job: Job, corpus: Corpus) -> dict[str, str]:
    """Everything that the rows of a run depend on, by name."""
    task, origin = job.task, job.origin
    texts = task.question.inputs if task.question is not None else {}
    options = {name: value for name, value in task.options.items() if name not in ("mode", "sampling", "seed")}
    options |= {} if task.max_tokens is None else {"max_tokens": task.max_tokens}
    found: dict[str, str] = {
        "program": origin.program,
        "instructions": _short({name: value for name, value in texts.items() if name != "text"}),
        "model": f"{origin.model}, revision {origin.revision}",
        "dtype": origin.dtype or "what suits the device",
        "mode": task.mode,
        "sampling": f"{_sampling(task.options.get('sampling'))}, seed {task.options.get('seed', 0)}",
        "options": ", ".join(f"{name}={value}" for name, value in sorted(options.items())) or "none",
        "columns": task.read.described,
        "limit": "none" if job.limit is None else str(job.limit),
        "version": __version__,
    }
    return found | {f"documents in {name}": size for name, size in corpus.identity.items()}


def _sampling(sampling: Sampling | None) -> str:
    given = {} if sampling is None else {name: value for name, value in asdict(sampling).items() if value is not None}
    return ", ".join(f"{name}={value}" for name, value in given.items()) or "of the program"


def _short(texts: Mapping[str, Any]) -> str:
    written = write_json(dict(texts)) if texts else "none"
    return written if len(written) <= 80 else f"{written[:60]}… ({hashlib.sha256(written.encode()).hexdigest()[:12]})"


def rows_of_engine(engine: Engine, job: Job, documents: Iterator[Document]) -> Iterator[tuple[Document, Row]]:
    """The row of each document, in order."""
    for document, found in extractions_of(engine, job.task, documents, in_flight=job.in_flight):
        yield document, row_of(document, found, job.task, job.origin)


def run_job(
    decode: Decode,
    job: Job,
    corpus: Corpus,
    ledger: Ledger,
    *,
    report: Callable[[Totals], None],
    is_stopped: Callable[[], bool],
) -> Totals:
    """Give the documents that are not committed yet to `decode`, and commit their rows, calling `report` for each.

    Raises `Stopped` if it ends early, `RunRefused` if the documents have changed, and `OSError` if a chunk cannot be
    written. Whatever it raises, `ledger` has every row that was committed.
    """
    totals = Totals()
    for chunk in ledger.chunks:
        totals.add_chunk(chunk)
    totals.resumed = totals.rows
    if not ledger.is_complete:
        documents = islice(corpus.documents, job.limit)
        ledger.skip(documents)
        report(totals)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # every row has its status
            _write(decode(_until(documents, is_stopped)), job, _Writer(job, ledger, totals, report))
        if is_stopped():
            raise Stopped("stopped", by_caller=True)
        ledger.finish()
    return totals


def _until(documents: Iterator[Document], is_stopped: Callable[[], bool]) -> Iterator[Document]:
    for document in documents:
        if is_stopped():
            return
        yield document


def _write(pairs: Iterator[tuple[Document, Row]], job: Job, writer: _Writer) -> None:
    while True:
        try:
            pair = next(pairs, None)
        except Exception:  # the documents cannot be read any further
            writer.commit()
            raise
        if pair is None:
            break
        document, row = pair[0], writer.fitted(*pair)
        if job.stop_on_error and row["_status"] in FAILED:
            writer.commit()
            raise Stopped(f"{row['_error']} ({row['_status']})", change="--on-error row")
        writer.add(document, row)
    writer.commit()


class _Writer:
    """Collects rows, and commits them when there are enough for a chunk."""

    def __init__(self, job: Job, ledger: Ledger, totals: Totals, report: Callable[[Totals], None]) -> None:
        self._job = job
        self._ledger = ledger
        self._totals = totals
        self._report = report
        self._since = time.perf_counter()
        self._begin()

    def _begin(self) -> None:
        self._rows: list[Row] = []
        self._digest = Digest()

    def fitted(self, document: Document, row: Row) -> Row:
        misfit = self._ledger.output.misfit(row["value"])
        return row if misfit is None else without_value(row, document, misfit)

    def add(self, document: Document, row: Row) -> None:
        self._rows.append(row)
        self._digest.add(document)
        self._totals.add(row)
        self._report(self._totals)
        if len(self._rows) >= self._job.chunk:
            self.commit()

    def commit(self) -> None:
        """Commit what there is. Raises `Stopped` if too many rows have failed."""
        if not self._rows:
            return
        now = time.perf_counter()
        sums = Totals()
        for row in self._rows:
            sums.add(row)
        statuses: dict[str, int] = {status: sums.statuses[status] for status in STATUSES if sums.statuses[status]}
        chunk = Chunk(
            len(self._rows), self._digest.value, statuses, sums.input_tokens, sums.output_tokens, sums.passes,
            round(now - self._since, 3),
        )  # fmt: skip
        self._ledger.commit(self._rows, chunk)
        self._since = now
        self._begin()
        rate = self._totals.failed / self._totals.rows
        if rate > self._job.max_error_rate:
            raise Stopped(
                f"{self._totals.failed:,} of {counted(self._totals.rows, 'document')} failed, {rate:.1%}, and the most "
                f"that is allowed is {self._job.max_error_rate:.1%}",
                change="a higher --max-error-rate",
            )


def summary_of(totals: Totals, job: Job) -> Mapping[str, Any]:
    """The figures at the end of a run."""
    rows = totals.rows - totals.resumed
    return {
        "rows": totals.rows,
        "statuses": {status: totals.statuses[status] for status in STATUSES if totals.statuses[status]},
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "passes_per_document": round(totals.passes / max(totals.rows, 1), 1),
        "seconds": round(totals.seconds, 1),
        "documents_per_second": round(rows / max(totals.seconds, 1e-9), 2),
        "resumed": totals.resumed,
        "in_flight": job.in_flight,
    }
