"""Any number of runs in bounded memory: so many are in flight, and so many results wait for an earlier one.

Inputs are read where they are asked for: in the thread of the caller, or in the caller's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from concurrent import futures
from typing import Any, Final

from pastalang.runtime.request_window import Given, Outcome

_WAITING: Final = 4  # the outcomes that may wait for an earlier one, for each run in flight


class Window:
    """The runs of one call: those in flight, and the outcomes that are not handed out yet, by the number of their
    inputs. `begin` starts a run."""

    def __init__(self, begin: Callable[[Given], Any], in_flight: int, *, in_order: bool = True) -> None:
        self._begin = begin
        self._in_flight = in_flight
        self._in_order = in_order
        self._begun: dict[int, Any] = {}
        self._count = 0

    def add(self, given: Given) -> None:
        self._begun[self._count] = self._begin(given)
        self._count += 1

    @property
    def running(self) -> list[Any]:
        return [one for one in self._begun.values() if not one.done()]

    @property
    def has_room(self) -> bool:
        return len(self.running) < self._in_flight and len(self._begun) < self._in_flight * (1 + _WAITING)

    def take(self) -> Iterator[tuple[int, Outcome]]:
        for number, one in list(self._begun.items()):
            if one.done():
                del self._begun[number]
                yield number, one.result()
            elif self._in_order:
                return

    def cancel(self) -> None:
        for one in self._begun.values():
            one.cancel()


def outcomes(window: Window, inputs: Iterator[Given]) -> Generator[tuple[int, Outcome], None, None]:
    """The outcomes with the numbers of their inputs. Closing it cancels what is in flight."""
    ended: Exception | None = None
    try:
        while True:
            ready = list(window.take())  # before others begin, which may end sooner than these are yielded
            while ended is None and window.has_room:
                try:
                    window.add(next(inputs))
                except Exception as problem:
                    ended = problem
            yield from ready
            if window.running:
                futures.wait(window.running, return_when=futures.FIRST_COMPLETED)
            elif ended is not None:
                break
        yield from window.take()
    finally:
        window.cancel()
    if not isinstance(ended, StopIteration):
        raise ended


async def aoutcomes(window: Window, inputs: AsyncIterator[Given]) -> AsyncGenerator[tuple[int, Outcome], None]:
    """`outcomes` for asyncio: what is in flight goes on while the next inputs are awaited."""
    ended: Exception | None = None
    pull: asyncio.Task[Given] | None = None
    try:
        while True:
            if ended is None and pull is None and window.has_room:
                pull = asyncio.create_task(_next_of(inputs))
                await asyncio.sleep(0)
            if pull is not None and pull.done():
                try:
                    window.add(pull.result())
                except Exception as problem:
                    ended = problem
                pull = None
                continue
            for pair in window.take():
                yield pair
            waited = [*window.running, *([] if pull is None else [pull])]
            if waited:
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            elif ended is not None:
                break
        for pair in window.take():
            yield pair
    finally:
        window.cancel()
        if pull is not None:
            pull.cancel()
    if not isinstance(ended, StopAsyncIteration):
        raise ended


async def _next_of(source: AsyncIterator[Given]) -> Given:
    return await anext(source)
