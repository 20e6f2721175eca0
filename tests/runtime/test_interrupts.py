"""An interrupt at any line of the scheduler loses nothing: the caller gets it, and the engine goes on as before.

Ctrl-C is pressed when a certain line of the scheduler runs, at every line in the long suite and at some in the quick
one. Exceptions that are raised in a thread from outside, and a second Ctrl-C, arrive in the middle of a step.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dis
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType, MethodType
from typing import Any

import pytest
import torch
from pydantic import BaseModel, field_validator

import pastalang
from pastalang import Engine, Limits, Program, Result
from pastalang.runtime.interrupts import hold_interrupts
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model, scripted_model
from tests.properties.test_memory import FAN_OUT
from tests.runtime.test_auto import FOOD, SIGHTS, program, script_of
from tests.runtime.test_engine import DOCUMENTS, PRODUCT, WARM, toy_engine

SCHEDULER = str(Path(pastalang.__file__).parent / "runtime" / "scheduler")
RECORD = pastalang.compile('''
template record(title: text)
user """
Read the title: {title}
"""
assistant json {
  brand: string(max=6)
  items: [{name: string(max=4), count: integer(0..20)}](0..2)
  rest: string(max=6) after brand
}
''')
THREADS = program(most=80)


class Picky(BaseModel):
    brand: str
    items: list[Any]
    rest: str

    @field_validator("rest")
    @classmethod
    def short(cls, rest: str) -> str:
        if len(rest) > 1:
            raise ValueError("it is too long")
        return rest


@dataclass(frozen=True)
class Case:
    """What is run on an engine of its own; `make` may run something first, which is not interrupted."""

    make: Callable[[], Engine]
    run: Callable[[Engine], Any]


def engine_of(*, cells: int = 4096, **options: Any) -> Engine:
    model = hashed_model(320, seed=7)
    model.cells = cells
    return Engine(model, byte_tokenizer(), **options)


def writer() -> Engine:
    text = f"Food: {FOOD}\nSights: {SIGHTS}\n<sync/>The end."
    said = {"food": "Goulash.</async>", "sights": "Bridges.</async>"}
    return Engine(scripted_model(script_of(text, said), 320), byte_tokenizer())


def of_one(program: Program, inputs: dict[str, Any], **options: Any) -> Callable[[Engine], Any]:
    return lambda engine: told(engine.run(program, inputs, sampling=WARM, **options))


def of_many(engine: Engine) -> list[Any]:
    inputs = [{"title": title} for title in ("Sharp TV", "a phone", "nothing at all")]
    return [told(result) for result in engine.map(PRODUCT, inputs, in_flight=2, sampling=WARM, return_errors=True)]


def streamed(engine: Engine) -> Any:
    return [repr(event)[:60] for event in engine.stream(RECORD, {"title": "a TV"}, sampling=WARM)][:-1]


def told(result: object) -> Any:
    return [field.tokens for field in result.fields] if isinstance(result, Result) else str(result)


CASES = {
    "kept prompt": Case(engine_of, of_one(PRODUCT, {"title": "Sharp 42 inch TV"})),
    "lists, chunks and details": Case(
        lambda: engine_of(limits=Limits(chunk=4)), of_one(RECORD, {"title": "a TV"}, details=True)
    ),
    "repair": Case(
        lambda: engine_of(prefix_cells=0), of_one(RECORD, {"title": "a TV"}, model=Picky, repair=2, keep_invalid=True)
    ),
    "small memory": Case(lambda: engine_of(cells=130, prefix_cells=40), of_many),
    "a stack": Case(engine_of, of_one(DOCUMENTS, {"title": ["one", "two"]})),
    "a fork over a list": Case(engine_of, of_one(FAN_OUT, {"points": ["one", "two"]})),
    "threads": Case(writer, of_one(THREADS, {})),
    "drafts": Case(lambda: engine_of(drafts=3), of_one(RECORD, {"title": "a TV a TV"})),
    "a stream": Case(engine_of, streamed),
    "a model of transformers": Case(toy_engine, of_one(PRODUCT, {"title": "TV"})),
}


class Interruption:
    """Acts when the scheduler reaches its line number `at`, counted over all lines that it runs."""

    def __init__(self, at: int | None, act: Callable[[], None]) -> None:
        self.lines, self._at, self._act = 0, at, act

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(SCHEDULER):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self._at:
                sys.settrace(None)
                self._act()
        return self

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(None)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def press_twice() -> None:
    press()
    press()


def arrive() -> None:
    raise KeyboardInterrupt


def check_lossless(engine: Engine) -> None:
    """Every cell is free or a kept prompt's, and no request is left."""
    engine.check_integrity()
    scheduler = engine.scheduler
    assert scheduler.is_idle, "a request is left"
    kept = sum(len(branch.memory.cells) for branch in scheduler.prefix.nodes)
    assert scheduler.memory.cells.in_use == kept, "a request keeps cells"


