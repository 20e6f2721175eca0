"""Documents: what a row of a file or an object of Python is, once it is read.

What is wrong with one row becomes a document with an error in its place, so that no row is lost and none moves.
"""

from __future__ import annotations

import datetime
import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.errors import InputError, PastaError

Record: TypeAlias = Mapping[str, object]

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
    id: str | None = None
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
        case str() if len(columns.required) == 1:
            return Document({columns.required[0]: given}, id, origin)
        case Mapping():
            record = {name: given[name] for name in columns.all if name in given}
        case None | str() | bool() | int() | float() | bytes() | list() | tuple() if not hasattr(given, "_fields"):
            return unread(f"it is {_kind(given)}, not a text or a record", origin, id)
        case _:
            record = {name: getattr(given, name) for name in columns.all if hasattr(given, name)}
    found = record.get(columns.id or ID)
    if isinstance(found, _IDS) and not isinstance(found, bool) and not (isinstance(found, float) and math.isnan(found)):
        return Document(record, in_utf8(str(found)), origin)
    if found is None and columns.id is None:
        return Document(record, id, origin)
    return Document(record, id, origin, BadDocument(f"{origin}: its id, `{columns.id or ID}`, is {_kind(found)}"))


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
