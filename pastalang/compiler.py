"""Compiles a text or a file to a checked program, or reports everything that is wrong with it.

text ── reading ── Source ── grammar ── syntax tree ── check ── Program
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pastalang.check.checker import check_file
from pastalang.check.modules import Read
from pastalang.check.report import certain_diagnostics
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.failures import FileError, ProgramError
from pastalang.grammar import nodes
from pastalang.grammar.parser import ParseResult, parse
from pastalang.program.program import Program
from pastalang.reading import Reading, read_file, read_text
from pastalang.source import Source


def compile(text: str, *, name: str = "<text>") -> Program:
    """The program in a text. It has no folder, so it cannot import other files. Raises `ProgramError`."""
    return _program_or_error(check_source(text, name=name))


def load(path: str | os.PathLike[str]) -> Program:
    """The program in a file. Raises `ProgramError`, or `FileError` if the file cannot be opened."""
    reading = read_file(_path(path))
    if not reading.was_opened:
        is_program = Path(path).suffix == ".pasta"
        hint = "" if is_program else "; a program is a .pasta file, and a model is loaded with `pastalang.Engine.load`"
        raise FileError(reading.diagnostics[0].headline + hint)
    return _program_or_error(check_reading(reading, path=Path(path)))


def check_source(text: str, *, name: str = "<text>") -> tuple[Program | None, tuple[Diagnostic, ...]]:
    """The program in a text, or None if it has errors, with all errors and warnings."""
    given: object = text
    if not isinstance(given, str):
        raise TypeError(f"a program is compiled from its text, not from {given!r:.60}; `load` reads a file")
    if not isinstance(name, str):
        raise TypeError(f"`name` is a text, not {name!r:.60}")
    return check_reading(read_text(name, text), path=None)


def check_path(path: str | os.PathLike[str]) -> tuple[Program | None, tuple[Diagnostic, ...]]:
    """The program in a file, or None if it has errors, with all errors and warnings."""
    return check_reading(read_file(_path(path)), path=Path(path))


def _path(given: str | os.PathLike[str]) -> Path:
    try:
        return Path(given)
    except TypeError as problem:
        raise TypeError(f"a program is loaded from a path, not from {given!r:.60}") from problem


def check_reading(reading: Reading, *, path: Path | None) -> tuple[Program | None, tuple[Diagnostic, ...]]:
    """Parse and check a file or text that was read. Without a `path` it cannot import."""
    found = analyse_reading(reading, path=path)
    return found.program, found.diagnostics


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that is known of a text. `parsed` is None if it is no text, and `program` if there are errors."""

    source: Source
    parsed: ParseResult | None
    program: Program | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def file(self) -> nodes.File | None:
        """Its syntax tree, or the part of it that could be read; None if there is none."""
        return None if self.parsed is None else self.parsed.file or self.parsed.rest


def analyse(text: str, *, path: Path | None, name: str, read: Read | None = None) -> Analysis:
    """Parse and check a text that may be broken, as editors do. `read` gives the files that it imports."""
    return analyse_reading(read_text(name, text), path=path, read=read)


def analyse_reading(reading: Reading, *, path: Path | None, read: Read | None = None) -> Analysis:
    if not reading.is_usable:
        return Analysis(reading.source, None, None, reading.diagnostics)
    read = read or (lambda target, name: read_file(target, name=name))
    parsed = parse(reading.source)
    diagnostics = (*reading.diagnostics, *parsed.diagnostics)
    if parsed.file is not None:
        checked = check_file(reading.source, parsed.file, path=path, parse=_parse, read=read)
        return Analysis(reading.source, parsed, checked.program, (*diagnostics, *checked.diagnostics))
    if parsed.rest is not None:
        checked = check_file(reading.source, parsed.rest, path=path, parse=_parse, read=read)
        diagnostics = (*diagnostics, *certain_diagnostics(checked.diagnostics, parsed.diagnostics))
    diagnostics = tuple(sorted(diagnostics, key=lambda diagnostic: (diagnostic.source.name, diagnostic.span)))
    return Analysis(reading.source, parsed, None, diagnostics)


def _parse(source: Source) -> tuple[nodes.File | None, tuple[Diagnostic, ...]]:
    result = parse(source)
    return result.file, result.diagnostics


def _program_or_error(checked: tuple[Program | None, tuple[Diagnostic, ...]]) -> Program:
    program, diagnostics = checked
    if program is None:
        raise ProgramError(diagnostics)
    return program
