"""Runs a program on any number of inputs, in bounded memory.

`Window` is what bounds it. A run takes a place in the window until its outcome has been handed out, so the runs in
flight, and the outcomes that wait for an earlier and slower one, are never more than its size. Inputs are read where
they are asked for: in the thread of the caller, or in the caller's event loop.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

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

_WAITING: Final = 4  # the outcomes that may wait for an earlier one, for each run in flight


class Run(Protocol):
    """What became of one set of inputs, as soon as it is done."""

    def done(self) -> bool: ...

    def result(self) -> Outcome: ...


R = TypeVar("R", bound=Run)


class Window(ABC, Generic[R]):
    """The runs of one call by the number of their inputs: `in_flight` at the same time, or all of them, and the
    outcomes that are not handed out yet."""

    def __init__(self, in_flight: int | None, *, in_order: bool = True) -> None:
        self._in_flight = in_flight
        self._in_order = in_order
        self._begun: dict[int, R] = {}
        self._count = 0

    @abstractmethod
    def run_of(self, given: Given) -> R: ...

    @abstractmethod
    def go_on(self, running: Sequence[R]) -> None:
        """Until one of them may have ended."""

    @abstractmethod
    def cancel(self, runs: Sequence[R]) -> None: ...

    @abstractmethod
    async def ago_on(self, running: Sequence[R], pull: asyncio.Task[Given] | None) -> None:
        """Until one of them may have ended, or perhaps the next inputs are there."""

    @abstractmethod
    async def acancel(self, runs: Sequence[R]) -> None: ...

    def outcomes(self, source: Iterator[Given]) -> Generator[tuple[int, Outcome], None, None]:
        """The outcomes with the numbers of their inputs. Closing it cancels what is in flight."""
        ended: Exception | None = None
        try:
            while True:
                while ended is None and self._has_room:
                    try:
                        given = next(source)
                    except Exception as problem:
                        ended = problem
                    else:
                        self.add(given)
                yield from self._take()
                if running := self._running:
                    self.go_on(running)
                elif ended is not None:
                    break
            yield from self._take()
        finally:
            self.cancel(self._running)
        if not isinstance(ended, StopIteration):
            raise ended

    async def aoutcomes(self, source: AsyncIterator[Given]) -> AsyncGenerator[tuple[int, Outcome], None]:
        """`outcomes` for asyncio: what is in flight goes on while the next inputs are awaited."""
        ended: Exception | None = None
        pull: asyncio.Task[Given] | None = None
        try:
            while True:
                if ended is None and pull is None and self._has_room:
                    pull = asyncio.create_task(_next_of(source))
                    await asyncio.sleep(0)  # inputs that are there already are taken before anything goes on
                if pull is not None and (pull.done() or not self._begun):
                    try:
                        given = await pull
                    except Exception as problem:
                        ended = problem
                    else:
                        await self.aadd(given)
                    pull = None
                    continue
                for pair in self._take():
                    yield pair
                if running := self._running:
                    await self.ago_on(running, pull)
                elif ended is not None:
                    break
            for pair in self._take():
                yield pair
        finally:
            if pull is not None:
                pull.cancel()
            await self.acancel(self._running)
            if pull is not None:
                with suppress(asyncio.CancelledError, Exception):
                    await pull
        if not isinstance(ended, StopAsyncIteration):
            raise ended

    def add(self, given: Given) -> None:
        self._begun[self._count] = self.run_of(given)
        self._count += 1

    async def aadd(self, given: Given) -> None:
        self.add(given)

    @property
    def _running(self) -> list[R]:
        return [one for one in self._begun.values() if not one.done()]

    @property
    def _has_room(self) -> bool:
        most = self._in_flight
        return most is None or (len(self._running) < most and len(self._begun) < most * (1 + _WAITING))

    def _take(self) -> Iterator[tuple[int, Outcome]]:
        for number, is_done in [(number, one.done()) for number, one in self._begun.items()]:
            if is_done:
                yield number, self._begun.pop(number).result()
            elif self._in_order:
                return


@dataclass(eq=False, slots=True)
class RequestRun:
    """A request, or what came of it."""

    found: RequestState | Outcome

    def done(self) -> bool:
        return not isinstance(self.found, RequestState)

    def result(self) -> Outcome:
        assert not isinstance(self.found, RequestState)
        return self.found

    @property
    def request(self) -> RequestState:
        assert isinstance(self.found, RequestState)
        return self.found


class RequestWindow(Window[RequestRun]):
    """The requests of one call to an engine, whose `loop` steps all of them. `make` raises `PastaError`, and `check`
    what is wrong for all inputs."""

    def __init__(
        self, loop: Loop, make: Callable[[Inputs], RequestState], read: Callable[[RequestState], Outcome],
        in_flight: int | None, *, in_order: bool = True, check: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__(in_flight, in_order=in_order)
        self._loop, self._make, self._read, self.check = loop, make, read, check

    def run_of(self, given: Given) -> RequestRun:
        """A request that is not submitted yet. Inputs that are wrong have their error as outcome."""
        try:
            if isinstance(given, PastaError):
                raise given
            request = self._make(given)
        except PastaError as problem:
            return RequestRun(problem)
        except Exception as problem:  # a tokenizer or a mistake of ours: other requests go on anyway
            return RequestRun(RunError(f"internal error: {type(problem).__name__}: {problem}"))
        return RequestRun(request)

    def add(self, given: Given) -> None:
        """Whoever closes the window finds the request, also if submitting it is interrupted."""
        super().add(given)
        if not (run := self._begun[self._count - 1]).done():
            self._loop.submit(run.request)

    def go_on(self, running: Sequence[RequestRun]) -> None:
        self._loop.step_for(running[0].request)
        self._read_ended(running)

    def cancel(self, runs: Sequence[RequestRun]) -> None:
        self._loop.cancel([one.request for one in runs])

    async def aadd(self, given: Given) -> None:
        await in_thread(partial(self.add, given))

    async def ago_on(self, running: Sequence[RequestRun], pull: asyncio.Task[Given] | None) -> None:
        await self._loop.astep_for(running[0].request)
        self._read_ended(running)

    async def acancel(self, runs: Sequence[RequestRun]) -> None:
        await self._loop.acancel([one.request for one in runs])

    def _read_ended(self, running: Sequence[RequestRun]) -> None:
        """A request that is over is read at once, and its memory is free."""
        for one in running:
            if one.request.is_over:
                one.found = self._read(one.request)


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


async def as_async(
    inputs: Iterable[Given] | AsyncIterable[Given], before: Callable[[], None] | None = None
) -> AsyncIterator[Given]:
    """The inputs, after what is done in a thread before the first one is read."""
    if before is not None:
        await in_thread(before)
    if isinstance(inputs, AsyncIterable):
        async for one in inputs:
            yield one
    else:
        for one in inputs:
            yield one
