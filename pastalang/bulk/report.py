"""`pasta report`: the rows of a run as one HTML page, which needs neither network nor the files it was made of.

Outputs of `pasta extract` are read again: the rows, what their run was, and the documents that they were made of. The
figures of all rows are in the page as JSON. The rows themselves are compressed, in blocks that the page opens when it
shows them, so that a hundred thousand rows open as fast as ten. Rows are read one at a time and written one block at a
time.
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from html import escape
from importlib.resources import files
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, TextIO

from pastalang.bulk.compare import Comparison
from pastalang.bulk.documents import MAX_BYTES, Columns, Corpus, Document, first_line, import_arrow, open_documents
from pastalang.bulk.rows import STATUSES, Row, text_of_id
from pastalang.bulk.run import Chunk, RunRefused, check_version
from pastalang.failures import FileError
from pastalang.runtime.answer_html import hue, stretches, under
from pastalang.runtime.display.page import fill_page, inert_json
from pastalang.values.describe import counted
from pastalang.values.json import with_scalars, write_json
from pastalang.values.paths import WHOLE, in_any_item, path_text

_OWN: Final = ("id", "_status", "_error", "_fields", "_meta")
_VALUE: Final = "value"
_PLACE: Final = "documents in "  # how the parts of a fingerprint begin that name files


@dataclass(frozen=True, slots=True)
class SavedRun:
    """What `OUT.run` says of a run: nothing if there is no such folder. `rows` were written, and `comparison` is that
    of `--compare`.
    """

    fingerprint: Mapping[str, str] = field(default_factory=dict)
    chunks: tuple[Chunk, ...] = ()
    rows: int | None = None
    comparison: Comparison | None = None

    @property
    def columns(self) -> Columns:
        described = self.fingerprint.get("columns")
        return Columns() if described is None else Columns.of_description(described)


def read_run(out: Path) -> SavedRun:
    """Raises `FileError` if the folder is damaged, of another version, or of a run that has not ended."""
    folder = out.with_name(f"{out.name}.run")
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        check_version(manifest, folder)
        journal = folder / "journal.jsonl"
        lines = journal.read_text("utf-8").split("\n")[:-1] if journal.exists() else ()
        entries = [json.loads(line) for line in lines]
        if not entries or "joined" not in entries[-1]:
            raise FileError(
                f"the run of {out} has not ended, and what is there is of an earlier one: go on with `pasta extract` "
                "and --resume"
            )
        chunks = tuple(Chunk(**entry) for entry in entries[:-1])
        compared = folder / "comparison.json"
        comparison = Comparison.of_data(json.loads(compared.read_text("utf-8"))) if compared.exists() else None
        return SavedRun(dict(manifest["fingerprint"]), chunks, int(entries[-1]["joined"]), comparison)
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
        if document is None or (text_of_id(row["id"]) or None) != (text_of_id(document.id) or None):
            there = "there is none" if document is None else f"it has the id {text_of_id(document.id) or 'null'}"
            raise FileError(
                f"row {number:,}, with the id {text_of_id(row['id']) or 'null'}, is not of the document there: {there}"
            )
        yield row, document


def _listed(sizes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_rows(out: Path) -> Generator[Row]:
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


def _checked(out: Path, rows: Generator[Row]) -> Generator[Row]:
    number = 0
    try:
        with closing(rows):
            for number, row in enumerate(rows, start=1):
                missing = [name for name in (*_OWN, _VALUE) if name not in row]
                if missing or row["_status"] not in STATUSES:
                    what = f"it has no `{missing[0]}`" if missing else f"its status is {row['_status']!r:.40}"
                    how = ", as `--no-meta` leaves it out: run again without it" if missing[:1] == ["_fields"] else ""
                    raise FileError(f"row {number:,} of {out} is not one of `pasta extract`: {what}{how}")
                yield row
    except (ValueError, TypeError, AttributeError, csv.Error, RecursionError) as problem:
        raise FileError(f"row {number + 1:,} of {out} is not one of `pasta extract`: {problem}") from problem


def _json_rows(out: Path) -> Generator[Row]:
    with out.open(encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line, parse_float=Decimal)
            yield row if isinstance(row, dict) else {}


def _table_rows(out: Path) -> Generator[Row]:
    csv.field_size_limit(MAX_BYTES)
    with out.open(encoding="utf-8", newline="") as stream:
        for cells in csv.DictReader(stream, delimiter="\t" if out.suffix.lower() == ".tsv" else ",", strict=True):
            row: Row = {name: cells[name] for name in _OWN if name in cells}
            if len(row) == len(_OWN):
                row |= {name: json.loads(row[name], parse_float=Decimal) for name in ("_fields", "_meta")}
                value = _value_of({name: cell or None for name, cell in cells.items()}, row["_fields"])
                row |= {"_error": row["_error"] or None, _VALUE: value}
            yield row


def _value_of(cells: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]) -> Any:
    """The value of a row of a table. An empty cell is null, and parts of an object are JSON in their cell."""
    keys = [name for name in cells if name not in _OWN and not _is_confidence(name, cells, fields)]
    if all(cells[key] is None for key in keys):
        return None
    if keys == [_VALUE] and not any(re.match(rf"{_VALUE}(?![\w-])", one["field"]) for one in fields):
        return cells[_VALUE]
    return {_key_of(name): cells[name] for name in keys}


def _key_of(column: str) -> str:
    key = column.removeprefix(f"{_VALUE}.")
    return key if key in _OWN else column


def _is_confidence(name: str, cells: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a column is one of `--confidence`: those of the keys, next to them, which are no keys themselves."""
    column = name.removesuffix(".confidence")
    own = re.escape(path_text([name]))
    return name != column and column in cells and not any(re.match(rf"{own}(?![^.\[])", one["field"]) for one in fields)


