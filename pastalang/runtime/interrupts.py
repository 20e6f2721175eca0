"""Ctrl-C waits while requests and their memory are changed, and is delivered where nothing is half done.

Python raises `KeyboardInterrupt` in the main thread, between any two instructions. `hold_interrupts` takes the place of
the handler for SIGINT, whoever has installed it, and calls that handler at the end, or where `deliver` lets it through.
A second Ctrl-C is delivered at once, so that a step that hangs can be stopped. A cancelled task
of asyncio waits for the end of what it does in a thread, too.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Handler: TypeAlias = Callable[[int, FrameType | None], object]


class HeldInterrupts:
    """The handler for SIGINT while interrupts are held. Without a handler to call, there is nothing to hold."""

    def __init__(self, handler: Handler | None = None) -> None:
        self._handler = handler
        self._is_pressed = False
        self._is_open = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_open or self._is_pressed:
            self._is_pressed = False
            self._deliver(frame)
        else:
            self._is_pressed = True

    def release(self) -> None:
        """Deliver an interrupt that has been held."""
        if self._is_pressed:
            self._is_pressed = False
            self._deliver(None)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Interrupts inside arrive at once, and the one that has been held arrives first."""
        before, self._is_open = self._is_open, True
        try:
            self.release()
            yield
        finally:
            self._is_open = before

    def _deliver(self, frame: FrameType | None) -> None:
        if self._handler is not None:
            self._handler(signal.SIGINT, frame)


@contextmanager
def hold_interrupts() -> Iterator[HeldInterrupts]:
    """Hold interrupts of the main thread until the end. In other threads Python raises none.

    Inside another `hold_interrupts`, they are held until the end of that one.
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if isinstance(handler, HeldInterrupts):
        yield handler
        return
    if not callable(handler):  # also SIG_IGN and SIG_DFL, with which Python raises nothing
        yield HeldInterrupts()
        return
    held = HeldInterrupts(handler)
    signal.signal(signal.SIGINT, held)
    try:
        yield held
    finally:
        if signal.getsignal(signal.SIGINT) is held:  # nobody has installed another handler since
            signal.signal(signal.SIGINT, handler)
        held.release()


async def in_thread(act: Callable[[], T]) -> T:
    """Act in a thread: the event loop goes on while it waits for its turn.

    Cancelling the task waits for the end of the act, which cannot be stopped in the middle.
    """
    work = asyncio.ensure_future(asyncio.to_thread(act))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
