"""Read the three data sets as documents of one form. A tenth of each, chosen by a hash of the title, is held out.

OA-Mine    lists only the attributes that a title states
AE-110k    also marks some attributes as absent (`n/a`); a few have several accepted values
WDC-PAVE   has titles and descriptions, and lists every attribute of the category, most of them as `n/a`
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pastalang.training.errors import BadData, BadRow

ABSENT = "n/a"


class Name(StrEnum):
    OA_MINE = "oa-mine"
    AE_110K = "ae-110k"
    WDC_PAVE = "wdc-pave"


@dataclass(frozen=True, slots=True)
class Document:
    """`accepted` holds the values that count as right, as published: `n/a` if the attribute is marked as absent."""

    category: str
    title: str
    text: str  # what is read: the title, and below it the description, where there is one
    product: str  # listings of one product share it
    accepted: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """`asked` holds the attributes of each category in the training part. All of them are asked for."""

    name: Name
    train: tuple[Document, ...]
    held_out: tuple[Document, ...]
    asked: Mapping[str, tuple[str, ...]]

    @property
    def known_products(self) -> int:
        """How many held-out documents describe a product that is also in the training part."""
        trained = {document.product for document in self.train}
        return sum(document.product in trained for document in self.held_out)


def read_corpus(name: Name, path: Path, *, seed: int = 0) -> Corpus:
    """Raises `BadData` or `BadRow`. The split follows the rule of `recipes.pasta_mini.real_listings`."""
    documents = [_document(row, origin) for origin, row in _rows(path)]
    held = [zlib.crc32(f"{seed}/{document.title}".encode()) % 10 == 0 for document in documents]
    parts = list(zip(documents, held, strict=True))
    train = tuple(document for document, is_held in parts if not is_held)
    known: dict[str, dict[str, None]] = {}
    for document in train:
        known.setdefault(document.category, {}).update(dict.fromkeys(document.accepted))
    held_out = tuple(document for document, is_held in parts if is_held and document.category in known)
    return Corpus(name, train, held_out, {category: tuple(names) for category, names in known.items()})


def taught(document: Document, asked: tuple[str, ...]) -> dict[str, str | None]:
    """The value of every attribute: the first accepted one that the text contains, letter for letter."""
    values: dict[str, str | None] = {}
    for name in asked:
        accepted = document.accepted.get(name, (ABSENT,))
        spans = [value for value in accepted if value in document.text]
        values[name] = None if accepted[0] == ABSENT or not spans else spans[0]
    return values


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError) as problem:
        raise BadData(f"{path} could not be read: {problem}") from problem
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"{path}:{number}", json.loads(line)
            except ValueError as problem:
                raise BadRow(f"is not JSON: {problem}", origin=f"{path}:{number}") from problem


def _document(row: dict[str, Any], origin: str) -> Document:
    try:
        title = row["input"] if "input" in row else row["input_title"]
        text = "\n".join(part for part in (title, row.get("input_description")) if part)
        accepted = {name: tuple(value.strip() for value in values) for name, values in row["target_scores"].items()}
        return Document(row["category"], title, text, str(row.get("cluster_id", title)), accepted)
    except (KeyError, TypeError, AttributeError) as problem:
        raise BadRow("has no title, category and `target_scores`", origin=origin) from problem
