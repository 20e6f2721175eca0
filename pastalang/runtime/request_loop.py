"""The requests of an engine, and the forward passes that they share.

A pass is: admit requests and build a step, run the model, commit what was fed, sample, and hand the tokens to their
branches.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch

from pastalang.errors import PastaError
from pastalang.plan.plan import Mode, Plan
from pastalang.program.types import Drafts, OnTruncated, Sampling
from pastalang.runtime.binding.bound_plan import MakeGuide
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.call import (
    OPTIONS,
    Options,
    check_drafts,
    check_names,
    check_on_truncated,
    check_size,
    merged_inputs,
    options_of,
)
from pastalang.runtime.constraints.tagged_text import TaggedTextGuides
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.device_memory import describe_shortage, empty_caches, is_out_of_memory
from pastalang.runtime.drafts.budget import clock_of, measured_costs
from pastalang.runtime.drafts.drafter import EngineDrafter
from pastalang.runtime.drafts.probed import ProbeDrafts
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.interrupts import HeldInterrupts, hold_interrupts
from pastalang.runtime.models.compatibility import check_tokenizer
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.training_note import TrainingNote, check_mode, check_threads
from pastalang.runtime.outcome import outcome_of
from pastalang.runtime.plan_cache import PlanCache, Runnable
from pastalang.runtime.repair.policy import Policy, policy_for
from pastalang.runtime.repair.review import Review
from pastalang.runtime.result import Result
from pastalang.runtime.sampling.sampler import Outcome, Sampler
from pastalang.runtime.scheduler.probes import note_details
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.scheduler import PendingSample, ScheduleFilter, Scheduler
from pastalang.runtime.scheduler.step_budget import Limits


@dataclass(frozen=True, slots=True)
class Call:
    """What a call asks for, the same for all inputs of a batch."""

    plan: Plan
    options: Options
    policy: Policy | None


@dataclass(slots=True)
class _Change:
    """A change of requests and memory. `is_undone`: it has failed, and all is as it was before."""

    interrupts: HeldInterrupts
    is_undone: bool = False


class RequestLoop:
    """What `Engine` runs its calls on: a model, a scheduler, and the requests in progress."""

    # Whether every run compares its passes with those that its plan asks for. Runs with `details` always do.
    checks_passes: ClassVar[bool] = False

    def __init__(
        self,
        model: Model,
        tokenizer: Any = None,
        *,
        limits: Limits | None = None,
        prefix_cells: int | None = None,
        trained_for: TrainingNote | None = None,
        on_truncated: OnTruncated | None = None,
        drafts: Drafts = "off",
        guides: MakeGuide | None = None,
        schedule_filter: ScheduleFilter | None = None,
    ) -> None:
        """Use `Engine.load` unless you bring a model of your own kind. `guides` and `schedule_filter` are for tests.

        A run in a mode that is not in `trained_for` is refused unless it is called with `any_mode=True`.
        """
        if isinstance(model, str | os.PathLike) or tokenizer is None:
            shown = repr(os.fspath(model)) if isinstance(model, str | os.PathLike) else "model, tokenizer"
            raise TypeError(f"an engine is made by loading a model: `pastalang.Engine.load({shown})`")
        if prefix_cells is not None:
            check_size("prefix_cells", prefix_cells, minimum=0)
        if limits is not None and not isinstance(limits, Limits):
            raise BadInputs(f"`limits` must be a pastalang.Limits, not {limits!r:.60}")
        if problems := [*check_on_truncated(on_truncated), *check_drafts(drafts)]:
            raise BadInputs(*problems)
        self.encoder = Encoder(tokenizer)
        check_tokenizer(model, self.encoder)
        self.model = model
        self.limits = limits or Limits()
        self.trained_for = trained_for
        self.on_truncated = on_truncated
        vocabulary = vocabulary_of(tokenizer, size=model.vocabulary, ends=self.encoder.ends, encode=self.encoder.text)
        trained = model.probe_tokens
        ahead = None if trained is None else ProbeDrafts(trained, model.vocabulary, model.max_position)
        self._drafter = EngineDrafter(vocabulary, clock_of(model.device), ahead)
        self.drafts = drafts
        self.scheduler = Scheduler(
            cells=model.cells, max_position=model.max_position, limits=self.limits, schedule_filter=schedule_filter,
            prefix_cells=model.cells // 4 if prefix_cells is None else prefix_cells, drafter=self._drafter,
        )  # fmt: skip
        self._vocabulary = Tokens(vocabulary)
        make_guide = TaggedTextGuides(self._vocabulary, self.encoder, guides or GuideCache(self._vocabulary))
        self._plans = PlanCache(self.encoder, make_guide)
        self._sampler = Sampler(model.vocabulary)
        self._lock = threading.RLock()
        self._submitted = 0
        self._step_size = 0  # tokens of the current step

    def __repr__(self) -> str:
        model = self.model
        modes = (
            ""
            if self.trained_for is None
            else f", trained for {', '.join(mode.value for mode in self.trained_for.modes)}"
        )
        size = f"{model.cells:,} cells, {model.max_position + 1:,} positions, {model.vocabulary:,} tokens"
        return f"<Engine on {model.device} in {model.dtype}: {size}{modes}>"

    def plan(self, program: Runnable, *, template: str | None = None, mode: str | Mode = Mode.STRICT) -> Plan:
        """The plan that `run` uses; the same object for the same program. Raises `BadInputs` or `PlanError`."""
        return self._plans.plan(program, template=template, mode=mode)

    @property
    def longest_text(self) -> int:
        """A text of more characters is too long for the model, which need not be found out by tokenizing all of it.

        A token covers at most the bytes of the longest one. Normalization makes at most one character of three.
        """
        return 3 * self._vocabulary.longest * (self.model.max_position + 1)

    def check_integrity(self) -> None:
        """Assert that no cell is lost or owned twice."""
        with self._changing():
            self.scheduler.check_integrity()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, program: Runnable, given: Mapping[str, Any]) -> tuple[Call, dict[str, Any]]:
        """What is asked for, and the inputs that were passed by keyword."""
        options = options_of({name: value for name, value in given.items() if name in OPTIONS})
        plan = self.plan(program, template=options.template, mode=options.mode)
        named = {name: value for name, value in given.items() if name not in OPTIONS}
        check_names(named, [input.name for input in plan.inputs])
        if not options.any_mode:
            check_mode(self.trained_for, plan.mode)
            check_threads(self.trained_for, plan)
        return Call(plan, options, policy_for(plan, options, has_checks=self._plans.has_checks(plan))), named

    def _single_request(
        self, program: Runnable, inputs: Mapping[str, Any] | None, given: Mapping[str, Any], *, with_events: bool
    ) -> RequestState:
        call, named = self._call(program, given)
        inputs = {} if inputs is None else inputs
        return self._request(call, merged_inputs(inputs, named, call.plan, given), with_events=with_events)

    def _request(self, call: Call, inputs: Mapping[str, Any], *, with_events: bool) -> RequestState:
        values = bind_inputs(call.plan, inputs)
        options = call.options
        called = Sampling(on_truncated=options.on_truncated, drafts=options.drafts)
        engine_wide = Sampling(on_truncated=self.on_truncated, drafts=self.drafts)
        base = called.over(options.sampling or Sampling()).over(engine_wide)
        make_reviewer = None if call.policy is None else partial(Review, call.policy)
        with self._changing():
            self._submitted += 1
            request = RequestState(
                self._plans.bound(call.plan), values, number=self._submitted, seed=options.seed, base=base,
                make_reviewer=make_reviewer, details=options.details, with_events=with_events,
            )  # fmt: skip
            if self._drafter.costs is None and "auto" in request.drafts:
                self._drafter.costs = measured_costs(self.model, self.scheduler.memory)
            return request

    def _submit(self, request: RequestState) -> RequestState:
        with self._changing():
            request.started_at = time.perf_counter()
            self.scheduler.submit(request)
        return request

    def _cancel(self, requests: Sequence[RequestState]) -> None:
        def cancel() -> None:
            with self._changing():
                for request in requests:
                    self.scheduler.cancel(request)

        _to_its_end(cancel)

    def _outcome_of(self, request: RequestState) -> Result | PastaError:
        return outcome_of(request, self.encoder, chunk=self.limits.chunk, check_passes=self.checks_passes)

    # ── one forward pass ─────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _changing(self) -> Iterator[_Change]:
        """One thread at a time changes requests and their memory, and Ctrl-C waits until it has.

        What is raised inside all the same (a second Ctrl-C, an exception from another thread, a mistake of ours) leaves
        them half changed: the scheduler then starts its requests again.
        """
        with self._lock, hold_interrupts() as interrupts:
            change = _Change(interrupts)
            try:
                yield change
            except BaseException:
                if not change.is_undone:
                    _to_its_end(self.scheduler.start_again)
                raise

    def _step_for(self, request: RequestState) -> None:
        with self._changing() as change:
            if not request.is_over:
                self._step(change)

    def _step(self, change: _Change) -> None:
        """One forward pass for all active requests."""
        self._drafter.begin_step()
        logits = self._forward(change)
        if logits is not None:
            pending, draws = self.scheduler.commit(), 0
            while pending:
                draws += len(pending)
                pending = self.scheduler.accept(self._sample(logits, pending))
            self._drafter.look(logits, self.scheduler.drafting.probed())
            self._drafter.note_step(self._step_size, draws)
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
            if request.details and not request.is_over:
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
