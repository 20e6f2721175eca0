"""Documents: what a row of a file, or an object of Python, is once it is read; files, folders and streams of them.

What is wrong with one row becomes a document with an error in its place, so that no row is lost and none moves. A
mistake that concerns all documents is reported before the first of them: a missing file or column, a format that is not
known, a Parquet file without its footer.
"""

from __future__ import annotations

import csv
import datetime
import errno
import gzip
import hashlib
import io
import json
import math
import operator
import random
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias, cast
from uuid import UUID

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import FileError, InputError, PastaError, WrongFormat
from pastalang.reading import HINTS
from pastalang.runtime.errors import TooLong
from pastalang.values.describe import counted

Record: TypeAlias = Mapping[str, object]
Id: TypeAlias = str | int  # dates, UUIDs and fractions are texts

ID: Final = "id"  # the column of the id, if the caller names none


_NAME: Final = r'(?:"(?:[^"\\]|\\.)*"|[^" ,]+)'
_NAMES: Final = f"({_NAME}(?:, {_NAME})*)"
_DESCRIPTION: Final = f"id ({_NAME})(?:, text {_NAMES})?(?:, if any {_NAMES})?"


_IDS: Final = (str, int, float, Decimal, datetime.date, UUID)  # what identifies a document


class BadDocument(InputError):
    """A document that cannot be read, or that holds no text."""

    code = "bad_document"


@dataclass(frozen=True, slots=True)
class Document:
    """`record` has its texts by column. `origin` is the file and the row; `error` says why it could not be read."""

    record: Record
    id: Id | None = None
    origin: str = ""
    error: PastaError | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that are read: those that every record has, those that it may lack, and the id, if one is named."""

    required: tuple[str, ...] = ("text",)
    optional: tuple[str, ...] = ()
    id: str | None = None

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.id or ID, *self.required, *self.optional)))

    @property
    def needed(self) -> tuple[str, ...]:
        return (*self.required, *([self.id] if self.id is not None else []))

    @property
    def described(self) -> str:
        """The columns in a line: id sku, text title, body, if any note."""
        parts = [("id", (self.id or ID,)), ("text", self.required), ("if any", self.optional)]
        return ", ".join(f"{word} {', '.join(map(_quoted, names))}" for word, names in parts if names)

    @staticmethod
    def of_description(text: str) -> Columns:
        """The columns of such a line. Raises `ValueError`."""
        found = re.fullmatch(_DESCRIPTION, text)
        if found is None:
            raise ValueError(f"not a list of columns: {text}")
        id, required, optional = (_names(part) for part in found.groups())
        return Columns(required, optional, None if id == (ID,) else id[0])

    def check(self, found: Iterable[str], where: str) -> None:
        """Raises `BadDocument` if a column is missing from those that were found."""
        names = list(dict.fromkeys(found))
        for column in self.needed:
            if column not in names:
                hint = did_you_mean(column, names)
                option = "--id" if column == self.id and column not in self.required else "--text"
                raise BadDocument(
                    f"{where} has no column `{column}`"
                    + (f"; did you mean `{hint}`?" if hint else f"; it has {_listed(names)}: choose with {option}")
                )


def records_of(given: Iterable[Any], columns: Columns, *, start: int = 0) -> Iterator[Document]:
    """Strings, dicts, and objects with attributes, as documents."""
    for number, one in enumerate(given, start):
        yield one if isinstance(one, Document) else document_of(one, columns, f"document {number}")


def document_of(given: Any, columns: Columns, origin: str, *, id: str | None = None) -> Document:
    match given:
        case str() if len(columns.required) == 1 == len({*columns.needed}):
            return Document({columns.required[0]: given}, id if columns.id is None else in_utf8(given), origin)
        case str() if columns.needed:
            return unread(f"it is a text, not a record with {_listed([*columns.needed])}", origin, id)
        case Mapping():
            record = {name: given[name] for name in columns.all if name in given}
        case None | str() | bool() | int() | float() | bytes() | list() | tuple() if not hasattr(given, "_fields"):
            return unread(f"it is {_kind(given)}, not a text or a record", origin, id)
        case _:
            record = {name: getattr(given, name) for name in columns.all if hasattr(given, name)}
    found = record.get(columns.id or ID)
    if (its_id := _id_of(found)) is not None:
        return Document(record, its_id, origin)
    if found is None and columns.id is None:
        return Document(record, id, origin)
    return Document(record, id, origin, BadDocument(f"{origin}: its id, `{columns.id or ID}`, is {_kind(found)}"))


def _id_of(found: Any) -> Id | None:
    """None for what identifies no document."""
    if isinstance(found, bool) or (isinstance(found, float) and math.isnan(found)):
        return None
    if isinstance(found, _IDS):
        return found if type(found) is int else in_utf8(str(found))
    try:
        return operator.index(found)  # those of numpy
    except TypeError:
        return None


def in_utf8(text: str) -> str:
    """The text with halves of surrogate pairs written as escapes: names of files and broken JSON hold them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def drawn_from(documents: Iterable[Document], size: int) -> tuple[int, list[Document]]:
    """How many documents there are, and some of them in random order, each as likely as any other. Always the same."""
    chance = random.Random(0)
    found: list[Document] = []
    count = 0
    for count, document in enumerate(documents, start=1):
        if len(found) < size:
            found.append(document)
        elif (at := chance.randrange(count)) < size:
            found[at] = document
    chance.shuffle(found)
    return count, found


