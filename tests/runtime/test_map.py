"""Many inputs through one engine: their order, what is in flight, what is read when, and what an error ends."""

from __future__ import annotations

import asyncio
import gc
import warnings
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
import torch

import pastalang
from pastalang import BadInputs, Engine, Result, TruncationWarning
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.scheduler.state import RequestState
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from tests.oracle.toy_models import toy_model

PRODUCT = pastalang.compile('''
template product(title: text)
user """{title}"""
assistant json {
  kind: "tv" | "phone"
  tags: ["new" | "used"](max=3)
  name: string(max=4)
}
''')
TITLES = [{"title": "ab" * (number % 7)} for number in range(24)]


def engine(seed: int = 0, **options: Any) -> Engine:
    return Engine(hashed_model(320, seed=seed), byte_tokenizer(), **options)


class Source:
    """Counts how many inputs were taken from it."""

    def __init__(self, inputs: list[dict[str, Any]]) -> None:
        self.inputs = inputs
        self.taken = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for one in self.inputs:
            self.taken += 1
            yield one


@pytest.mark.parametrize("in_flight", [1, 3, 16, 100])
def test_results_are_in_order_and_the_same_however_many_are_in_flight(in_flight: int) -> None:
    weights = toy_model()
    models = [TransformersModel(weights, cells=2048, check=False) for _ in range(2)]
    alone = [Engine(models[0], byte_tokenizer()).run(PRODUCT, one) for one in TITLES[:7]]
    found = list(Engine(models[1], byte_tokenizer()).map(PRODUCT, TITLES[:7], in_flight=in_flight))
    assert [(one.text, one.usage.output_tokens) for one in found] == [
        (one.text, one.usage.output_tokens) for one in alone
    ]


def test_inputs_are_read_when_there_is_room_and_nothing_runs_unasked() -> None:
    source, runner = Source(TITLES), engine()
    results = runner.map(PRODUCT, source, in_flight=3)
    assert source.taken == 0
    for number, _ in enumerate(results, start=1):
        passes = runner.scheduler.forward_passes
        assert number <= source.taken <= number + 5 * 3
        assert len(runner.scheduler.active) <= 3 and runner.scheduler.forward_passes == passes
    assert source.taken == len(TITLES) and runner.scheduler.is_idle


def test_the_next_begins_as_soon_as_one_ends() -> None:
    runner, batches = engine(), engine()
    for start in range(0, len(TITLES), 4):
        batches.batch(PRODUCT, TITLES[start : start + 4])
    assert len(list(runner.map(PRODUCT, TITLES, in_flight=4))) == len(TITLES)
    assert runner.scheduler.forward_passes < batches.scheduler.forward_passes  # none waits for the slowest of a batch


def test_closing_the_iterator_cancels_what_is_in_flight() -> None:
    runner = engine(prefix_cells=0)
    results = runner.map(PRODUCT, TITLES, in_flight=8)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert runner.scheduler.is_idle
    runner.check_integrity()


def test_requests_that_have_ended_are_not_kept() -> None:
    requests = weakref.WeakSet[RequestState]()

    class Watched(Engine):
        def _request(self, *arguments: Any, **options: Any) -> RequestState:
            request = super()._request(*arguments, **options)
            requests.add(request)
            return request

    results = Watched(hashed_model(320), byte_tokenizer()).map(PRODUCT, TITLES, in_flight=2)
    for _ in range(15):
        next(results)
    gc.collect()
    assert len(requests) <= 3


def test_a_field_that_is_cut_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        list(engine().map(PRODUCT, TITLES))
    assert [one.category for one in found] == [TruncationWarning]
    assert "name (4 tokens)" in str(found[0].message) and found[0].filename == __file__


def test_asyncio_reads_inputs_while_others_are_decoded() -> None:
    runner = engine()

    async def slow() -> AsyncIterator[dict[str, Any]]:
        for number, one in enumerate(TITLES):
            yield one
            while number == 3 and runner.scheduler.forward_passes < 5:  # the fifth comes when the first four have begun
                await asyncio.sleep(0.001)

    async def texts(inputs: Any) -> list[str]:
        return [one.text async for one in runner.amap(PRODUCT, inputs, in_flight=4)]

    expected = [one.text for one in engine().map(PRODUCT, TITLES)]
    assert asyncio.run(texts(slow())) == expected
    assert asyncio.run(texts(TITLES)) == expected


def test_leaving_an_asynchronous_map_cancels_it() -> None:
    runner = engine(prefix_cells=0)

    async def first() -> str:
        async with aclosing(runner.amap(PRODUCT, TITLES, in_flight=4)) as results:
            async for one in results:
                return one.text
        raise AssertionError

    async def wrong() -> list[Any]:
        return [one async for one in runner.amap(PRODUCT, [TITLES[0], {}], return_errors=True)]

    assert asyncio.run(first()) and runner.scheduler.is_idle
    assert [type(one) for one in asyncio.run(wrong())] == [Result, BadInputs]
    runner.check_integrity()


def test_each_of_a_batch_may_have_a_seed_of_its_own() -> None:
    sampling = pastalang.Sampling(temperature=1.0)
    weights = TransformersModel(toy_model(dtype=torch.float64), cells=2048, check=False)
    one = Engine(weights, byte_tokenizer())
    alone = [one.run(PRODUCT, TITLES[1], sampling=sampling, seed=seed).text for seed in (4, 5, 6)]
    found = one.batch(PRODUCT, [TITLES[1]] * 3, seeds=[4, 5, 6], sampling=sampling)
    assert [result.text for result in found if isinstance(result, Result)] == alone
    assert len(set(alone)) > 1
