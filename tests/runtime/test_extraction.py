"""One call from a type and a text to a value."""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import threading
import weakref
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, create_model, field_validator

import pastalang
from pastalang import Engine, FieldDone
from pastalang.extraction import SharedEngines
from pastalang.runtime.partial_model import partials
from pastalang.runtime.question import ProgramsByType, question_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model, uniform_model
from tests.work import calls_of


class Line(BaseModel):
    kind: Literal["fee", "item"]
    count: Annotated[int, Field(ge=0, le=9)]


class Note(BaseModel):
    urgent: bool


def engine(seed: int = 0) -> Engine:
    return Engine(hashed_model(320, seed=seed), byte_tokenizer())


def prompt(**given: Any) -> str:
    found = engine().extract(Note, "Now!", details=True, **given)
    return "".join(one.text for one in found.result.trace.fed if one.forward_pass == 1 and one.lane == 0)


def test_context_stands_before_the_text_and_can_be_quoted() -> None:
    assert "\nNow!" in prompt() and "Context" not in prompt()
    assert "Context:\n\n{a}\n\nb\n\nText:\n\nNow!" in prompt(context=["{a}", "b"])
    assert prompt(context="{a}") == prompt(context=["{a}"])

    class Answer(BaseModel):
        quotes: Annotated[list[Annotated[str, pastalang.Verbatim("context")]], Field(min_length=2, max_length=2)]

    found = engine().extract(Answer, "What?", context=["ab", "cd😀"], details=True)
    for quote, span in zip(found.value.quotes, found.field("quotes").sources, strict=True):
        assert found.sources[span.path][span.start : span.end] == quote and span.item in (0, 1)


def test_examples_are_earlier_turns_in_the_form_of_the_answer() -> None:
    class Order(BaseModel):
        id: Annotated[str, pastalang.Verbatim("text")] = Field(alias="order id")
        price: Annotated[Decimal, AfterValidator(lambda price: 2 * price)]
        on: date
        lines: list[Line] = []

    order = Order(
        **{"order id": "A1", "price": Decimal("0.05"), "on": "2024-02-29", "lines": [{"kind": "fee", "count": 1}]}
    )
    other = {**order.model_dump(by_alias=True), "order id": "C3"}
    found = engine().extract(Order, "B2", details=True, examples=[("Order A1", order), ("C3", other)])
    fed = "".join(one.text for one in found.result.trace.fed if one.forward_pass == 1 and one.lane == 0)
    answer = """{
  "order id": "A1",
  "price": 0.1,
  "on": "2024-02-29",
  "lines": [
    {
      "kind": "fee",
      "count": 1
    }
  ]
}"""
    turns = (
        f"User:\nOrder A1\n\nAssistant:\n{answer}\n\nUser:\nC3\n\nAssistant:\n{answer.replace('A1', 'C3')}\n\nUser:\nB2"
    )
    assert turns in fed
    with pytest.raises(pastalang.InputError, match=r'`examples\[1\]` does not fit: "order id": "A1" does not occur in'):
        engine().extract(Order, "B2", examples=[("A1", order), ("x", order)])
    with pytest.raises(pastalang.InputError, match=r"the answer of `examples\[0\]` does not fit"):
        engine().extract(Order, "B2", examples=[("A1", {})])


def test_instructions_are_in_the_place_of_the_usual_ones() -> None:
    assert "Read the text and fill in the record." in prompt() and "Now!" in prompt()
    told = prompt(instructions="Is it urgent? {text}")
    assert "Is it urgent? {text}" in told and "Read the text" not in told


