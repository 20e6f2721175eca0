"""What a run has committed, what it was started with, and the lock that keeps two runs apart.

The folder `OUT.run`, next to the output, holds

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
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from pastalang.bulk.documents import Document
from pastalang.bulk.output import Output
from pastalang.errors import PastaError
from pastalang.values.describe import counted

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

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    # ── beginning and going on ───────────────────────────────────────────────────────────────────────────

    def open(self, *, resume: bool, overwrite: bool) -> None:
        """Take the lock, and begin a run or go on with one. Raises `RunRefused`, and `OSError` if it cannot write."""
        if self.out.is_dir():
            raise RunRefused(f"{self.out} is a folder; the rows are written to a file")
        self.folder.mkdir(exist_ok=True)
        self._take_lock()
        try:
            manifest = self._manifest()
            if overwrite:
                self._clear()
                manifest = None
            if manifest is None:
                self._begin(overwrite=overwrite)
            elif resume:
                self._go_on(manifest)
            else:
                raise RunRefused(self._found())
        except BaseException:
            self.close()
            raise

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
            found = json.loads((self.folder / _MANIFEST).read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as problem:
            raise RunRefused(f"{self.folder / _MANIFEST} is damaged; begin again with --overwrite") from problem
        return found if isinstance(found, dict) else None

    def _read_journal(self) -> None:
        """The committed chunks. A last line that was cut off is dropped."""
        path = self.folder / _JOURNAL
        whole = b""
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None:
                break
            if "joined" in entry:
                self.is_complete = True
            else:
                self.chunks.append(Chunk(**entry))
            whole += line
        if path.exists() and len(whole) != path.stat().st_size:
            with path.open("rb+") as stream:
                stream.truncate(len(whole))
        parts = [] if self.is_complete else [self._part(number) for number in range(len(self.chunks))]
        gone = [path for path in (*parts, *([self.out] if self.is_complete else [])) if not path.exists()]
        if gone:
            raise RunRefused(f"{gone[0]} is gone, with rows that were committed: begin again with --overwrite")

    def skip(self, documents: Iterator[Document]) -> None:
        """Leave out the documents of the committed chunks. Raises `RunRefused` if they are others now."""
        first = 0
        for chunk in self.chunks:
            digest, found = Digest(), 0
            for document in _taken(documents, chunk.rows):
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
            stream.flush()
            os.fsync(stream.fileno())

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
        if not _lock_file(self._lock):
            self._lock.seek(0)
            owner = self._lock.read().strip()
            self._lock.close()
            raise RunRefused(f"another process writes to {self.out}" + (f": {owner}" if owner else ""))
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()}\n")
        self._lock.flush()

    def close(self) -> None:
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
        content = [document.id, sorted((name, repr(value)) for name, value in document.record.items())]
        content.append(None if document.error is None else str(document.error))
        self._hash.update(json.dumps(content).encode())

    @property
    def value(self) -> str:
        return self._hash.hexdigest()[:16]


def _taken(documents: Iterator[Document], count: int) -> Iterable[Document]:
    for _ in range(count):
        document = next(documents, None)
        if document is None:
            return
        yield document


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
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


if sys.platform == "win32":
    import msvcrt

    def _lock_file(stream: IO[str]) -> bool:
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock_file(stream: IO[str]) -> bool:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
