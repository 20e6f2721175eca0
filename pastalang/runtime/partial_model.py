"""The value of a run as it grows: after each field that is done, what there is of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from pastalang.program.types import Object
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.events import Done, Event, Failed, FieldAgain, FieldDone, FieldStarted
from pastalang.runtime.question import Question
from pastalang.runtime.result import Result
from pastalang.values.json import JsonValue, NotJson, parse_json
from pastalang.values.paths import WHOLE, is_inside, is_mark, steps_of
from pastalang.values.pydantic.partial import Arm, PartialReader, as_partial, partial_model

M = TypeVar("M")
_Path: TypeAlias = tuple[str | int, ...]
_GONE: Final[Any] = object()  # of a part that is decoded again


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
        is_model = isinstance(found, type) and issubclass(found, BaseModel)
        self._reader = PartialReader(partial_model(found)) if is_model else None
        output = question.program.only_template.messages[-1].body
        self._is_object = isinstance(getattr(output, "type", None), Object)
        self._done: dict[str, _Path] = {}
        self._raw: JsonValue = None
        self._value: Any = None

    def take(self, event: Event) -> Partial[Any] | None:
        match event:
            case FieldDone():
                self._done[event.where] = self._put(event, _value(event.text))
                return Partial(self._value, tuple(self._done))
            case FieldStarted():
                if self._done.pop(event.where, None) is not None:
                    self._put(event, _GONE)
            case FieldAgain(where=where):
                left = {place: path for place, path in self._done.items() if not is_inside(place, where)}
                if len(left) < len(self._done):
                    self._put(event, _GONE)
                self._done = left
            case Done(result=result):
                exact = result.answers[0].exact
                done = tuple(place for place, path in self._done.items() if not _is_behind(exact, path))
                return Partial(self._last(result), done, result.value)
            case Failed(error=error):
                raise error
        return None

    def _put(self, event: FieldDone | FieldStarted | FieldAgain, part: JsonValue) -> _Path:
        steps = self._steps(event)
        path = tuple(step for step in steps if not isinstance(step, Arm))
        self._raw = _with(self._raw, path, part)
        self._value = self._raw if self._reader is None else self._reader.read(self._raw, steps, self._value)
        return path

    def _last(self, result: Result[Any]) -> Any:
        """A value that is kept though it is invalid is no model."""
        exact = result.answers[0].exact
        if self._reader is None:
            return exact
        return as_partial(result.value) if isinstance(result.value, BaseModel) else self._reader.read(exact)

    def _steps(self, event: FieldDone | FieldStarted | FieldAgain) -> tuple[str | int | Arm, ...]:
        items = iter(event.items)
        steps = [_step(step, items) for step in steps_of(event.field) if not step.startswith("#")]
        return tuple(steps[1:] if steps[:1] == [WHOLE] and not self._is_object else steps)


def _step(step: str, items: Iterator[int]) -> str | int | Arm:
    if is_mark(step):
        return Arm(_key(step[1:-1]))
    return next(items) if step == "[]" else _key(step)


def _key(step: str) -> str:
    return str(parse_json(step)) if step.startswith('"') else step


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


def _with(whole: Any, path: _Path, part: JsonValue) -> Any:
    """The value with a part of it, or without. Items that are missing are None."""
    if not path:
        return None if part is _GONE else part
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(whole) if isinstance(whole, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = _with(items[step], rest, part)
        return items
    found = dict(whole) if isinstance(whole, dict) else {}
    if part is _GONE and not rest:
        found.pop(step, None)
        return found
    return {**found, step: _with(found.get(step), rest, part)}


def _value(text: str) -> JsonValue:
    try:
        return parse_json(text)
    except NotJson:
        return text
