"""Outputs of `pasta extract`, read again: the rows, what their run was, and the documents that they were made of."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pastalang.bulk.compare import Comparison
from pastalang.bulk.documents import Columns, Document
from pastalang.bulk.files import MAX_BYTES, Corpus, import_arrow, open_documents
from pastalang.bulk.ledger import RunRefused, check_version
from pastalang.bulk.rows import STATUSES, Row
from pastalang.errors import FileError

_OWN: Final = ("id", "_status", "_error", "_fields", "_meta")
_VALUE: Final = "value"
_PLACE: Final = "documents in "  # how the parts of a fingerprint begin that name files


@dataclass(frozen=True, slots=True)
class Progress:
    """A committed chunk: its rows, the seconds that it took, its tokens, and when it was committed."""

    rows: int
    seconds: float
    output_tokens: int
    at: float


@dataclass(frozen=True, slots=True)
class SavedRun:
    """What `OUT.run` says of a run: nothing if there is no such folder. `comparison` is that of `--compare`."""

    fingerprint: Mapping[str, str] = field(default_factory=dict)
    chunks: tuple[Progress, ...] = ()
    comparison: Comparison | None = None

    @property
    def columns(self) -> Columns:
        described = self.fingerprint.get("columns")
        return Columns() if described is None else Columns.of_description(described)


def read_run(out: Path) -> SavedRun:
    """Raises `FileError` if the folder is damaged or of another version."""
    folder = out.with_name(f"{out.name}.run")
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        check_version(manifest, folder)
        lines = (folder / "journal.jsonl").read_text("utf-8").splitlines()
        entries = [entry for entry in map(json.loads, lines) if "rows" in entry]
        chunks = tuple(
            Progress(entry["rows"], entry["seconds"], entry["output_tokens"], entry["at"]) for entry in entries
        )
        compared = folder / "comparison.json"
        comparison = Comparison.of_data(json.loads(compared.read_text("utf-8"))) if compared.exists() else None
        return SavedRun(dict(manifest["fingerprint"]), chunks, comparison)
    except FileNotFoundError:
        return SavedRun()
    except RunRefused as problem:
        raise FileError(str(problem)) from problem
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise FileError(f"{folder} is damaged; without this folder, there is a report of the rows alone") from problem


def documents_of(run: SavedRun, place: Path) -> Corpus:
    """The documents that a run has read. Raises `FileError` if they are others now, and what `open_documents` does."""
    corpus = open_documents(place, run.columns)
    then = {name.removeprefix(_PLACE): size for name, size in run.fingerprint.items() if name.startswith(_PLACE)}
    if then and sorted(then.values()) != sorted(corpus.identity.values()):
        raise FileError(
            f"{place} is not what the rows were made of: "
            f"{_listed(then)} then, {_listed(corpus.identity) or 'nothing'} now"
        )
    return corpus


def with_documents(rows: Iterator[Row], documents: Iterator[Document]) -> Iterator[tuple[Row, Document | None]]:
    """Each row with its document. Raises `FileError` at the first that is not that of its row."""
    for number, row in enumerate(rows, start=1):
        document = next(documents, None)
        if document is None or (row["id"] or None) != (document.id or None):
            there = "there is none" if document is None else f"it has the id {document.id or 'null'}"
            raise FileError(f"row {number:,}, with the id {row['id'] or 'null'}, is not of the document there: {there}")
        yield row, document


def _listed(sizes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_rows(out: Path) -> Iterator[Row]:
    """The rows of an output, one at a time. Raises `FileError`."""
    if not out.is_file():
        begun = out.with_name(f"{out.name}.run").is_dir()
        why = "its run has not ended: go on with `pasta extract` and --resume" if begun else "there is no such file"
        raise FileError(f"{out} cannot be read: {why}")
    match out.suffix.lower():
        case ".jsonl" | ".ndjson":
            found = _json_rows(out)
        case ".csv" | ".tsv":
            found = _table_rows(out)
        case ".parquet":
            found = _parquet_rows(out)
        case _:
            raise FileError(f"{out} is not an output of `pasta extract`, which are .jsonl, .csv, .tsv and .parquet")
    return _checked(out, found)


def _checked(out: Path, rows: Iterator[Row]) -> Iterator[Row]:
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            missing = [name for name in (*_OWN, _VALUE) if name not in row]
            if missing or row["_status"] not in STATUSES:
                what = f"it has no `{missing[0]}`" if missing else f"its status is {row['_status']!r:.40}"
                raise FileError(f"row {number:,} of {out} is not one of `pasta extract`: {what}")
            yield row
    except (ValueError, TypeError, AttributeError, csv.Error, RecursionError) as problem:
        raise FileError(f"row {number + 1:,} of {out} is not one of `pasta extract`: {problem}") from problem


def _json_rows(out: Path) -> Iterator[Row]:
    with out.open(encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line, parse_float=Decimal)
            yield row if isinstance(row, dict) else {}


def _table_rows(out: Path) -> Iterator[Row]:
    csv.field_size_limit(MAX_BYTES)
    with out.open(encoding="utf-8", newline="") as stream:
        for cells in csv.DictReader(stream, delimiter="\t" if out.suffix.lower() == ".tsv" else ",", strict=True):
            row: Row = {name: cells[name] for name in _OWN if name in cells}
            if len(row) == len(_OWN):
                row |= {name: json.loads(row[name], parse_float=Decimal) for name in ("_fields", "_meta")}
                row |= {"_error": row["_error"] or None, _VALUE: _value_of(cells, row)}
            yield row


def _value_of(cells: Mapping[str, str], row: Row) -> Any:
    """The value of a row of a table. An empty cell is null, and parts of an object are JSON in their cell."""
    names = {one["field"] for one in row["_fields"]}
    keys = [name for name in cells if name not in _OWN]
    if not any(cells[key] for key in keys):
        return None
    if keys == [_VALUE] and not any(re.match(rf"{_VALUE}(?![\w-])", name) for name in names):
        return cells[_VALUE]
    plain = {key: key.removeprefix(f"{_VALUE}.") if key.removeprefix(f"{_VALUE}.") in _OWN else key for key in keys}
    return {plain[key]: cells[key] or None for key in keys}


def _parquet_rows(out: Path) -> Iterator[Row]:
    parquet = import_arrow("pyarrow.parquet", f"reading {out.name}")
    try:
        file = parquet.ParquetFile(out)
        yield from chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=256))
    except OSError as problem:  # that is what the library raises for a damaged file too
        raise FileError(f"{out} cannot be read: {next(iter(str(problem).splitlines()), 'damaged')[:200]}") from problem
