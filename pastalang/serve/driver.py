"""One task owns the engine: it admits waiting requests, steps the engine, and hands out what became of each.

    submit ──> queue (bounded, by priority) ──> in flight (bounded) ──step──> Ticket: text, events, outcome

A request begins in a thread: its program is planned and its text becomes tokens beside the passes of the others. It
leaves between two forward passes: a client that goes away frees its memory before the next one, and its place in the
queue at once. One whose reader has all that a limit of tokens lets through ends there. All passes are made in one
thread and all requests begin in another: libraries of kernels keep what they compile once for each thread, and so does
the allocator with what it has freed.

The kernels for passes of every size are compiled while nobody waits, and else one after each pass, so that the process
has soon taken the memory for them.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from pastalang.failures import PastaError
from pastalang.runtime.engine import Engine
from pastalang.runtime.errors import Cancelled, RunError
from pastalang.runtime.events import Event
from pastalang.runtime.partial_text import text_so_far
from pastalang.runtime.plan_cache import Runnable
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.state import RequestState
from pastalang.serve.errors import RequestError
from pastalang.serve.token_limit import TokenLimit, within

_LOG: Final = logging.getLogger("pastalang.serve")
_RETRY_AFTER: Final = 1  # seconds, at least
_QUICK: Final = 0.01  # seconds that a pass waits for requests that begin


class TooLate(RunError):
    """The request took longer than it may."""

    code = "timeout"


class InternalError(RunError):
    """A mistake of ours. What it says is for the log, not for clients."""

    code = "internal"


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a program. `deadline` is a moment of `time.monotonic`; a lower `priority` goes first. `limit` is the
    most tokens of its answer that are read, if the program does not know them."""

    program: Runnable
    inputs: Mapping[str, Any]
    options: Mapping[str, Any]
    repair: int | None = None  # how often a value is decoded again that does not pass the check of its schema
    streams: bool = False  # text and events are wanted while it runs
    priority: int = 0
    deadline: float | None = None
    keeper: str = ""  # whose kept prompts it may use
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """What is new since the last update: text in reading order, and events of fields."""

    text: str
    events: tuple[Event, ...]


@dataclass(slots=True, eq=False)
class Ticket:
    """A job that was accepted. Await `outcome`, or go through `updates`, which end with it."""

    job: Job
    limit: TokenLimit
    accepted: float
    outcome: asyncio.Future[Result | PastaError]
    news: asyncio.Queue[Update | None] = field(default_factory=asyncio.Queue)
    begun: asyncio.Event = field(default_factory=asyncio.Event)  # there is news, or it is over
    request: RequestState | None = None  # once it has begun
    sent: int = 0  # characters
    first_text: float | None = None
    is_cancelled: bool = False

    async def updates(self) -> AsyncGenerator[Update, None]:
        while (update := await self.news.get()) is not None:
            yield update


