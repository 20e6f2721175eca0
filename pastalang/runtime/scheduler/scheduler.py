"""The scheduler: what each forward pass is fed, which request is preempted, and which branch gets a sampled token.

submit ──> waiting ──> active ── schedule() ──> Step ── the model ── commit() / accept() ──> … ──> over
              ^           │
              └─ preempt ─┘  when the memory is too small for all active requests
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pastalang.runtime.errors import Cancelled, OutOfMemory, RunError, TooLong
from pastalang.runtime.models.carried import EVERYTHING, Carried
from pastalang.runtime.sampling.sampler import Outcome, Sample, SampleRequest
from pastalang.runtime.scheduler.admission import Admission, check_length, too_small
from pastalang.runtime.scheduler.draft_tree import Drafter, Drafting, Guess, pruned
from pastalang.runtime.scheduler.interpreter import accept_token, advance, try_join
from pastalang.runtime.scheduler.memory import Memory, release_all, release_dead
from pastalang.runtime.scheduler.prefix_cache import PrefixCache, leading_tokens
from pastalang.runtime.scheduler.probes import end_probe
from pastalang.runtime.scheduler.sample_request import sample_error, sample_request
from pastalang.runtime.scheduler.state import Again, BranchState, OwnerMemory, Pace, RequestState, Source
from pastalang.runtime.scheduler.step_budget import Limits, StepBudget
from pastalang.runtime.scheduler.step_builder import Step, StepBuilder, commit_step, open_late_rows, opened_rows
from pastalang.runtime.scheduler.visibility import prefetch_joined
from pastalang.runtime.step import Edit

_KEPT = 4  # of so many view rows, one may belong to a kept prompt
_MOST_REVIEWS = 1_000  # in a row, without a single draw between them


ScheduleFilter = Callable[[BranchState], bool]  # False: the branch pauses in the coming step. For tests of schedules


@dataclass(frozen=True, slots=True)
class PendingSample:
    """A branch that samples a token, and the row of logits it samples from."""

    branch: BranchState
    row: int


class Scheduler:
    def __init__(
        self,
        *,
        cells: int,
        max_position: int,
        limits: Limits | None = None,
        prefix_cells: int = 0,
        carried: Carried = EVERYTHING,
        schedule_filter: ScheduleFilter | None = None,
        drafter: Drafter | None = None,
    ) -> None:
        self.memory = Memory(cells, carried.rows)
        self.prefix = PrefixCache(prefix_cells, None if carried.rows is None else carried.rows // _KEPT)
        self.step_budget = StepBudget(cells)
        self.forward_passes = 0
        self._limits = limits or Limits()
        self._most_drafts = cells if carried.drafts is None else carried.drafts
        self._max_position = max_position
        self._schedule_filter = schedule_filter
        self.drafting = Drafting(self.memory, drafter)
        self._waiting: deque[RequestState] = deque()
        self._active: list[RequestState] = []
        self._over: list[RequestState] = []
        self._step: Step | None = None
        self._rows: dict[Source, int] = {}  # of the logits of the current step
        self._admission = Admission(self.memory, self.prefix)
        self._admission_paused = False

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, request: RequestState) -> None:
        """One that was cancelled before is over."""
        if not request.is_over:
            self._waiting.append(request)

    def cancel(self, request: RequestState) -> None:
        """Between steps, at any time. Everything that the request holds is given back."""
        if request.is_over:
            return
        error = Cancelled("the run was cancelled", plan=request.plan)
        if request in self._active or request in self._waiting:
            self._fail(request, error)
            self._over.remove(request)
        else:
            request.error, request.is_over = error, True

    def stop(self, request: RequestState) -> None:
        """Between steps: the request is over with what it has written so far. One that has not begun is cancelled."""
        if request.is_over or not request.branches:
            self.cancel(request)
            return
        request.schedule.is_stopped = True
        self._leave(request)
        self._over.remove(request)
        self.prefix.forget(request.options.number, self.memory, is_cancelled=True)

    def start_again(self) -> None:
        """A step was broken off, and nothing that it has half changed is trusted: the memory is empty again, no prompt
        is kept, and every request that is not over starts again. It may be called again until it succeeds."""
        requests = dict.fromkeys((*self._active, *self._waiting))  # while one moves, it may stand in both
        self.memory.clear()
        self.prefix.clear()
        self.drafting.clear()
        self._step = None
        self._rows.clear()
        self._admission_paused = False
        for request in requests:
            request.is_over = request.is_over or request.schedule.is_stopped or request.error is not None
            if not request.is_over:
                request.preempt()
        self._waiting = deque(request for request in requests if not request.is_over)
        self._active.clear()
        self._over.clear()

    def forget_prompts(self) -> None:
        """Drop the kept prompts that no request sees."""
        while self.prefix.evict(self.memory):
            pass

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._active and not self._over

    @property
    def active(self) -> tuple[RequestState, ...]:
        return tuple(self._active)

    def check_integrity(self) -> None:
        """Assert that every cell has exactly one owner, and that finished requests own none."""
        self.memory.check_integrity(self._all_branches())

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────

    def schedule(self) -> Step | None:
        """The next step. None if there is nothing to do, or requests ended without a step."""
        while True:
            self._admit()
            if self._over or not self._active:
                return None
            step = self._build_step()
            if step is not None:
                self._step = step
                self.forward_passes += 1
                return step
            self._make_room()

    def roll_back(self) -> None:
        """The step could not be run: everything is as it was before."""
        assert self._step is not None
        self.drafting.give_back(self._step.drafts)
        self.memory.roll_back(self._step.fed, self._step.opened_rows, self._all_branches())
        self.forward_passes -= 1
        self._step = None

    def shrink_step(self, reason: str, *, can_be_smaller: bool) -> None:
        """The device has no memory for the step: fewer tokens per step from now on, or the step's requests fail."""
        assert self._step is not None
        step = self._step
        self.roll_back()
        if step.drafts:
            self.step_budget.drop_drafts()
            return
        if can_be_smaller and self.step_budget.shrink(len(step.batch)):
            return
        requests = dict.fromkeys(branch.memory.owner.request for branch in step.fed)
        for request in [one for one in requests if one is not None] or list(self._active):
            self._fail(request, OutOfMemory(reason, plan=request.plan))

    def commit(self) -> list[PendingSample]:
        """The step has run. Gives the branches that sample from its logits."""
        assert self._step is not None
        self.step_budget.step_succeeded()
        commit_step(self._step)
        self.drafting.begin(self._step.drafts)
        self._rows = {source: row for row, source in enumerate(self._step.sources)}
        return [
            PendingSample(branch, row)
            for source, row in self._rows.items()
            for branch in source.branch.memory.waiting.pop(source.index, ())
        ]

    def request_sample(self, pending: PendingSample) -> SampleRequest | None:
        """How a branch samples. None if its guide failed and its request is over."""
        requested: list[SampleRequest] = []
        with self.failing(pending.branch.request):
            requested.append(sample_request(pending.branch))
        return requested[0] if requested else None

    def accept(self, samples: Iterable[tuple[PendingSample, Outcome]]) -> list[PendingSample]:
        """Hand sampled tokens to their branches. Gives the branches that now sample from logits of the same step."""
        touched: dict[RequestState, None] = {}
        for pending, outcome in samples:
            request = pending.branch.request
            if pending.branch in request.pending.probes:
                end_probe(pending.branch, self.memory)
            elif pending.branch.memory.is_held:  # not of a run that is over
                touched[request] = None
                with self.failing(request):
                    if not isinstance(outcome, Sample):
                        raise sample_error(pending.branch, outcome)
                    sequence, counts = pending.branch.sequence, request.counts
                    counts.attended += sequence.sees + len(sequence.tokens)
                    accept_token(pending.branch, outcome.token, outcome.log_probability, counts.forward_passes)
        return [pending for request in touched for pending in self._advance_waiting(request)]

    def end_step(self) -> None:
        """Give back what nothing can see any more."""
        self.drafting.end(() if self._step is None else self._step.drafts)
        self._step = None
        self._rows.clear()
        failed, self.drafting.failed = self.drafting.failed, {}
        for request, problem in failed.items():
            with self.failing(request):
                if not request.is_over:
                    raise problem
        for request in list(self._active):
            if request.is_waiting:
                release_dead(request, self.memory)
            else:
                self._finish(request)
        self._over.clear()

    # ── sampling ─────────────────────────────────────────────────────────────────────────────────────────

    def _advance_waiting(self, request: RequestState) -> list[PendingSample]:
        """Advance branches that wait for others. Those that begin after a token of this step sample from its logits."""
        if request.is_over:
            return []
        with self.failing(request):
            _join_ready(request)
            self._check_lengths(request)
        if request.error is not None:
            return []
        ready, request.pending.ready = request.pending.ready, []
        return [PendingSample(branch, self._row_of(source)) for branch, source in ready]

    def _check_lengths(self, request: RequestState) -> None:
        for branch in request.memory.to_feed:
            check_length(branch, self._max_position)

    def _too_long(self, request: RequestState) -> set[tuple[int, ...]]:
        """The documents in which something would be fed behind the last position."""
        return {one.document for one in request.memory.to_feed if one.sequence.position - 1 > self._max_position}

    def _row_of(self, source: Source) -> int:
        draft = source.branch.memory.draft
        if draft is not None and (row := draft.row_of(source.index)) is not None:
            return row
        assert source in self._rows, f"the logits after `{source.branch.name}` are gone"
        return self._rows[source]

    @contextmanager
    def failing(self, request: RequestState) -> Iterator[None]:
        """An error inside ends this request and no other."""
        try:
            yield
        except RunError as error:
            self._fail(request, error)
        except Exception as problem:  # a guide, a tokenizer or a mistake of ours: other requests go on anyway
            internal = RunError(f"internal error: {type(problem).__name__}: {problem}", plan=request.plan)
            internal.__cause__ = problem
            self._fail(request, internal)

    # ── building a step ──────────────────────────────────────────────────────────────────────────────────

    def _admit(self) -> None:
        while self._waiting and self._may_admit():
            request = self._waiting[0]
            if not request.schedule.is_prepared:
                with self.failing(request):
                    self._prepare(request)
                if request.is_over:
                    continue
            if self._active and not self._admission.has_room_for(request, self._active):
                return
            self._active.append(request)
            self._waiting.popleft()
            request.root.memory.is_admitted = True
            if len(self._active) > 1:
                for one in self._active:
                    one.schedule.had_company = True

    def _may_admit(self) -> bool:
        if self._active and self._admission_paused:
            return False
        return self._limits.requests is None or len(self._active) < self._limits.requests

    def _prepare(self, request: RequestState) -> None:
        request.schedule.is_prepared = True
        request.schedule.began = request.schedule.pace
        leading = leading_tokens(request)
        options = request.options
        prefix = self.prefix.start(leading[:-1], request=options.number, keeper=options.keeper)
        request.counts.reused_tokens = prefix.reused
        request.counts.kept_tokens = request.memory.cells_now = prefix.length
        request.begin(prefix)
        self._start_run(request)
        self.prefix.make_place(self.memory)
        if not request.is_waiting:
            self._active.append(request)
            self._waiting.remove(request)
            self._finish(request)

    def _build_step(self) -> Step | None:
        """If only paused branches could be fed, they are fed anyway: no branch pauses forever."""
        step = self._try_step(self._schedule_filter)
        if step is None and self._schedule_filter is not None:
            step = self._try_step(None)
        return step

    def _try_step(self, schedule_filter: ScheduleFilter | None) -> Step | None:
        edits: list[Edit] = self.drafting.show()
        owners = [self.prefix.owner, *(request.memory for request in self._active)]
        for owner in owners:
            edits += open_late_rows(owner, self.memory)
        if self._limits.chunk is not None:
            for request in self._active:
                prefetch_joined(request)
        self._admission.begin_step(self._active)
        builder = StepBuilder(
            self.memory, edits, most=self.step_budget.most, chunk=self._limits.chunk,
            may_begin=self._admission.may_begin, schedule_filter=schedule_filter,
        )  # fmt: skip
        draft = self._draft if self.step_budget.may_draft else None
        step = builder.step([branch for owner in owners for branch in self._in_order(owner)], draft)
        if step is None:
            self.memory.roll_back((), opened_rows(edits), self._all_branches())
        return step

    def _draft(self, branches: Sequence[BranchState], step: int, free: int) -> Sequence[Sequence[Guess]]:
        """Drafts take cells that are free and not reserved, and no position behind the model's last one."""
        most = min(free, self._admission.spare, self._most_drafts)
        trees = self.drafting.propose(branches, step=step, most=most)
        left = (self._max_position - branch.sequence.position + 1 for branch in branches)
        return [pruned(tree, depth) for tree, depth in zip(trees, left, strict=True)]

    def _in_order(self, owner: OwnerMemory) -> list[BranchState]:
        """Parents first; one branch at a time, the newest first, so that few are under way."""
        is_serial = owner.request is not None and owner.request.schedule.pace is Pace.SERIAL
        return sorted(owner.to_feed, key=lambda branch: branch.number, reverse=is_serial)

    def _all_branches(self) -> Iterator[BranchState]:
        yield from self.prefix.nodes
        for request in (*self._active, *self._waiting):
            yield from request.all_branches

    # ── when no branch can be fed ────────────────────────────────────────────────────────────────────────

    def _make_room(self) -> None:
        if self._drop_probes():
            return
        stuck = [request for request in self._active if not request.memory.to_feed and not self.prefix.owner.to_feed]
        for request in stuck:
            names = ", ".join(f"`{branch.name}`" for branch in request.pending.joining) or "nothing"
            error = RunError(f"internal error: no branch can go on, {names} still waits", plan=request.plan)
            self._fail(request, error)
        if stuck or self.prefix.evict(self.memory) or self._send_back():
            return
        newest = self._active[-1]
        schedule = newest.schedule
        if len(self._active) > 1 or schedule.had_company:
            schedule.pace = Pace.RESERVED
            self._preempt(newest)
        elif newest.keeps_unseen_tokens:
            self._preempt(newest)
            while self.prefix.evict(self.memory):
                pass
        elif newest.again is not None and (schedule.is_last_try or schedule.pace.next is None):
            self._fail(newest, too_small(newest, self.memory))
        elif schedule.pace.next is None:
            if schedule.answered is None or schedule.is_last_try:
                self._fail(newest, too_small(newest, self.memory))
            else:
                schedule.pace, schedule.is_last_try = schedule.answered, True
                self._preempt(newest)
        else:
            schedule.pace = schedule.pace.next
            if schedule.pace is not Pace.RELAXED:
                self._preempt(newest)

    def _drop_probes(self) -> bool:
        """Probes are not worth waiting for. Says whether there were any."""
        crowded = [request for request in self._active if request.pending.probes]
        for request in crowded:
            for branch in list(request.pending.probes):
                end_probe(branch, self.memory)
            if not request.is_waiting:
                self._finish(request)
        return bool(crowded)

    def _send_back(self) -> bool:
        """A prepared request that waits for room keeps the stretches of its prompt from being evicted. It lets go of
        them until another request has left. Says whether there was one."""
        prepared = [request for request in self._waiting if request.schedule.is_prepared]
        for request in prepared:
            self._admission_paused = True
            release_all(request, self.memory)
            request.start_over()
        return bool(prepared)

    def _preempt(self, request: RequestState) -> None:
        """The request starts again, first in the queue, once it is alone or another request has left. Earlier, it would
        take the same memory and be preempted again."""
        self._admission_paused = True
        release_all(request, self.memory)
        request.preempt()
        self._waiting.appendleft(request)
        self._active.remove(request)

    # ── the end of a request ─────────────────────────────────────────────────────────────────────────────

    def _finish(self, request: RequestState) -> None:
        """Nothing is left to sample: the request is over, unless its reviewer wants a part of the answer decoded again.
        A run that draws nothing is reviewed at once."""
        goes_on, runs = True, 0
        while goes_on and not request.is_over and not request.is_waiting:
            goes_on, runs = False, runs + 1
            with self.failing(request):
                if runs > _MOST_REVIEWS:
                    raise RunError("internal error: the repairs never come to an end", plan=request.plan)
                request.schedule.answered = request.schedule.began
                again = request.review()
                if again is not None:
                    self._begin_again(request, again)
                    goes_on = True
        if not request.is_over and not request.is_waiting:
            self._leave(request)

    def _begin_again(self, request: RequestState, again: Again) -> None:
        kept = request.prompt_kept(len(leading_tokens(request)) - 1)
        release_all(request, self.memory, kept)
        request.begin_again(again, kept)
        self._start_run(request)

    def _start_run(self, request: RequestState) -> None:
        advance(request.root)
        _join_ready(request)
        self._check_lengths(request)

    def _fail(self, request: RequestState, error: RunError) -> None:
        """The request is over, unless it has an answer already, and no room for what is decoded again."""
        if isinstance(error, OutOfMemory | TooLong) and (again := request.give_up(error, self._too_long(request))):
            with self.failing(request):
                self._begin_again(request, again)
            self._finish(request)
            return
        request.error = error
        self._leave(request)
        self.prefix.forget(request.options.number, self.memory, is_cancelled=isinstance(error, Cancelled))

    def _leave(self, request: RequestState) -> None:
        request.schedule.ended_at = time.perf_counter()
        request.is_over = True
        self.drafting.remember(request)
        self._admission_paused = False
        release_all(request, self.memory)
        if request in self._active:
            self._active.remove(request)
        else:
            self._waiting.remove(request)
        self._over.append(request)


def _join_ready(request: RequestState) -> None:
    went_on = bool(request.pending.joining)
    while went_on:
        went_on = False
        for branch in list(request.pending.joining):
            if try_join(branch):
                went_on = True