def _parquet_rows(out: Path) -> Generator[Row]:
    parquet = import_arrow("pyarrow.parquet", f"reading {out.name}")
    try:
        file = parquet.ParquetFile(out)
        names = set(file.schema_arrow.names)
        is_flat = names >= {*_OWN} and names - {*_OWN} != {_VALUE}
        for row in chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=256)):
            yield row | {_VALUE: _value_of(row, row["_fields"])} if is_flat else row
    except OSError as problem:  # that is what the library raises for a damaged file too
        raise FileError(f"{out} cannot be read: {first_line(problem)}") from problem


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────


BLOCK: Final = 250  # rows that are compressed together
_WHOLE_TEXT: Final = 4_000  # characters of a source that is shown whole; of a longer one, what is around quotations
_HEAD: Final = 1_000  # characters of the beginning of such a text
_AROUND: Final = 200  # characters on each side of a quotation in it
_MAX_VALUE_CHARS: Final = 1_000  # characters of a value or an error
_FIELDS: Final = 200  # names of fields with figures of their own; those of maps may be endless
_REST: Final = "(other fields)"
_BINS: Final = 10  # of the confidence, from 0 to 1
_LOW: Final = 0.5  # a confidence below it is low
_NONE: Final = 255  # the confidence of a row without fields
_BARS: Final = 80  # of the picture of the speed

