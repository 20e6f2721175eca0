"""Several callers of one engine: threads, tasks, and callers that leave while a step runs. Answers are as alone."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from typing import Any

import pytest

import pastalang
from tests.api.engines import WARM, hashing, json_program, text_program, writing

FIELDS = json_program(
    "  a: string(max=6)\n  b: integer(0..9)\n  lines: [{ x: boolean, y: string(max=3) }](max=2)\n"
    "  c: string(max=4) after a",
    inputs='t: text = ""',
    says="{t}.",
)
TEXT = text_program("{a: string(max=5)} {async b ~5: string(max=5)} {c: string(max=5)}\n{sync}\nSo {d: string(max=5)}")
WARMLY: dict[str, Any] = {"sampling": WARM, "on_truncated": "keep"}
SEEDS = range(6)


@pytest.fixture(scope="module")
def alone() -> list[str]:
    return [hashing().run(FIELDS, seed=seed, **WARMLY).text for seed in SEEDS]


def by_run(engine: pastalang.Engine, seed: int) -> str:
    return engine.run(FIELDS, seed=seed, **WARMLY).text


def by_stream(engine: pastalang.Engine, seed: int) -> str:
    *_, done = engine.stream(FIELDS, seed=seed, **WARMLY)
    assert isinstance(done, pastalang.Done)
    return done.result.text


def by_batch(engine: pastalang.Engine, seed: int) -> str:
    [found] = engine.batch(FIELDS, [{}], seed=seed, **WARMLY)
    assert isinstance(found, pastalang.Result)
    return found.text


def by_map(engine: pastalang.Engine, seed: int) -> str:
    return next(engine.map(FIELDS, [{}], seed=seed, **WARMLY)).text


def by_task(engine: pastalang.Engine, seed: int) -> str:
    return asyncio.run(engine.arun(FIELDS, seed=seed, **WARMLY)).text


CALLS = (by_run, by_stream, by_batch, by_map, by_task)


@pytest.mark.parametrize(
    "options", [{}, {"cells": 150, "prefix_cells": 0}, {"drafts": 4}], ids=["plain", "scarce", "drafts"]
)
def test_threads_that_call_one_engine_in_every_way_get_what_each_gets_alone(options: Any, alone: list[str]) -> None:
    engine = hashing(**options)
    calls = [(call, seed) for seed in SEEDS for call in CALLS]
    random.Random(0).shuffle(calls)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda call: call[0](engine, call[1]), calls))
    assert found == [alone[seed] for _, seed in calls]


def test_threads_with_different_programs_do_not_mix() -> None:
    engine = hashing(1)
    wanted = [hashing(1).run(program, **WARMLY).text for program in (FIELDS, TEXT)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda program: engine.run(program, **WARMLY).text, [FIELDS, TEXT] * 6))
    assert found == wanted * 6


def test_an_error_of_one_thread_is_no_error_of_another(alone: list[str]) -> None:
    engine = hashing(max_position=400)

    def call(number: int) -> str:
        return engine.run(FIELDS, t="x" * 500 if number % 2 else "", seed=number // 2, **WARMLY).text

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(call, number) for number in range(8)]
    assert [futures[number].result() for number in range(0, 8, 2)] == alone[:4]
    assert all(isinstance(futures[number].exception(), pastalang.TooLong) for number in range(1, 8, 2))


def test_tasks_of_every_kind_share_one_engine(alone: list[str]) -> None:
    engine = hashing()

    async def streamed(seed: int) -> str:
        async with aclosing(engine.astream(FIELDS, seed=seed, **WARMLY)) as events:
            found = [event async for event in events]
        return found[-1].result.text  # type: ignore[union-attr]

    async def mapped(seed: int) -> str:
        return (await anext(engine.amap(FIELDS, [{}], seed=seed, **WARMLY))).text  # type: ignore[union-attr]

    async def ran(seed: int) -> str:
        return (await engine.arun(FIELDS, seed=seed, **WARMLY)).text

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(call(seed) for seed in SEEDS for call in (streamed, mapped, ran)))

    assert asyncio.run(all_of_them()) == [text for text in alone for _ in range(3)]


# ── callers that leave ───────────────────────────────────────────────────────────────────────────────────


class Gate:
    """A model that stays in the middle of a step for a while."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.asked = 0

    def __call__(self, seen: str) -> str:
        self.asked += 1
        if self.asked == 8:  # all requests have been submitted
            self.entered.set()
            self.released.wait(30)
        return '"' if seen.endswith(": ") else "y"


