"""Files of rows in every format that people keep them in, and which column of a file is which part of a row.

    .jsonl                JSON lines, also with any other ending and from the standard input
    .json                 a JSON array of objects, or JSON lines
    .csv, .tsv            tables, whose first row names the columns
    .parquet              tables with types
    a folder              what `save_to_disk` of Hugging Face's `datasets` writes
    .gz after any of them

Files are read whole. What is wrong with one row takes its place, so that all bad rows can be reported at once.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

from pastalang.bulk.documents import arrow_rows, first_line, import_arrow
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.reading import HINTS
from pastalang.source import Source
from pastalang.training.errors import BadData, BadRow, NoRows, UnreadableData
from pastalang.values.json import JsonValue, NotJson, parse_json, with_scalars

_LARGEST_CELL: Final = 1 << 26
_STATE: Final = "state.json"  # in the folder of a data set
_SPLITS: Final = "dataset_dict.json"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A file some of whose columns have other names than the parts of a row: `columns` has the column of each part.

    Parts are the inputs, `value`, `value.KEY` for one key of it, and what else a row may hold.
    """

    file: Path | Source
    columns: Mapping[str, str]


RowFile: TypeAlias = Path | Source | Mapped


class TableRow(dict[str, JsonValue]):
    """A row of named columns. Cells of text may spell JSON, and columns that nobody asks for are left out."""


Scanned: TypeAlias = tuple[str, dict[str, JsonValue] | BadRow]  # with its origin: `file:line`, or `file, row 3`


def scan_rows(given: RowFile) -> list[Scanned]:
    """Every row as an object, or what is wrong with it. Raises `BadData` for a file without rows."""
    file = given.file if isinstance(given, Mapped) else given
    rows = list(_scanned(file))
    if not rows:
        raise BadData(f"{name_of(file)} holds no rows")
    return _mapped(rows, given) if isinstance(given, Mapped) else rows


def read_text(path: Path) -> str:
    """A file that is not of rows, gzipped or not. Raises `UnreadableData`."""
    return _text(_bytes_of(path), str(path))


def name_of(given: RowFile) -> str:
    match given:
        case Mapped(file=file):
            return name_of(file)
        case Source(name=name):
            return name
        case _:
            return str(given)


def fingerprint_of(given: RowFile) -> str:
    """A short name of a file's contents, and of what is read from which column."""
    found = hashlib.sha256()
    match given:
        case Mapped(file=file, columns=columns):
            found.update(json.dumps([fingerprint_of(file), sorted(columns.items())]).encode())
        case Source(text=text):
            found.update(text.encode())
        case _ if given.is_dir():
            for place in sorted(path for path in given.rglob("*") if path.is_file()):
                found.update(str(place.relative_to(given)).encode() + b"\n" + place.read_bytes())
        case _:
            found.update(given.read_bytes())
    return found.hexdigest()[:16]


def readings(cell: JsonValue) -> Iterator[JsonValue]:
    """What a cell of a table may stand for, the most likely first. A text may be the JSON that it spells."""
    match cell:
        case "":
            yield from (None, "")
        case str():
            yield cell
            yield from _spelled_in(cell)
        case Decimal() if cell == cell.to_integral_value():
            yield from (cell, int(cell))
        case _:
            yield cell


def _spelled_in(cell: str) -> Iterator[JsonValue]:
    if cell in ("True", "TRUE", "False", "FALSE"):  # as spreadsheets and pandas write them
        yield cell.lower() == "true"
        return
    try:
        yield parse_json(cell)
    except NotJson:
        return


# ── which part of a row is which column ──────────────────────────────────────────────────────────────────