ValuePath = tuple[str | int, ...]


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class FieldFigures:
    """One field over all rows. `filled` of its `values` are neither null nor empty; `confidences` are by tenths.

    number   the place of the field among all, from 0
    parent   the object that has the field as a key
    """

    number: int
    parent: str | None
    is_object: bool
    values: int = 0
    filled: int = 0
    truncated: int = 0
    confidence: float = 0.0
    low: int = 0
    confidences: list[int] = field(default_factory=lambda: [0] * _BINS)

    def add(self, one: FieldOfRow) -> None:
        self.values += one.has_value
        self.filled += one.is_filled
        self.truncated += one.truncated
        if one.confidence is not None:
            self.confidence += one.confidence
            self.low += one.confidence < _LOW
            self.confidences[min(int(one.confidence * _BINS), _BINS - 1)] += 1

    def as_data(self, name: str, of: int) -> dict[str, Any]:
        decided = sum(self.confidences)
        return {
            "name": name,
            "hue": int(hue(self.number)),
            "under": under(self.number),
            "is_shown": not self.is_object or self.filled < of,
            "filled": self.filled,
            "of": of,
            "truncated": self.truncated,
            "decided": decided,
            "confidence": round(self.confidence / decided, 4) if decided else None,
            "low": self.low,
            "confidences": self.confidences,
        }


@dataclass
class Figures:
    """Sums over the rows so far. `fields` are in the order of their first value."""

    statuses: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    fields: dict[str, FieldFigures] = field(default_factory=dict)
    status_of_rows: bytearray = field(default_factory=bytearray)
    least_of_rows: bytearray = field(default_factory=bytearray)  # the lowest confidence of each, in hundredths

    @property
    def rows(self) -> int:
        return len(self.status_of_rows)

    def add(self, row: Row, found: Sequence[FieldOfRow]) -> None:
        self.statuses[row["_status"]] += 1
        meta = row["_meta"]
        for name in ("input_tokens", "output_tokens", "passes"):
            self.usage[name] += meta[name]
        self.origins[f"{meta['model']}, revision {meta['revision']}"] += 1
        for one in found:
            self.field_of(one).add(one)
        confidences = [one.confidence for one in found if one.confidence is not None]
        self.status_of_rows.append(STATUSES.index(row["_status"]))
        self.least_of_rows.append(round(100 * min(confidences)) if confidences else _NONE)

    def field_of(self, one: FieldOfRow) -> FieldFigures:
        name = one.pattern if one.pattern in self.fields or len(self.fields) < _FIELDS else _REST
        parent = one.parent if name != _REST else None
        return self.fields.setdefault(name, FieldFigures(len(self.fields), parent, one.is_object))

    def as_data(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "block": BLOCK,
            "statuses": {status: self.statuses[status] for status in STATUSES},
            **{name: self.usage[name] for name in ("input_tokens", "output_tokens", "passes")},
            "fields": [one.as_data(name, self._of(one)) for name, one in self.fields.items()],
            "status_of_rows": base64.b64encode(self.status_of_rows).decode(),
            "least_of_rows": base64.b64encode(self.least_of_rows).decode(),
        }

    def _of(self, one: FieldFigures) -> int:
        """In how many places the field could have a value: a key that is left out counts as empty."""
        return one.values if one.parent not in self.fields else self.fields[one.parent].filled


def _speed(run: SavedRun) -> dict[str, Any] | None:
    """Documents per second over the time that a run worked, in bars of about the same length."""
    chunks = [chunk for chunk in run.chunks if chunk.rows]
    if not chunks:
        return None
    total = sum(chunk.seconds for chunk in chunks)
    bars: list[list[float]] = []
    rows, seconds = 0, 0.0
    for chunk in chunks:
        rows, seconds = rows + chunk.rows, seconds + chunk.seconds
        if seconds >= total / _BARS:
            bars.append([round(seconds, 3), rows])
            rows, seconds = 0, 0.0
    if bars and rows:  # what is left is too short for a bar of its own
        bars[-1] = [round(bars[-1][0] + seconds, 3), bars[-1][1] + rows]
    pauses = [last.at - first.at - last.seconds for first, last in pairwise(chunks)]
    return {
        "bars": bars,
        "seconds": round(total, 3),
        "began": chunks[0].at - chunks[0].seconds,
        "ended": chunks[-1].at,
        "resumed": sum(pause > 1 for pause in pauses),
    }


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FieldOfRow:
    """A field of a row: its value as text, how sure the model was, and where it was quoted from."""

    name: str
    text: str
    has_value: bool
    is_filled: bool
    parent: str | None = None
    is_group: bool = False  # an object or a list whose parts are fields of their own
    is_object: bool = False
    confidence: float | None = None
    truncated: bool = False
    places: tuple[tuple[str, int, int], ...] = ()  # the columns that it is quoted from, and where in them

    @property
    def pattern(self) -> str:
        return in_any_item(self.name)