def test_a_value_that_the_model_rejects_is_decoded_again_or_reported() -> None:
    class Picky(Note):
        @field_validator("urgent")
        @classmethod
        def judge(cls, urgent: bool) -> bool:
            raise ValueError("never right")

    with pytest.raises(pastalang.Invalid, match="never right"):
        engine().extract(Picky, "x", repair=1)
    with pytest.raises(pastalang.BadInputs, match="add `details=True`"):
        engine().extract(Picky, "x", keep_invalid=True)
    assert engine().extract(Picky, "x", keep_invalid=True, details=True).result.problems


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: pastalang.extract("a text", Note), "the type comes first: `extract(Note, text)`"),
        (lambda: pastalang.extract(Note(urgent=True), "x"), "write `extract(Note, text)`"),
        (
            lambda: pastalang.extract(3, "x"),
            "takes a type, such as a Pydantic model, or a JSON Schema as a dict, not 3",
        ),
        (lambda: pastalang.extract("note.pasta", "x"), "`engine.run('note.pasta', text=...)`"),
        (lambda: pastalang.extract(Note, ["x", "y"]), "write `extract_many(Note, texts)`"),
        (lambda: pastalang.extract(Note, Path("x.txt")), "`path.read_text(encoding="),
        (lambda: pastalang.extract(Note, b"x"), '`text.decode("utf-8")`'),
        (lambda: pastalang.extract(Note, None), "reads one text, not None"),
        (lambda: pastalang.extract(Note, "x", temperature=0.5), "`sampling=pastalang.Sampling(temperature=0.5)`"),
        (lambda: pastalang.extract(Note, "x", system_prompt="Hi"), "write `instructions='Hi'`"),
        (lambda: pastalang.extract(Note, "x", prompt="Hi"), "write `instructions='Hi'`"),
        (lambda: pastalang.extract(Note, "x", response_model=Note), "comes first: `extract(Model, text)`"),
        (lambda: pastalang.extract(Note, "x", context=3), "`context` is a text or a list of texts, not 3"),
        (lambda: pastalang.extract(Note, "x", documents=["y"]), "write `context=['y']`"),
        (lambda: pastalang.extract(Note, "x", examples={"y": 1}), "is a list of pairs, a text and its value, not {"),
        (lambda: pastalang.extract(Note, "x", examples=["y"]), "`examples[0]` must be a pair of a text and its answer"),
        (lambda: pastalang.extract(Note, "x", instrutions="Hi"), "did you mean `instructions`?"),
        (lambda: pastalang.extract(Note, "x", model=Note), "the type comes first: `extract(Note, text)`"),
        (
            lambda: pastalang.extract(Note, "x", model=3),
            "a folder, a name on the hub, an address or an `Engine`, not 3",
        ),
        (lambda: engine().extract(Note, "x", model="gpt"), "an engine has its model already"),
        (lambda: engine().extract(Note, "x", stream=True), "`engine.stream` with `pastalang.from_model(Model)`"),
        (lambda: pastalang.extract(bytes, "x"), "use a string"),
        (
            lambda: pastalang.extract(Annotated[str, Field(pattern="^abc$", max_length=2)], "x"),
            "/abc/ needs at least 3 characters, but only 2 are allowed",
        ),
        (lambda: pastalang.extract(Literal["a"], "x"), "only one possible value, so there is nothing to fill in"),
    ],
)
def test_a_call_that_guesses_wrong_is_told_the_right_one(call: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "load", lambda *_: pytest.fail("a model is loaded for a call that cannot run"))
    with pytest.raises((TypeError, pastalang.PastaError), match=re.escape(told)):
        call()


def test_a_model_is_loaded_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []

    def load(name: Any, **_: Any) -> Engine:
        loaded.append(name)
        return Engine(uniform_model(320), byte_tokenizer())

    monkeypatch.setattr(Engine, "load", load)
    engines, found = SharedEngines(), []
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        found.append(engines("some/model"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == ["some/model"] and len(set(map(id, found))) == 1


def test_a_program_is_made_once_for_a_type_and_does_not_keep_the_type() -> None:
    programs = ProgramsByType()
    assert programs(Note) is programs(Note) and programs(list[Note]) is programs(list[Note])
    assert programs(Note) is not programs(Line) and programs(Literal["b", "a"]) is not programs(Literal["a", "b"])

    class Passing(BaseModel):
        x: bool

    programs(Passing)
    gone = weakref.ref(Passing)
    del Passing
    gc.collect()
    assert gone() is None


def test_an_engine_is_accepted_as_model() -> None:
    own = engine()
    assert pastalang.extract(Note, "Call Bea", model=own) == own.extract(Note, "Call Bea")
    assert asyncio.run(pastalang.aextract(Note, "Call Bea", model=own)) == own.extract(Note, "Call Bea")


def test_help_shows_the_options_of_a_call() -> None:
    for function in (pastalang.extract, pastalang.aextract, Engine.extract):
        shown = inspect.signature(function).parameters
        assert {"instructions", "context", "examples", "details", "seed", "repair"} <= shown.keys()
        assert shown["seed"].default == 0 and "options" not in shown
    for function in (pastalang.extract_many, pastalang.aextract_many):
        shown = inspect.signature(function).parameters
        assert {"instructions", "examples", "in_flight", "seed"} <= shown.keys()
        assert not {"options", "details"} & shown.keys()
    assert "template" in inspect.signature(Engine.run).parameters


def test_each_part_of_a_value_that_grows_costs_the_same() -> None:
    def growing(count: int) -> int:
        events = [FieldDone(f"lines[].{key}", (at,), "1", False) for at in range(count) for key in ("count", "kind")]
        return calls_of(lambda: list(partials(question, iter(events))))

    question = question_of(create_model("Bill", lines=(list[Line], ...)), "x", {})
    growing(1)
    assert growing(400) < 2.1 * growing(200)
