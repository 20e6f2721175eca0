"""The scheduler: requests come and go, a step for all of them goes out, drawn tokens come back. No tensors.

submit ──> waiting ──> active ── next_step() ──> Step ── the model ── asks / tell ──> … ──> over
              ^                      │
              └── set back, where the memory is too small for all of them at once
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pastalang.runtime.decode.sampler import Ask, Choice, Outcome
from pastalang.runtime.errors import BadInputs, Cancelled, OutOfMemory, RunError
from pastalang.runtime.scheduler.admission import Admission, cells_wanted
from pastalang.runtime.scheduler.branch import BranchState, Source
from pastalang.runtime.scheduler.capacity_errors import check_length, too_small
from pastalang.runtime.scheduler.cells import Cells
from pastalang.runtime.scheduler.interpreter import accept_token, advance, try_join
from pastalang.runtime.scheduler.joins import prefetch_joined
from pastalang.runtime.scheduler.late_rows import close_rows, open_late_rows, rollback_step
from pastalang.runtime.scheduler.prefix_cache import PrefixCache, leading_tokens
from pastalang.runtime.scheduler.reclaim import end_aside, release_all, release_dead
from pastalang.runtime.scheduler.request import BranchOwner, RequestState
from pastalang.runtime.scheduler.sample_request import sample_error, sample_request
from pastalang.runtime.scheduler.step_budget import StepBudget
from pastalang.runtime.scheduler.step_builder import Rows, Step, StepBuilder, commit_step
from pastalang.runtime.step import Edit


@dataclass(frozen=True, slots=True)
class Limits:
    """`chunk`: the most tokens of one branch in one step. `requests`: how many may be active at once."""

    chunk: int | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("chunk", self.chunk), ("requests", self.requests)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise BadInputs(f"`{name}` is a whole number from 1 on, not {value!r}")


# Says which branches stand still in the coming step: for tests of schedules.
ScheduleFilter = Callable[[BranchState], bool]


@dataclass(frozen=True, slots=True)
class PendingSample:
    """A branch that draws, and the row of the logits that it draws from."""

    branch: BranchState
    row: int


_MOST_REVIEWS = 1_000  # one behind the other without a single draw


class Scheduler:
    def __init__(
        self,
        *,
        cells: int,
        max_position: int,
        limits: Limits | None = None,
        prefix_cells: int = 0,
        may_move: ScheduleFilter | None = None,
    ) -> None:
        self.cells = Cells(cells)
        self.prefix = PrefixCache(prefix_cells)
        self.breadth = StepBudget(cells)
        self.forward_passes = 0
        self._limits = limits or Limits()
        self._max_position = max_position
        self._may_move = may_move
        self._rows = Rows()
        self._waiting: deque[RequestState] = deque()
        self._active: list[RequestState] = []
        self._over: list[RequestState] = []
        self._step: Step | None = None
        self._row_numbers: dict[Source, int] = {}
        self._room = Admission(self.cells)
        self._is_crowded = False

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, request: RequestState) -> None:
        self._waiting.append(request)

    def cancel(self, request: RequestState) -> None:
        """Between steps, at any time: everything that it holds is given back."""
        if not request.is_over:
            self._fail(request, Cancelled("the run was cancelled", plan=request.plan))
            self._over.remove(request)

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._active and not self._over

    @property
    def active(self) -> tuple[RequestState, ...]:
        return tuple(self._active)

    def check_integrity(self) -> None:
        """Assert that every cell has exactly one owner, and that requests which are over own none."""
        requests = (*self._active, *self._waiting)
        held = [branch.cells for request in requests for branch in request.all_branches]
        self.cells.check_integrity([*held, *(node.cells for node in self.prefix.nodes)])

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────

    def next_step(self) -> Step | None:
        """What to feed next; None where nothing is left to do, or requests are over without a step."""
        while True:
            self._admit()
            if self._over or not self._active:
                return None
            step = self._feed()
            if step is not None:
                self._step = step
                self.forward_passes += 1
                return step
            self._make_room()

    def rollback_step(self) -> None:
        """The step could not be run: all is as it was before it."""
        assert self._step is not None
        rollback_step(self._step, self._all_branches(), self.cells, self._rows)
        self.forward_passes -= 1
        self._step = None

    def narrow(self, reason: str, *, can_be_smaller: bool) -> None:
        """The device has no memory for the step: fewer tokens at once from now on, or an end to those who asked."""
        assert self._step is not None
        step = self._step
        self.rollback_step()
        if can_be_smaller and self.breadth.narrow(len(step.batch)):
            return
        asked = dict.fromkeys(branch.request for branch in step.fed if branch.request is not self.prefix.owner)
        for request in list(asked or self._active):
            self._fail(request, OutOfMemory(reason, plan=request.plan))

    def drawings(self) -> list[PendingSample]:
        """Who draws from the logits of the step just run."""
        assert self._step is not None
        self.breadth.went_well()
        commit_step(self._step, kept=self.prefix.owner)
        self._row_numbers = {source: row for row, source in enumerate(self._step.sources)}
        return [
            PendingSample(branch, row)
            for source, row in self._row_numbers.items()
            for branch in source.branch.waiting.pop(source.index, ())
        ]

    def ask(self, drawing: PendingSample) -> Ask | None:
        """How a branch draws; None where its guide failed, and its request is over."""
        asked: list[Ask] = []
        with self.blamed_on(drawing.branch.request):
            asked.append(sample_request(drawing.branch))
        return asked[0] if asked else None

    def tell(self, told: Iterable[tuple[PendingSample, Outcome]]) -> list[PendingSample]:
        """Drawn tokens go to their branches. Gives those that now draw from logits of this same step."""
        touched: dict[RequestState, None] = {}
        for drawing, outcome in told:
            request = drawing.branch.request
            if drawing.branch in request.aside:
                end_aside(drawing.branch, self.cells, self._rows)
            elif not request.is_over:
                touched[request] = None
                with self.blamed_on(request):
                    if not isinstance(outcome, Choice):
                        raise sample_error(drawing.branch, outcome)
                    request.attended += drawing.branch.sees + len(drawing.branch.tokens)
                    accept_token(drawing.branch, outcome.token, outcome.log_probability, request.forward_passes)
        return [drawing for request in touched for drawing in self._go_on(request)]

    def end_step(self) -> tuple[RequestState, ...]:
        """Give back what is dead; gives the requests that are over since the last call."""
        self._step = None
        for request in list(self._active):
            if request.is_waiting:
                release_dead(request, self.cells, self._rows)
            else:
                self._finish(request)
        over = tuple(self._over)
        self._over.clear()
        return over

    # ── drawing ──────────────────────────────────────────────────────────────────────────────────────────

    def _go_on(self, request: RequestState) -> list[PendingSample]:
        """Branches that wait for others go on where they can; late ones draw from the rows of this step."""
        if request.is_over:
            return []
        with self.blamed_on(request):
            _join_ready(request)
            self._check_lengths(request)
        if request.error is not None:
            return []
        ready, request.ready = request.ready, []
        return [PendingSample(branch, self._row_of(source)) for branch, source in ready]

    def _check_lengths(self, request: RequestState) -> None:
        for branch in request.hungry:
            check_length(branch, self._max_position)

    def _row_of(self, source: Source) -> int:
        assert source in self._row_numbers, f"the logits behind `{source.branch.name}` are gone"
        return self._row_numbers[source]

    @contextmanager
    def blamed_on(self, request: RequestState) -> Iterator[None]:
        """What goes wrong inside ends this request and no other one."""
        try:
            yield
        except RunError as error:
            self._fail(request, error)
        except Exception as problem:  # a guide, a tokenizer or our own mistake: its batch mates go on all the same
            internal = RunError(f"internal error: {type(problem).__name__}: {problem}", plan=request.plan)
            internal.__cause__ = problem
            self._fail(request, internal)

    # ── feeding ──────────────────────────────────────────────────────────────────────────────────────────

    def _admit(self) -> None:
        while self._waiting and self._has_place():
            request = self._waiting[0]
            if not request.is_prepared:
                with self.blamed_on(request):
                    self._prepare(request)
                if request.is_over:
                    continue
            wanted = sum(map(cells_wanted, request.branches))
            if self._active and wanted > self._room.free(self._active):
                return
            self._waiting.popleft()
            self._active.append(request)
            request.root.is_admitted = True
            request.root.reserved = cells_wanted(request.root)

    def _has_place(self) -> bool:
        if self._active and (self._room.alone is not None or self._is_crowded):
            return False
        return self._limits.requests is None or len(self._active) < self._limits.requests

    def _prepare(self, request: RequestState) -> None:
        request.is_prepared = True
        leading = leading_tokens(request)
        prefix = self.prefix.start(leading[:-1], self.cells)
        request.reused_tokens = prefix.reused
        root = request.begin(prefix)
        advance(root)
        _join_ready(request)
        self._check_lengths(request)
        if not request.is_waiting:
            self._waiting.remove(request)
            self._active.append(request)
            self._finish(request)

    def _feed(self) -> Step | None:
        """Where those that may not move are all that could, they move all the same: nobody rests for ever."""
        step = self._put_together(self._may_move)
        if step is None and self._may_move is not None:
            step = self._put_together(None)
        return step

    def _put_together(self, may_move: ScheduleFilter | None) -> Step | None:
        edits: list[Edit] = []
        for row in self.prefix.owner.idle_rows:
            self._rows.release(row)
        self.prefix.owner.idle_rows.clear()
        owners: list[BranchOwner] = [self.prefix.owner, *self._active]
        for owner in owners:
            edits += open_late_rows(owner, self._rows)
        if self._limits.chunk is not None:
            for request in self._active:
                prefetch_joined(request)
        self._room.measure(self._active)
        feeder = StepBuilder(
            self.breadth.of(self.cells), self._rows, edits,
            chunk=self._limits.chunk, may_begin=self._room.may_begin, may_move=may_move,
        )  # fmt: skip
        hungry = [branch for owner in owners for branch in self._in_order(owner)]
        step = feeder.step(hungry)
        if step is None:
            close_rows({edit.row for edit in edits}, self._all_branches(), self._rows)
        return step

    def _in_order(self, owner: BranchOwner) -> list[BranchState]:
        return sorted(owner.hungry, key=lambda branch: branch.number, reverse=owner is self._room.alone)

    def _all_branches(self) -> Iterator[BranchState]:
        yield from self.prefix.nodes
        for request in (*self._active, *self._waiting):
            yield from request.all_branches

    # ── when nothing can move ────────────────────────────────────────────────────────────────────────────

    def _make_room(self) -> None:
        if self._give_up_aside():
            return
        stuck = [request for request in self._active if not request.hungry and not self.prefix.owner.hungry]
        for request in stuck:
            names = ", ".join(f"`{branch.name}`" for branch in request.joining) or "nobody"
            self._fail(request, RunError(f"nothing can go on: {names} waits (our mistake)", plan=request.plan))
        if stuck or self.prefix.evict(self.cells):
            return
        request = self._active[-1]
        if len(self._active) > 1:
            self._set_back(request)
        elif self._room.alone is not request:
            self._room.alone = request
            self._set_back(request)
        else:
            self._fail(request, too_small(request, self.cells))

    def _give_up_aside(self) -> bool:
        """What stands aside is worth no wait. Says whether anything did."""
        crowded = [request for request in self._active if request.aside]
        for request in crowded:
            for branch in list(request.aside):
                end_aside(branch, self.cells, self._rows)
            if not request.is_waiting:
                self._finish(request)
        return bool(crowded)

    def _set_back(self, request: RequestState) -> None:
        """Whoever is set back comes again when somebody has left, or it would take the same room and be set back
        again, for ever."""
        self._is_crowded = True
        release_all(request, self.cells, self._rows)
        self._active.remove(request)
        request.set_back()
        self._waiting.appendleft(request)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, request: RequestState) -> None:
        """Nothing is left to draw: the request is over, unless its reviewer takes something up again. What is written
        again without a draw is reviewed at once."""
        goes_on, rounds = request.reviewer is not None, 0
        while goes_on and not request.is_over and not request.is_waiting:
            goes_on, rounds = False, rounds + 1
            with self.blamed_on(request):
                if rounds > _MOST_REVIEWS:
                    raise RunError("what is written again comes to no end (our mistake)", plan=request.plan)
                goes_on = request.takes_up_again()
                _join_ready(request)
                self._check_lengths(request)
        if not request.is_over and not request.is_waiting:
            self._leave(request)

    def _fail(self, request: RequestState, error: RunError) -> None:
        request.error = error
        kept = [seen.branch for seen in request.branches[0].view] if request.branches else []
        self._leave(request)
        self.prefix.forget(kept, self.cells)

    def _leave(self, request: RequestState) -> None:
        request.is_over = True
        self._is_crowded = False
        release_all(request, self.cells, self._rows)
        if request in self._active:
            self._active.remove(request)
        else:
            self._waiting.remove(request)
        if self._room.alone is request:
            self._room.alone = None
        self._over.append(request)


def _join_ready(request: RequestState) -> None:
    went_on = bool(request.joining)
    while went_on:
        went_on = False
        for branch in list(request.joining):
            if try_join(branch):
                went_on = True