def _mapped(rows: list[Scanned], given: Mapped) -> list[Scanned]:
    objects = [row for _, row in rows if not isinstance(row, BadRow)]
    names = list(dict.fromkeys(name for row in objects for name in row))
    for column in given.columns.values():
        if objects and column not in names:
            hint = did_you_mean(column, names)
            advice = f"did you mean `{hint}`?" if hint else f"it has {', '.join(f'`{name}`' for name in names[:12])}"
            raise BadData(f"--map: {name_of(given)} has no column `{column}`; {advice}")
    taken = {*given.columns, *given.columns.values()}

    def parts_of(row: dict[str, JsonValue]) -> TableRow:
        named = {part: row[column] for part, column in given.columns.items() if column in row}
        return TableRow({name: cell for name, cell in row.items() if name not in taken} | named)

    return [(origin, row if isinstance(row, BadRow) else parts_of(row)) for origin, row in rows]


# ── formats ──────────────────────────────────────────────────────────────────────────────────────────────


def _scanned(file: Path | Source) -> Iterable[Scanned]:
    if isinstance(file, Source):
        return _json_lines(file.text, file.name)
    if file.is_dir():
        return _data_set(file)
    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    if ending in HINTS or file.suffix.lower() in HINTS:
        raise NoRows(f"{file} is not a file of rows; {HINTS.get(ending) or HINTS[file.suffix.lower()]}")
    return _FORMATS.get(ending, _lines)(_bytes_of(file), str(file))