def lines_of(case: Case) -> tuple[int, Any]:
    engine, counting = case.make(), Interruption(None, arrive)
    with counting.watching():
        answer = case.run(engine)
    return counting.lines, answer


@cache
def counted(name: str) -> tuple[int, Any]:
    return lines_of(CASES[name])


def check_interrupted(case: Case, at: int, act: Callable[[], None], expected: Any) -> None:
    engine = case.make()
    handler = signal.getsignal(signal.SIGINT)
    try:
        with Interruption(at, act).watching():
            case.run(engine)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("the caller did not get the interrupt")
    finally:
        assert signal.getsignal(signal.SIGINT) is handler
    check_lossless(engine)
    assert case.run(engine) == expected
    check_lossless(engine)


ACTS = pytest.mark.parametrize("act", [press, press_twice, arrive], ids=["pressed", "pressed twice", "raised inside"])
NAMES = pytest.mark.parametrize("name", CASES)


@ACTS
@NAMES
def test_an_interrupt_at_a_line_of_the_scheduler_loses_nothing(name: str, act: Callable[[], None]) -> None:
    lines, expected = counted(name)
    first = len(name + act.__name__) * 97 % (lines // 3)  # another one for each test
    for at in range(1 + first, lines, lines // 3):
        check_interrupted(CASES[name], at, act, expected)


@NAMES
def test_a_stream_that_is_closed_at_a_line_of_the_scheduler_takes_nothing_from_others(name: str) -> None:
    """As the collector closes one that nobody reads any more."""
    lines, expected = counted(name)
    for at in range(1 + len(name) * 97 % (lines // 5), lines, lines // 5):
        engine = CASES[name].make()
        dropped = engine.stream(*((THREADS, {}) if name == "threads" else (RECORD, {"title": "gone"})), sampling=WARM)
        next(dropped)
        with Interruption(at, dropped.close).watching():
            assert CASES[name].run(engine) == expected
        check_lossless(engine)


def test_ctrl_c_while_a_request_of_many_is_queued_cancels_it() -> None:
    engine = engine_of()
    submit = engine.scheduler.submit
    engine.scheduler.submit = lambda request: (submit(request), press())[0]  # type: ignore[method-assign, func-returns-value]
    with pytest.raises(KeyboardInterrupt):
        of_many(engine)
    check_lossless(engine)


@pytest.mark.long
@ACTS
@NAMES
def test_an_interrupt_at_every_line_of_the_scheduler_loses_nothing(name: str, act: Callable[[], None]) -> None:
    lines, expected = lines_of(CASES[name])
    for at in range(1, lines):
        check_interrupted(CASES[name], at, act, expected)


def test_other_requests_of_the_engine_go_on_and_have_the_same_answers() -> None:
    """Those of other threads start again if a step was broken off, with the same tokens."""
    titles = ["Sharp TV", "a phone", "nothing", "a lamp"]
    alone = {title: of_one(PRODUCT, {"title": title})(engine_of()) for title in titles}
    engine, answers = engine_of(), {}
    started = threading.Barrier(len(titles))

    def answer(title: str) -> None:
        started.wait()
        answers[title] = of_one(PRODUCT, {"title": title})(engine)

    threads = [threading.Thread(target=answer, args=(title,)) for title in titles[1:]]
    for thread in threads:
        thread.start()
    started.wait()
    with pytest.raises(KeyboardInterrupt), Interruption(2000, arrive).watching():
        of_one(RECORD, {"title": "a TV"})(engine)
    for thread in threads:
        thread.join()
    assert answers == {title: alone[title] for title in titles[1:]}
    check_lossless(engine)


class Outside(BaseException):
    """Raised in a thread by another one, as by libraries that set time limits."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that a callback swallows
def test_an_exception_that_another_thread_raises_in_a_worker_loses_nothing() -> None:
    expected = of_one(RECORD, {"title": "a TV"})(engine_of())
    for delay in (0.001, 0.004, 0.009, 0.016, 0.025):
        engine, begun, ends = engine_of(), [], []

        def work(engine: Engine = engine, begun: list[None] = begun, ends: list[object] = ends) -> None:
            try:
                while True:
                    begun.append(None)
                    of_one(RECORD, {"title": "a TV"})(engine)
            except Outside as outside:
                ends.append(outside)

        worker = threading.Thread(target=work)
        worker.start()
        time.sleep(delay)
        while worker.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(Outside))
            before = len(begun)
            while worker.is_alive() and len(begun) < before + 2:  # else a callback of a weak reference has swallowed it
                worker.join(0.01)
        assert ends
        check_lossless(engine)
        assert of_one(RECORD, {"title": "a TV"})(engine) == expected


def test_an_exception_that_arrives_as_a_context_begins_leaves_no_lock() -> None:
    """It may arrive when the lock is taken and the `with` that gives it back has not begun."""
    expected, entered = of_one(RECORD, {"title": "a TV"})(engine_of()), 0

    def raises(at: int | None) -> Callable[[FrameType, str, Any], Any]:
        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal entered
            if (frame.f_code.co_filename, frame.f_code.co_name) != (contextlib.__file__, "__enter__"):
                return None
            frame.f_trace_opcodes = True
            if event == "opcode" and frame.f_code.co_code[frame.f_lasti] == dis.opmap["RETURN_VALUE"]:
                entered += 1
                if entered == at:
                    raise Outside
            return trace

        return trace

    def work(engine: Engine, at: int | None, ends: list[object]) -> None:
        sys.settrace(raises(at))
        try:
            ends.append(of_one(RECORD, {"title": "a TV"})(engine))
        except Outside as outside:
            ends.append(outside)  # with the frames that it went through

    def in_a_thread(engine: Engine, at: int | None) -> object:
        ends: list[object] = []
        worker = threading.Thread(target=work, args=(engine, at, ends), daemon=True)
        worker.start()
        worker.join(60)
        assert ends, "the engine is locked"
        return ends[0]

    assert in_a_thread(engine_of(), None) == expected
    for at in range(1, entered + 1, 5):
        engine, entered = engine_of(), 0
        assert isinstance(kept := in_a_thread(engine, at), Outside)
        entered = 0
        assert in_a_thread(engine, None) == expected, kept
        check_lossless(engine)


def test_a_task_that_is_cancelled_in_the_middle_of_a_step_loses_nothing() -> None:
    expected = of_one(RECORD, {"title": "a TV"})(engine_of())
    engine = engine_of()
    is_inside, may_go_on = threading.Event(), threading.Event()
    forward = engine.model.forward

    def slow_forward(batch: StepBatch) -> torch.Tensor:
        is_inside.set()
        may_go_on.wait()
        return forward(batch)

    async def main() -> None:
        engine.model.forward = slow_forward  # type: ignore[method-assign]
        task = asyncio.create_task(engine.arun(RECORD, {"title": "a TV"}, sampling=WARM))
        await asyncio.to_thread(is_inside.wait)
        task.cancel()
        await asyncio.sleep(0)
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    check_lossless(engine)
    assert of_one(RECORD, {"title": "a TV"})(engine) == expected


def test_ctrl_c_before_a_request_is_queued_takes_nothing_from_the_others() -> None:
    engine = engine_of()
    waits, other = (engine.prepare(RECORD, {"title": "a TV"}, {}, with_events=False) for _ in range(2))
    engine.loop.submit(other)
    engine.loop.step()
    engine.loop.cancel([waits])
    engine.loop.submit(waits)
    while not other.is_over:
        engine.loop.step()
    assert isinstance(waits.error, pastalang.Cancelled) and engine.scheduler.is_idle
    alone = engine_of().run(RECORD, {"title": "a TV"})
    assert engine.outcome_of(other).text == alone.text  # type: ignore[union-attr]
    assert other.counts.forward_passes == alone.usage.forward_passes
    check_lossless(engine)


def test_ctrl_c_in_a_run_of_asyncio_cancels_it() -> None:
    engine, forward = engine_of(), FakeModel.forward

    def pressing(self: FakeModel, batch: StepBatch) -> torch.Tensor:
        signal.raise_signal(signal.SIGINT)  # in the thread of the step; Python calls the handler in the main thread
        return forward(self, batch)

    async def main() -> None:
        await engine.arun(RECORD, {"title": "a TV"}, sampling=WARM)

    engine.model.forward = MethodType(pressing, engine.model)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    check_lossless(engine)


def test_a_handler_of_the_caller_is_called_between_steps_and_stays() -> None:
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(engine.scheduler.forward_passes))
    engine = engine_of()
    try:
        handler = signal.getsignal(signal.SIGINT)
        with Interruption(3000, press).watching():
            answer = of_one(RECORD, {"title": "a TV"})(engine)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(pressed) == 1
    assert answer == of_one(RECORD, {"title": "a TV"})(engine_of())


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with hold_interrupts():
            press()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_is_installed_inside_stays() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with hold_interrupts():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_first_ctrl_c_waits_for_the_end_and_the_second_arrives_at_once() -> None:
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        with hold_interrupts(), hold_interrupts():
            press()
            seen.append("waited")
        raise AssertionError("nothing was raised at the end")
    with pytest.raises(KeyboardInterrupt), hold_interrupts():
        press()
        press()
        seen.append("never")
    assert seen == ["waited"]


def test_ctrl_c_stops_a_forward_pass_at_once() -> None:
    engine = engine_of()
    forward, ended = engine.model.forward, []

    def pressing(batch: StepBatch) -> torch.Tensor:
        signal.raise_signal(signal.SIGINT)
        ended.append("the pass")
        return forward(batch)

    engine.model.forward = pressing  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        of_one(RECORD, {"title": "a TV"})(engine)
    assert not ended
    check_lossless(engine)


def test_a_validator_that_calls_another_engine_inside_a_step_may_be_interrupted() -> None:
    engine, other, is_pressing = engine_of(), engine_of(), [True]

    class Asking(BaseModel):
        brand: str
        items: list[Any]
        rest: str

        @field_validator("rest")
        @classmethod
        def ask(cls, rest: str) -> str:
            if is_pressing:
                is_pressing.clear()
                press()
            other.run(PRODUCT, {"title": "rest"}, sampling=WARM)
            return rest

    with pytest.raises(KeyboardInterrupt):
        engine.run(RECORD, {"title": "a TV"}, sampling=WARM, model=Asking)
    check_lossless(engine)
    check_lossless(other)
    assert engine.run(RECORD, {"title": "a TV"}, sampling=WARM, model=Asking).value
    check_lossless(engine)
