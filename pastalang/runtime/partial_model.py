"""The value of a run as it grows: after each field that is done, what there is of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from pastalang.program.types import Object
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.events import Done, Event, Failed, FieldAgain, FieldDone, FieldStarted
from pastalang.runtime.question import Question
from pastalang.values.json import JsonValue, NotJson, parse_json
from pastalang.values.paths import WHOLE, is_inside, is_mark, steps_of
from pastalang.values.pydantic.to_model import partial_model, read_partial

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Partial(Generic[M]):
    """What there is of a value.

    value    an instance of a model that is made of the type: its fields, None for what is missing. Of a type that is no
             Pydantic model, the JSON value so far; None before there is anything
    done     the fields that are done, such as `lines[0].total`, in the order in which they were
    final    the value of the type, in the last one; None before
    """

    value: Any
    done: tuple[str, ...]
    final: M | None = None


def partials(question: Question, events: Iterator[Event]) -> Iterator[Partial[Any]]:
    """Raises the error of a run that fails."""
    growing = _Growing(question)
    for event in events:
        found = growing.take(event)
        if found is not None:
            yield found


async def apartials(question: Question, events: AsyncIterator[Event]) -> AsyncGenerator[Partial[Any], None]:
    growing = _Growing(question)
    async for event in events:
        found = growing.take(event)
        if found is not None:
            yield found


def check_streamed(question: Question) -> Question:
    """Raises `BadInputs` for a call whose value does not grow field by field."""
    if question.windowing is not None:
        raise BadInputs("a text that is read in windows has a value when the last one has ended: call `extract`")
    return question


class _Growing:
    def __init__(self, question: Question) -> None:
        found = question.type
        self._model = partial_model(found) if isinstance(found, type) and issubclass(found, BaseModel) else None
        output = question.program.only_template.messages[-1].body
        self._is_object = isinstance(getattr(output, "type", None), Object)
        self._done: dict[str, tuple[tuple[str | int, ...], JsonValue]] = {}

    def take(self, event: Event) -> Partial[Any] | None:
        match event:
            case FieldDone():
                self._done[event.where] = self._path(event), _value(event.text)
                return Partial(self._value(), tuple(self._done))
            case FieldStarted():
                self._done.pop(event.where, None)
            case FieldAgain(where=where):
                self._done = {place: one for place, one in self._done.items() if not is_inside(place, where)}
            case Done(result=result):
                exact = result.answers[0].exact
                self._done = {place: one for place, one in self._done.items() if not _is_behind(exact, one[0])}
                return Partial(self._value(), tuple(self._done), result.value)
            case Failed(error=error):
                raise error
        return None

    def _path(self, event: FieldDone) -> tuple[str | int, ...]:
        steps = [step for step in steps_of(event.field) if not is_mark(step)]
        items = iter(event.items)
        path = [next(items) if step == "[]" else parse_json(step) if step[:1] == '"' else step for step in steps]
        return tuple(path if self._is_object or path[:1] != [WHOLE] else path[1:])  # type: ignore[arg-type]

    def _value(self) -> Any:
        whole: Any = None
        for path, value in self._done.values():
            whole = _with(whole, path, value)
        if self._model is None:
            return whole
        return read_partial(self._model, whole if isinstance(whole, dict) else {})


def _is_behind(whole: Any, path: Sequence[str | int]) -> bool:
    """Whether the path leads behind the end of a list, which was longer before it was decoded again."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(whole, list) or step >= len(whole):
                return True
            whole = whole[step]
        else:
            whole = whole.get(step) if isinstance(whole, dict) else None
    return False


def _with(whole: Any, path: tuple[str | int, ...], value: JsonValue) -> Any:
    """The value with a part of it. Items that are missing before it are None."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(whole) if isinstance(whole, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = _with(items[step], rest, value)
        return items
    found = dict(whole) if isinstance(whole, dict) else {}
    return {**found, step: _with(found.get(step), rest, value)}


def _value(text: str) -> JsonValue:
    try:
        return parse_json(text)
    except NotJson:
        return text
