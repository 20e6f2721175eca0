"""Read a path, bytes or text as a Source, or find what is wrong with it before anything is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pastalang.diagnostics.diagnostic import Diagnostic, Severity
from pastalang.limits import MAX_FILE_BYTES
from pastalang.source import Source, Span

BYTE_ORDER_MARK = "\ufeff"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
HINTS: Final[Mapping[str, str]] = {  # what to do with files of documents or rows that are not read, by how they end
    **dict.fromkeys((".zst", ".bz2", ".xz", ".zip"), "decompress it first"),
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "save the table as CSV (UTF-8)"),
    **dict.fromkeys((".pdf", ".docx", ".doc", ".odt", ".rtf", ".html"), "save its text as .txt"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read. `was_opened` is False if there is no such file, or it could not be opened.

    `line_end` is how lines end in the file; in the source all end with `\\n`.
    """

    source: Source
    diagnostics: tuple[Diagnostic, ...] = ()
    was_opened: bool = True
    line_end: str = "\n"

    @property
    def is_usable(self) -> bool:
        return self.was_opened and not any(diagnostic.is_error for diagnostic in self.diagnostics)


def read_file(path: Path, *, name: str | None = None) -> Reading:
    """The source in a file; `name` is the name in messages, the path by default."""
    shown = shown_name(name if name is not None else str(path))
    try:
        if path.is_dir():
            return _unopened(shown, "file-is-a-folder", f"{shown} is a folder, not a file")
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return _unopened(shown, "file-not-found", f"there is no file {shown}")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        return _unopened(shown, "file-not-readable", f"{shown} could not be read: {reason}")
    return read_bytes(shown, data)


def read_bytes(name: str, data: bytes) -> Reading:
    """The source in the bytes of a file."""
    if len(data) > MAX_FILE_BYTES:
        return _too_large(name)
    try:
        return read_text(name, data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        return _not_utf8(name, data, problem)


def read_text(name: str, text: str) -> Reading:
    """The source in a text: line ends become `\\n`, and a byte order mark is dropped."""
    name = shown_name(name)
    if len(text) > MAX_FILE_BYTES:
        return _too_large(name)
    if text.startswith(BYTE_ORDER_MARK):
        reading = read_text(name, text[1:])
        return replace(reading, diagnostics=(_byte_order_mark(reading.source), *reading.diagnostics))
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        return _lone_surrogate(name, text, problem.start)
    return Reading(Source(name, text), line_end=line_end)


def shown_name(name: str) -> str:
    """A file name that can be printed: unprintable characters are replaced."""
    cleaned = name.encode("utf-8", "replace").decode("utf-8")
    return "".join(character if character.isprintable() else "\ufffd" for character in cleaned)


def _unopened(name: str, code: str, headline: str) -> Reading:
    source = Source(name, "")
    return Reading(source, (Diagnostic(code, headline, source, Span(0, 0)),), was_opened=False)


def _too_large(name: str) -> Reading:
    source = Source(name, "")
    return _failed(
        Diagnostic(
            "file-too-large",
            f"the file is larger than {MAX_FILE_BYTES:,} bytes",
            source,
            Span(0, 0),
            help=("split the program: it can import types and templates from other files",),
        )
    )


def _not_utf8(name: str, data: bytes, problem: UnicodeDecodeError) -> Reading:
    before = data[: problem.start].decode("utf-8").replace("\r\n", "\n")
    text = before + data[problem.start :].decode("utf-8", "replace").replace("\r\n", "\n")
    advice = "save the file as UTF-8"
    if data.startswith(UTF16_MARKS):
        advice = "the file looks like UTF-16: save it as UTF-8"
    return _failed(
        Diagnostic(
            "not-utf8",
            "the file is not UTF-8 text",
            Source(name, text),
            Span(len(before), len(before) + 1),
            message=f"byte 0x{data[problem.start]:02x} does not begin a character",
            help=(advice,),
        )
    )


def _lone_surrogate(name: str, text: str, start: int) -> Reading:
    shown = text.encode("utf-8", "replace").decode("utf-8")
    return _failed(
        Diagnostic(
            "bad-character",
            f"an unpaired surrogate, U+{ord(text[start]):04X}, is not a character",
            Source(name, shown),
            Span(start, start + 1),
        )
    )


def _byte_order_mark(source: Source) -> Diagnostic:
    return Diagnostic(
        "byte-order-mark",
        "the file begins with a byte order mark",
        source,
        Span(0, 0),
        severity=Severity.WARNING,
        help=("`pasta fmt` removes it",),
    )


def _failed(diagnostic: Diagnostic) -> Reading:
    return Reading(diagnostic.source, (diagnostic,))
