"""Where a command writes: its two streams, and files.

An answer is written or the command fails in words; progress never makes it fail. A stream that the shell has
closed is opened such that every use of it fails, so that it needs no case of its own. A file that cannot be
written is refused before anything is done, and no source is overwritten.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar, cast

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused

T = TypeVar("T")
_ENCODING: Final = "utf-8"


def say(text: str, *, end: str = "\n") -> None:
    """To the standard output. Raises `Refused` where it takes nothing, `BrokenPipeError` where nobody reads on."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def say_document(text: str, *, end: str = "\n") -> None:
    """A program, JSON, an answer: what is to be read back is UTF-8 wherever it goes, but on a terminal."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and not sys.stdout.isatty():
        reconfigure(encoding=_ENCODING, errors="backslashreplace")
    say(text, end=end)


def tell(text: str, *, end: str = "\n") -> None:
    """To the standard error. Where it is gone nobody is told, and the work goes on."""
    sys.stderr.write(text + end)
    sys.stderr.flush()


def reason_of(problem: OSError) -> str:
    """Why a stream cannot be used, as people say it."""
    return "it is closed" if problem.errno == errno.EBADF else (problem.strerror or str(problem)).lower()


def silence(stream: TextIO) -> None:
    """What the stream still holds, and whatever follows, goes nowhere: else Python complains of it at the end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def prepare_streams() -> None:
    """For a process of our own, libraries included: streams that are there and take any character.

    Where the standard output fails it raises `Refused`, or `BrokenPipeError`; the standard error never fails.
    """
    sys.stdin = sys.stdin or _unusable(0, os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _unusable(1, os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _unusable(2, os.O_RDONLY, "w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a terminal that cannot show a character gets its code instead of a failure
            reconfigure(errors="backslashreplace")
    sys.stdout = cast(TextIO, _Guarded(sys.stdout, _refuse))
    sys.stderr = cast(TextIO, _Guarded(sys.stderr, _forgive))


class _Guarded:
    """A stream of which `failed` is told when it cannot be written, and again with whatever is written afterwards.

    Nothing that it still held is tried again.
    """

    def __init__(self, stream: TextIO, failed: Callable[[OSError], None]) -> None:
        self._stream = stream
        self._failed = failed
        self._problem: OSError | None = None

    def write(self, text: str) -> int:
        if self._problem is not None:
            self._failed(self._problem)
        return self._tried(lambda: self._stream.write(text)) or 0

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def _tried(self, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except OSError as problem:
            silence(self._stream)
            self._problem = problem
            self._failed(problem)
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _refuse(problem: OSError) -> None:
    if isinstance(problem, BrokenPipeError):
        raise problem
    reason = reason_of(problem)
    raise Refused(f"the standard output could not be written: {reason}", EXIT_UNREADABLE) from problem


def _forgive(problem: OSError) -> None:
    """Nobody can be told."""


def _unusable(descriptor: int, flags: int, mode: str) -> TextIO:
    """The null device, open the wrong way round: whoever reads or writes is told so, libraries in C included."""
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    return cast(TextIO, open(descriptor, mode, encoding=_ENCODING, closefd=False))


def refuse_place(path: Path | None, *sources: Path | str | None) -> None:
    """Raises `Refused` where nothing can be written, or where one of the files that are read would be lost."""
    if path is None:
        return
    refuse_overwriting(path, *sources)
    if not path.parent.is_dir():
        raise Refused(f"{path} cannot be written: there is no folder {path.parent}", EXIT_UNREADABLE)
    if path.is_dir():
        raise Refused(f"{path} cannot be written: it is a folder", EXIT_UNREADABLE)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refused(f"{path} cannot be written: permission denied", EXIT_UNREADABLE)


def refuse_overwriting(path: Path | None, *sources: Path | str | None) -> None:
    """Raises `Refused` where the place is one of the files that the command reads, by whatever name."""
    if path is None or not path.is_file():
        return
    for source in sources:
        if source is not None and Path(source).is_file() and path.samefile(source):
            raise Refused(f"{path} is read by this command, and would be lost: write to another file", EXIT_USAGE)
