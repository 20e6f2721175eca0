"""The complaints of other libraries while a model is loaded: silenced, and turned into one line of our own."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pastalang.failures import PastaError
from pastalang.runtime.errors import LoadError

LONGEST_REASON: Final = 400  # characters
_ALONE: Final = threading.RLock()


@contextmanager
def as_load_error(path: str | Path, part: str = "the model") -> Iterator[None]:
    """Turns the error of a library about a file or a name into a `LoadError` with a whole sentence of its message."""
    try:
        yield
    except (PastaError, MemoryError):
        raise
    except Exception as problem:  # anything: truncated files, unknown architectures, no network
        raise LoadError(f"{part} {path} could not be loaded: {_reason(problem)}") from problem


def _reason(problem: Exception) -> str:
    """The first line of the message. One that introduces a list is only half, so the list follows."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    reason = next(iter(lines), "")
    if reason.endswith(":"):
        reason = " ".join(lines)
    if not reason or isinstance(problem, LookupError):
        reason = f"{type(problem).__name__} {reason}".strip()
    return reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"


@contextmanager
def quietly() -> Iterator[None]:
    """Silences transformers, whose complaints become a `LoadError`. Progress bars are shown on a terminal only.

    One thread at a time: transformers loads with switches that hold for the whole process, and two threads that set
    them back in the wrong order leave weights untied in every model that is loaded later.
    """
    from transformers.utils import logging as transformers_logging

    with _ALONE:
        verbosity, shows_progress = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
        transformers_logging.set_verbosity(logging.CRITICAL)
        if sys.stderr is None or not sys.stderr.isatty():
            transformers_logging.disable_progress_bar()
        try:
            yield
        finally:
            transformers_logging.set_verbosity(verbosity)
            if shows_progress:
                transformers_logging.enable_progress_bar()
