"""Where a command writes: what is wrong with a place is told before anything is done, and no source is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused


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
