"""Documents written one by one, with the fields that programs ask for: python -m recipes.smollm2.written FILE...

Such a file holds records: a kind of document, what is asked, and a few documents with the right answers:

    === a receipt
    store: string "name of the shop"  # shop, merchant
    total: number                     # amount paid; what was paid in the end
    paid_by: "card" | "cash" | null
    >>>
    FENLAND FUELS  Pump 04 ... AMOUNT 61.45
    >>> {"store": "FENLAND FUELS", "total": 61.45, "paid_by": null}

Behind `#` stand other names of the field and, after a semicolon, another description. The command checks the files.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Final

from pastalang.compiler import compile
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.program import types as t
from pastalang.program.program import JsonBody, Program
from pastalang.runtime.doubtful import texts_in
from pastalang.runtime.models.loading import load_tokenizer, place_of
from pastalang.runtime.models.source import SMOLLM2
from pastalang.training.errors import BadData, BadRow
from pastalang.training.recording import Lesson, Recorder, planner
from pastalang.values.conversion import Converted
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.to_source import program_source
from recipes.pasta_mini.documents import TEXT, Spelling, draw_spelling

FOLDER: Final = Path(__file__).with_name("written")
_MARK, _BREAK = "=== ", ">>>"
_HELD_OUT: Final = 12  # of so many records, one
_AS_SPAN, _CHANGED, _DESCRIBED = 0.35, 0.5, (0.0, 0.3, 0.7, 1.0, 1.0)
_FEWEST: Final = 4  # fields that a program asks for, if there are as many
_NAME: Final = re.compile(r"\b[A-Z][a-z]{3,}\b")
_DIGITS: Final = re.compile(r"(?<!\d)\d{4,}(?!\d)")
_LONGEST: Final = 520  # tokens, with prompt and answer
_LETTERS: Final = "abcdefghiklmnoprstuvwy"


@dataclass(frozen=True, slots=True)
class Asked:
    """One field, and what else it may be called."""

    field: t.Field
    names: tuple[str, ...]
    abouts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    kind: str
    asked: tuple[Asked, ...]
    documents: tuple[tuple[str, Mapping[str, JsonValue]], ...]

    @property
    def is_held_out(self) -> bool:
        return int(sha256(self.kind.encode()).hexdigest(), 16) % _HELD_OUT == 0


@cache
def read_written(files: str = "") -> tuple[Record, ...]:
    """Those of the files with these names, between commas; of all files if none is named."""
    paths = [FOLDER / f"{name}.txt" for name in files.split(",")] if files else sorted(FOLDER.glob("*.txt"))
    for path in paths:
        if not path.is_file():
            raise BadData(f"there are no written documents called `{path.stem}` in {FOLDER}")
    return tuple(record for path in paths for record in read_records(path))


def read_records(path: Path) -> Iterator[Record]:
    """Raises `ValueError` with the record that is wrong."""
    for text in f"\n{path.read_text(encoding='utf-8')}".split(f"\n{_MARK}")[1:]:
        kind = text.partition("\n")[0].strip()
        try:
            yield _record(kind, text.partition("\n")[2])
        except (PastaError, ValueError, AssertionError) as problem:
            raise ValueError(f"{path.name}, {kind}: {problem}") from problem


def _record(kind: str, text: str) -> Record:
    head, *parts = re.split(rf"^{_BREAK}", text, flags=re.MULTILINE)
    lines = [line for line in head.splitlines() if line.strip()]
    fields = [line.partition(" # ")[0].strip().rstrip(",") for line in lines]
    program = compile(f"template record(text: text)\nassistant json {{ {', '.join(fields)} }}\n")
    body = program.only_template.messages[-1].body
    assert isinstance(body, JsonBody) and isinstance(body.type, t.Object)
    asked = [_asked(field, line.partition(" # ")[2]) for field, line in zip(body.type.fields, lines, strict=True)]
    if len(parts) % 2 or not parts:
        raise ValueError("each document begins with a line >>> and ends with a line >>> and its answer")
    documents = []
    for text, answer in zip(parts[::2], parts[1::2], strict=True):
        value = parse_json(answer.strip())
        keys = [one.field.key for one in asked]
        if not isinstance(value, dict) or list(value) != keys:
            raise ValueError(f"an answer has the keys {', '.join(keys)} in this order: {answer.strip()}")
        documents.append((text.strip("\n"), value))
    return Record(kind, tuple(asked), tuple(documents))


def _asked(field: t.Field, others: str) -> Asked:
    names, _, abouts = others.partition(";")
    listed = [[one.strip() for one in part.split(mark) if one.strip()] for part, mark in ((names, ","), (abouts, ";"))]
    described = [field.description] if field.description else []
    return Asked(field, (field.key, *listed[0]), (*described, *listed[1]))


def program_of(record: Record, shown: int) -> Program:
    """It asks for every field, and shows that many of the first documents with their answers."""
    fields = tuple(one.field for one in record.asked)
    examples = [(text, dict(value)) for text, value in record.documents[:shown]]
    return compile(program_source(Converted(t.Object(fields), {}), name="record", examples=examples))


# ── lessons ──────────────────────────────────────────────────────────────────────────────────────────────


def lessons_of(record: Record, random: Random, *, shown: int = 0) -> list[Lesson]:
    """A program that asks for some of the fields under one of their names, and documents, some of them changed."""
    count = random.choice((_FEWEST, len(record.asked), len(record.asked), random.randint(1, len(record.asked))))
    chosen = random.sample(record.asked, min(count, len(record.asked)))
    if random.random() < 0.6:
        chosen.sort(key=record.asked.index)
    spell, described = draw_spelling(random), random.choice(_DESCRIBED)
    keys = _keys(chosen, spell, random)
    documents = [_changed(one, record, random) for one in random.sample(record.documents, len(record.documents))]
    fields = [
        replace(
            one.field, key=key, type=_as_span(one, documents, random),
            description=random.choice(one.abouts) if one.abouts and random.random() < described else None,
        )
        for one, key in zip(chosen, keys, strict=True)
    ]  # fmt: skip
    answers = [{key: value[one.field.key] for one, key in zip(chosen, keys, strict=True)} for _, value in documents]
    examples = [(text, answer) for (text, _), answer in zip(documents[:shown], answers, strict=False)]
    plan = planner(compile(program_source(Converted(t.Object(tuple(fields)), {}), name="record", examples=examples)))
    return [
        Lesson(plan, {TEXT: text}, answer, f"written, {record.kind}", f"written, {record.kind}")
        for (text, _), answer in zip(documents[shown:], answers[shown:], strict=True)
    ]


def plain_lessons(record: Record) -> list[Lesson]:
    """The program as it is written, and its documents."""
    plan = planner(program_of(record, 0))
    return [Lesson(plan, {TEXT: text}, dict(value), record.kind, record.kind) for text, value in record.documents]


def _keys(chosen: Sequence[Asked], spell: Spelling, random: Random) -> list[str]:
    keys = [spell(random.choice((one.names[0], *one.names))) for one in chosen]
    return keys if len({key.casefold() for key in keys}) == len(keys) else [one.field.key for one in chosen]


def _as_span(asked: Asked, documents: Sequence[tuple[str, Mapping[str, JsonValue]]], random: Random) -> t.Type:
    values = [(value[asked.field.key], text) for text, value in documents]
    is_text = asked.field.type in (t.String(), t.Union((t.String(), t.Null())))
    if not is_text or random.random() > _AS_SPAN:
        return asked.field.type
    if any(isinstance(value, str) and value not in text for value, text in values):
        return asked.field.type
    span = t.Verbatim(TEXT)
    return t.Union((span, t.Null())) if isinstance(asked.field.type, t.Union) else span


def _changed(
    document: tuple[str, Mapping[str, JsonValue]], record: Record, random: Random
) -> tuple[str, Mapping[str, JsonValue]]:
    """With names and long numbers of the answer exchanged everywhere, so that values are copied and not remembered."""
    text, value = document
    if random.random() > _CHANGED:
        return document
    texts = [one for one in texts_in(value) if one in text]
    known = " ".join(_options_of(record)) + " ".join(one.field.key for one in record.asked)
    words = {word for one in texts for word in _NAME.findall(one) if word not in known}
    digits = {word for one in texts for word in _DIGITS.findall(one) if not one.startswith(("19", "20"))}
    written = write_json(dict(value))
    for word in sorted(words | digits):
        if random.random() < 0.6:
            other = _other(word, random)
            pattern = rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])"
            text, written = re.sub(pattern, other, text), re.sub(pattern, other, written)
    changed = parse_json(written)
    assert isinstance(changed, dict)
    return text, changed


def _other(word: str, random: Random) -> str:
    place = random.randrange(1, len(word))
    if word.isdigit():
        return word[:place] + "".join(random.choice("0123456789") for _ in word[place:])
    return word[:place] + random.choice(_LETTERS) + random.choice((word[place], "")) + word[place + 1 :]


def _options_of(record: Record) -> Iterator[str]:
    for one in record.asked:
        yield from (str(arm.value) for arm in _arms(one.field.type) if isinstance(arm, t.Literal))


def _arms(type: t.Type) -> Sequence[Any]:
    return type.arms if isinstance(type, t.Union) else (type,)


# ── checking ─────────────────────────────────────────────────────────────────────────────────────────────


def problems_of(record: Record, recorder: Recorder, longest: int) -> Iterator[str]:
    for number, lesson in enumerate(plain_lessons(record), 1):
        text, value = lesson.inputs[TEXT], lesson.value
        try:
            row = recorder.row(lesson, Mode.STRICT)
        except BadRow as problem:
            yield f"document {number}: {problem}"
            continue
        if len(row) > longest:
            yield f"document {number} takes {len(row)} tokens with its prompt and answer, of at most {longest}"
        options = set(_options_of(record))
        for one in texts_in(value):
            is_copied = one in text or one in options or re.fullmatch(r"\d{4}-\d\d-\d\d.*|\d\d:\d\d.*", one)
            if not is_copied:
                yield f"document {number}: {one!r} does not stand in the text (a note, not always a fault)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.smollm2.written", description="Check written documents.")
    parser.add_argument("files", type=Path, nargs="*")
    given = parser.parse_args()
    recorder = Recorder(load_tokenizer(place_of(SMOLLM2)))
    count = records = 0
    for path in given.files or sorted(FOLDER.glob("*.txt")):
        try:
            for record in read_records(path):
                records, count = records + 1, count + len(record.documents)
                for problem in problems_of(record, recorder, _LONGEST):
                    print(f"{path.name}, {record.kind}: {problem}")
        except (OSError, ValueError) as problem:
            print(problem, file=sys.stderr)
            return 1
    print(f"{records} records with {count} documents")
    return 0


if __name__ == "__main__":
    sys.exit(main())
