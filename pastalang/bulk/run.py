"""One run over files: documents in, committed chunks of rows out, until the end or until it is stopped.

    documents ── limit ── those after the committed ones ── decode, in order ── rows ── chunks ── OUT

Stopping takes no more documents, lets those in flight end, and commits them. OUT is JSON lines, CSV or Parquet. The
folder `OUT.run`, next to it, holds

    lock            held by the process that writes
    manifest.json   the fingerprint: everything that a row depends on
    journal.jsonl   a line for each committed chunk, and one when they have been joined into OUT
    000000.jsonl    the rows of the first chunk, until then
    comparison.json how the rows compare with those from left to right, if that was asked for

A chunk is committed by its line in the journal. Its file is written, synced and renamed before that, so a process that
is killed leaves either a whole chunk or one that does not count. The folder stays without its chunks when the run has
ended: it says what the output was made of.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Generic, TypeAlias, TypeVar

from pastalang.bulk.documents import Corpus, Document
from pastalang.bulk.doubts import Doubts
from pastalang.bulk.outputs import ALL, Output, Shape, sync, write_text
from pastalang.bulk.rows import FAILED, STATUSES, Origin, Row, Task, rows_of, text_of_id, without_value
from pastalang.failures import FileError, PastaError, TruncationWarning
from pastalang.hosts.opening import AnyEngine
from pastalang.locks import lock_file
from pastalang.program.types import Sampling
from pastalang.values.describe import counted
from pastalang.values.json import write_json
from pastalang.version import __version__

# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────────


_LOCK: Final = "lock"
_MANIFEST: Final = "manifest.json"
_JOURNAL: Final = "journal.jsonl"
_COMPARISON: Final = "comparison.json"
_VERSION: Final = 1


class RunRefused(PastaError):
    """A run that would overwrite, mix or disturb another one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Committed rows: how many, a digest of their documents, what they cost, and when they were committed."""

    rows: int
    documents: str
    statuses: Mapping[str, int]
    input_tokens: int
    output_tokens: int
    passes: int
    seconds: float  # since the chunk before it, or since the process began
    at: float = field(default_factory=time.time)


class Ledger:
    """The committed chunks of one output. A context manager that holds the lock."""

    def __init__(self, out: Path, fingerprint: Mapping[str, str], output: Output) -> None:
        self.out = out
        self.folder = out.with_name(f"{out.name}.run")
        self.chunks: list[Chunk] = []
        self.is_complete = False  # the chunks have been joined into the output
        self._fingerprint = dict(fingerprint)
        self.output = output
        self._lock: IO[str] | None = None
        self._is_own = False  # what is in the folder is of this run, or of none

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    # ── beginning and going on ───────────────────────────────────────────────────────────────────────────

    def open(self, *, resume: bool, overwrite: bool) -> None:
        """Take the lock, and begin a run or go on with one. Raises `RunRefused`, and `OSError` if it cannot write."""
        if self.out.is_dir():
            raise RunRefused(f"{self.out} is a folder; the rows are written to a file")
        is_new = self._make_folder()
        self._take_lock()
        self._is_own = is_new
        try:
            manifest = None if overwrite else self._manifest()
            if manifest is None or self._holds_nothing():
                self._begin(overwrite=overwrite)
            elif resume:
                self._go_on(manifest)
            else:
                raise RunRefused(self._found())
            self._is_own = True
        except BaseException:
            self.close()
            raise

    def _make_folder(self) -> bool:
        """Whether there was none."""
        try:
            self.folder.mkdir()
        except FileExistsError:
            return False
        return True

    def _holds_nothing(self) -> bool:
        """Whether a run has ended before its first row was committed, so that there is nothing to go on with."""
        journal = self.folder / _JOURNAL
        if not journal.exists():
            return True
        with journal.open("rb") as stream:
            return not stream.readline().endswith(b"\n")

    def _begin(self, *, overwrite: bool) -> None:
        if self.out.exists() and not overwrite:
            raise RunRefused(f"{self.out} exists: write to another file, or replace it with --overwrite")
        self._clear()
        content = {"version": _VERSION, "fingerprint": self._fingerprint}
        _replace(self.folder / _MANIFEST, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def _go_on(self, manifest: Mapping[str, Any]) -> None:
        """Raises `RunRefused` with every part that differs."""
        check_version(manifest, self.folder)
        then: Mapping[str, str] = manifest.get("fingerprint", {})
        names = [name for name in {**then, **self._fingerprint} if then.get(name) != self._fingerprint.get(name)]
        if names:
            differences = [
                f"  {name}: {then.get(name, 'none')} then, {self._fingerprint.get(name, 'none')} now" for name in names
            ]
            raise RunRefused(
                "\n".join(
                    [f"the run of {self.out} was started with something else, so it is not resumed:", *differences]
                )
                + "\nresume it as it was started, or begin again with --overwrite"
            )
        self._read_journal()

    def _found(self) -> str:
        self._read_journal()
        if self.is_complete:
            return f"{self.out} exists: write to another file, or replace it with --overwrite"
        begun = f"an unfinished run of {self.out} has {counted(self.rows, 'row')}"
        return f"{begun}: go on with --resume, or begin again with --overwrite"

    def _manifest(self) -> Mapping[str, Any] | None:
        try:
            return dict(json.loads((self.folder / _MANIFEST).read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as problem:
            raise RunRefused(f"{self.folder / _MANIFEST} is damaged; begin again with --overwrite") from problem

    def _read_journal(self) -> None:
        """The committed chunks. A last line that was cut off is dropped."""
        path, whole = self.folder / _JOURNAL, 0
        with path.open("rb+") if path.exists() else io.BytesIO() as stream:
            for line in stream:
                try:
                    entry = json.loads(line) if line.endswith(b"\n") else None
                except ValueError:
                    entry = None
                if entry is None:
                    stream.truncate(whole)
                    break
                if "joined" in entry:
                    self.is_complete = True
                else:
                    self.chunks.append(Chunk(**entry))
                whole += len(line)
        parts = [] if self.is_complete else [self._part(number) for number in range(len(self.chunks))]
        gone = [path for path in (*parts, *([self.out] if self.is_complete else [])) if not path.exists()]
        if gone:
            raise RunRefused(f"{gone[0]} is gone, with rows that were committed: begin again with --overwrite")

    def skip(self, documents: Iterator[Document]) -> None:
        """Leave out the documents of the committed chunks. Raises `RunRefused` if they are others now."""
        first = 0
        for chunk in self.chunks:
            digest, found = Digest(), 0
            for document in islice(documents, chunk.rows):
                digest.add(document)
                found += 1
            if found < chunk.rows or digest.value != chunk.documents:
                raise RunRefused(
                    f"the documents have changed: {first + 1:,} to {first + chunk.rows:,} are not those that the run "
                    f"of {self.out} has read; begin again with --overwrite"
                )
            first += chunk.rows

    def check_all(self, documents: Iterator[Document]) -> None:
        """Raises `RunRefused` unless they are those of the committed chunks, and no more."""
        self.skip(documents)
        if next(documents, None) is not None:
            raise RunRefused(
                f"there are more documents than the run of {self.out} has read; begin again with --overwrite"
            )

    # ── committing ───────────────────────────────────────────────────────────────────────────────────────

    def commit(self, rows: list[dict[str, Any]], chunk: Chunk) -> None:
        """Write the rows so that they survive a crash. Raises `OSError`, and then nothing is committed."""
        part = self._part(len(self.chunks))
        draft = part.with_name(f"{part.name}.draft")
        try:
            self.output.write(draft, rows)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
        draft.replace(part)
        _sync_folder(self.folder)
        self._log(asdict(chunk))
        self.chunks.append(chunk)

    def finish(self) -> None:
        """The documents have ended: join the chunks into the output. May be repeated after a crash."""
        parts = [self._part(number) for number in range(len(self.chunks))]
        draft = self.folder / f"joined{self.out.suffix}"
        self.output.join(draft, parts)
        draft.replace(self.out)
        _sync_folder(self.out.parent)
        self._log({"joined": self.rows})
        self.is_complete = True
        for part in parts:
            part.unlink(missing_ok=True)

    def keep_comparison(self, found: Mapping[str, Any]) -> None:
        """Raises `OSError`."""
        _replace(self.folder / _COMPARISON, json.dumps(found, ensure_ascii=False) + "\n")

    def _log(self, entry: Mapping[str, Any]) -> None:
        with (self.folder / _JOURNAL).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")
            sync(stream)

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06}{self.out.suffix}"

    def _clear(self) -> None:
        """Remove what a run has left in the folder, the manifest first, and nothing else."""
        suffix, own = re.escape(self.out.suffix), "|".join(map(re.escape, (_MANIFEST, _JOURNAL, _COMPARISON)))
        left = re.compile(rf"({own}|\d{{6,}}{suffix}|joined{suffix})(\.draft)?")
        for path in (self.folder / _MANIFEST, self.folder / _JOURNAL, *self.folder.iterdir()):
            if left.fullmatch(path.name):
                path.unlink(missing_ok=True)

    # ── the lock ─────────────────────────────────────────────────────────────────────────────────────────

    def _take_lock(self) -> None:
        """The system frees the lock of a process that is killed."""
        self._lock = (self.folder / _LOCK).open("a+", encoding="utf-8")
        if not lock_file(self._lock):
            self._lock.seek(0)
            owner = self._lock.read().strip()
            self._lock.close()
            raise RunRefused(f"another process writes to {self.out}" + (f": {owner}" if owner else ""))
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()}\n")
        self._lock.flush()

    def close(self) -> None:
        """Frees the lock. A run without a committed row, and one that was refused, leaves nothing behind."""
        if self._is_own and not self.chunks and not self.is_complete:
            with suppress(OSError):
                self._clear()
                (self.folder / _LOCK).unlink(missing_ok=True)
                self.folder.rmdir()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, found: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def check_version(manifest: Mapping[str, Any], folder: Path) -> None:
    """Raises `RunRefused` if the folder is of a version that cannot be read."""
    found = manifest.get("version")
    if found != _VERSION:
        raise RunRefused(
            f"{folder} is of version {found}; version {_VERSION} can be read: use the PastaLang that wrote it"
        )


class Digest:
    """A digest of documents: their ids and the texts that were read of them."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, document: Document) -> None:
        content = [text_of_id(document.id), sorted((name, repr(value)) for name, value in document.record.items())]
        content.append(None if document.error is None else str(document.error))
        self._hash.update(json.dumps(content).encode())

    @property
    def value(self) -> str:
        return self._hash.hexdigest()[:16]


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    write_text(draft, text)
    draft.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make renames in the folder survive a power cut, on systems that can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────────


