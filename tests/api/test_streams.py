"""Events while a program runs, and what becomes of a run that is left early."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import aclosing
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, RootModel, create_model, field_validator
from typing_extensions import TypeAliasType

import pastalang
from pastalang import Done, Failed, FieldDone, FieldStarted, Joined, TextDelta
from tests.api.engines import WARM, hashing, json_program, text_program, writing

PRODUCT = json_program(
    "  brand: string(max=8) | null\n  kind: 'tv' | 'phone'\n  tags: [{ name: string(max=4) }](max=2)\n"
    "  headline: string(max=6) after brand".replace("'", '"')
)
Card, Cash = (create_model(kind, by=(Literal[kind], ...), tip=(bool, ...)) for kind in ("card", "cash"))
WARMLY: dict[str, Any] = {"sampling": WARM, "on_truncated": "keep"}


def test_the_events_add_up_to_the_result() -> None:
    *events, done = hashing(1).stream(PRODUCT, **WARMLY)
    assert isinstance(done, Done) and done.result.text == hashing(1).run(PRODUCT, **WARMLY).text
    for field in done.result.fields:
        own = [one for one in events if not isinstance(one, Joined) and one.where == field.where]
        assert isinstance(own[0], FieldStarted) and isinstance(own[-1], FieldDone)
        assert "".join(one.text for one in own if isinstance(one, TextDelta)) == own[-1].text == field.text
        assert own[-1].truncated == field.truncated


def test_fields_are_told_while_others_are_still_written() -> None:
    events = list(hashing(1).stream(PRODUCT, **WARMLY))
    done = [one.where for one in events if isinstance(one, FieldDone)]
    started = [one.where for one in events if isinstance(one, FieldStarted)]
    assert done.index("kind") < done.index("headline") and set(done) == set(started)
    first_end = next(index for index, one in enumerate(events) if isinstance(one, FieldDone))
    assert {one.where for one in events[:first_end] if isinstance(one, FieldStarted)} >= {"brand", "kind"}


def test_a_join_is_an_event() -> None:
    program = text_program("A: {async a: string(max=3)} B\n{sync}\nC: {c: string(max=3)}")
    [joined] = [one for one in hashing().stream(program, **WARMLY) if isinstance(one, Joined)]
    assert joined.where == "main" and joined.joined == ("a",)


def test_a_failed_run_ends_with_its_error() -> None:
    *_, last = writing({'"a": ': '"abcdefgh"'}).stream(json_program("  a: string(max=4)"), on_truncated="raise")
    assert isinstance(last, Failed) and isinstance(last.error, pastalang.Truncated) and last.error.field == "a"


def test_a_mistake_in_the_call_is_raised_and_not_an_event() -> None:
    with pytest.raises(pastalang.BadInputs, match="titel"):
        hashing().stream(PRODUCT, {"titel": "x"})


def test_nothing_runs_before_the_first_event_is_taken() -> None:
    asked: list[str] = []
    stream = writing(lambda seen: asked.append(seen) or "").stream(PRODUCT, **WARMLY)  # type: ignore[func-returns-value]
    assert asked == [] and next(stream) and asked


def test_streams_that_are_read_in_turn_give_what_each_gives_alone() -> None:
    engine = hashing(1)
    streams = [engine.stream(PRODUCT, seed=seed, **WARMLY) for seed in range(3)]
    found: list[Any] = [None] * 3
    while any(one is None for one in found):
        for number, stream in enumerate(streams):
            found[number] = event.result.text if isinstance(event := next(stream, None), Done) else found[number]
    assert found == [hashing(1).run(PRODUCT, seed=seed, **WARMLY).text for seed in range(3)]


def test_the_stream_for_asyncio_has_the_same_events() -> None:
    async def events() -> list[Any]:
        return [event async for event in hashing(1).astream(PRODUCT, **WARMLY)]

    *found, done = asyncio.run(events())
    *wanted, end = hashing(1).stream(PRODUCT, **WARMLY)
    assert found == wanted and done.result.text == end.result.text  # type: ignore[union-attr]


def test_leaving_an_asynchronous_stream_cancels_the_run() -> None:
    engine = hashing(1)

    async def leave() -> str:
        async with aclosing(engine.astream(PRODUCT, **WARMLY)) as stream:
            await anext(stream)
        return (await engine.arun(PRODUCT, seed=2, **WARMLY)).text

    assert asyncio.run(leave()) == hashing(1).run(PRODUCT, seed=2, **WARMLY).text


class Line(BaseModel):
    name: Annotated[str, Field(alias="line name", min_length=1), pastalang.Tokens(6)]
    sold: date | None
    is_new: Annotated[bool, Field(alias="name")]


class Bill(BaseModel):
    form: Literal["A1"]
    lines: RootModel[TypeAliasType("Lines", Annotated[list[Line], Field(min_length=1, max_length=3)])]  # type: ignore[misc]
    shop: Line | None
    kind: Literal["bill", "note"]
    paid: Annotated[Card | Cash, Field(discriminator="by")]  # type: ignore[valid-type]
    pages: Annotated[dict[int, Line], Field(max_length=1)]
    rows: Annotated[list[Annotated[list[Line], Field(max_length=1)]], Field(min_length=1, max_length=2)]


def test_a_model_grows_field_by_field_to_what_extract_returns() -> None:
    for seed in range(6):
        with warnings.catch_warnings(action="ignore"):
            *growing, last = hashing(seed).stream_model(Bill, "A lamp.", sampling=WARM)
            whole = hashing(seed).extract(Bill, "A lamp.", sampling=WARM)
        assert last.final == whole and growing and all(one.final is None for one in growing)
        assert [len(one.done) for one in growing] == list(range(1, len(growing) + 1)) and last.done == growing[-1].done
        assert last.value.model_dump(by_alias=True) == whole.model_dump(by_alias=True)
        assert type(last.value).__name__ == "PartialBill" and any(None in dict(one.value).values() for one in growing)
        assert last.value == growing[-1].value
        for value, done in ((one.value, one.done) for one in growing):
            assert value.form == "A1" and value.kind == (whole.kind if "kind" in done else None)
            assert value.paid == (last.value.paid if "paid.tip" in done else None)
            lines = [line for line in value.lines.root if line] if value.lines else []
            assert sum(len(line.model_fields_set) for line in lines) == sum("lines[" in place for place in done)


def test_a_list_that_is_decoded_again_begins_anew() -> None:
    class Item(BaseModel):
        name: str
        qty: int

    class Order(BaseModel):
        title: str
        lines: list[Item]

        @field_validator("lines")
        @classmethod
        def _once(cls, lines: list[Item]) -> list[Item]:
            if next(rejections, False):
                raise ValueError("not these")
            return lines[1:]

    for seed in (1, 2):
        rejections = iter([True])
        found = [*hashing(seed).stream_model(Order, "x y", sampling=WARM, repair=2, on_truncated="keep")]
        assert any("lines[1].name" in one.done for one in found) and next(rejections, None) is None
        assert not any("lines" in one.done and "lines[0].name" in one.done for one in found)
        assert found[-1].value.model_dump() == found[-1].final.model_dump()  # type: ignore[union-attr]


def test_a_value_that_is_no_model_grows_as_json_and_so_does_one_for_asyncio() -> None:
    async def lists() -> list[Any]:
        found = pastalang.astream_model(list[Line], "A lamp.", model=hashing(1), on_truncated="keep", mode="sequential")
        return [one async for one in found]

    *growing, last = asyncio.run(lists())
    assert last.final == hashing(1).extract(list[Line], "A lamp.", on_truncated="keep", mode="sequential")
    assert last.value == [one.model_dump(mode="json", by_alias=True) for one in last.final]
    assert [sum(len(item) for item in one.value) for one in growing] == list(range(1, len(growing) + 1))
    with pytest.raises(pastalang.BadInputs, match="read in windows"):
        pastalang.stream_model(Bill, "A lamp.", window=8)
    with pytest.raises(pastalang.TooLong):
        list(hashing(max_position=20).stream_model(Bill, "A lamp."))
