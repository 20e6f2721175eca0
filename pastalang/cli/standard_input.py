"""The standard input, which `-` stands for wherever a command reads a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.output import reason_of
from pastalang.source import Source

if TYPE_CHECKING:
    from pastalang.training.row_files import RowFile

NAME = "<stdin>"


def is_standard_input(path: Path | str | None) -> bool:
    return str(path) == "-"


def refuse_second(*paths: Path | str | None) -> None:
    """Raises `Refused` if `-` stands for several of the files of a command: it can be read only once."""
    if sum(map(is_standard_input, paths)) > 1:
        raise Refused("the standard input can be read once, and `-` stands for several files", EXIT_USAGE)


def read_standard_input(most: int = -1) -> bytes:
    """At most so many bytes. Raises `Refused`."""
    try:
        return sys.stdin.buffer.read(most)
    except OSError as problem:
        raise Refused(f"the standard input could not be read: {reason_of(problem)}", EXIT_UNREADABLE) from problem


def text_of_standard_input() -> str:
    """Without a byte order mark. Raises `Refused`."""
    try:
        return read_standard_input().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Refused("the standard input could not be read: it is not UTF-8 text", EXIT_UNREADABLE) from problem


def rows_of(path: Path, columns: Mapping[str, str] | None = None) -> RowFile:
    """The file with rows, or the text of the standard input; `columns` has the column of each part of a row."""
    from pastalang.training.row_files import Mapped

    file = Source(NAME, text_of_standard_input()) if is_standard_input(path) else path
    return Mapped(file, columns) if columns else file