def unread(reason: str, origin: str, id: str | None = None) -> Document:
    return Document({}, id, origin, BadDocument(f"{origin}: {reason}"))


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case str():
            return "a text"
        case _:
            return f"a {type(value).__name__}"


def _quoted(name: str) -> str:
    return name if re.fullmatch(r'[^" ,]+', name) else json.dumps(name, ensure_ascii=False)


def _names(part: str | None) -> tuple[str, ...]:
    found = re.findall(_NAME, part or "")
    return tuple(json.loads(name) if name.startswith('"') else name for name in found)


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name[:40]}`" for name in names[:12])
    return (shown + (", …" if names[12:] else "")) or "none"


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


Line: TypeAlias = tuple[int, bytes | None]  # with its number from 1; None for one that is too long to be held

STANDARD_INPUT: Final = "-"
MAX_BYTES: Final = 1 << 26  # of a line or a text file. A longer one is skipped: no model has room for it
_TOO_LONG: Final = f"it is longer than {MAX_BYTES >> 20} MiB"
_COUNTED: Final = 1 << 31  # bytes of files whose documents are counted before they are read
_LOOKED_AT: Final = 32  # documents that may lack a column before it counts as missing
_MARKS: Final = (",", ";", "\t", "|")  # between the cells of a table
_ADVICE: Final = (
    "documents are read from .jsonl, .json, .csv, .tsv, .txt and .md files, also with .gz after the name, "
    "from .parquet files, and from folders of them"
)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents that can be gone through once, and what they are read from: the size of each file, by its name.

    Leaving `with` closes the file that is being read, also where a run ended in the middle of it.
    """

    documents: Generator[Document]
    identity: Mapping[str, str] = field(default_factory=dict)
    counts: tuple[Callable[[], int], ...] = ()  # of each file

    def __enter__(self) -> Generator[Document]:
        return self.documents

    def __exit__(self, *_: object) -> None:
        self.documents.close()

    def count(self, limit: int | None = None) -> int | None:
        """How many documents there are; None if that takes long to find out."""
        if not self.counts:
            return None
        total = 0
        for count in self.counts:
            total += count()
            if limit is not None and total >= limit:
                return limit
        return total


def open_documents(place: str | Path, columns: Columns) -> Corpus:
    """The documents of a file, a folder, or `-` for the standard input. Raises `FileError` and `BadDocument`."""
    if str(place) == STANDARD_INPUT:
        return Corpus(_from_stream(sys.stdin.buffer, columns))
    path = Path(place)
    if not path.exists():
        raise FileError(f"there is no file or folder {path}")
    files = _files_in(path) if path.is_dir() else [path]
    format = _format_of(path, files)
    for file in files:
        format.check(file, columns)
    root = path if path.is_dir() else path.parent
    documents = _read_all(files, format, columns, root)
    size = sum(file.stat().st_size for file in files)
    counts = tuple(partial(format.length, file, columns) for file in files) if size <= _COUNTED else ()
    return Corpus(documents, _identity(files, root), counts)


def _read_all(files: list[Path], format: Format, columns: Columns, root: Path) -> Generator[Document]:
    for file in files:
        yield from format.read(file, columns, in_utf8(str(file.relative_to(root))))


# ── which files ──────────────────────────────────────────────────────────────────────────────────────────


class Format(NamedTuple):
    check: Callable[[Path, Columns], None]  # before anything is read
    read: Callable[[Path, Columns, str], Generator[Document]]  # a file, and how it is named
    length: Callable[[Path, Columns], int]


def _files_in(folder: Path) -> list[Path]:
    """The files of a folder and those below it, sorted, without hidden ones and marks such as `_SUCCESS`."""
    found = [path for path in folder.rglob("*") if path.is_file() and not _is_mark(path)]
    seen = [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not seen:
        raise FileError(f"the folder {folder} holds no files")
    return sorted(seen)


def _is_mark(path: Path) -> bool:
    return path.name.startswith("_") and _kind_of(path) not in _FORMATS


def _kind_of(path: Path) -> str:
    """The suffix that says how it is read: `.csv` of `a.csv.gz`."""
    return (Path(path.stem) if _is_packed(path) else path).suffix.lower()


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _bytes_of(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if _is_packed(path) else path.open("rb")


def _format_of(place: Path, files: list[Path]) -> Format:
    """How all of these files are read. Raises `FileError` if they have no format in common."""
    kinds: dict[Format, Path] = {}
    for file in files:
        format = _FORMATS.get(_kind_of(file))
        if format is None or (format is _PARQUET and _is_packed(file)):
            hint = HINTS.get(file.suffix.lower())
            raise WrongFormat(f"{file} is not a file of documents{f'; {hint}' if hint else ''}: {_ADVICE}")
        kinds.setdefault(format, file)
    if len(kinds) > 1:
        first, second, *_ = kinds.values()
        raise WrongFormat(
            f"the folder {place} holds files of different formats, such as {first.name} and {second.name}"
        )
    return next(iter(kinds))


def _identity(files: list[Path], root: Path) -> dict[str, str]:
    """The size of each file; of many files, one hash of all names and sizes."""
    sizes = {in_utf8(str(file.relative_to(root))): f"{file.stat().st_size:,} bytes" for file in files}
    if len(sizes) <= 8:
        return sizes
    names = json.dumps(sorted(sizes.items())).encode()
    return {f"{len(sizes):,} files": hashlib.sha256(names).hexdigest()[:16]}


# ── JSON lines ───────────────────────────────────────────────────────────────────────────────────────────


def _read_json(path: Path, columns: Columns, name: str) -> Generator[Document]:
    with _readable(path), _bytes_of(path) as stream:
        yield from _json_documents(_lines(stream), columns, name)


def _check_json(path: Path, columns: Columns) -> None:
    with _readable(path), _bytes_of(path) as stream:
        _check_lines(islice(_lines(stream), _LOOKED_AT), columns, str(path))


def _count_json(path: Path, columns: Columns) -> int:
    with _readable(path), _bytes_of(path) as stream:
        return sum(line is None or bool(line.strip()) for _, line in _lines(stream))


@contextmanager
def _readable(name: Path | str) -> Iterator[None]:
    """Raises `FileError` for what happens inside, also late: a packed file may be cut off anywhere."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise FileError(f"{name} is not a gzip file that can be read: {first_line(problem)}") from problem
    except OSError as problem:
        raise FileError(f"{name} could not be read: {_reason(problem)}") from problem


def _reason(problem: OSError) -> str:
    return "it is closed" if problem.errno == errno.EBADF else (problem.strerror or str(problem)).lower()


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────


def _read_list(path: Path, columns: Columns, name: str) -> Generator[Document]:
    for number, given in enumerate(_list_in(path)):
        yield document_of(given, columns, f"{name}[{number}]")


def _check_list(path: Path, columns: Columns) -> None:
    objects = [one for one in _list_in(path)[:_LOOKED_AT] if isinstance(one, dict)]
    if objects:
        columns.check((name for one in objects for name in one), str(path))


def _list_in(path: Path) -> list[Any]:
    """The documents of a file that is one list, or one object. It is read as a whole. Raises `FileError`."""
    with _readable(path), _bytes_of(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise FileError(f"{path} is longer than {MAX_BYTES >> 20} MiB: `jq -c '.[]'` writes it as JSON lines")
    found = _parsed(1, data)
    if isinstance(found, BadDocument):
        raise FileError(f"{path} cannot be read: {found}")
    return found if isinstance(found, list) else [found]


def _from_stream(stream: IO[bytes], columns: Columns) -> Generator[Document]:
    lines = _of_standard_input(stream)
    first = list(islice(lines, _LOOKED_AT))
    _check_lines(first, columns, "<stdin>")
    return _json_documents(chain(first, lines), columns, "<stdin>")


def _of_standard_input(stream: IO[bytes]) -> Iterator[Line]:
    with _readable("the standard input"):
        yield from _lines(stream)


def _check_lines(lines: Iterable[Line], columns: Columns, where: str) -> None:
    """Raises `BadDocument` if no object in the lines has a column that every document should have."""
    read = [_parsed(number, line) for number, line in lines if line is not None]
    objects = [one for one in read if isinstance(one, dict)]
    if objects:
        columns.check((name for one in objects for name in one), where)


def _json_documents(lines: Iterable[Line], columns: Columns, name: str) -> Generator[Document]:
    for number, line in lines:
        origin = f"{name}:{number}"
        if line is None:
            yield _oversized(origin)
        elif line.strip():  # an empty line is no document, as at the end of a file
            given = _parsed(number, line)
            is_bad = isinstance(given, BadDocument)
            yield unread(str(given), origin) if is_bad else document_of(given, columns, origin)


def _parsed(number: int, line: bytes) -> Any:
    """The JSON value of a line, or why it has none."""
    text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as problem:
        return BadDocument(f"it is not UTF-8 text (byte {text[problem.start]:#04x})")
    except json.JSONDecodeError as problem:
        return BadDocument(f"it is not JSON: {problem.msg[:1].lower()}{problem.msg[1:]} (column {problem.colno})")
    except BadDocument as problem:
        return problem
    except (ValueError, RecursionError):
        return BadDocument("it is not JSON: its brackets nest too deeply, or a number has too many digits")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadDocument(f"the key `{twice}` stands twice in one object")
    return found


def _lines(stream: IO[bytes]) -> Iterator[Line]:
    """The lines with their numbers from 1; None for one that is too long to be held."""
    number = 0
    while line := stream.readline(MAX_BYTES + 1):
        number += 1
        if len(line) <= MAX_BYTES or line.endswith(b"\n"):
            yield number, line
            continue
        while (rest := stream.readline(1 << 20)) and not rest.endswith(b"\n"):
            pass
        yield number, None


def _oversized(origin: str, id: str | None = None) -> Document:
    return Document({}, id, origin, TooLong(f"{origin}: {_TOO_LONG}"))


# ── tables as text ───────────────────────────────────────────────────────────────────────────────────────


def _read_table(path: Path, columns: Columns, name: str) -> Generator[Document]:
    with _readable(path), _opened(path) as stream:
        rows = _rows(stream, _mark_of(path, columns))
        _, header = next(rows, (0, []))
        assert isinstance(header, list)  # checked before the first document
        for number, cells in rows:
            yield _row(cells, header, columns, f"{name}:{number}")


def _rows(stream: IO[str], mark: str) -> Iterator[tuple[int, list[str] | str | None]]:
    """The rows with the number of their last line, from 1: the cells, why the row cannot be read, or None for one that
    is too long.

    A wrong quote costs the row that it is in: reading goes on with the line after the one in which that row begins, so
    that a quote which is never closed does not swallow the rest.
    """
    again: deque[str] = deque()
    taken: list[str] = []

    def line() -> str:
        taken.append(again.popleft() if again else stream.readline())
        return taken[-1]

    number = 0
    while True:
        rows = csv.reader(iter(line, ""), delimiter=mark, strict=True)
        try:
            for cells in rows:
                number += len(taken)
                taken.clear()
                if cells:
                    yield number, cells
            return
        except csv.Error as problem:
            number += 1
            again.extendleft(reversed(list(filter(None, taken[1:]))))
            taken.clear()
            is_too_long = "field limit" in str(problem)
            yield number, None if is_too_long else f"it is not a row of CSV: {_quote_problem(problem)}"


def _quote_problem(problem: csv.Error) -> str:
    said = str(problem)
    if "end of data" in said:
        return "the quote that a cell begins with is not closed"
    if "expected after" in said:
        return "a cell goes on after its closing quote; a quote in a quoted cell is written twice"
    return said


def _row(cells: list[str] | str | None, header: list[str], columns: Columns, origin: str) -> Document:
    if cells is None:
        return _oversized(origin)
    if isinstance(cells, str):
        return unread(cells, origin)
    if len(cells) != len(header):
        return unread(f"the row has {counted(len(cells), 'cell')}, and the header {len(header)}", origin)
    document = document_of(dict(zip(header, cells, strict=True)), columns, origin)
    if _is_undecoded(map(str, document.record.values())):
        return unread("it is not UTF-8 text", origin)
    return document


def _check_table(path: Path, columns: Columns) -> None:
    csv.field_size_limit(MAX_BYTES)
    with _readable(path), _opened(path) as stream:
        _, header = next(_rows(stream, _mark_of(path, columns)), (0, []))
    if header == []:
        raise FileError(f"{path} is empty: the first row of a table names its columns")
    if not isinstance(header, list):
        raise FileError(f"{path} cannot be read: its first row names the columns, and {header or _TOO_LONG}")
    if _is_undecoded(header):
        raise FileError(f"{path} is not UTF-8 text")
    columns.check(header, str(path))
    _check_once(header, columns, path)


def _mark_of(path: Path, columns: Columns) -> str:
    """What stands between the cells: with it, the header has all columns that are needed, or else the most columns."""
    usual = "\t" if _kind_of(path) == ".tsv" else ","
    with _readable(path), _opened(path) as stream:
        first = stream.readline(MAX_BYTES)
    headers: dict[str, list[str]] = {}
    for mark in (usual, *(one for one in _MARKS if one != usual)):
        _, header = next(_rows(io.StringIO(first), mark), (0, []))
        headers[mark] = header if isinstance(header, list) else []
    known = next((mark for mark, header in headers.items() if set(columns.needed) <= set(header)), None)
    return known or max(headers, key=lambda mark: len(headers[mark]))


def _check_once(names: list[str], columns: Columns, path: Path) -> None:
    twice = next((name for name in columns.all if names.count(name) > 1), None)
    if twice is not None:
        raise BadDocument(f"{path} has {names.count(twice)} columns `{twice}`: rename all but one of them")


def _count_table(path: Path, columns: Columns) -> int:
    with _readable(path), _opened(path) as stream:
        return max(sum(1 for _ in _rows(stream, _mark_of(path, columns))) - 1, 0)


def _opened(path: Path) -> IO[str]:
    return io.TextIOWrapper(_bytes_of(path), encoding="utf-8-sig", errors="surrogateescape", newline="")


def _is_undecoded(cells: Iterable[str]) -> bool:
    return any("\udc80" <= letter <= "\udcff" for cell in cells for letter in cell)


# ── Parquet ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_parquet(path: Path, columns: Columns, name: str) -> Generator[Document]:
    file = _parquet(path)
    wanted = [column for column in columns.all if column in file.schema_arrow.names]
    number = 0
    batches = file.iter_batches(batch_size=64, columns=wanted)
    while True:
        try:
            batch = next(batches, None)
        except Exception as problem:  # whatever the library makes of damaged pages
            raise FileError(f"{path} cannot be read after row {number}: {first_line(problem)}") from problem
        if batch is None:
            return
        yield from documents_in(batch, columns, f"{name}:", number + 1)
        number += batch.num_rows


def _check_parquet(path: Path, columns: Columns) -> None:
    schema = _parquet(path).schema_arrow
    columns.check(schema.names, str(path))
    _check_once(schema.names, columns, path)


def _count_parquet(path: Path, columns: Columns) -> int:
    return int(_parquet(path).metadata.num_rows)


def _parquet(path: Path) -> Any:
    parquet = import_arrow("pyarrow.parquet", f"reading {path.name}")
    try:
        return parquet.ParquetFile(path)
    except Exception as problem:
        raise FileError(f"{path} is not a Parquet file that can be read: {first_line(problem)}") from problem


def import_arrow(module: str, purpose: str) -> Any:
    """A module of pyarrow. Raises `FileError` if it is not installed."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as problem:
        raise FileError(f"{purpose} needs pyarrow: pip install 'pastalang[bulk]'") from problem


def first_line(problem: BaseException) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)[:200]


# ── tables of Arrow ──────────────────────────────────────────────────────────────────────────────────────


def documents_in(table: Any, columns: Columns, place: str = "document ", start: int = 0) -> Iterator[Document]:
    """Those of a table of Arrow, or of a batch of one. A cell that cannot be read costs its row alone."""
    rows = arrow_rows(_in_text(narrowed(table, columns.all)))
    for number, (record, wrong) in enumerate(rows, start):
        origin = f"{place}{number}"
        document = document_of(record, columns, origin)
        yield document if wrong is None else replace(document, error=BadDocument(f"{origin}: {wrong}"))


def narrowed(table: Any, names: Iterable[str]) -> Any:
    """With the columns of these names, all of them if several have the same. With one at least: without columns, Arrow
    and Ray see no rows."""
    found = [at for at, name in enumerate(table.schema.names) if name in names]
    return table.select(found or range(table.num_columns)[:1])


def _in_text(table: Any) -> Any:
    """With moments in nanoseconds as texts, because Python has no type for them."""
    for at, column in enumerate(table.schema):
        if str(column.type).startswith("timestamp[ns"):
            with suppress(ValueError):  # in a zone that nobody knows
                table = table.set_column(at, column.name, table.column(at).cast("string"))
    return table


def arrow_rows(table: Any) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Each row, without the cells that cannot be read, and what is wrong with the first of those."""
    names = table.schema.names
    try:
        records = table.to_pylist() if len({*names}) == len(names) else None
    except Exception:  # whatever the library makes of a cell: bytes that are no text, a day after the year 9999
        records = None
    if records is None:
        yield from (_by_cells(table.slice(number, 1)) for number in range(table.num_rows))
    else:
        yield from ((record, None) for record in records)


def _by_cells(row: Any) -> tuple[dict[str, Any], str | None]:
    record: dict[str, Any] = {}
    wrong: list[str] = []
    names = row.schema.names
    for at, name in enumerate(names):
        try:
            if names.count(name) > 1:
                wrong.append(f"it has {names.count(name)} columns `{name}`: rename all but one of them")
            else:
                record |= row.select([at]).to_pylist()[0]
        except UnicodeDecodeError:
            wrong.append(f"`{name}` is not UTF-8 text")
        except Exception as problem:
            wrong.append(f"`{name}` cannot be read: {first_line(problem)}")
    return record, next(iter(wrong), None)


# ── text files ───────────────────────────────────────────────────────────────────────────────────────────


def _read_text(path: Path, columns: Columns, name: str) -> Generator[Document]:
    """One file is one document, with its name as id."""
    try:
        with _bytes_of(path) as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            yield _oversized(name, name)
        else:
            yield document_of(data.decode("utf-8-sig"), columns, name, id=name)
    except UnicodeDecodeError as problem:
        yield unread(f"it is not UTF-8 text (byte {data[problem.start]:#04x} at {problem.start})", name, name)
    except (OSError, EOFError, zlib.error) as problem:
        if isinstance(problem, EOFError | zlib.error | gzip.BadGzipFile):
            yield unread("it is not a gzip file that can be read", name, name)
            return
        yield unread(f"it could not be opened: {_reason(problem)}", name, name)


def _check_text(path: Path, columns: Columns) -> None:
    if len(columns.required) != 1 or columns.id is not None:
        raise BadDocument(f"{path} is a text, which has no columns: pass one text column and no id")


_JSON_LINES: Final = Format(_check_json, _read_json, _count_json)
_TABLE: Final = Format(_check_table, _read_table, _count_table)
_JSON: Final = Format(_check_list, _read_list, lambda path, columns: len(_list_in(path)))
_PARQUET: Final = Format(_check_parquet, _read_parquet, _count_parquet)
_TEXT: Final = Format(_check_text, _read_text, lambda path, columns: 1)
_FORMATS: Final[Mapping[str, Format]] = {
    **dict.fromkeys((".jsonl", ".ndjson"), _JSON_LINES),
    **dict.fromkeys((".csv", ".tsv"), _TABLE),
    ".json": _JSON,
    ".parquet": _PARQUET,
    **dict.fromkeys((".txt", ".md", ".text"), _TEXT),
}