WORDS = json_program("  a: string(max=9)\n  b: string(max=9) after a", inputs='t: text = ""', says="{t}.")


@pytest.mark.parametrize("ends", ["alone", "cancelled"])
def test_the_event_loop_goes_on_while_tasks_wait_for_a_step_of_another_one(ends: str) -> None:
    """Requests begin and are cancelled between two steps, which may be long."""
    gate = Gate()
    engine = writing(gate)

    async def main() -> None:
        first = [asyncio.ensure_future(engine.arun(WORDS, t=str(number), on_truncated="keep")) for number in range(2)]
        await asyncio.to_thread(gate.entered.wait, 30)
        late = asyncio.ensure_future(engine.arun(WORDS, t="late", on_truncated="keep"))
        mapped = asyncio.ensure_future(anext(engine.amap(WORDS, [{"t": "mapped"}], on_truncated="keep")))
        streamed = asyncio.ensure_future(anext(engine.astream(WORDS, t="streamed", on_truncated="keep")))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not gate.released.is_set() and not any(task.done() for task in (*first, late, mapped, streamed))
        if ends == "cancelled":
            for task in (first[0], late, mapped, streamed):
                task.cancel()
            await asyncio.sleep(0.001)
        gate.released.set()
        ended = await asyncio.gather(*first, late, mapped, streamed, return_exceptions=True)
        is_cancelled = [isinstance(one, asyncio.CancelledError) for one in ended]
        assert is_cancelled == ([True, False, True, True, True] if ends == "cancelled" else [False] * 5)

    asyncio.run(main())
    engine.check_integrity()
    assert engine.scheduler.is_idle


@pytest.mark.parametrize("after", [0, 1, 2, 5, 9])
def test_tasks_that_are_cancelled_anywhere_change_no_answer(after: int, alone: list[str]) -> None:
    engine = hashing(cells=400)

    async def some_leave() -> list[str]:
        staying = [asyncio.ensure_future(engine.arun(FIELDS, seed=seed, **WARMLY)) for seed in SEEDS]
        leaving = [asyncio.ensure_future(engine.arun(FIELDS, seed=seed + 9, **WARMLY)) for seed in SEEDS]
        for _ in range(after):
            await asyncio.sleep(0.001)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        return [(await task).text for task in staying]

    assert asyncio.run(some_leave()) == alone
    assert [by_run(engine, seed) for seed in SEEDS] == alone


def leave(events: Iterator[Any], after: int) -> None:
    for _ in range(after):
        next(events, None)
    events.close()  # type: ignore[attr-defined]


LEAVING: dict[str, Callable[[pastalang.Engine], Iterator[Any]]] = {
    "stream": lambda engine: engine.stream(FIELDS, seed=9, **WARMLY),
    "map": lambda engine: engine.map(FIELDS, [{"t": str(number)} for number in range(20)], in_flight=4, **WARMLY),
    "map unordered": lambda engine: engine.map_unordered(FIELDS, [{"t": "x"}] * 20, in_flight=4, **WARMLY),
}


@pytest.mark.parametrize("name", LEAVING)
def test_a_generator_that_is_closed_early_while_threads_run_changes_no_answer(name: str, alone: list[str]) -> None:
    engine = hashing(cells=600)
    with ThreadPoolExecutor(4) as pool:
        staying = [pool.submit(by_run, engine, seed) for seed in SEEDS]
        leaving = [pool.submit(leave, LEAVING[name](engine), after) for after in (0, 1, 2, 4, 7)]
    assert [one.result() for one in staying] == alone and all(one.exception() is None for one in leaving)
    assert [by_run(engine, seed) for seed in SEEDS] == alone


def test_a_generator_that_is_dropped_is_closed(alone: list[str]) -> None:
    engine = hashing()
    for event in engine.stream(FIELDS, seed=9, **WARMLY):
        assert event
        break
    assert by_run(engine, 0) == alone[0]


def test_a_stream_may_be_read_by_another_thread_than_the_one_that_made_it(alone: list[str]) -> None:
    engine = hashing()
    with closing(engine.stream(FIELDS, seed=2, **WARMLY)) as events, ThreadPoolExecutor(1) as pool:  # type: ignore[type-var]
        next(events)
        *_, done = pool.submit(list, events).result()
    assert done.result.text == alone[2]
