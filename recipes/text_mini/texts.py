"""Files to documents, documents to passages, and passages to rows: what is learned and what is held out.

    file ── documents ── one in twenty is held out ── passages: a beginning and the rest ── a row each

A passage is what a program asks for: it shows the beginning, and the model writes the rest. So the model is trained on
the very tokens that it meets in `PROGRAM`. A passage lies in one document, and a row holds one passage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from pastalang.plan.branches import Mode
from pastalang.training.errors import BadData, BadRow
from pastalang.training.recording import IGNORED, TrainingRow
from pastalang.training.row_files import read_text, scan_rows
from pastalang.values.describe import counted
from pastalang.values.json import JsonValue, parse_json
from recipes.pasta_mini.tokenizer import BEGIN, CONTROL, END, PART

PROGRAM: Final = """\
template write(beginning: text)

user \"\"\"{beginning}\"\"\"

assistant text \"\"\"{rest: string(max=LIMIT, stop="<|stop|>")}\"\"\"
"""

_HELD_OUT: Final = 20  # one document in so many
_ROWS: Final = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
_COLUMNS: Final = (
    ("question", "answer"), ("instruction", "response"), ("prompt", "canonical_solution"), ("markdown",), ("text",),
)  # fmt: skip
_ARTICLE: Final = "\n = "  # begins the title of an article in WikiText; titles inside it have more signs
_SHARE, _MOST, _FEWEST = 4, 64, 8  # of a passage, its beginning at most; tokens of a beginning; tokens of both parts


@dataclass(frozen=True, slots=True)
class Document:
    """`beginning`: what comes before the text, if its row says so, such as a question."""

    text: str
    origin: str
    beginning: str = ""

    @property
    def is_held_out(self) -> bool:
        """By its text, so that a document that occurs twice is on one side."""
        digest = sha256(f"{self.beginning}\n{self.text}".encode()).digest()
        return int.from_bytes(digest[:8]) % _HELD_OUT == 0


@dataclass(frozen=True, slots=True)
class Texts:
    """The documents of one kind. Raises `BadData` if none is held out, or all are."""

    kind: str
    documents: tuple[Document, ...]

    def __post_init__(self) -> None:
        if not self.learned or not self.held_out:
            raise BadData(
                f"{self.kind}: {counted(len(self.documents), 'document')} cannot be divided into some to learn from "
                "and some to hold out; give more files"
            )

    @property
    def learned(self) -> list[Document]:
        return [one for one in self.documents if not one.is_held_out]

    @property
    def held_out(self) -> list[Document]:
        return [one for one in self.documents if one.is_held_out]


@dataclass(frozen=True, slots=True)
class Passage:
    beginning: str
    rest: str
    kind: str
    origin: str

    def as_line(self) -> str:
        """A row for `PROGRAM`, as the commands of training read it."""
        row = {"beginning": self.beginning, "value": {"rest": self.rest}, "category": self.kind}
        return json.dumps(row, ensure_ascii=False) + "\n"


def limit_of(length: int) -> int:
    """The tokens that `PROGRAM` may write, for passages of `length` tokens in all."""
    return length * 3 // 4


def program_for(length: int) -> str:
    return PROGRAM.replace("LIMIT", str(limit_of(length)))


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """The rows of a table, the articles of WikiText, or a file as one document. Raises `BadData` or `BadRow`."""
    return [document for path in paths for document in _documents(path)]


def _documents(path: Path) -> Iterator[Document]:
    if Path(path.name.lower().removesuffix(".gz")).suffix in _ROWS:
        yield from (_of_row(row, origin) for origin, row in scan_rows(path))
        return
    parts = f"\n{read_text(path)}".split(_ARTICLE)
    articles = [parts[0]]
    for part in parts[1:]:
        if part.startswith("="):  # the title of a section
            articles[-1] += _ARTICLE + part
        else:
            articles.append(_ARTICLE + part)
    for number, article in enumerate(articles):
        if article.strip():
            yield Document(article.lstrip("\n"), f"{path.name}, {number}" if number else path.name)


def _of_row(row: dict[str, JsonValue] | BadRow, origin: str) -> Document:
    if isinstance(row, BadRow):
        raise row
    for columns in _COLUMNS:
        *before, text = [row.get(column) for column in columns]
        if isinstance(text, str) and all(isinstance(one, str) for one in before):
            return Document(text, origin, "".join(map(str, before)))
    expected = ", or ".join(" and ".join(f"`{column}`" for column in columns) for columns in _COLUMNS)
    raise BadRow(f"has no text; expected {expected}", origin=origin)


# ── passages ─────────────────────────────────────────────────────────────────────────────────────────────


def passages_of(documents: Iterable[Document], kind: str, tokenizer: Any, length: int) -> Iterator[Passage]:
    """Those that fit into rows of `length` tokens. A passage that spells a control token is left out."""
    wrapping = len(tokenizer.encode(_prompt("")))
    for document in documents:
        for beginning, rest in _parts(document, tokenizer, length - wrapping, limit_of(length)):
            if not any(name in beginning or name in rest for name in CONTROL):
                yield Passage(beginning, rest, kind, document.origin)


def _parts(document: Document, tokenizer: Any, room: int, limit: int) -> Iterator[tuple[str, str]]:
    if document.beginning:
        found = [(document.beginning, document.text)]
    else:
        pieces = _pieces(document.text, tokenizer, min(room, limit) - 8)  # its parts may be cut into more tokens
        found = [_in_two(piece.strip("\n"), tokenizer) for piece in pieces]
    for beginning, rest in found:
        before, after = len(tokenizer.encode(beginning)), len(tokenizer.encode(rest))
        if min(before, after) >= _FEWEST and before + after <= room and after < limit:
            yield beginning, rest


def _pieces(text: str, tokenizer: Any, most: int) -> Iterator[str]:
    ends, first, start = _ends(text, tokenizer), 0, 0
    while first < len(ends) and most > 0:
        last = len(ends) if len(ends) - first <= most else _border(text, ends, first + most // 2, first + most)
        yield text[start : ends[last - 1]]
        first, start = last, ends[last - 1]


def _in_two(text: str, tokenizer: Any) -> tuple[str, str]:
    ends = _ends(text, tokenizer)
    most = min(_MOST, len(ends) // _SHARE)
    place = ends[_border(text, ends, most // 2, most) - 1] if most else 0
    return text[:place], text[place:]


def _ends(text: str, tokenizer: Any) -> list[int]:
    return [end for _, end in tokenizer(text, return_offsets_mapping=True)["offset_mapping"]]


def _border(text: str, ends: Sequence[int], low: int, high: int) -> int:
    """How many tokens to take, the most between `low` and `high` that end a line, or else a word."""
    for sign in ("\n", " "):
        for count in range(high, max(low, 1) - 1, -1):
            if text.startswith(sign, ends[count - 1]):
                return count
    return high


def some_of(passages: Sequence[Passage], count: int) -> list[Passage]:
    """At most so many, the same ones every time."""
    return list(passages) if len(passages) <= count else Random(0).sample(passages, count)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────


class Rows:
    """Passages as rows to train on. What a token sees is the same in all of them, and kept once."""

    def __init__(self, tokenizer: Any, length: int) -> None:
        self._tokenizer, self._end = tokenizer, tokenizer.convert_tokens_to_ids(PART)
        self._positions = np.arange(length, dtype=np.int32)
        self._sees = np.packbits(np.tril(np.ones((length, length), dtype=np.bool_)), axis=1)

    def row(self, passage: Passage, *, is_exam: bool = False) -> TrainingRow:
        """The labels are all tokens that follow; in an exam, those of the rest and its end."""
        prompt = self._tokenizer.encode(_prompt(passage.beginning))
        tokens = np.array([*prompt, *self._tokenizer.encode(passage.rest)], dtype=np.int32)
        labels = np.append(tokens[1:], np.int32(self._end))
        if is_exam:
            labels[: len(prompt) - 1] = IGNORED
        size = len(tokens)
        return TrainingRow(
            tokens, self._positions[:size], labels, self._sees[:size, : -(-size // 8)], (), Mode.STRICT, size,
            f"{passage.kind}, {passage.origin}",
        )  # fmt: skip


def _prompt(beginning: str) -> str:
    return f"{BEGIN}user\n{beginning}{END}\n{BEGIN}assistant\n"


def read_passages(path: Path) -> list[Passage]:
    """The lines that `Passage.as_line` wrote. Raises `BadData`."""
    try:
        rows: list[Any] = [parse_json(line) for line in read_text(path).split("\n") if line]
        return [Passage(row["beginning"], row["value"]["rest"], row["category"], path.name) for row in rows]
    except (KeyError, TypeError, ValueError) as problem:
        raise BadData(f"{path} does not hold passages: {problem!r}") from problem
