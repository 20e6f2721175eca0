"""What type checkers know of the public calls. Checked by mypy with the package, and by pyright; never run.

Each `# type: ignore` is a mistake that has to be found: an ignore without an error is an error too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from enum import Enum
from typing import Any, Literal, assert_type

from pydantic import BaseModel

import pastalang
from pastalang import Done, Engine, Event, Extraction, FieldDone, FieldResult, PastaError, Program, Result


class Invoice(BaseModel):
    number: str


class Receipt(BaseModel):
    total: int


class Colour(Enum):
    RED = "red"


def extracts(engine: Engine, text: str) -> None:
    assert_type(pastalang.extract(Invoice, text), Invoice)
    assert_type(pastalang.extract(list[Invoice], text, instructions="All of them.", seed=1), list[Invoice])
    assert_type(pastalang.extract(Invoice, text, model="Qwen/Qwen3-0.6B", details=True), Extraction[Invoice])
    assert_type(engine.extract(Colour, text, details=False), Colour)
    assert_type(engine.extract(dict[str, int], text, details=True).value, dict[str, int])
    pastalang.extract(Invoice, text, context=[text], examples=[(text, Invoice(number="1"))])
    one_of_two: Invoice | Receipt = engine.extract(Invoice | Receipt, text)
    answer: Literal["yes", "no"] = engine.extract(Literal["yes", "no"], text)
    print(one_of_two, answer, pastalang.from_schema({"type": "string"}))
    assert_type(engine.extract({"type": "string"}, text), Any)
    assert_type(next(engine.stream_model({"type": "string"}, text)), pastalang.Partial[Any])
    assert_type(next(pastalang.extract_many(Invoice, [text], in_flight=4)), Extraction[Invoice | None])
    for partial in engine.stream_model(Invoice, text):
        assert_type(partial.final, Invoice | None)
    engine.extract(Invoice, text, details=True).value.number.upper()
    engine.extract(Invoice, text, instrutions="All.")  # type: ignore[call-overload]
    engine.extract(Invoice, text, temperature=0.5)  # type: ignore[call-overload]
    engine.extract(Invoice, [text])  # type: ignore[call-overload]
    print(pastalang.extract(Invoice, text).total)  # type: ignore[attr-defined]


async def awaits(engine: Engine, text: str) -> None:
    assert_type(await pastalang.aextract(Invoice, text), Invoice)
    assert_type(await engine.aextract(Invoice, text, details=True), Extraction[Invoice])
    assert_type(await engine.arun("invoice.pasta", text=text, model=Invoice), Result[Invoice])
    assert_type(engine.astream("invoice.pasta", text=text), AsyncGenerator[Event, None])


def runs(engine: Engine, program: Program, text: str) -> None:
    assert_type(engine.run(program, {"text": text}, model=Invoice, seed=1), Result[Invoice])
    assert_type(engine.run(program, {"text": text}, model=Invoice).value, Invoice)
    assert_type(engine.run(program, {"text": text}, model=Invoice).answers[0].value, Invoice)
    assert_type(engine.run("invoice.pasta", text=text, model=list[Invoice]), Result[list[Invoice]])
    assert_type(engine.run(program, {"text": text}), Result[Any])
    assert_type(engine.run(program, text=text, mode="lockstep").value, Any)
    assert_type(engine.batch(program, [{"text": text}], model=Invoice), list[Result[Invoice] | PastaError])
    assert_type(engine.map(program, [{"text": text}], in_flight=4, model=Invoice), Iterator[Result[Invoice]])
    found = engine.map(program, ({"text": one} for one in text), model=Invoice, return_errors=True)
    assert_type(found, Iterator[Result[Invoice] | PastaError])
    assert_type(engine.map(program, [{"text": text}]), Iterator[Result[Any]])
    assert_type(engine.stream(program, text=text), Iterator[Event])
    result: Result = engine.run(program, text=text)
    print(result.value)
    assert_type(result.field("lines[0].total"), FieldResult)
    assert_type(result.field("lines[0].total").where, str)
    print(result.field("lines[0].total").name)  # type: ignore[attr-defined]
    for event in engine.stream(program, text=text):
        if isinstance(event, FieldDone):
            assert_type(event.where, str)
        elif isinstance(event, Done):
            assert_type(event.result.trace.lanes[0].where, str)
    engine.run(program, {"text": text}, sed=1)  # type: ignore[call-overload]
    engine.run(3, text=text)  # type: ignore[call-overload]
    engine.batch(program, [text])  # type: ignore[list-item]
