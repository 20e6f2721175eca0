"""The calls that run a program on many inputs: `batch` on a list, `map` on any number of them, in bounded memory.

`RequestWindow` is what bounds it. A request takes a place in the window until its outcome has been handed out, so the
requests in flight, and the outcomes that wait for an earlier and slower one, are never more than its size.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, Unpack, overload

from pastalang.errors import PastaError
from pastalang.program.types import OnTruncated
from pastalang.runtime.call import IN_FLIGHT, RunOptions, check_batch, check_in_flight, check_seeds, merged_inputs
from pastalang.runtime.errors import BadInputs, RunError
from pastalang.runtime.plan_cache import Runnable
from pastalang.runtime.request_loop import RequestLoop
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.truncation import Truncation, warn

M = TypeVar("M")
Inputs: TypeAlias = Mapping[str, Any]
Given: TypeAlias = "Inputs | PastaError"
Outcome: TypeAlias = "Result[Any] | PastaError"

_WAITING: Final = 4  # the outcomes that may wait for an earlier one, for each request in flight


class ManyRequests(RequestLoop):
    """What `Engine` runs many inputs with."""

    @overload
    def batch(
        self, program: Runnable, inputs: Sequence[Inputs], *, seeds: Sequence[int] | None = ..., model: type[M],
        **options: Unpack[RunOptions],
    ) -> list[Result[M] | PastaError]: ...  # fmt: skip
    @overload
    def batch(
        self, program: Runnable, inputs: Sequence[Inputs], *, seeds: Sequence[int] | None = ...,
        model: object = None, **options: Unpack[RunOptions],
    ) -> list[Result | PastaError]: ...  # fmt: skip
    def batch(
        self, program: Runnable, inputs: Sequence[Inputs], *, seeds: Sequence[int] | None = None, **given: Any
    ) -> list[Result[Any] | PastaError]:
        """Run a program on many sets of inputs in the same forward passes. Takes the options of `run`.

        An input that is passed by keyword is the same for all of them. The list has a result or an error for each set
        of inputs, in their order. An error ends its own request only. For more inputs than a list should hold, `map`
        yields the results one after another.

        With one `seed`, sampled answers to different inputs share their random numbers: where the chances are alike,
        so are the draws. `seeds`, one for each set of inputs, make them independent.
        """
        check_batch(inputs)
        batch = list(inputs)
        if seeds is not None:
            check_seeds(seeds, batch, given)
        maker = self._maker(program, given, check_plan=False, seeds=seeds)
        pairs = self._flow(RequestWindow(maker, in_flight=None), iter(batch))
        found = [outcome for _, outcome in pairs]
        warn(cut for one in found if isinstance(one, Result) for cut in one.truncations)
        return found

    @overload
    def map(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int = ..., return_errors: Literal[False] = ...,
        model: type[M], **options: Unpack[RunOptions],
    ) -> Iterator[Result[M]]: ...  # fmt: skip
    @overload
    def map(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int = ..., return_errors: Literal[True],
        model: type[M], **options: Unpack[RunOptions],
    ) -> Iterator[Result[M] | PastaError]: ...  # fmt: skip
    @overload
    def map(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int = ..., return_errors: Literal[False] = ...,
        model: object = None, **options: Unpack[RunOptions],
    ) -> Iterator[Result]: ...  # fmt: skip
    @overload
    def map(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int = ..., return_errors: Literal[True],
        model: object = None, **options: Unpack[RunOptions],
    ) -> Iterator[Result | PastaError]: ...  # fmt: skip
    def map(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int = IN_FLIGHT, return_errors: bool = False,
        **given: Any,
    ) -> Iterator[Result[Any] | PastaError]:  # fmt: skip
        """Yield the result for each set of inputs, in their order, however many there are. Takes the options of `run`.

            for result in engine.map(program, ({"title": line} for line in open("titles.txt"))):
                print(result.value)

        `inputs` are read as they are needed. `in_flight` of them run at the same time, and the next one begins as soon
        as one ends; it does not change any result. Nothing runs while the caller does not ask for more, and memory does
        not grow with the number of inputs. Closing the iterator cancels what is in flight.

        The first error is raised, and ends the iterator. With `return_errors=True` it is yielded in its place instead,
        and the others go on. If `inputs` itself raises, what it gave before is yielded first. An error in place of
        inputs, such as that of a row which could not be read, counts as their result.
        """
        check_in_flight(in_flight)
        check_many(inputs)
        window = RequestWindow(self._maker(program, given), in_flight)
        return self._outcomes(self._flow(window, iter(inputs)), return_errors=return_errors)

    def map_unordered(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int = IN_FLIGHT, **given: Any
    ) -> Iterator[tuple[int, Result[Any] | PastaError]]:
        """`map` in the order in which requests end: yields the 0-based number of the inputs with its result or error.

        No result waits for an earlier and slower one.
        """
        check_in_flight(in_flight)
        check_many(inputs)
        return self._flow(RequestWindow(self._maker(program, given), in_flight, in_order=False), iter(inputs))

    def amap(
        self, program: Runnable, inputs: Iterable[Given] | AsyncIterable[Given], *, in_flight: int = IN_FLIGHT,
        return_errors: bool = False, **given: Any,
    ) -> AsyncGenerator[Result[Any] | PastaError, None]:  # fmt: skip
        """`map` for asyncio: `async for result in engine.amap(program, inputs)`.

        `inputs` may be an asynchronous iterable: what is in flight goes on while the next inputs are awaited. Leaving
        the loop early cancels what is in flight as soon as the iterator is closed, as `contextlib.aclosing` does.
        """
        check_in_flight(in_flight)
        check_many(inputs, can_be_async=True)
        window = RequestWindow(self._maker(program, given), in_flight)
        return self._aoutcomes(self._aflow(window, as_async(inputs)), return_errors=return_errors)

    # ── how they go through their inputs ─────────────────────────────────────────────────────────────────

    def _maker(
        self, program: Runnable, given: Mapping[str, Any], *, check_plan: bool = True,
        seeds: Sequence[int] | None = None,
    ) -> RequestMaker:  # fmt: skip
        """`seeds` are those of the requests in the order in which they are made."""
        call, named = self._call(program, given)
        if check_plan:
            self._plans.bound(call.plan)  # what is wrong with a plan is wrong for all inputs

        left = None if seeds is None else iter(seeds)

        def make(inputs: Inputs) -> RequestState:
            own = call if left is None else replace(call, options=replace(call.options, seed=next(left)))
            return self._request(own, merged_inputs(inputs, named, call.plan, given), with_events=False)

        return RequestMaker(make, self._submit, self._outcome_of)

    def _flow(self, window: RequestWindow, source: Iterator[Given]) -> Generator[tuple[int, Outcome], None, None]:
        ended: Exception | None = None
        try:
            while True:
                ended = ended or window.fill(source)
                yield from window.take()
                if (request := window.oldest) is not None:
                    self._step_for(request)
                elif ended is not None:
                    break
        finally:
            self._cancel(window.running)
        if not isinstance(ended, StopIteration):
            raise ended

    async def _aflow(
        self, window: RequestWindow, source: AsyncIterator[Given]
    ) -> AsyncGenerator[tuple[int, Outcome], None]:
        ended: Exception | None = None
        pull: asyncio.Task[Given] | None = None
        try:
            while True:
                if ended is None and pull is None and window.has_room:
                    pull = asyncio.create_task(_next_of(source))
                    await asyncio.sleep(0)  # inputs that are there already are taken without a step between them
                if pull is not None and (pull.done() or window.oldest is None):
                    try:
                        window.add(await pull)
                    except Exception as problem:
                        ended = problem
                    pull = None
                    continue
                for pair in window.take():
                    yield pair
                if (request := window.oldest) is not None:
                    await self._astep_for(request)
                elif ended is not None:
                    break
        finally:
            self._cancel(window.running)
            if pull is not None:
                pull.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await pull
        if not isinstance(ended, StopAsyncIteration):
            raise ended

    def _outcomes(self, pairs: Generator[tuple[int, Outcome], None, None], *, return_errors: bool) -> Iterator[Outcome]:
        warnings = _Warnings()
        with closing(pairs):
            for _, outcome in pairs:
                if isinstance(outcome, PastaError) and not return_errors:
                    raise outcome
                warnings.warn_of(outcome)
                yield outcome

    async def _aoutcomes(
        self, pairs: AsyncGenerator[tuple[int, Outcome], None], *, return_errors: bool
    ) -> AsyncGenerator[Outcome, None]:
        warnings = _Warnings()
        async with aclosing(pairs):
            async for _, outcome in pairs:
                if isinstance(outcome, PastaError) and not return_errors:
                    raise outcome
                warnings.warn_of(outcome)
                yield outcome

    async def _astep_for(self, request: RequestState) -> None:
        step = asyncio.ensure_future(asyncio.to_thread(self._step_for, request))
        try:
            await asyncio.shield(step)
        except asyncio.CancelledError:
            await step  # a step in a thread cannot be stopped in the middle
            raise


@dataclass(frozen=True, slots=True)
class RequestMaker:
    """How a window makes a request of inputs, submits it, and reads its outcome."""

    make: Callable[[Inputs], RequestState]  # raises `PastaError`
    submit: Callable[[RequestState], object]
    outcome: Callable[[RequestState], Outcome]


class RequestWindow:
    """The requests of one call: `in_flight` run at the same time; None runs all of them."""

    def __init__(self, maker: RequestMaker, in_flight: int | None, *, in_order: bool = True) -> None:
        self._maker = maker
        self._in_flight = in_flight
        self._in_order = in_order
        self._running: dict[int, RequestState] = {}  # by the number of the inputs
        self._ended: dict[int, Outcome] = {}  # not handed out yet
        self._added = self._taken = 0

    @property
    def has_room(self) -> bool:
        if self._in_flight is None:
            return True
        is_ahead = len(self._running) + len(self._ended) >= self._in_flight * (1 + _WAITING)
        return len(self._running) < self._in_flight and not is_ahead

    @property
    def running(self) -> tuple[RequestState, ...]:
        return tuple(self._running.values())

    @property
    def oldest(self) -> RequestState | None:
        """The request to go on with; None if all have ended."""
        return next(iter(self._running.values()), None)

    def add(self, inputs: Inputs | PastaError) -> None:
        """Begin a request. Inputs that are wrong have their error as outcome."""
        number, self._added = self._added, self._added + 1
        try:
            if isinstance(inputs, PastaError):
                raise inputs
            request = self._maker.make(inputs)
        except PastaError as problem:
            self._ended[number] = problem
            return
        except Exception as problem:  # a tokenizer or a mistake of ours: other requests go on all the same
            self._ended[number] = RunError(f"internal error: {type(problem).__name__}: {problem}")
            return
        self._running[number] = request
        self._maker.submit(request)

    def fill(self, source: Iterator[Given]) -> Exception | None:
        """Add inputs while there is room. Returns what the source raised, `StopIteration` at its end."""
        while self.has_room:
            try:
                inputs = next(source)
            except Exception as end:
                return end
            self.add(inputs)
        return None

    def take(self) -> Iterator[tuple[int, Outcome]]:
        """The outcomes that can be handed out, with the numbers of their inputs."""
        for number, request in list(self._running.items()):
            if request.is_over:
                del self._running[number]
                self._ended[number] = self._maker.outcome(request)
        while self._ended and (not self._in_order or self._taken in self._ended):
            number = self._taken if self._in_order else next(iter(self._ended))
            self._taken += 1
            yield number, self._ended.pop(number)


class _Warnings:
    """Warns once of each field that its limit has cut, when it is first cut."""

    def __init__(self) -> None:
        self._known: set[tuple[str, int, str, OnTruncated | None]] = set()

    def warn_of(self, outcome: Outcome) -> None:
        if isinstance(outcome, Result):
            warn([cut for cut in outcome.truncations if self._is_new(cut)])

    def _is_new(self, cut: Truncation) -> bool:
        key = (cut.path, cut.limit, cut.unit, cut.became)
        is_new = key not in self._known
        self._known.add(key)
        return is_new


async def _next_of(source: AsyncIterator[Given]) -> Given:
    return await anext(source)


async def as_async(inputs: Iterable[Given] | AsyncIterable[Given]) -> AsyncIterator[Given]:
    if isinstance(inputs, AsyncIterable):
        async for one in inputs:
            yield one
    else:
        for one in inputs:
            yield one


def check_many(inputs: object, *, can_be_async: bool = False) -> None:
    """Raises `BadInputs` unless there are inputs to go through."""
    if can_be_async and isinstance(inputs, AsyncIterable):
        return
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        raise BadInputs(f"`map` goes through many inputs, one dict for each request, not a {type(inputs).__name__}")
