"""Read the programs that are named on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.standard_input import NAME, is_standard_input, read_standard_input, refuse_second
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_text
from pastalang.limits import MAX_FILE_BYTES
from pastalang.reading import Reading, read_bytes, read_file

SUFFIX = ".pasta"


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """The text of one program. `path` is None for the standard input."""

    reading: Reading
    path: Path | None


def read_all(paths: Iterable[Path]) -> Iterator[ProgramFile]:
    """Every program once. A folder stands for all programs in it, sorted by name, except in hidden folders."""
    paths = list(paths)
    refuse_second(*paths)
    seen: set[Path] = set()
    for path in paths:
        if is_standard_input(path):
            yield ProgramFile(read_bytes(NAME, read_standard_input(MAX_FILE_BYTES + 1)), None)
            continue
        for file in _programs_in(path) if path.is_dir() else (path,):
            if file not in seen:
                seen.add(file)
                yield ProgramFile(read_file(file), file)


def read_one(path: Path) -> ProgramFile:
    """Raises `Refused` for a folder, and for a file that cannot be opened."""
    if path.is_dir():
        raise Refused(f"{path} is a folder; this command takes one program", EXIT_USAGE)
    [file] = read_all([path])
    if not file.reading.was_opened:
        raise refused_findings(file.reading.diagnostics, EXIT_UNREADABLE)
    return file


def refused_findings(findings: Iterable[Diagnostic], code: int) -> Refused:
    """A refusal that shows the errors among the findings, of which there is at least one. Warnings are left out."""
    errors = [finding for finding in findings if finding.is_error]
    first = errors[0]
    line = first.source.place(first.span.start).line if first.source.text else None
    return Refused(render_text(errors), code, word=first.code, line=line)


def _programs_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in parts):
            yield path