def fields_of(row: Row) -> list[FieldOfRow]:
    """The fields of a row in the order of its value, then those that the value does not have."""
    decided = {one["field"]: one for one in row["_fields"] or ()}
    found = [] if row["value"] is None else list(_parts((), row["value"], None, decided))
    rest = decided.keys() - {one.name for one in found}
    return [*found, *(_of_decision(decided[name]) for name in decided if name in rest)]


def _parts(path: ValuePath, value: Any, parent: str | None, decided: Mapping[str, Any]) -> Iterator[FieldOfRow]:
    """A value with the values in it, down to those that are fields, scalars or empty."""
    name = path_text(path) or WHOLE
    if isinstance(value, str) and _is_json(value, path, decided):
        value = json.loads(value, parse_float=Decimal)
    is_filled = value is not None and value not in ("", [], {})
    if name in decided or not value or not isinstance(value, dict | list):
        text = _short(value if isinstance(value, str) else _json(value))
        own = _of_decision(decided[name]) if name in decided else FieldOfRow(name, "", True, is_filled)
        yield replace(own, text=text, has_value=True, is_filled=is_filled, parent=parent)
        return
    is_object = isinstance(value, dict)
    yield FieldOfRow(name, "", True, True, parent, True, is_object)
    parts: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        yield from _parts((*path, key), part, in_any_item(name) if is_object else None, decided)


def _is_json(text: str, path: ValuePath, decided: Mapping[str, Any]) -> bool:
    """Whether a text of a table stands for an object or a list: it is empty, or there are fields in it."""
    name = path_text(path)
    if not text.startswith(("{", "[")) or (name or WHOLE) in decided:
        return False
    return text in ("[]", "{}") or any(not path or one.startswith((f"{name}.", f"{name}[")) for one in decided)


def _of_decision(decided: Mapping[str, Any]) -> FieldOfRow:
    return FieldOfRow(
        decided["field"], "", False, False, confidence=float(decided["confidence"]),
        truncated=bool(decided["truncated"]), places=tuple(_places(decided)),
    )  # fmt: skip


