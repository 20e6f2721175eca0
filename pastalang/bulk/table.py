"""The worker: a callable from an Arrow table of documents to an Arrow table of rows, for engines such as Ray and Spark.

The columns of the output follow from the program and never from the data: a batch of nulls has the same schema as any
other. The worker raises for no row, drops none and keeps their order. Importing this module imports pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from pastalang.bulk.documents import documents_in
from pastalang.bulk.rows import Origin, Row, Task, extractions_of, object_of, row_of, text_of_id
from pastalang.hosts.opening import AnyEngine, open_engine
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.program.visit import json_kinds
from pastalang.runtime.call import IN_FLIGHT, template_of
from pastalang.runtime.models.source import DTypeName
from pastalang.values.json import JsonValue, write_json

_LARGEST: Final = 2**63 - 1


class Unwritable(ValueError):
    """A value that its column cannot hold."""


@dataclass(frozen=True, slots=True)
class Column:
    """The type of a column, and how a JSON value becomes a value of it. Raises `Unwritable`."""

    type: Any  # pa.DataType
    encode: Callable[[JsonValue], object]


def value_column(task: Task) -> Column:
    """The column of the values of a program."""
    body = template_of(task.program, task.template).messages[-1].body
    if not isinstance(body, JsonBody):
        return _JSON
    column = _column(body.type)
    return _list_of(column) if task.is_stacked else column


def columns_of_keys(task: Task) -> list[Column]:
    """A column for each key of an object; the column of the values for anything else."""
    body = object_of(task)
    return [value_column(task)] if body is None else [_column(field.type) for field in body.fields]


def schema_of(task: Task) -> Any:
    """The schema of the output."""
    return pa.schema(
        {"id": pa.string(), "value": value_column(task).type, "_status": pa.string(), "_error": pa.string()}
        | {"_fields": pa.list_(_FIELD), "_meta": _META if task.windowing is None else _META_OF_WINDOWS}
    )


def table_of(rows: Iterable[Row], task: Task, schema: Any) -> Any:
    """The rows as a table. A value that its column cannot hold leaves a row with an error."""
    column = value_column(task)
    return pa.Table.from_pylist([_fitted(row, column) for row in rows], schema=schema)


def misfit(value: JsonValue, column: Column) -> str | None:
    """Why the column of the values cannot hold this one."""
    try:
        _optional(column, value)
    except Unwritable as problem:
        return str(problem)
    return None


def encoded(column: Column | None, value: Any) -> object:
    """A value as its column has it; as it is without a column. Raises `Unwritable`."""
    return value if column is None else _optional(column, value)


def _fitted(row: Row, column: Column) -> Row:
    id = {"id": text_of_id(row["id"])}
    try:
        value = _optional(column, row["value"])
    except Unwritable as problem:
        return {**row, **id, "value": None, "_status": "error", "_error": str(problem)}
    return {**row, **id, "value": value}


class Worker:
    """`worker(table)` reads the columns of the task, and returns a table with the columns of `worker.schema`.

    It can be pickled, and loads its model when it is first called.

        worker = Worker(task_of_type(Invoice), model="pasta-mini")
        dataset.map_batches(worker, batch_format="pyarrow")
    """

    def __init__(
        self,
        task: Task,
        *,
        model: str,
        device: str | None = None,
        dtype: DTypeName | None = None,
        cells: int | None = None,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        self.task = task
        self.schema = schema_of(task)
        self._model = model
        self._device = device
        self._dtype: DTypeName | None = dtype
        self._cells = cells
        self._in_flight = in_flight
        self._loaded: tuple[AnyEngine, Origin] | None = None

    @property
    def origin(self) -> Origin:
        return Origin.of(self.task, self._model, dtype=self._dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    def __call__(self, table: Any) -> Any:
        if self._loaded is None:
            self._loaded = self._load()
        engine, origin = self._loaded
        documents = documents_in(table, self.task.read)
        pairs = extractions_of(engine, self.task, documents, in_flight=self._in_flight)
        rows = [row_of(document, found, self.task, origin) for document, found in pairs]
        return table_of(rows, self.task, self.schema)

    def _load(self) -> tuple[AnyEngine, Origin]:
        engine = open_engine(
            self._model,
            device=self._device,
            dtype=self._dtype,
            cells=self._cells,
            documents=self._in_flight,
            waits=True,
        )
        return engine, self.origin


# ── the types of columns ─────────────────────────────────────────────────────────────────────────────────

_PLACE: Final = {"source": pa.string(), "start": pa.int64(), "end": pa.int64()}
_FIELD: Final = pa.struct(
    {"field": pa.string(), "confidence": pa.float64(), "truncated": pa.bool_()}
    | _PLACE
    | {"sources": pa.list_(pa.struct(_PLACE))}
)
_META: Final = pa.struct(
    {name: pa.int64() for name in ("input_tokens", "output_tokens", "passes", "milliseconds", "attempts")}
    | {name: pa.string() for name in ("model", "revision", "program", "version")}
)

_WINDOW: Final = pa.struct({"start": pa.int64(), "end": pa.int64(), "status": pa.string(), "error": pa.string()})
_META_OF_WINDOWS: Final = pa.struct([*_META, pa.field("windows", pa.list_(_WINDOW))])


def _column(type: t.Type) -> Column:
    if isinstance(type, t.Literal):
        return _literal(type.value)
    if isinstance(type, t.Object):
        return _struct({field.key: _column(field.type) for field in type.fields})
    if isinstance(type, t.Array):
        return _list_of(_column(type.item))
    if isinstance(type, t.Tuple):
        return _list_of(_common([_column(item) for item in type.items]))
    if isinstance(type, t.Union):
        return _common([_column(arm) for arm in type.arms if json_kinds(arm) != {"null"}])
    if isinstance(type, t.Integer):
        return _INTEGER
    # maps, recursive types, schemas, anything: no type of Arrow is the same for all of their values
    return _SCALARS.get(json_kinds(type), _JSON)


def _literal(value: t.Scalar) -> Column:
    match value:
        case bool():
            return _BOOLEAN
        case int():
            return _INTEGER
        case Decimal():
            return _NUMBER
        case _:
            return _TEXT


def _common(columns: list[Column]) -> Column:
    """The one column that holds values of all: theirs if they are alike, else JSON."""
    types = {column.type for column in columns}
    if types == {pa.int64(), pa.float64()}:
        return _NUMBER
    is_alike = len(types) == 1 and not (any(column is _JSON for column in columns) and len(columns) > 1)
    return columns[0] if is_alike else _JSON


def _struct(columns: Mapping[str, Column]) -> Column:
    def encode(value: JsonValue) -> object:
        if not isinstance(value, dict):
            raise Unwritable(f"its value is not an object: {_short(value)}")
        unknown = next((key for key in value if key not in columns), None)
        if unknown is not None:
            raise Unwritable(f"its key {unknown!r:.60} has no column")
        return {key: _optional(column, value.get(key)) for key, column in columns.items()}

    if not columns:
        return _JSON  # Parquet has no empty objects
    return Column(pa.struct({key: column.type for key, column in columns.items()}), encode)


def _list_of(column: Column) -> Column:
    def encode(value: JsonValue) -> object:
        if not isinstance(value, list):
            raise Unwritable(f"its value is not a list: {_short(value)}")
        return [_optional(column, item) for item in value]

    return Column(pa.list_(column.type), encode)


def _optional(column: Column, value: JsonValue) -> object:
    return None if value is None else column.encode(value)


def _text(value: JsonValue) -> object:
    if not isinstance(value, str):
        raise Unwritable(f"{_short(value)} is not a text, which its column holds")
    return value


def _boolean(value: JsonValue) -> object:
    if not isinstance(value, bool):
        raise Unwritable(f"{_short(value)} is not true or false, which its column holds")
    return value


def _integer(value: JsonValue) -> object:
    if isinstance(value, int | Decimal) and not -_LARGEST <= value <= _LARGEST:
        raise Unwritable(f"the number {_short(value)} does not fit into 64 bits")
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or value != int(value):
        raise Unwritable(f"{_short(value)} is not a whole number, which its column holds")
    return int(value)


def _number(value: JsonValue) -> object:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unwritable(f"{_short(value)} is not a number, which its column holds")
    if not -(10**308) <= value <= 10**308:
        raise Unwritable(f"the number {_short(value)} does not fit into 64 bits")
    return float(value)


def _short(value: JsonValue) -> str:
    text = write_json(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


_TEXT: Final = Column(pa.string(), _text)
_JSON: Final = Column(pa.string(), write_json)
_BOOLEAN: Final = Column(pa.bool_(), _boolean)
_INTEGER: Final = Column(pa.int64(), _integer)
_NUMBER: Final = Column(pa.float64(), _number)
_SCALARS: Final = {
    frozenset({"string"}): _TEXT,
    frozenset({"boolean"}): _BOOLEAN,
    frozenset({"number"}): _NUMBER,
}
