"""The requests of an engine, and the forward passes that they share.

A pass is: admit requests and build a step, run the model, commit what was fed, sample, and hand the tokens to their
branches.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

import torch

from pastalang.runtime.device_memory import describe_shortage, empty_caches, is_out_of_memory
from pastalang.runtime.drafts.budget import measured_costs
from pastalang.runtime.drafts.drafter import EngineDrafter
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.interrupts import HeldInterrupts, hold_interrupts, in_thread
from pastalang.runtime.models.protocol import Compiles, Model
from pastalang.runtime.sampling.sampler import Outcome, Sampler
from pastalang.runtime.scheduler.probes import note_details
from pastalang.runtime.scheduler.scheduler import PendingSample, Scheduler
from pastalang.runtime.scheduler.state import RequestState

T = TypeVar("T")


@dataclass(slots=True)
class _Change:
    """A change of requests and memory. `is_undone`: it has failed, and all is as it was before."""

    loop: Loop
    interrupts: HeldInterrupts
    is_undone: bool = False
    is_over: bool = False


# The changes that what runs is called from, also in tasks of asyncio and their threads.
_AROUND: Final[ContextVar[tuple[_Change, ...]]] = ContextVar("changes", default=())


class Loop:
    """A model, a scheduler and the requests in progress. May be used from several threads: passes take turns."""

    def __init__(self, model: Model, scheduler: Scheduler, drafter: EngineDrafter) -> None:
        self.model = model
        self.scheduler = scheduler
        self.drafter = drafter
        self._sampler = Sampler(model.vocabulary)
        self._lock = threading.RLock()
        self._changer: int | None = None  # the thread that changes requests
        self._abandoned: deque[RequestState] = deque()  # were cancelled inside a change
        self._step_size = 0  # tokens of the current step

    def check_integrity(self) -> None:
        """Assert that no cell is lost or owned twice."""
        self._change(lambda change: self.scheduler.check_integrity())

    def measure_steps(self) -> None:
        """Measure what a step takes, once: drafts are weighed against it."""

        def measure(change: _Change) -> None:
            if self.drafter.costs is None and not self.scheduler.drafting.is_behind:
                self.drafter.weigh(measured_costs(self.model, self.scheduler.memory))

        self._change(measure)

    def forget_prompts(self) -> None:
        """What is decoded next reads all of its prompt, as the first time."""
        self._change(lambda change: self.scheduler.forget_prompts())

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, request: RequestState) -> None:

        def submit(change: _Change) -> None:
            request.schedule.started_at = time.perf_counter()
            self.scheduler.submit(request)

        self._change(submit)

    def cancel(self, requests: Sequence[RequestState]) -> None:
        """Requests that are over stay as they are. Inside a change, where the collector may close a stream that nobody
        reads, they are cancelled at its end."""
        if self._changer == threading.get_ident():
            self._abandoned += requests
            return
        self._end(requests, self.scheduler.cancel)

    def stop(self, requests: Sequence[RequestState]) -> None:
        """They are over with what they have written so far: nothing more of them is decoded."""
        self._end(requests, self.scheduler.stop)

    def _end(self, requests: Sequence[RequestState], end: Callable[[RequestState], None]) -> None:
        def act(change: _Change) -> None:
            for request in requests:
                end(request)

        _to_its_end(lambda: self._change(act))

    def compile_kernels(self) -> Iterator[None]:
        """What passes of any size need, a part at each step; without this, a pass compiles what it is the first to
        need. Steps are taken in the thread that makes the passes."""
        return self.model.compile_kernels() if isinstance(self.model, Compiles) else iter(())

    def step(self) -> None:
        """One forward pass for all requests."""
        self._change(self._step)

    def step_for(self, request: RequestState) -> None:
        """One forward pass, unless the request is over."""

        def step(change: _Change) -> None:
            if not request.is_over:
                self._step(change)

        self._change(step)

    async def astep_for(self, request: RequestState) -> None:
        await in_thread(lambda: self.step_for(request))

    async def asubmit(self, request: RequestState) -> None:
        await in_thread(lambda: self.submit(request))

    async def acancel(self, requests: Sequence[RequestState]) -> None:
        if not all(request.is_over for request in requests):
            await in_thread(lambda: self.cancel(requests))

    def in_turn(self, act: Callable[[], T]) -> T:
        """One thread at a time, and Ctrl-C waits for its end: what requests share, such as guides, is used in turn.

        Raises `BadInputs` inside a step of this loop, as for a validator that runs the engine which decodes its answer.
        """
        if any(change.loop is self and not change.is_over for change in _AROUND.get()):
            raise BadInputs(
                "an engine cannot be run from inside one of its own steps, by a validator or a hook: use another "
                "engine there, or run it afterwards"
            )
        with self._lock, hold_interrupts():
            return act()

    def _change(self, act: Callable[[_Change], None]) -> None:
        """A turn in which requests and their memory change.

        What is raised inside anyway (a second Ctrl-C, an exception from another thread, a mistake of ours) leaves
        them half changed: the scheduler then starts its requests again.

        The lock is taken by a `with` of its own and not by a context manager in Python: an exception from another
        thread that arrives inside the `__enter__` of one would leave it locked.
        """
        with self._lock, hold_interrupts() as interrupts:
            change, outer = _Change(self, interrupts), self._changer
            before = _AROUND.set((*_AROUND.get(), change))
            try:
                self._changer = threading.get_ident()
                act(change)
            except BaseException:
                if not change.is_undone:
                    _to_its_end(self.scheduler.start_again)
                raise
            finally:
                try:
                    if outer is None:
                        _to_its_end(self._cancel_abandoned)
                finally:
                    self._changer, change.is_over = outer, True
                    _AROUND.reset(before)

    def _cancel_abandoned(self) -> None:
        while self._abandoned:
            self.scheduler.cancel(self._abandoned[0])
            self._abandoned.popleft()

    # ── one forward pass ─────────────────────────────────────────────────────────────────────────────────

    def _step(self, change: _Change) -> None:
        """One forward pass for all active requests."""
        self.drafter.begin_step()
        logits = self._forward(change)
        if logits is not None:
            pending, draws = self.scheduler.commit(), 0
            while pending:
                draws += len(pending)
                pending = self.scheduler.accept(self._sample(logits, pending))
            self.drafter.look(logits, self.scheduler.drafting.probed())
            self.drafter.note_step(self._step_size, draws)
        self.scheduler.end_step()

    def _forward(self, change: _Change) -> torch.Tensor | None:
        """The logits of the next step; None if there is nothing to feed. A device that runs out of memory is given
        smaller steps."""
        while (step := self.scheduler.schedule()) is not None:
            try:
                self._step_size = len(step.batch)
                with change.interrupts.let_through():
                    return self.model.forward(step.batch)
            except BaseException as problem:
                if not self.model.carried.undoes_steps:
                    raise
                if not is_out_of_memory(problem):
                    self.scheduler.roll_back()
                    change.is_undone = True
                    raise
                reason, can_be_smaller = describe_shortage(problem, tokens=len(step.batch))
            empty_caches(self.model.device)  # only now: the exception held on to the tensors of the failed pass
            self.scheduler.shrink_step(reason, can_be_smaller=can_be_smaller)
        return None

    def _sample(self, logits: torch.Tensor, pending: list[PendingSample]) -> list[tuple[PendingSample, Outcome]]:
        asked = [(one, ask) for one in pending if (ask := self.scheduler.request_sample(one)) is not None]
        rows = [one.row for one, _ in asked]
        chosen = logits if rows == list(range(len(logits))) else logits[rows]
        outcomes = self._sampler.sample(chosen, [ask for _, ask in asked])
        for (one, _), row in zip(asked, chosen, strict=True):
            request = one.branch.request
            if request.options.details and not request.is_over:
                with self.scheduler.failing(request):
                    note_details(one.branch, row)
        return list(zip((one for one, _ in asked), outcomes, strict=True))


def _to_its_end(act: Callable[[], None]) -> None:
    """Act once more if an exception from outside comes between."""
    try:
        act()
    except BaseException:
        act()
        raise