Decode: TypeAlias = "Callable[[Iterator[Document]], Iterator[tuple[Document, Row]]]"
T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound="Counts")

CHUNK: Final = 256  # rows


@dataclass(frozen=True, slots=True)
class Job:
    """What a run does, apart from where it reads and writes.

    max_error_rate   the share of rows without a usable value above which a run stops, checked at every chunk and before
                     it goes on
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
class Counts(ABC):
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
    def seconds(self) -> float:
        """Of this process."""
        return time.perf_counter() - self.began

    @abstractmethod
    def add(self, row: Any) -> None: ...

    def count(self, status: str, read: int, written: int, passes: int) -> None:
        """One row with the tokens that it has read and written."""
        self.statuses[status] += 1
        self.input_tokens += read
        self.output_tokens += written
        self.passes += passes

    def resume(self, chunks: Iterable[Chunk]) -> None:
        """The rows of earlier processes."""
        for chunk in chunks:
            self.statuses.update(chunk.statuses)
            self.input_tokens += chunk.input_tokens
            self.output_tokens += chunk.output_tokens
            self.passes += chunk.passes
        self.resumed = self.rows

    def as_chunk(self, documents: Digest, seconds: float) -> Chunk:
        return Chunk(
            self.rows, documents.value, dict(self.statuses), self.input_tokens, self.output_tokens, self.passes,
            round(seconds, 3),
        )  # fmt: skip


@dataclass
class Totals(Counts):
    doubts: Doubts = field(default_factory=Doubts)  # about the rows of this process

    @property
    def failed(self) -> int:
        return sum(self.statuses[status] for status in FAILED)

    def add(self, row: Row) -> None:
        meta = row["_meta"]
        self.count(row["_status"], meta["input_tokens"], meta["output_tokens"], meta["passes"])
        self.doubts.add(row)


class Stopped(PastaError):
    """The run ended before its documents. What it had done is committed; `reason` says why it ended.

    `change` is the option without which the run would end at the same place again.
    """

    def __init__(self, reason: str, *, by_caller: bool = False, change: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_caller = by_caller
        self.change = change


def fingerprint_of(job: Job, corpus: Corpus, shape: Shape = ALL) -> dict[str, str]:
    """Everything that the rows of a run depend on, by name."""
    task, origin = job.task, job.origin
    texts = task.question.inputs if task.question is not None else {}
    options = {name: value for name, value in task.settings.items() if name not in ("mode", "sampling", "seed")}
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
        **({} if shape == ALL else {"written": repr(shape)}),
        "version": __version__,
    }
    return found | {f"documents in {name}": size for name, size in corpus.identity.items()}


def _sampling(sampling: Sampling | None) -> str:
    given = {} if sampling is None else {name: value for name, value in asdict(sampling).items() if value is not None}
    return ", ".join(f"{name}={value}" for name, value in given.items()) or "of the program"


def _short(texts: Mapping[str, Any]) -> str:
    written = write_json(dict(texts)) if texts else "none"
    return written if len(written) <= 80 else f"{written[:60]}… ({hashlib.sha256(written.encode()).hexdigest()[:12]})"


def rows_of_engine(engine: AnyEngine, job: Job, documents: Iterator[Document]) -> Iterator[tuple[Document, Row]]:
    """The row of each document, in order. Raises `ServerLost`."""
    return rows_of(engine, job.task, job.origin, documents, in_flight=job.in_flight)


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

    Raises `Stopped` if it ends early, `RunRefused` if the documents have changed, `FileError` if one of them cannot be
    read, and `OSError` if a chunk cannot be written. Whatever it raises, `ledger` has every row that was committed.
    """
    totals = Totals()
    totals.resume(ledger.chunks)
    if not ledger.is_complete:
        with corpus as all_documents, warnings.catch_warnings():
            _check_rate(totals, job)
            documents = islice(_readable(all_documents), job.limit)
            ledger.skip(documents)
            report(totals)
            warnings.simplefilter("ignore", TruncationWarning)  # every row has its status
            _write(decode(until(documents, is_stopped)), job, _RowWriter(job, ledger, totals, report))
        if is_stopped():
            raise Stopped("stopped", by_caller=True)
        ledger.finish()
    return totals


