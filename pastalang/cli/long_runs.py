"""What commands that run for long have in common: a line that changes while they run, and an end by Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pastalang.cli.output import echo, echo_error


@contextmanager
def ctrl_c_asked(
    what: str = "this step", *, is_once: bool = False, is_shown: bool = True
) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: the run then ends after what it is doing. Pressed again, it ends at once.

    With `is_once`, it does not: a launcher may pass on what its terminal has already sent.
    """
    pressed = False

    def on_ctrl_c(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed and is_once:
            return
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        if is_shown:
            advice = "" if is_once else "; press Ctrl-C again to stop at once"
            echo_error(f"\nstopping after {what}{advice}")

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody else's handler stays
        yield lambda: False
        return
    signal.signal(signal.SIGINT, on_ctrl_c)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def screen() -> tuple[Callable[[str], None], Callable[[str], None] | None]:
    """How lines are shown, and on a terminal the line that is replaced by the next one."""
    if not sys.stderr.isatty():
        return echo, None

    def live(line: str) -> None:
        echo_error(f"\r\x1b[K{line}", end="")

    def report(line: str) -> None:
        live("")
        echo(line)

    return report, live