def _places(decided: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    for one in decided.get("sources") or [decided]:
        if one["source"] is not None:
            yield one["source"], one["start"], one["end"]


def _json(value: Any) -> str:
    """With the floats of a table as decimals."""
    return write_json(with_scalars(value, lambda one: Decimal(repr(one)) if isinstance(one, float) else one))


def _short(text: str) -> str:
    more = len(text) - _MAX_VALUE_CHARS
    return text if more <= 0 else f"{text[:_MAX_VALUE_CHARS]}… {more:,} more characters"


def _entry(row: Row, texts: Iterable[tuple[str, str]], found: Sequence[FieldOfRow], figures: Figures) -> list[Any]:
    """A row as the page reads it. Parts of a text are a text, a text with the field that quotes it, or a gap."""
    shown = [one for one in found if not one.is_group]
    places = [(*place, at) for at, one in enumerate(shown) for place in one.places]
    meta = row["_meta"]
    windows = [[one["start"], one["end"], one["status"], one["error"]] for one in meta.get("windows") or ()]
    return [
        text_of_id(row["id"]),
        _short(row["_error"]) if row["_error"] else None,
        [
            [column, _marked(text, [(begin, end, at) for name, begin, end, at in places if name == column])]
            for column, text in texts
        ],
        [
            [one.name, one.text if one.has_value else None, one.confidence, one.truncated, figures.field_of(one).number]
            for one in shown
        ],
        [*map(meta.get, ("input_tokens", "output_tokens", "passes", "milliseconds", "attempts")), windows],
    ]


def _texts(document: Document | None, columns: Columns) -> Iterator[tuple[str, str]]:
    record = document.record if document is not None else {}
    for column in (*columns.required, *columns.optional):
        value = record.get(column)
        if isinstance(value, str | bytes):
            yield column, value if isinstance(value, str) else value.decode("utf-8", "replace")
        elif value is not None:
            yield column, json.dumps(value, ensure_ascii=False, default=str)


def _marked(text: str, quoted: Sequence[tuple[int, int, int]]) -> list[Any]:
    """The text in parts, of quotations with the number of their field. Where they overlap, the shortest is seen."""
    places = [(begin, end) for begin, end, _ in quoted]
    windows = _windows(len(text), places)
    parts: list[Any] = []
    for start, end, over in stretches(len(text), [*places, *windows]):
        quotes = [number for number in over if number < len(places)]
        if len(quotes) == len(over):  # in no window
            parts.append(end - start)
        elif quotes:
            shortest = min(quotes, key=lambda number: places[number][1] - places[number][0])
            parts.append([text[start:end], quoted[shortest][2]])
        else:
            parts.append(text[start:end])
    return parts


def _windows(length: int, places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is shown of a text of this length."""
    if length <= _WHOLE_TEXT:
        return [(0, length)]
    return [(0, _HEAD), *((start - _AROUND, end + _AROUND) for start, end in places)]


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────


def write_report(
    stream: TextIO, rows: Iterable[tuple[Row, Document | None]], run: SavedRun, *, title: str, notes: Sequence[str] = ()
) -> Figures:
    """Write the page of these rows, with the figures of their run. `notes` say what the page lacks.

    Raises `FileError` if the run has written more rows or fewer.
    """
    folder = files("pastalang.bulk")
    head, found, tail = folder.joinpath("report.html").read_text(encoding="utf-8").partition("%ROWS%")
    assert found
    css = folder.joinpath("report.css").read_text(encoding="utf-8")
    stream.write(fill_page(head, {"%TITLE%": escape(title), "%STYLE%": css}))
    figures = Figures()
    for block in _blocks(rows, run.columns, figures):
        stream.write(f'<script type="text/plain" class="block">{block}</script>\n')
    if run.rows not in (None, figures.rows):
        raise FileError(
            f"{title} has {counted(figures.rows, 'row')}, and its run has written {run.rows:,}; without the folder "
            f"{title}.run, there is a report of the rows alone"
        )
    about = {"title": title, "notes": list(notes), "run": dict(run.fingerprint), "origins": dict(figures.origins)}
    compared = None if run.comparison is None else run.comparison.as_data()
    data = inert_json({**about, **figures.as_data(), "speed": _speed(run), "comparison": compared})
    script = folder.joinpath("report.js").read_text(encoding="utf-8")
    stream.write(fill_page(tail, {"%DATA%": data, "%SCRIPT%": script}))
    return figures


def _blocks(rows: Iterable[tuple[Row, Document | None]], columns: Columns, figures: Figures) -> Iterator[str]:
    block: list[str] = []
    for row, document in rows:
        found = fields_of(row)
        figures.add(row, found)
        block.append(
            json.dumps(
                _entry(row, _texts(document, columns), found, figures), ensure_ascii=False, separators=(",", ":")
            )
        )
        if len(block) == BLOCK:
            yield _packed(block)
            block.clear()
    if block:
        yield _packed(block)


def _packed(rows: Sequence[str]) -> str:
    """Compressed and in letters that no markup has."""
    text = f"[{','.join(rows)}]".encode("utf-8", "replace")  # of half a character, which JSON has and UTF-8 has not
    return base64.b64encode(gzip.compress(text, 6, mtime=0)).decode()