def _bytes_of(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except FileNotFoundError as problem:
        raise UnreadableData(f"there is no file {path}") from problem
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise UnreadableData(f"{path} could not be read: it is not a whole gzip file") from problem
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableData(f"{path} could not be read: {reason}") from problem


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UnreadableData(f"{name} could not be read: it is not UTF-8 text") from problem


def _lines(data: bytes, name: str) -> Iterator[Scanned]:
    return _json_lines(_text(data, name), name)


def _json_lines(text: str, name: str) -> Iterator[Scanned]:
    """Empty lines are skipped."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{name}:{number}", _object(line, f"{name}:{number}")


def _object(line: str, origin: str) -> dict[str, JsonValue] | BadRow:
    try:
        return _checked_object(parse_json(line), origin)
    except NotJson as problem:
        return BadRow(f"is not JSON: {_reason(problem)}", origin=origin)


def _checked_object(value: JsonValue, origin: str) -> dict[str, JsonValue] | BadRow:
    return value if isinstance(value, dict) else BadRow("has to be a JSON object", origin=origin)


def _json(data: bytes, name: str) -> Iterator[Scanned]:
    text = _text(data, name)
    if not text.lstrip().startswith("["):
        yield from _json_lines(text, name)
        return
    try:
        rows = parse_json(text)
    except NotJson as problem:
        raise BadData(f"{name} is not JSON: {_reason(problem)}") from problem
    for number, row in enumerate(rows if isinstance(rows, list) else (), start=1):
        yield f"{name}, row {number}", _checked_object(row, f"{name}, row {number}")


def _reason(problem: NotJson) -> str:
    return str(problem).removeprefix("not JSON: ")


def _table(delimiter: str) -> Callable[[bytes, str], Iterator[Scanned]]:
    def scan(data: bytes, name: str) -> Iterator[Scanned]:
        csv.field_size_limit(_LARGEST_CELL)
        rows = csv.reader(io.StringIO(_text(data, name), newline=""), delimiter=delimiter, strict=True)
        header: list[str] | None = None
        while True:
            origin = f"{name}:{rows.line_num + 1}"
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as problem:
                yield origin, BadRow(f"is not a row of a table: {problem}", origin=origin)
                continue
            if cells and header is None:
                header = _header(cells, name)
            elif cells and header is not None:
                yield origin, _cells(cells, header, origin)

    return scan


def _header(cells: list[str], name: str) -> list[str]:
    twice = next((cell for cell in cells if cells.count(cell) > 1), None)
    if twice is not None:
        raise BadData(f"{name} has two columns `{twice}`; the first row of a table names its columns")
    return cells


def _cells(cells: list[str], header: list[str], origin: str) -> TableRow | BadRow:
    if len(cells) != len(header):
        return BadRow(f"has {len(cells)} cells, and the header has {len(header)}", origin=origin)
    return TableRow(zip(header, cells, strict=True))


def _parquet(data: bytes, name: str) -> Iterator[Scanned]:
    parquet = import_arrow("pyarrow.parquet", f"reading {name}")
    try:
        table = parquet.read_table(io.BytesIO(data))
    except Exception as problem:  # whatever the library makes of a damaged file
        raise UnreadableData(f"{name} could not be read as Parquet: {first_line(problem)}") from problem
    yield from _arrow_rows(table, name, {}, 0)


def _data_set(folder: Path) -> Iterator[Scanned]:
    if (folder / _SPLITS).is_file():
        splits = _json_file(folder / _SPLITS).get("splits", [])
        named = ", ".join(str(folder / str(split)) for split in splits)
        raise BadData(f"{folder} is a data set in parts; pass one of them: {named}")
    if not (folder / _STATE).is_file():
        raise UnreadableData(f"{folder} could not be read: it is a folder, and holds no data set: no {_STATE}")
    ipc = import_arrow("pyarrow.ipc", f"reading {folder}")
    state = _json_file(folder / _STATE)
    if state.get("_indices_data_files"):
        raise BadData(f"{folder} is a selection of a data set: save it with `flatten_indices().save_to_disk`")
    names, number = _class_names(folder), 0
    for one in state.get("_data_files", []):
        part = folder / str(one.get("filename"))
        try:
            with part.open("rb") as stream, ipc.open_stream(stream) as reader:
                table = reader.read_all()
        except Exception as problem:  # whatever the library makes of a damaged file
            raise UnreadableData(f"{part} could not be read as Arrow data: {first_line(problem)}") from problem
        yield from _arrow_rows(table, str(folder), names, number)
        number += table.num_rows


def _class_names(folder: Path) -> dict[str, list[str]]:
    """The columns that hold numbers of names, with the names."""
    info = folder / "dataset_info.json"
    features = _json_file(info).get("features") if info.is_file() else None
    known = features.items() if isinstance(features, dict) else ()
    return {name: one["names"] for name, one in known if isinstance(one, dict) and one.get("_type") == "ClassLabel"}


def _json_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UnreadableData(f"{path} could not be read") from problem
    return found if isinstance(found, dict) else {}


def _arrow_rows(table: Any, name: str, classes: Mapping[str, list[str]], before: int) -> Iterator[Scanned]:
    number = before
    for batch in table.to_batches():
        for record, wrong in arrow_rows(batch):
            number += 1
            origin = f"{name}, row {number}"
            try:
                if wrong is not None:
                    raise BadRow(wrong)
                row = TableRow({key: exact_json(_class(cell, classes.get(key))) for key, cell in record.items()})
            except BadRow as problem:
                yield origin, problem.at(origin)
            else:
                yield origin, row


def _class(cell: object, names: list[str] | None) -> object:
    if names is None or not isinstance(cell, int):
        return cell
    return names[cell] if 0 <= cell < len(names) else None  # -1 stands for no label


def exact_json(value: object) -> JsonValue:
    """A value of Python or Arrow in JSON, digit for digit. Raises `BadRow`."""
    found: JsonValue = with_scalars(value, _exact)
    return found


def _exact(scalar: object) -> JsonValue:
    match scalar:
        case None | bool() | int() | str() | Decimal():
            return scalar
        case float() if math.isfinite(scalar):
            return Decimal(repr(scalar))
        case date() | time():
            return scalar.isoformat()
        case _:
            raise BadRow(f"holds {scalar!r:.40}, which JSON does not have")


_FORMATS: Final[Mapping[str, Callable[[bytes, str], Iterable[Scanned]]]] = {
    ".json": _json, ".csv": _table(","), ".tsv": _table("\t"), ".parquet": _parquet,
}  # fmt: skip