class Driver:
    """Owns an engine. `start` and `stop` are called by the server; `submit` by its handlers, all in one event loop."""

    def __init__(self, engine: Engine, *, max_in_flight: int, max_queue: int) -> None:
        self.engine = engine
        self.max_in_flight = max_in_flight
        self.max_queue = max_queue
        self.is_draining = False
        self.passes = 0
        self._queue: list[tuple[int, int, Ticket]] = []
        self._numbers = itertools.count()
        self._active: dict[Ticket, None] = {}  # in flight, those included that are about to begin
        self._beginning: asyncio.Task[None] | None = None
        self._compiling = engine.loop.compile_kernels()
        self._has_kernels = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pass_thread = ThreadPoolExecutor(1, "pastalang passes")
        self._begin_thread = ThreadPoolExecutor(1, "pastalang beginnings")
        self._seconds = 1.0  # of a recent job, for `Retry-After`

    @property
    def in_flight(self) -> int:
        return len(self._active)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def start(self) -> None:
        self._task = asyncio.create_task(self._drive(), name="pastalang driver")

    async def stop(self, *, seconds: float) -> None:
        """Accept nothing more, finish what was accepted, and give up what is left after that time."""
        self.is_draining = True
        end = time.monotonic() + seconds
        while (self._active or self._queue) and time.monotonic() < end:
            await asyncio.sleep(0.02)
        for ticket in (*self._active, *(ticket for *_, ticket in self._queue)):
            self.cancel(ticket)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._beginning is not None:
            await self._beginning
        await self._leave()
        self._pass_thread.shutdown()
        self._begin_thread.shutdown()

    def submit(self, job: Job) -> Ticket:
        """Raises `RequestError`: 429 if the queue is full, 503 if the server shuts down."""
        if self.is_draining:
            raise RequestError(503, "the server is shutting down", retry_after=5)
        if len(self._queue) + len(self._active) >= self.max_queue + self.max_in_flight:
            wait = max(_RETRY_AFTER, round(self._seconds * len(self._queue) / self.max_in_flight))
            raise RequestError(
                429, f"the server is busy: {len(self._queue)} requests are waiting", code="queue_full", retry_after=wait
            )
        limit = TokenLimit(job.limit, self.engine.encoder)
        ticket = Ticket(job, limit, time.monotonic(), asyncio.get_running_loop().create_future())
        heapq.heappush(self._queue, (job.priority, next(self._numbers), ticket))
        self._wake.set()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Its client has gone. One that waits leaves at once, one in flight before the next pass."""
        ticket.is_cancelled = True
        self._leave_queue()
        self._wake.set()

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────

    async def _drive(self) -> None:
        while True:
            await self._leave()
            await self._admit()
            if self._begun:
                await self._pass()
            elif self._has_kernels:
                self._wake.clear()
                await self._wake.wait()
            if not self._has_kernels:
                await self._in_pass_thread(self._compile)

    async def _pass(self) -> None:
        try:
            await self._in_pass_thread(self.engine.loop.step)
        except Exception as problem:  # a mistake of ours: who was in flight gets an error, and the server goes on
            _LOG.exception("a forward pass failed")
            await self._give_up(self._begun, InternalError(type(problem).__name__))
        else:
            self.passes += 1
        self._report()

    def _compile(self) -> None:
        try:
            self._has_kernels = next(self._compiling, self) is self
        except Exception:  # passes compile what they need by themselves
            _LOG.exception("a kernel could not be compiled")
            self._has_kernels = True

    async def _in_pass_thread(self, act: Callable[[], None]) -> None:
        """To its end: what a thread does cannot be stopped in the middle."""
        acting = asyncio.get_running_loop().run_in_executor(self._pass_thread, act)
        try:
            await asyncio.shield(acting)
        except asyncio.CancelledError:
            await acting
            raise

    async def _admit(self) -> None:
        """Let waiting requests begin beside the passes. Those that are quick to begin take part in the next one."""
        if self._beginning is None or self._beginning.done():
            if not self._has_room:
                return
            self._beginning = asyncio.create_task(self._begin_waiting(), name="pastalang beginnings")
        await asyncio.wait({self._beginning}, timeout=_QUICK)

    @property
    def _begun(self) -> list[Ticket]:
        return [ticket for ticket in self._active if ticket.request is not None]

    @property
    def _has_room(self) -> bool:
        return bool(self._queue) and len(self._active) < self.max_in_flight

    async def _begin_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._has_room:
            *_, ticket = heapq.heappop(self._queue)
            self._active[ticket] = None
            try:
                ticket.request = await loop.run_in_executor(self._begin_thread, self._begin, ticket.job)
            except PastaError as problem:
                await self._give_up([ticket], problem)
            except Exception as problem:
                _LOG.exception("a request could not begin")
                await self._give_up([ticket], InternalError(type(problem).__name__))
            self._wake.set()

    def _begin(self, job: Job) -> RequestState:
        request = self.engine.prepare(
            job.program, job.inputs, job.options, with_events=job.streams, keeper=job.keeper, repair=job.repair
        )
        self.engine.loop.submit(request)
        return request

    async def _leave(self) -> None:
        """Take out the requests whose clients have gone or whose time is up, and those that have been read enough."""
        self._leave_queue()
        for is_cancelled in (True, False):
            leaving = [one for one in self._begun if one.is_cancelled is is_cancelled and self._has_to_leave(one)]
            await self._give_up(leaving, _reason(is_cancelled))
        await self._stop([one for one in self._begun if one.limit.is_passed])

    def _leave_queue(self) -> None:
        leaving = [ticket for *_, ticket in self._queue if self._has_to_leave(ticket)]
        if leaving:
            self._queue = [entry for entry in self._queue if entry[-1] not in leaving]
            heapq.heapify(self._queue)
            for ticket in leaving:
                self._end(ticket, _reason(ticket.is_cancelled))

    def _has_to_leave(self, ticket: Ticket) -> bool:
        return ticket.is_cancelled or self._is_late(ticket)

    def _is_late(self, ticket: Ticket) -> bool:
        return ticket.job.deadline is not None and time.monotonic() > ticket.job.deadline

    def _report(self) -> None:
        for ticket in self._begun:
            request = ticket.request
            assert request is not None
            if request.is_over:
                self._finish(ticket, request)
            elif ticket.job.streams or ticket.job.limit is not None:
                text = ticket.limit.reach(text_so_far(request))
                if ticket.job.streams:
                    self._tell(ticket, text, tuple(request.events.take()))

    async def _stop(self, tickets: Sequence[Ticket]) -> None:
        """They end with what is written of them."""
        requests = {ticket: ticket.request for ticket in tickets if ticket.request is not None}
        if requests:
            await self._in_pass_thread(lambda: self.engine.loop.stop([*requests.values()]))
        for ticket, request in requests.items():
            self._finish(ticket, request)

    def _finish(self, ticket: Ticket, request: RequestState) -> None:
        del self._active[ticket]
        outcome = self.engine.outcome_of(request)
        if ticket.job.streams:
            text = within(outcome.text, ticket.job.limit, self.engine.encoder) if isinstance(outcome, Result) else ""
            self._tell(ticket, text, tuple(request.events.take()))
        self._seconds += 0.2 * (time.monotonic() - ticket.accepted - self._seconds)
        self._end(ticket, outcome)

    def _tell(self, ticket: Ticket, text: str, events: tuple[Event, ...]) -> None:
        new = text[ticket.sent :]
        if new or events:
            ticket.sent = max(ticket.sent, len(text))
            if new and ticket.first_text is None:
                ticket.first_text = time.monotonic()
            ticket.begun.set()
            ticket.news.put_nowait(Update(new, events))

    async def _give_up(self, tickets: Sequence[Ticket], reason: PastaError) -> None:
        if requests := [ticket.request for ticket in tickets if ticket.request is not None]:
            await asyncio.get_running_loop().run_in_executor(self._pass_thread, self.engine.loop.cancel, requests)
        for ticket in tickets:
            del self._active[ticket]
            self._end(ticket, reason)

    def _end(self, ticket: Ticket, outcome: Result | PastaError) -> None:
        if not ticket.outcome.done():
            ticket.outcome.set_result(outcome)
        ticket.begun.set()
        ticket.news.put_nowait(None)


def _reason(is_cancelled: bool) -> RunError:
    if is_cancelled:
        return Cancelled("the request was given up")
    return TooLate("the request took longer than its deadline allows")
