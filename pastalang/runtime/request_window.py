"""Runs a program on any number of inputs, in bounded memory.

`RequestWindow` is what bounds it. A request takes a place in the window until its outcome has been handed out, so the
requests in flight, and the outcomes that wait for an earlier and slower one, are never more than its size.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from pastalang.failures import PastaError
from pastalang.program.types import OnTruncated
from pastalang.runtime.answer_parts import Truncation
from pastalang.runtime.errors import RunError
from pastalang.runtime.interrupts import in_thread
from pastalang.runtime.loop import Loop
from pastalang.runtime.result import Result, warn
from pastalang.runtime.scheduler.state import RequestState

Inputs: TypeAlias = Mapping[str, Any]
Given: TypeAlias = "Inputs | PastaError"
Outcome: TypeAlias = "Result[Any] | PastaError"

_WAITING: Final = 4  # the outcomes that may wait for an earlier one, for each request in flight


@dataclass(frozen=True, slots=True)
class RequestMaker:
    """How a window makes a request of inputs, submits it, and reads its outcome."""

    make: Callable[[Inputs], RequestState]  # raises `PastaError`
    submit: Callable[[RequestState], None]
    outcome: Callable[[RequestState], Outcome]


class RequestWindow:
    """The requests of one call: `in_flight` run at the same time; None runs all of them."""

    def __init__(self, maker: RequestMaker, in_flight: int | None, *, in_order: bool = True) -> None:
        self._maker = maker
        self._in_flight = in_flight
        self._in_order = in_order
        self._running: dict[int, RequestState] = {}  # by the number of the inputs
        self._ended: dict[int, Outcome] = {}  # not handed out yet
        self._added = self._taken = 0

    @property
    def has_room(self) -> bool:
        if self._in_flight is None:
            return True
        is_ahead = len(self._running) + len(self._ended) >= self._in_flight * (1 + _WAITING)
        return len(self._running) < self._in_flight and not is_ahead

    @property
    def running(self) -> tuple[RequestState, ...]:
        return tuple(self._running.values())

    @property
    def oldest(self) -> RequestState | None:
        """The request to go on with; None if all have ended."""
        return next(iter(self._running.values()), None)

    def add(self, inputs: Inputs | PastaError) -> None:
        """Begin a request. Inputs that are wrong have their error as outcome."""
        number, self._added = self._added, self._added + 1
        try:
            if isinstance(inputs, PastaError):
                raise inputs
            request = self._maker.make(inputs)
        except PastaError as problem:
            self._ended[number] = problem
            return
        except Exception as problem:  # a tokenizer or a mistake of ours: other requests go on anyway
            self._ended[number] = RunError(f"internal error: {type(problem).__name__}: {problem}")
            return
        self._running[number] = request
        self._maker.submit(request)

    def fill(self, source: Iterator[Given]) -> Exception | None:
        """Add inputs while there is room. Returns what the source raised, `StopIteration` at its end."""
        while self.has_room:
            try:
                inputs = next(source)
            except Exception as end:
                return end
            self.add(inputs)
        return None

    def take(self) -> Iterator[tuple[int, Outcome]]:
        """The outcomes that can be handed out, with the numbers of their inputs."""
        for number, request in list(self._running.items()):
            if request.is_over:
                del self._running[number]
                self._ended[number] = self._maker.outcome(request)
        while self._ended and (not self._in_order or self._taken in self._ended):
            number = self._taken if self._in_order else next(iter(self._ended))
            self._taken += 1
            yield number, self._ended.pop(number)


def run_window(
    loop: Loop, window: RequestWindow, source: Iterator[Given]
) -> Generator[tuple[int, Outcome], None, None]:
    ended: Exception | None = None
    try:
        while True:
            ended = ended or window.fill(source)
            yield from window.take()
            if (request := window.oldest) is not None:
                loop.step_for(request)
            elif ended is not None:
                break
    finally:
        loop.cancel(window.running)
    if not isinstance(ended, StopIteration):
        raise ended


async def arun_window(
    loop: Loop, window: RequestWindow, source: AsyncIterator[Given]
) -> AsyncGenerator[tuple[int, Outcome], None]:
    ended: Exception | None = None
    pull: asyncio.Task[Given] | None = None
    try:
        while True:
            if ended is None and pull is None and window.has_room:
                pull = asyncio.create_task(_next_of(source))
                await asyncio.sleep(0)  # inputs that are there already are taken without a step between them
            if pull is not None and (pull.done() or window.oldest is None):
                try:
                    inputs = await pull
                except Exception as problem:
                    ended = problem
                else:
                    await in_thread(partial(window.add, inputs))
                pull = None
                continue
            for pair in window.take():
                yield pair
            if (request := window.oldest) is not None:
                await loop.astep_for(request)
            elif ended is not None:
                break
    finally:
        if pull is not None:
            pull.cancel()
        await loop.acancel(window.running)
        if pull is not None:
            with suppress(asyncio.CancelledError, Exception):
                await pull
    if not isinstance(ended, StopAsyncIteration):
        raise ended


def outcomes_in_turn(pairs: Generator[tuple[int, Outcome], None, None], *, return_errors: bool) -> Iterator[Outcome]:
    """The outcomes, until an error is to be raised. Closing it cancels what is in flight."""
    warned = _WarnedOf()
    with closing(pairs):
        for _, outcome in pairs:
            if isinstance(outcome, PastaError) and not return_errors:
                raise outcome
            warned.warn(outcome)
            yield outcome


async def aoutcomes_in_turn(
    pairs: AsyncGenerator[tuple[int, Outcome], None], *, return_errors: bool
) -> AsyncGenerator[Outcome, None]:
    warned = _WarnedOf()
    async with aclosing(pairs):
        async for _, outcome in pairs:
            if isinstance(outcome, PastaError) and not return_errors:
                raise outcome
            warned.warn(outcome)
            yield outcome


class _WarnedOf:
    """Warns once of each field that its limit has cut, when it is first cut."""

    def __init__(self) -> None:
        self._known: set[tuple[str, int, str, OnTruncated | None]] = set()

    def warn(self, outcome: Outcome) -> None:
        if isinstance(outcome, Result):
            warn([cut for cut in outcome.truncations if self._is_new(cut)])

    def _is_new(self, cut: Truncation) -> bool:
        key = (cut.path, cut.limit, cut.unit, cut.became)
        is_new = key not in self._known
        self._known.add(key)
        return is_new


async def _next_of(source: AsyncIterator[Given]) -> Given:
    return await anext(source)


async def as_async(inputs: Iterable[Given] | AsyncIterable[Given]) -> AsyncIterator[Given]:
    if isinstance(inputs, AsyncIterable):
        async for one in inputs:
            yield one
    else:
        for one in inputs:
            yield one
