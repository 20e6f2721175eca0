"""Where a command writes: the standard output, the standard error, and files.

Either an answer is written or the command fails with a message. Progress messages never make a command fail. A command
that cannot write its file refuses before it does any work, and it never overwrites a file that it reads.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar, cast

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused

T = TypeVar("T")
_ENCODING: Final = "utf-8"


def echo(text: str, *, end: str = "\n") -> None:
    """Write to the standard output.

    Raises `Refused` if it cannot be written, and `BrokenPipeError` if its reader has closed it.
    """
    sys.stdout.write(text + end)
    sys.stdout.flush()


def echo_document(text: str, *, end: str = "\n") -> None:
    """Write a program, JSON or an answer.

    Other programs read these, so except on a terminal they are UTF-8 and keep their line ends.
    """
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and not sys.stdout.isatty():
        reconfigure(encoding=_ENCODING, errors="backslashreplace", newline="")
    echo(text, end=end)


def echo_error(text: str, *, end: str = "\n") -> None:
    """Write to the standard error. If it is closed, the text is lost and the command continues."""
    sys.stderr.write(text + end)
    sys.stderr.flush()


def show_notes(*notes: str | None) -> None:
    """Notes on the standard error; None is none."""
    for note in notes:
        if note is not None:
            echo_error(f"note: {note}")


def named_lines(lines: Sequence[tuple[str, str]]) -> str:
    """Figures below one another, each behind its name."""
    width = max(16, *(len(name) for name, _ in lines))
    return "\n".join(f"{name:<{width}} {value}".rstrip() for name, value in lines)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def write_file(path: Path, text: str) -> None:
    """Raises `Refused`."""
    try:
        path.write_text(text, encoding=_ENCODING)
    except OSError as problem:
        raise unwritable(path, problem) from problem


def unwritable(path: Path, problem: OSError) -> Refused:
    return Refused(f"{path} could not be written: {reason_of(problem)}", EXIT_UNREADABLE)


def reason_of(problem: OSError) -> str:
    """Why a file or a stream cannot be used, as the end of a sentence."""
    return "it is closed" if problem.errno == errno.EBADF else (problem.strerror or str(problem)).lower()


def refuse_unwritable(path: Path | None, *sources: Path | str | None) -> None:
    """Raises `Refused` if the path cannot be written, or if it is one of the `sources` that the command reads."""
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
    """Raises `Refused` if the path is one of the `sources`, even under another name, such as a link."""
    if path is None or not path.is_file():
        return
    for source in sources:
        if source is not None and Path(source).is_file() and path.samefile(source):
            raise Refused(f"this command reads {path} and would overwrite it: write to another file", EXIT_USAGE)


# ── the streams of the process ───────────────────────────────────────────────────────────────────────────


def prepare_streams() -> None:
    """Replace the standard streams of the process by streams that accept any character and fail predictably.

    When writing fails, the standard output raises `Refused` or `BrokenPipeError`, and the standard error is silent.
    A stream that the shell has closed is opened such that every use of it fails, so it needs no case of its own.
    """
    sys.stdin = sys.stdin or _unusable(0, os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _unusable(1, os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _unusable(2, os.O_RDONLY, "w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a terminal that cannot show a character shows its code instead of failing
            reconfigure(errors="backslashreplace")
    sys.stdout = cast(TextIO, _Guarded(sys.stdout, _refuse))
    sys.stderr = cast(TextIO, _Guarded(sys.stderr, _ignore))


class _Guarded:
    """A stream that calls `on_failure` when it cannot be written, and again at every later write.

    Text that was buffered before the failure is dropped.
    """

    def __init__(self, stream: TextIO, on_failure: Callable[[OSError], None]) -> None:
        self._stream = stream
        self._on_failure = on_failure
        self._problem: OSError | None = None

    def write(self, text: str) -> int:
        if self._problem is not None:
            self._on_failure(self._problem)
        return self._tried(lambda: self._stream.write(text)) or 0

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def _tried(self, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except OSError as problem:
            _silence(self._stream)
            self._problem = problem
            self._on_failure(problem)
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _refuse(problem: OSError) -> None:
    if isinstance(problem, BrokenPipeError):
        raise problem
    reason = reason_of(problem)
    raise Refused(f"the standard output could not be written: {reason}", EXIT_UNREADABLE) from problem


def _ignore(problem: OSError) -> None:
    """There is no other stream to report the problem on."""


def _silence(stream: TextIO) -> None:
    """Send the buffered text and all later text to the null device; otherwise Python complains about it at exit."""
    with suppress(OSError, ValueError):
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, stream.fileno())
        os.close(null_device)


def _unusable(descriptor: int, flags: int, mode: str) -> TextIO:
    """The null device, opened the wrong way round: every read or write fails, also in libraries written in C."""
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    return cast(TextIO, open(descriptor, mode, encoding=_ENCODING, closefd=False))


_RED, _YELLOW, _GREEN, _BLUE, _END = "\x1b[1;31m", "\x1b[1;33m", "\x1b[32m", "\x1b[34m", "\x1b[0m"
_PARTS: Final = (
    (re.compile(r"^error\[[\w-]+\]", re.MULTILINE), _RED),
    (re.compile(r"^warning\[[\w-]+\]", re.MULTILINE), _YELLOW),
    (re.compile(r"^(?:note|help):|^ *= help:", re.MULTILINE), _GREEN),
    (re.compile(r"(?<=\| )[ ]*\^+(?: .*)?$", re.MULTILINE), _RED),
    (re.compile(r"(?<=\| )[ ]*-+(?: .*)?$", re.MULTILINE), _BLUE),
    (re.compile(r"^ *(?:-->|::>)|^ *\d* \|", re.MULTILINE), _BLUE),
)


def shows_colours(stream: TextIO) -> bool:
    """On a terminal, unless the user has asked for none (see no-color.org) or the terminal has none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, stream: TextIO) -> str:
    """The text as it is shown on the stream."""
    return with_colours(text) if shows_colours(stream) else text


def with_colours(text: str) -> str:
    """The text with the codes that colour it on a terminal and in a notebook."""
    for part, colour in _PARTS:
        text = part.sub(rf"{colour}\g<0>{_END}", text)
    return text
