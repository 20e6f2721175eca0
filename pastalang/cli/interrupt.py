"""Ctrl-C while nothing is under way that has to be put away: the process ends there and then, in words."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from pastalang.cli.refused import EXIT_STOPPED, Refused

STOPPED = Refused("stopped", EXIT_STOPPED)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Inside it Ctrl-C raises nothing: an import that is broken off anywhere turns into errors of every kind.

    Whoever has an answer of their own to Ctrl-C, or ignores it, keeps it.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    from json import dumps

    with suppress(OSError):
        os.write(2, STOPPED.message.encode() + b"\n")
    with suppress(OSError):
        if "--json" in sys.argv:
            os.write(1, dumps(STOPPED.as_data()).encode() + b"\n")
    os._exit(EXIT_STOPPED)
