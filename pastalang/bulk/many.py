"""`extract_many`: one call from a type and any number of documents to their values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from pastalang.bulk.documents import Document, records_of
from pastalang.bulk.rows import Feed, extractions_of
from pastalang.bulk.task import Task, task_of_type
from pastalang.extraction import is_engine, shared_engine
from pastalang.runtime.call import IN_FLIGHT, ExtractOptions, check_in_flight
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.models.choice import default_model
from pastalang.runtime.models.source import DTypeName
from pastalang.runtime.result import Extraction
from pastalang.values.pydantic.from_core import name_of_type

if TYPE_CHECKING:  # torch is imported when the first document is read
    from pastalang.runtime.engine import Engine

T = TypeVar("T")


@overload
def extract_many(
    type: type[T], documents: Iterable[Any], *, model: str | Path | Engine | None = ...,
    text: str | Sequence[str] = ..., id: str | None = ..., in_flight: int = ..., dtype: DTypeName | None = ...,
    **options: Unpack[ExtractOptions],
) -> Iterator[Extraction[T | None]]: ...  # fmt: skip
@overload
def extract_many(
    type: object, documents: Iterable[Any], *, model: str | Path | Engine | None = ...,
    text: str | Sequence[str] = ..., id: str | None = ..., in_flight: int = ..., dtype: DTypeName | None = ...,
    **options: Unpack[ExtractOptions],
) -> Iterator[Extraction[Any]]: ...  # fmt: skip
def extract_many(
    type: Any, documents: Iterable[Any], *, model: str | Path | Engine | None = None,
    text: str | Sequence[str] = "text", id: str | None = None, in_flight: int = IN_FLIGHT,
    dtype: DTypeName | None = None, **options: Any,
) -> Iterator[Extraction[Any]]:  # fmt: skip
    """Read any number of documents, and yield an `Extraction` for each, in their order.

        for found in pastalang.extract_many(Coffee, open("titles.txt")):
            print(found.status, found.value)

    A document is a text, a dict, or an object with attributes. `text` names the text in it; several names make one
    text, a line for each. `id` names what identifies it; without it, `id` is used where there is one.

    No document raises. One that fails has the status "invalid", "too_long" or "error", its `error`, and None as value;
    a value that a limit has cut has the status "truncated". Documents are read as they are needed, `in_flight` of them
    run at the same time, and memory does not grow with their number. `model` is a name or a folder, as for `extract`,
    or an `Engine`, and `dtype` what it computes in, as for `Engine.load`. The other options are those of `extract`; a
    mistake in them is raised before anything is read.
    """
    task = _task(type, documents, text, id, in_flight, options)
    return _extractions(task, documents, _loader(model, dtype), in_flight)


def aextract_many(
    type: Any, documents: Iterable[Any] | AsyncIterable[Any], *, model: str | Path | Engine | None = None,
    text: str | Sequence[str] = "text", id: str | None = None, in_flight: int = IN_FLIGHT,
    dtype: DTypeName | None = None, **options: Any,
) -> AsyncGenerator[Extraction[Any], None]:  # fmt: skip
    """`extract_many` for asyncio. `documents` may be an asynchronous iterable."""
    task = _task(type, documents, text, id, in_flight, options)
    return _aextractions(task, documents, _loader(model, dtype), in_flight)


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


def _loader(model: str | Path | Engine | None, dtype: DTypeName | None) -> Callable[[], Engine]:
    """What gives the engine when the first document is read. Raises `BadInputs`."""
    if model is None or isinstance(model, str | Path):
        return lambda: shared_engine(default_model().name if model is None else model, dtype)
    if dtype is not None:
        raise BadInputs("an engine has its `dtype` from `Engine.load`; pass it there")
    if not is_engine(model):
        raise BadInputs(f"`model` is a name, a folder or an `Engine`, not {model!r:.60}")
    return lambda: model


def _extractions(
    task: Task, documents: Iterable[Any], load: Callable[[], Engine], in_flight: int
) -> Iterator[Extraction[Any]]:
    pairs = extractions_of(load(), task, records_of(documents, task.read), in_flight=in_flight)
    for _, found in pairs:
        yield found


async def _aextractions(
    task: Task, documents: Iterable[Any] | AsyncIterable[Any], load: Callable[[], Engine], in_flight: int
) -> AsyncGenerator[Extraction[Any], None]:
    feed = Feed(task, await asyncio.to_thread(load))
    inputs = (feed.inputs_of(document) async for document in _each(documents, task))
    options = {**task.options, "in_flight": in_flight, "return_errors": True, "model": task.type}
    async with aclosing(feed.engine.amap(task.runnable, inputs, **options)) as outcomes:
        async for outcome in outcomes:
            yield feed.extraction(outcome)[1]


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
