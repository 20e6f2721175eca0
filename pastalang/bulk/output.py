"""Chunks of rows on disk, and the file that is made of them at the end: JSON lines, CSV or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from pastalang.bulk.files import import_arrow
from pastalang.bulk.rows import Row
from pastalang.bulk.task import Task
from pastalang.errors import FileError
from pastalang.program.program import JsonBody
from pastalang.program.types import Object
from pastalang.runtime.call import template_of
from pastalang.values.json import JsonValue, write_json

_OWN: Final = ("id", "_status", "_error", "_fields", "_meta")
_ROWS_OF_A_GROUP: Final = 8192  # of a Parquet file


class Output(Protocol):
    """How rows are written. The parts of a file are its chunks in order."""

    def misfit(self, value: JsonValue) -> str | None:
        """Why its columns cannot hold the value; None if they can."""

    def write(self, path: Path, rows: Sequence[Row]) -> None: ...

    def join(self, path: Path, parts: Iterable[Path]) -> None: ...


def output_for(path: Path, task: Task) -> Output:
    """How a file with this name is written. Raises `FileError`."""
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            return JsonLines()
        case ".csv":
            return Csv(task, ",")
        case ".tsv":
            return Csv(task, "\t")
        case ".parquet":
            import_arrow("pyarrow", f"writing {path.name}")
            return Parquet(task)
        case _:
            raise FileError(f"rows are written to a file that ends in .jsonl, .csv, .tsv or .parquet, not to {path}")


class JsonLines:
    def misfit(self, value: JsonValue) -> str | None:
        return None

    def write(self, path: Path, rows: Sequence[Row]) -> None:
        _write_text(path, "".join(f"{_line(row)}\n" for row in rows))

    def join(self, path: Path, parts: Iterable[Path]) -> None:
        _concatenate(path, b"", parts)


def _line(row: Row) -> str:
    """The row with the digits of its value as they were written."""
    rest = json.dumps({name: row[name] for name in _OWN[1:]}, ensure_ascii=False)
    return f'{{"id": {json.dumps(row["id"], ensure_ascii=False)}, "value": {write_json(row["value"])}, {rest[1:]}'


class Csv:
    """A column for each key of an object; other values have one column, `value`. Parts have no header."""

    def __init__(self, task: Task, delimiter: str) -> None:
        body = template_of(task.program, task.template).messages[-1].body
        is_object = isinstance(body, JsonBody) and isinstance(body.type, Object)
        is_object = is_object and not any(one.each for one in task.inputs)
        assert isinstance(body, JsonBody) or not is_object
        fields = body.type.fields if is_object and isinstance(body.type, Object) else ()  # type: ignore[union-attr]
        self._keys = tuple(field.key for field in fields)
        self._is_object = is_object
        self._delimiter = delimiter

    @property
    def header(self) -> list[str]:
        keys = [f"value.{key}" if key in _OWN else key for key in self._keys] if self._is_object else ["value"]
        return [_OWN[0], *keys, *_OWN[1:]]

    def misfit(self, value: JsonValue) -> str | None:
        if not self._is_object or value is None:
            return None
        if not isinstance(value, dict):
            return f"its value is not an object, and the columns are those of one: {write_json(value):.60}"
        return next((f"its key {key!r:.60} has no column" for key in value if key not in self._keys), None)

    def write(self, path: Path, rows: Sequence[Row]) -> None:
        _write_text(path, "".join(self._line(self._cells(row)) for row in rows))

    def join(self, path: Path, parts: Iterable[Path]) -> None:
        head = path.with_suffix(".head")
        _write_text(head, self._line(self.header))
        _concatenate(path, head.read_bytes(), parts)
        head.unlink()

    def _line(self, cells: Sequence[str]) -> str:
        """A carriage return is quoted, too: the writer of Python 3.11 leaves it bare, and readers end the row there."""
        return self._delimiter.join(map(self._quoted, cells)) + "\n"

    def _quoted(self, cell: str) -> str:
        if not any(mark in cell for mark in ('"', "\n", "\r", self._delimiter)):
            return cell
        return '"' + cell.replace('"', '""') + '"'

    def _cells(self, row: Row) -> list[str]:
        value = row["value"]
        parts = [(value or {}).get(key) for key in self._keys] if self._is_object else [value]
        own = [row["_status"], row["_error"] or ""]
        marks = [json.dumps(row[name], ensure_ascii=False) for name in ("_fields", "_meta")]
        return [row["id"] or "", *map(_cell, parts), *own, *marks]


def _cell(value: JsonValue) -> str:
    """Texts as they are, nothing for null, and JSON for anything else."""
    return "" if value is None else value if isinstance(value, str) else write_json(value)


class Parquet:
    def __init__(self, task: Task) -> None:
        from pastalang.bulk.table import schema_of, value_column

        self._task = task
        self._schema = schema_of(task)
        self._column = value_column(task)

    def misfit(self, value: JsonValue) -> str | None:
        from pastalang.bulk.table import misfit

        return misfit(value, self._column)

    def write(self, path: Path, rows: Sequence[Row]) -> None:
        from pyarrow import parquet

        from pastalang.bulk.table import table_of

        with path.open("wb") as stream:
            parquet.write_table(table_of(rows, self._task, self._schema), stream)
            _sync(stream)

    def join(self, path: Path, parts: Iterable[Path]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        with path.open("wb") as stream, parquet.ParquetWriter(stream, self._schema) as writer:
            group: list[Any] = []
            for part in parts:
                group.append(parquet.read_table(part, schema=self._schema))
                if sum(len(table) for table in group) >= _ROWS_OF_A_GROUP:
                    writer.write_table(pa.concat_tables(group))
                    group.clear()
            if group:
                writer.write_table(pa.concat_tables(group))
        with path.open("rb+") as written:
            _sync(written)


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        _sync(stream)


def _concatenate(path: Path, head: bytes, parts: Iterable[Path]) -> None:
    import shutil

    with path.open("wb") as stream:
        stream.write(head)
        for part in parts:
            with part.open("rb") as read:
                shutil.copyfileobj(read, stream, 1 << 20)
        _sync(stream)


def _sync(stream: Any) -> None:
    stream.flush()
    os.fsync(stream.fileno())