def _readable(documents: Iterator[Document]) -> Iterator[Document]:
    """Raises `FileError` for a file that has gone since: an `OSError` of a run is about what it writes."""
    try:
        yield from documents
    except OSError as problem:
        place = problem.filename or "a document"
        raise FileError(f"{place} could not be read: {(problem.strerror or str(problem)).lower()}") from problem


def until(given: Iterable[T], is_stopped: Callable[[], bool]) -> Iterator[T]:
    for one in given:
        if is_stopped():
            return
        yield one


def _write(pairs: Iterator[tuple[Document, Row]], job: Job, writer: _RowWriter) -> None:
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


class ChunkWriter(Generic[C, R]):
    """Collects rows, and commits them when there are enough for a chunk. `part` is a row as the ledger keeps it."""

    def __init__(
        self, ledger: Ledger, totals: C, report: Callable[[C], None], chunk: int, part: Callable[[R], dict[str, Any]]
    ) -> None:
        self._ledger, self._totals, self._report, self._chunk, self._part = ledger, totals, report, chunk, part
        self._since = time.perf_counter()
        self._begin()

    def _begin(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._digest, self._sums = Digest(), type(self._totals)()

    def add(self, document: Document, row: R) -> None:
        self._rows.append(self._part(row))
        self._digest.add(document)
        self._sums.add(row)
        self._totals.add(row)
        self._report(self._totals)
        if len(self._rows) >= self._chunk:
            self.commit()

    def commit(self) -> None:
        """Commit what there is."""
        if self._rows:
            now = time.perf_counter()
            self._ledger.commit(self._rows, self._sums.as_chunk(self._digest, now - self._since))
            self._since = now
            self._begin()


class _RowWriter(ChunkWriter["Totals", Row]):
    def __init__(self, job: Job, ledger: Ledger, totals: Totals, report: Callable[[Totals], None]) -> None:
        super().__init__(ledger, totals, report, job.chunk, lambda row: row)
        self._job = job

    def fitted(self, document: Document, row: Row) -> Row:
        misfit = self._ledger.output.misfit(row["value"])
        return row if misfit is None else without_value(row, document, misfit)

    def commit(self) -> None:
        """Raises `Stopped` if too many rows have failed."""
        if self._rows:
            super().commit()
            _check_rate(self._totals, self._job)


def _check_rate(totals: Totals, job: Job) -> None:
    """Raises `Stopped` if too many rows have failed."""
    rate = totals.failed / max(totals.rows, 1)
    if rate > job.max_error_rate:
        raise Stopped(
            f"{totals.failed:,} of {counted(totals.rows, 'document')} failed, {rate:.1%}, and the most that is allowed "
            f"is {job.max_error_rate:.1%}",
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
        "problems": totals.doubts.problems() if totals.rows else ["there are no documents"],
        "doubts": totals.doubts.lines(job.task.plan()),
    }
