"""How the rows of a run are written: JSON lines, CSV and Parquet, whole or with the columns that people read.

Rows are written in parts, one for each chunk, which are joined at the end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pastalang.bulk.documents import import_arrow
from pastalang.bulk.rows import Row, Task, object_of, text_of_id
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import InputError, WrongFormat
from pastalang.values.json import JsonValue, write_json
from pastalang.values.paths import path_text

if TYPE_CHECKING:
    from pastalang.bulk.table import Column

_OWN: Final = ("id", "_status", "_error", "_fields", "_meta")
_TABLES: Final = {".csv": ",", ".tsv": "\t"}
_ROWS_OF_A_GROUP: Final = 8192  # of a Parquet file


class Output(Protocol):
    """How rows are written. The parts of a file are its chunks in order."""

    def misfit(self, value: JsonValue) -> str | None:
        """Why its columns cannot hold the value; None if they can."""

    def write(self, path: Path, rows: Sequence[Row]) -> None: ...

    def join(self, path: Path, parts: Iterable[Path]) -> None: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """What is written of a row. `columns` of a table are the only ones; `has_confidence` adds one for each key."""

    has_meta: bool = True
    has_confidence: bool = False
    columns: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[str, ...]:
        return _OWN if self.has_meta else _OWN[:3]

    @property
    def is_flat(self) -> bool:
        """Whether each key of an object is a column of its own in a format that could hold the object."""
        return self.has_confidence or bool(self.columns)


ALL: Final = Shape()


def output_for(path: Path, task: Task, shape: Shape = ALL) -> Output:
    """How a file with this name is written. Raises `WrongFormat`."""
    match path.suffix.lower():
        case ".jsonl" | ".ndjson" if shape.is_flat:
            raise WrongFormat(
                f"columns are chosen for .csv, .tsv and .parquet files; of {path.name}, the reader chooses"
            )
        case ".jsonl" | ".ndjson":
            return JsonLines(shape)
        case ".csv" | ".tsv" as suffix:
            return Csv(Flat(task, shape), _TABLES[suffix])
        case ".parquet":
            import_arrow("pyarrow", f"writing {path.name}")
            return Parquet(task, shape)
        case _:
            raise WrongFormat(f"rows are written to a file that ends in .jsonl, .csv, .tsv or .parquet, not to {path}")


class JsonLines:
    def __init__(self, shape: Shape) -> None:
        self._own = shape.own

    def misfit(self, value: JsonValue) -> str | None:
        return None

    def write(self, path: Path, rows: Sequence[Row]) -> None:
        write_text(path, "".join(f"{_line(row, self._own)}\n" for row in rows))

    def join(self, path: Path, parts: Iterable[Path]) -> None:
        _concatenate(path, b"", parts)


def _line(row: Row, own: Sequence[str]) -> str:
    """The row with the digits of its value as they were written."""
    rest = json.dumps({name: row[name] for name in own[1:]}, ensure_ascii=False)
    return f'{{"id": {json.dumps(row["id"], ensure_ascii=False)}, "value": {write_json(row["value"])}, {rest[1:]}'


class Flat:
    """Rows with a column for each key of an object; other values have one column, `value`. Raises `InputError`."""

    def __init__(self, task: Task, shape: Shape) -> None:
        body = object_of(task)
        self.keys = None if body is None else tuple(field.key for field in body.fields)
        self._shape = shape
        for unknown in (name for name in shape.columns if name not in self._all):
            hint = did_you_mean(unknown, self._all)
            raise InputError(f"there is no column `{unknown}`" + (f"; did you mean `{hint}`?" if hint else ""))
        if (twice := _repeated(shape.columns)) is not None:
            raise InputError(f"--columns names `{twice}` twice")
        if (twice := _repeated(self._all)) is not None:
            raise InputError(f"the table would have two columns `{twice}`: rename a key, or write JSON lines")

    @property
    def names(self) -> list[str]:
        return list(self._shape.columns or self._all)

    @property
    def values(self) -> list[str]:
        """The columns of the keys, in their order."""
        return ["value"] if self.keys is None else [f"value.{key}" if key in _OWN else key for key in self.keys]

    @property
    def _all(self) -> list[str]:
        return [_OWN[0], *self.values, *self._sure, *self._shape.own[1:]]

    @property
    def _sure(self) -> list[str]:
        return [f"{name}.confidence" for name in self.values] if self._shape.has_confidence else []

    def misfit(self, value: JsonValue) -> str | None:
        if self.keys is None or value is None:
            return None
        if not isinstance(value, dict):
            return f"its value is not an object, and the columns are those of one: {write_json(value):.60}"
        return next((f"its key {key!r:.60} has no column" for key in value if key not in self.keys), None)

    def row(self, row: Row) -> Row:
        """The row by its columns."""
        value = row["value"]
        parts = [value] if self.keys is None else [(value or {}).get(key) for key in self.keys]
        sure = [_confidence(row, key) for key in self.keys or (None,)] if self._shape.has_confidence else []
        found = dict(
            zip(self._all, [row["id"], *parts, *sure, *(row[one] for one in self._shape.own[1:])], strict=True)
        )
        return {name: found[name] for name in self.names}


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


def _confidence(row: Row, key: str | None) -> float | None:
    """That of the least certain field of a key, or of the row; None for a row without fields."""
    begin = "" if key is None else rf"{re.escape(path_text([key]))}(?![^.\[])"
    return min((one["confidence"] for one in row["_fields"] if re.match(begin, one["field"])), default=None)


class Csv:
    """Parts have no header."""

    def __init__(self, flat: Flat, delimiter: str) -> None:
        self._flat = flat
        self._delimiter = delimiter
        self.misfit = flat.misfit

    def write(self, path: Path, rows: Sequence[Row]) -> None:
        write_text(path, "".join(self._line(self._cells(row)) for row in rows))

    def join(self, path: Path, parts: Iterable[Path]) -> None:
        head = path.with_suffix(".head")
        write_text(head, self._line(self._flat.names))
        _concatenate(path, head.read_bytes(), parts)
        head.unlink()

    def _line(self, cells: Sequence[str]) -> str:
        """A carriage return is quoted, too: the writer of Python 3.11 leaves it bare, and readers end the row there.

        So is what would make a blank line, which readers skip.
        """
        if [cell.strip() for cell in cells] == [""]:
            return f'"{cells[0]}"\n'
        return self._delimiter.join(map(self._quoted, cells)) + "\n"

    def _quoted(self, cell: str) -> str:
        if not any(mark in cell for mark in ('"', "\n", "\r", self._delimiter)):
            return cell
        return '"' + cell.replace('"', '""') + '"'

    def _cells(self, row: Row) -> list[str]:
        cells = self._flat.row(row)
        return [json.dumps(one, ensure_ascii=False) if name in _OWN[3:] else _cell(one) for name, one in cells.items()]


def _cell(value: Any) -> str:
    """Texts as they are, nothing for null, and JSON for anything else."""
    match value:
        case None:
            return ""
        case str():
            return value
        case float():
            return str(value)
        case _:
            return write_json(value)


class Parquet:
    """Ids are written as integers if all of a file are, and as texts otherwise."""

    def __init__(self, task: Task, shape: Shape) -> None:
        import pyarrow as pa

        from pastalang.bulk.table import columns_of_keys, schema_of, value_column

        self._flat = Flat(task, shape) if shape.is_flat else None
        self._whole = value_column(task)
        own = schema_of(task)
        if self._flat is None:
            self._columns: Mapping[str, Column] = {"value": self._whole}
            names = [name for name in own.names if name in (*shape.own, "value")]
        else:
            self._columns = dict(zip(self._flat.values, columns_of_keys(task), strict=True))
            names = self._flat.names
        values = {name: column.type for name, column in self._columns.items()}
        self._schema = pa.schema(
            [(name, values.get(name) or (own.field(name).type if name in _OWN else pa.float64())) for name in names]
        )

    def misfit(self, value: JsonValue) -> str | None:
        from pastalang.bulk.table import misfit

        return misfit(value, self._whole)

    def write(self, path: Path, rows: Sequence[Row]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.Table.from_pylist([self._row(row) for row in rows], schema=self._schema)
        kind = _type_of_ids([row["id"] for row in rows])
        with path.open("wb") as stream:
            parquet.write_table(table.replace_schema_metadata({_IDS: kind}), stream)
            sync(stream)

    def join(self, path: Path, parts: Iterable[Path]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        parts = list(parts)
        kinds = {(parquet.read_schema(part).metadata or {}).get(_IDS, _TEXT) for part in parts} - {_NONE}
        schema = self._schema
        if kinds == {_INTEGER} and "id" in schema.names:
            schema = schema.set(schema.get_field_index("id"), pa.field("id", pa.int64()))
        with path.open("wb") as stream, parquet.ParquetWriter(stream, schema) as writer:
            group: list[Any] = []
            for part in parts:
                group.append(parquet.read_table(part, schema=self._schema).cast(schema))
                if sum(len(table) for table in group) >= _ROWS_OF_A_GROUP:
                    writer.write_table(pa.concat_tables(group))
                    group.clear()
            if group:
                writer.write_table(pa.concat_tables(group))
        with path.open("rb+") as written:
            sync(written)

    def _row(self, row: Row) -> Row:
        from pastalang.bulk.table import encoded

        found = row if self._flat is None else self._flat.row(row)
        return {name: encoded(self._columns.get(name), value) for name, value in found.items()} | (
            {"id": text_of_id(row["id"])} if "id" in found else {}
        )


_IDS: Final = b"pastalang.ids"  # in a part: what its ids are
_INTEGER: Final = b"integer"
_TEXT: Final = b"text"
_NONE: Final = b"none"
_LARGEST: Final = 2**63 - 1


def _type_of_ids(ids: Sequence[str | int | None]) -> bytes:
    known = [id for id in ids if id is not None]
    if not known:
        return _NONE
    return _INTEGER if all(isinstance(id, int) and -_LARGEST <= id <= _LARGEST for id in known) else _TEXT


def write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        sync(stream)


def _concatenate(path: Path, head: bytes, parts: Iterable[Path]) -> None:
    import shutil

    with path.open("wb") as stream:
        stream.write(head)
        for part in parts:
            with part.open("rb") as read:
                shutil.copyfileobj(read, stream, 1 << 20)
        sync(stream)


def sync(stream: Any) -> None:
    stream.flush()
    os.fsync(stream.fileno())
