"""Ask a model for the fields of documents that were written by hand: python -m benchmarks.everyday --model PATH

`everyday.toml` holds the documents; `--documents` names another file of the same form, such as `apart.toml`, a test set
that was written without a look at any recipe. Each document is asked for with a program of its own, with the prompt of
`pastalang.from_model`. A field is right if its value is exactly the right one, null included. Every failure is listed.

With `--verbatim`, texts are asked for as spans of the document (`pastalang.Verbatim`). All right answers are but four,
which follow a colon without a space.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from pastalang.compiler import compile
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.program.program import JsonBody, Program
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.source import OWN, DTypeName
from pastalang.training.evaluation import decode
from pastalang.values.conversion import Converted
from pastalang.values.json import JsonValue, parse_json, same_json, write_json
from pastalang.values.to_source import program_source

DOCUMENTS = Path(__file__).with_name("everyday.toml")
TEXT = "text"


@dataclass(frozen=True, slots=True)
class Document:
    style: str
    text: str
    program: Program
    value: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Failure:
    style: str
    field: str
    expected: JsonValue
    found: JsonValue

    def __str__(self) -> str:
        return f"| {self.style} | {self.field} | {_cell(self.expected)} | {_cell(self.found)} |"


def read_documents(path: Path = DOCUMENTS, *, verbatim: bool = False) -> list[Document]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["documents"]
    return [_document(row, verbatim=verbatim) for row in rows]


def _document(row: Mapping[str, str], *, verbatim: bool) -> Document:
    value = parse_json(row["value"])
    assert isinstance(value, dict)
    return Document(row["style"], row["text"].strip("\n"), program_for(row["answer"], verbatim=verbatim), value)


def program_for(answer: str, *, verbatim: bool = False) -> Program:
    """The program that `from_model` would write for a model of this type."""
    program = compile(f'template record(text: text)\nuser """{{text}}"""\nassistant json {answer}\n')
    body = program.only_template.messages[-1].body
    assert isinstance(body, JsonBody)
    asked = _spans(body.type) if verbatim else body.type
    return compile(program_source(Converted(asked, program.types), name="record"))


def _spans(type: t.Type) -> t.Type:
    """The type, with spans of the document for its free texts."""
    match type:
        case t.String():
            return t.Verbatim(TEXT)
        case t.Union(arms):
            return t.Union(tuple(map(_spans, arms)))
        case t.Array(item):
            return replace(type, item=_spans(item))
        case t.Object(fields):
            return replace(type, fields=tuple(replace(field, type=_spans(field.type)) for field in fields))
        case _:
            return type


def plan_for(document: Document, mode: Mode) -> Plan:
    return build_plan(document.program.only_template, document.program, mode=mode)


def failures(document: Document, found: JsonValue) -> Iterator[Failure]:
    for field, expected in document.value.items():
        given = found.get(field) if isinstance(found, dict) else None
        if not isinstance(found, dict) or not same_json(given, expected):
            yield Failure(document.style, field, expected, given)


def measure(engine: Engine, documents: Sequence[Document], mode: Mode) -> list[Failure]:
    requests = [(plan_for(document, mode), {TEXT: document.text}) for document in documents]
    rows = decode(engine, requests, batch=8, any_mode=True).rows
    answers = [None if row.problem else row.values[0] for row in rows]
    return [one for pair in zip(documents, answers, strict=True) for one in failures(*pair)]


def _cell(value: JsonValue) -> str:
    text = write_json(value).replace("|", "\\|")
    return text if len(text) <= 60 else text[:57] + "..."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.everyday", description="Score a model on documents.")
    parser.add_argument("--model", default="pasta-mini")
    parser.add_argument("--documents", type=Path, default=DOCUMENTS, help="a file like benchmarks/everyday.toml")
    parser.add_argument("--adapter", default=OWN, help="its name or folder; none: the bare weights")
    parser.add_argument("--dtype", choices=get_args(DTypeName), help="default: what the engine takes")
    parser.add_argument("--every", type=int, default=1, help="ask for every so-many-th document only")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.STRICT)
    parser.add_argument("--verbatim", action="store_true", help="ask for texts as spans of the document")
    given = parser.parse_args()
    if not given.documents.is_file():
        parser.error(f"there is no file {given.documents}")
    documents = read_documents(given.documents, verbatim=given.verbatim)[:: given.every]
    try:
        adapter = None if given.adapter == "none" else given.adapter
        engine = Engine.load(given.model, adapter=adapter, dtype=given.dtype)
        began = time.process_time()
        wrong = measure(engine, documents, given.mode)
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    asked = sum(len(document.value) for document in documents)
    share, way = 100 * (1 - len(wrong) / asked), ", verbatim" if given.verbatim else ""
    added = "" if given.adapter == OWN else f" with adapter {given.adapter}"
    added += "" if given.dtype is None else f" in {given.dtype}"
    fields = "fields" if given.documents == DOCUMENTS else f"fields of {given.documents.name}"
    print(f"{given.model}{added}, {given.mode.value}{way}: {asked - len(wrong)} of {asked} {fields} are right", end=" ")
    print(f"({share:.1f} %), {len(documents)} documents in {time.process_time() - began:.0f} s of processor time\n")
    print("| document | field | right | found |\n|---|---|---|---|", *wrong, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
