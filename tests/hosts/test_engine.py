"""Calls of an engine on a server: truncations, validators that call, many inputs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import pastalang
from pastalang.errors import PastaError, TruncationWarning, Unsupported
from tests.hosts.stand_in import StandIn
from tests.hosts.test_branches import PRODUCT

WARNS = "always::pastalang.errors.TruncationWarning"


class Cut(StandIn):
    """Its limit cuts every brand."""

    def _reply(self, path: str, body: Any) -> Any:
        reply = super()._reply(path, body)
        if body["prompt"].endswith('"brand":'):
            reply["choices"][0] |= {"text": ' "a long na\\', "finish_reason": "length"}
        return reply


def test_a_value_that_was_cut_is_an_error_if_the_call_says_so() -> None:
    with pytest.raises(pastalang.Truncated, match="brand") as problem:
        Cut().connect().run(PRODUCT, title="x", on_truncated="raise")
    assert problem.value.result.value["brand"] == "a long na"


@pytest.mark.filterwarnings(WARNS)
def test_values_that_were_cut_are_warned_of_once_at_the_line_that_called() -> None:
    engine, inputs = Cut().connect(), [{"title": "x"}] * 3

    async def awaited() -> None:
        await engine.arun(PRODUCT, title="x")

    for call in (
        lambda: engine.run(PRODUCT, title="x"),
        lambda: engine.batch(PRODUCT, inputs),
        lambda: list(engine.map(PRODUCT, inputs)),
        lambda: list(engine.stream(PRODUCT, title="x")),
        lambda: engine.extract(Item, "x"),
        lambda: asyncio.run(awaited()),
    ):
        with pytest.warns(TruncationWarning, match="brand") as warned:
            call()
        assert [one.filename for one in warned] == [__file__]


class Item(BaseModel):
    brand: str


def test_a_validator_that_waits_for_a_server_is_an_error_and_does_not_hang() -> None:
    engine = StandIn().connect()

    class Checked(BaseModel):
        brand: str

        @field_validator("brand")
        @classmethod
        def _asked(cls, brand: str) -> str:
            return str(engine.run(PRODUCT, title=brand).value["brand"])

    with pytest.raises(PastaError, match="a call that waits for a server was made from a validator"):
        engine.extract(Checked, "x")


# ── many inputs ──────────────────────────────────────────────────────────────────────────────────────────


def test_inputs_are_read_in_the_thread_that_asks_and_may_come_from_another_run() -> None:
    engine, threads = StandIn().connect(in_flight=2), set()

    def inputs() -> Iterator[Any]:
        for number in range(5):
            threads.add(threading.current_thread())
            yield {"title": engine.run(PRODUCT, title=str(number)).value["brand"]}

    assert len(list(engine.map(PRODUCT, inputs()))) == 5
    assert threads == {threading.current_thread()}


def test_an_error_in_place_of_inputs_is_its_outcome_and_a_source_that_fails_fails_last() -> None:
    def inputs() -> Iterator[Any]:
        yield {"title": "a"}
        yield pastalang.InputError("no such row")
        yield {"titel": "b"}
        raise OSError("the disk is gone")

    found: list[Any] = []
    with pytest.raises(OSError, match="the disk is gone"):
        for one in StandIn().connect().map(PRODUCT, inputs(), return_errors=True):
            found.append(one)
    assert [isinstance(one, PastaError) for one in found] == [False, True, True]


def test_what_is_wrong_with_a_program_is_wrong_for_all_inputs() -> None:
    with pytest.raises(Unsupported):
        StandIn().connect().map(PRODUCT, [{"title": "a"}], return_errors=True, mode="lockstep")


def test_results_arrive_in_the_order_in_which_runs_end() -> None:
    first_waits = asyncio.Event()

    class Slow(StandIn):
        async def handle(self, request: Any) -> Any:
            if b"<user>slow" in request.content:
                await first_waits.wait()
            elif b"<user>last" in request.content:
                first_waits.set()
            return await super().handle(request)

    inputs = [{"title": title} for title in ("slow", "b", "last")]
    numbers = [number for number, _ in Slow().connect().map_unordered(PRODUCT, inputs, in_flight=2)]
    assert sorted(numbers) == [0, 1, 2] and numbers[0] == 1


def test_an_asynchronous_source_goes_on_while_runs_are_in_flight() -> None:
    async def inputs() -> Any:
        for number in range(7):
            await asyncio.sleep(0)
            yield {"title": str(number)}

    async def test() -> list[Any]:
        return [one async for one in StandIn().connect(in_flight=3).amap(PRODUCT, inputs())]

    assert len(asyncio.run(test())) == 7
