"""`extract_many(progress=True)`: a bar in a notebook, a line on a terminal, the last line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from pastalang.runtime.errors import BadInputs

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
def progress_of(documents: object, *, is_shown: bool) -> Iterator[OnStatus]:
    """A function to call with the status of each document that is done."""
    if not is_shown:
        yield lambda status: None
        return
    bar = _Bar(len(documents) if isinstance(documents, Sized) else None)
    try:
        yield bar.add
    finally:
        bar.close()


class _Bar:
    def __init__(self, total: int | None) -> None:
        self._total = total
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
        parts = [f"{self._done:,}{of} documents", f"{self._done / seconds:.1f}/s"]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if self._done and self._total is not None and self._total > self._done:
            parts.append(f"{(self._total - self._done) * seconds / self._done:,.0f} s left")
        return ", ".join(parts)
