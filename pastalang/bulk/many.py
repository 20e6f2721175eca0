"""`extract_many`: one call from a type and any number of documents to their values, and how far it is."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
    Sized,
)
from contextlib import aclosing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, Unpack, overload

from pastalang.bulk.documents import Document, records_of
from pastalang.bulk.outputs import Flat, Shape
from pastalang.bulk.rows import Feed, Task, extractions_of, object_of, task_of_type, value_of
from pastalang.extraction import is_engine, shared_engine
from pastalang.failures import FileError
from pastalang.hosts.opening import AnyEngine
from pastalang.program import types as t
from pastalang.program.visit import json_kinds
from pastalang.runtime.call import EXTRACT_DEFAULTS, IN_FLIGHT, ExtractOptions, check_in_flight, shows_options
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.log import call_hook, check_hook
from pastalang.runtime.models.choice import default_model
from pastalang.runtime.models.source import DTypeName
from pastalang.runtime.result import Extraction
from pastalang.values.describe import pace
from pastalang.values.pydantic.from_core import name_of_type

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
OnRow: TypeAlias = Callable[[Extraction[Any]], object]


class Extractions(Iterator[Extraction[T_co]]):
    """The extractions of many documents, in their order: an iterator that decodes as it goes."""

    def __init__(self, found: Generator[Extraction[T_co]], task: Task) -> None:
        self._found = found
        self._task = task

    def __iter__(self) -> Extractions[T_co]:
        return self

    def __next__(self) -> Extraction[T_co]:
        return next(self._found)

    def close(self) -> None:
        """Decode no more."""
        self._found.close()

    def to_pandas(self, *, confidence: bool = False) -> Any:
        """A DataFrame of what is left: `id`, a column for each key of the value, `_status` and `_error`.

        Integers, booleans and numbers have columns of their types, which can hold missing values. With `confidence`,
        there is a column `KEY.confidence` for each key. Needs pandas.
        """
        try:
            pandas: Any = import_module("pandas")
        except ImportError as problem:
            raise FileError("`to_pandas` needs pandas: pip install pandas") from problem
        flat = Flat(self._task, Shape(has_meta=False, has_confidence=confidence))
        rows = [flat.row(_row_of(one, self._task)) for one in self]
        types = {name: _DTYPES.get(kind) for name, kind in zip(flat.values, _kinds_of(self._task), strict=True)}
        columns = {name: [row[name] for row in rows] for name in flat.names}
        if {type(id) for id in columns["id"]} - {type(None)} == {int}:
            types["id"] = _DTYPES["integer"]
        return pandas.DataFrame(
            {name: _series(pandas, column, types.get(name)) for name, column in columns.items()}, columns=flat.names
        )


def _row_of(one: Extraction[Any], task: Task) -> dict[str, Any]:
    value, misfit = value_of(one, task)
    sure = [{"field": field.where, "confidence": field.confidence} for field in one.fields]
    status = "error" if misfit else one.status
    return {"id": one.id, "value": value, "_status": status, "_error": misfit or one.problem, "_fields": sure}


_DTYPES: Final = {"integer": "Int64", "number": "Float64", "boolean": "boolean"}


def _kinds_of(task: Task) -> list[str]:
    """What the values of each key are, if they are plain."""
    body = object_of(task)
    return [""] if body is None else [_kind_of(field.type) for field in body.fields]


def _kind_of(type: t.Type) -> str:
    arms = [arm for arm in (type.arms if isinstance(type, t.Union) else (type,)) if json_kinds(arm) != {"null"}]
    if arms and all(isinstance(arm, t.Integer) or _is_integer(arm) for arm in arms):
        return "integer"
    kinds = json_kinds(type) - {"null"}
    return next(iter(kinds)) if len(kinds) == 1 else ""


def _is_integer(type: t.Type) -> bool:
    return isinstance(type, t.Literal) and isinstance(type.value, int) and not isinstance(type.value, bool)


def _series(pandas: Any, column: list[Any], dtype: str | None) -> Any:
    """The column in its type; as Python objects where a value does not fit into 64 bits."""
    values = [None if one is None else float(one) for one in column] if dtype == "Float64" else column
    if dtype is None and any(isinstance(one, list | dict) for one in column):
        dtype = "object"
    try:
        return pandas.Series(values, dtype=dtype)
    except (OverflowError, TypeError, ValueError):
        return pandas.Series(column, dtype="object")


_OPTIONS: Final = {name: default for name, default in EXTRACT_DEFAULTS.items() if name != "details"}


@overload
def extract_many(
    type: type[T], documents: Iterable[Any], *, model: str | Path | AnyEngine | None = ...,
    text: str | Sequence[str] = ..., id: str | None = ..., in_flight: int = ..., dtype: DTypeName | None = ...,
    on_row: OnRow | None = ..., progress: bool = ..., **options: Unpack[ExtractOptions],
) -> Extractions[T | None]: ...  # fmt: skip
@overload
def extract_many(
    type: object, documents: Iterable[Any], *, model: str | Path | AnyEngine | None = ...,
    text: str | Sequence[str] = ..., id: str | None = ..., in_flight: int = ..., dtype: DTypeName | None = ...,
    on_row: OnRow | None = ..., progress: bool = ..., **options: Unpack[ExtractOptions],
) -> Extractions[Any]: ...  # fmt: skip
@shows_options(_OPTIONS, ExtractOptions)
def extract_many(
    type: Any, documents: Iterable[Any], *, model: str | Path | AnyEngine | None = None,
    text: str | Sequence[str] = "text", id: str | None = None, in_flight: int = IN_FLIGHT,
    dtype: DTypeName | None = None, on_row: OnRow | None = None, progress: bool = False, **options: Any,
) -> Extractions[Any]:  # fmt: skip
    """Read any number of documents, and yield an `Extraction` for each, in their order.

        titles = ["Norvika Coffee, Dark Roast, 12 oz", "Molinari Coffee, Light Roast, 250 g"]
        found = pastalang.extract_many(Coffee, titles)
        print([row.value.Brand for row in found])  # ['Norvika', 'Molinari']

    A document is a text, a dict, or an object with attributes. `text` names the text in it; several names make one
    text, a line for each. `id` names what identifies it; without it, `id` is used where there is one.

    No document raises. One that fails has the status "invalid", "too_long" or "error", its `error`, and None as
    value; a value that a limit has cut has the status "truncated". Documents are read as they are needed,
    `in_flight` of them run at the same time, and memory does not grow with their number. `model` is a name, a
    folder or an address, as for `extract`, or an `Engine`, and `dtype` what it computes in, as for `Engine.load`.
    `on_row` is called with each extraction before it is yielded. With `progress`, a notebook shows a bar, and a
    terminal a line. The other options are those of `extract`; a mistake in them is raised before anything is read.
    """
    check_hook("on_row", on_row)
    check_progress(progress)
    task = _task(type, documents, text, id, in_flight, options)
    return Extractions(_extractions(task, documents, _loader(model, dtype), in_flight, on_row, progress), task)


@shows_options(_OPTIONS, ExtractOptions)
def aextract_many(
    type: Any, documents: Iterable[Any] | AsyncIterable[Any], *, model: str | Path | AnyEngine | None = None,
    text: str | Sequence[str] = "text", id: str | None = None, in_flight: int = IN_FLIGHT,
    dtype: DTypeName | None = None, on_row: OnRow | None = None, progress: bool = False, **options: Any,
) -> AsyncGenerator[Extraction[Any], None]:  # fmt: skip
    """`extract_many` for asyncio. `documents` may be an asynchronous iterable."""
    check_hook("on_row", on_row)
    check_progress(progress)
    task = _task(type, documents, text, id, in_flight, options)
    return _aextractions(task, documents, _loader(model, dtype), in_flight, on_row, progress)


def _task(
    type: Any, documents: object, text: str | Sequence[str], id: str | None, in_flight: int, options: dict[str, Any]
) -> Task:  # fmt: skip
    if isinstance(documents, str | bytes | dict) or not isinstance(documents, Iterable | AsyncIterable):
        raise BadInputs(
            f"`extract_many` takes many documents, such as a list of texts; for one, write "
            f"`extract({name_of_type(type)}, text)`"
        )
    check_in_flight(in_flight)
    names = (text,) if isinstance(text, str) else text
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in (*names, id or "")):
        raise BadInputs("`text` is the name of a column, or a list of names, and `id` is one name")
    return task_of_type(type, text=tuple(names), id=id, options=options)


def _loader(model: str | Path | AnyEngine | None, dtype: DTypeName | None) -> Callable[[], AnyEngine]:
    """What gives the engine when the first document is read. Raises `BadInputs`."""
    if model is None or isinstance(model, str | Path):
        return lambda: shared_engine(default_model().name if model is None else model, dtype)
    if dtype is not None:
        raise BadInputs("an engine has its `dtype` from `Engine.load`; pass it there")
    if not is_engine(model):
        raise BadInputs(f"`model` is a name, a folder, an address or an `Engine`, not {model!r:.60}")
    return lambda: model


def _extractions(
    task: Task, documents: Iterable[Any], load: Callable[[], AnyEngine], in_flight: int, on_row: OnRow | None,
    progress: bool,
) -> Generator[Extraction[Any]]:  # fmt: skip
    pairs = extractions_of(load(), task, records_of(documents, task.read), in_flight=in_flight)
    with progress_of(documents, in_flight, is_shown=progress) as count:
        for _, found in pairs:
            count(found.status)
            call_hook(on_row, found)
            yield found


async def _aextractions(
    task: Task,
    documents: Iterable[Any] | AsyncIterable[Any],
    load: Callable[[], AnyEngine],
    in_flight: int,
    on_row: OnRow | None,
    progress: bool,
) -> AsyncGenerator[Extraction[Any], None]:
    feed = Feed(task, await asyncio.to_thread(load), in_flight=in_flight)
    inputs = (one async for document in _each(documents, task) for one in feed.inputs_of(document))
    with progress_of(documents, in_flight, is_shown=progress) as count:
        async with aclosing(feed.engine.amap(task.runnable, inputs, **feed.options)) as outcomes:
            async for outcome in outcomes:
                pair = feed.extraction(outcome)
                if pair is None:
                    continue
                count(pair[1].status)
                call_hook(on_row, pair[1])
                yield pair[1]


async def _each(documents: Iterable[Any] | AsyncIterable[Any], task: Task) -> AsyncIterator[Document]:
    if not isinstance(documents, AsyncIterable):
        for document in records_of(documents, task.read):
            yield document
        return
    number = 0
    async for one in documents:
        for document in records_of([one], task.read, start=number):
            yield document
        number += 1


_REFRESH: Final = 0.1  # seconds
_WIDTH: Final = 24  # characters of the bar on a terminal
_FAILED: Final = ("invalid", "too_long", "error")
OnStatus = Callable[[str], None]


def check_progress(progress: object) -> None:
    if not isinstance(progress, bool):
        raise BadInputs(f"`progress` is True or False, not {progress!r:.60}")


def display_of_notebook() -> Any:
    """The module that shows things in a notebook, or None outside of one. Imports IPython only where it is running."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or any(kind.__name__ == "TerminalInteractiveShell" for kind in type(shell).__mro__):
        return None
    return import_module("IPython.display")


@contextmanager
def progress_of(documents: object, at_once: int, *, is_shown: bool) -> Iterator[OnStatus]:
    """A function to call with the status of each document that is done."""
    if not is_shown:
        yield lambda status: None
        return
    bar = _Bar(len(documents) if isinstance(documents, Sized) else None, at_once)
    try:
        yield bar.add
    finally:
        bar.close()


class _Bar:
    def __init__(self, total: int | None, at_once: int) -> None:
        self._total = total
        self._at_once = at_once  # documents in flight: the first ones say nothing of how long the others take
        self._done = self._failed = 0
        self._begun = self._shown_at = time.monotonic()
        self._display = display_of_notebook()
        self._handle: Any = None

    def add(self, status: str) -> None:
        self._done += 1
        self._failed += status in _FAILED
        if time.monotonic() - self._shown_at >= _REFRESH:
            self._shown_at = time.monotonic()
            self._show(end="")

    def close(self) -> None:
        self._show(end="\n")

    def _show(self, *, end: str) -> None:
        if self._display is not None:
            self._show_in_notebook()
        elif sys.stderr is None:
            return
        elif sys.stderr.isatty():
            self._write(f"\r{self._drawn()}{self._line()}\x1b[K{end}")
        elif end:
            self._write(self._line() + end)

    def _show_in_notebook(self) -> None:
        known = "" if self._total is None else f' value="{self._done}" max="{max(self._total, 1)}"'
        shown = self._display.HTML(f"<progress{known}></progress> {self._line()}")
        if self._handle is None:
            self._handle = self._display.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a stream that is closed ends no run
            sys.stderr.write(text)
            sys.stderr.flush()

    def _drawn(self) -> str:
        if not self._total:
            return ""
        full = min(_WIDTH * self._done // self._total, _WIDTH)
        return f"[{'#' * full}{'-' * (_WIDTH - full)}] "

    def _line(self) -> str:
        seconds = max(time.monotonic() - self._begun, 1e-9)
        of = "" if self._total is None else f" of {self._total:,}"
        parts = [f"{self._done:,}{of} documents", pace(self._done / seconds)]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if self._done >= self._at_once and self._total is not None and self._total > self._done:
            parts.append(f"{(self._total - self._done) * seconds / self._done:,.0f} s left")
        return ", ".join(parts)
