"""The engine runs programs on a model: `run` one request, `batch` many, `stream` events, `arun` for asyncio.

All requests of an engine share its forward passes. A pass is: admit requests and build a step, run the model, commit
what was fed, sample, and hand the tokens to their branches.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Unpack

import torch

from pastalang.errors import PastaError
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Program
from pastalang.runtime.binding.bound_plan import MakeGuide
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.call import Options, RunOptions, check_batch, check_size, options_of
from pastalang.runtime.constraints.compile import prepare_vocabulary
from pastalang.runtime.constraints.tagged_text import TaggedTextGuides
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.device_memory import describe_shortage, empty_caches, is_out_of_memory
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import BadInputs, LoadError, RunError
from pastalang.runtime.events import Done, Event, Failed
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.models.compatibility import check_tokenizer
from pastalang.runtime.models.loading import LoadedModel, load_model
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.training_note import TrainingNote, check_mode
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.outcome import outcome_of
from pastalang.runtime.plan_cache import PlanCache
from pastalang.runtime.repair.policy import Policy, policy_for
from pastalang.runtime.repair.review import Review
from pastalang.runtime.result import Result
from pastalang.runtime.sampling.sampler import Outcome, Sampler
from pastalang.runtime.scheduler.probes import note_details
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.scheduler import Limits, PendingSample, ScheduleFilter, Scheduler

CELLS = 8192


@dataclass(frozen=True, slots=True)
class _Call:
    """What a call asks for, the same for all inputs of a batch."""

    plan: Plan
    options: Options
    policy: Policy | None


class Engine:
    """Runs programs on one model.

        engine = pastalang.Engine.load("pasta-mini")
        program = pastalang.load("product.pasta")
        result = engine.run(program, {"title": "Sharp 42 inch TV"})
        result.value, result.usage.forward_passes

    `load` takes a folder, a name on the hub, or a `transformers` model with its tokenizer. `run` returns a `Result`;
    `stream` yields events while fields are written; `batch` runs many inputs in the same forward passes; `arun` is for
    asyncio. An engine may be used from several threads: calls take turns.
    """

    # Whether every run compares its passes with those that its plan asks for. Runs with `details` always do.
    checks_passes: ClassVar[bool] = False

    def __init__(
        self,
        model: Model,
        tokenizer: Any,
        *,
        limits: Limits | None = None,
        prefix_cells: int | None = None,
        trained_for: TrainingNote | None = None,
        guides: MakeGuide | None = None,
        schedule_filter: ScheduleFilter | None = None,
    ) -> None:
        """Use `Engine.load` unless you bring a model of your own kind. `guides` and `schedule_filter` are for tests.

        A run in a mode that is not in `trained_for` is refused unless it is called with `any_mode=True`.
        """
        if prefix_cells is not None:
            check_size("prefix_cells", prefix_cells, minimum=0)
        if limits is not None and not isinstance(limits, Limits):
            raise BadInputs(f"`limits` must be a pastalang.Limits, not {limits!r:.60}")
        self.encoder = Encoder(tokenizer)
        check_tokenizer(model, self.encoder)
        self.model = model
        self.limits = limits or Limits()
        self.trained_for = trained_for
        self.scheduler = Scheduler(
            cells=model.cells, max_position=model.max_position, limits=self.limits, schedule_filter=schedule_filter,
            prefix_cells=model.cells // 4 if prefix_cells is None else prefix_cells,
        )  # fmt: skip
        vocabulary = vocabulary_of(tokenizer, size=model.vocabulary, ends=self.encoder.ends, encode=self.encoder.text)
        self._vocabulary = Tokens(vocabulary)
        make_guide = TaggedTextGuides(self._vocabulary, self.encoder, guides or GuideCache(self._vocabulary))
        self._plans = PlanCache(self.encoder, make_guide)
        self._sampler = Sampler(model.vocabulary)
        self._lock = threading.RLock()
        self._submitted = 0

    def __repr__(self) -> str:
        model = self.model
        modes = (
            ""
            if self.trained_for is None
            else f", trained for {', '.join(mode.value for mode in self.trained_for.modes)}"
        )
        size = f"{model.cells:,} cells, {model.max_position + 1:,} positions, {model.vocabulary:,} tokens"
        return f"<Engine on {model.device} in {model.dtype}: {size}{modes}>"

    @staticmethod
    def load(
        source: str | Path | tuple[Any, Any],
        *,
        device: str | None = None,
        dtype: torch.dtype | None = None,
        cells: int = CELLS,
        limits: Limits | None = None,
        prefix_cells: int | None = None,
        packed: bool = True,
    ) -> Engine:
        """Load a model: a folder, a name on the hub, `"pasta-mini"`, or a pair of a `transformers` model and tokenizer.

        `cells` is the size of the KV cache in tokens. Weights loaded onto a CPU are `packed` into the layout that its
        kernels read fastest; a model passed as a pair is never changed. A file `pastalang.json` next to the weights
        names the modes they were trained for. Raises `LoadError`.
        """
        check_size("cells", cells, minimum=1)
        if isinstance(source, tuple):
            if len(source) != 2 or not hasattr(source[0], "config"):
                raise LoadError("pass a loaded model as a pair: a causal model of transformers and its tokenizer")
            found = LoadedModel(*source, trained_for=None)
        else:
            found = load_model(source, device=device, dtype=dtype, packed=packed)
        try:
            engine = Engine(
                TransformersModel(found.weights, cells=cells), found.tokenizer, limits=limits,
                prefix_cells=prefix_cells, trained_for=found.trained_for,
            )  # fmt: skip
        except MemoryError as problem:
            raise LoadError(f"this machine has no memory for a KV cache of {cells} cells: {problem}") from problem
        prepare_vocabulary(engine._vocabulary)  # so that the first guides are not slow
        return engine

    # ── what people call ─────────────────────────────────────────────────────────────────────────────────

    def run(self, program: Program | Plan, inputs: Mapping[str, Any], **options: Unpack[RunOptions]) -> Result:
        """Run a program on one set of inputs, a dict with a value for each input of the template.

        Options: `template`, `mode`, `any_mode`, `seed`, `sampling`, `model`, `repair`, `retry_below`, `keep_invalid`,
        `details`; see `pastalang.runtime.call.Options`. Raises `InputError` for wrong inputs, `PlanError` for a program
        that cannot be planned, `LoadError` for a mode that the weights do not know, `RunError` if decoding fails.
        """
        request = self._request(self._call(program, options), inputs, with_events=False)
        try:
            self._submit(request)
            while not request.is_over:
                self._step_for(request)
        finally:
            self._cancel([request])
        return _result_or_error(self._outcome_of(request))

    def stream(
        self, program: Program | Plan, inputs: Mapping[str, Any], **options: Unpack[RunOptions]
    ) -> Iterator[Event]:
        """Yield events while a program runs; the last one is `Done` or `Failed`. Takes the options of `run`.

        The run begins with the first event that is taken. Closing the iterator cancels it.
        """
        return self._stream(self._request(self._call(program, options), inputs, with_events=True))

    def batch(
        self, program: Program | Plan, inputs: Sequence[Mapping[str, Any]], **options: Unpack[RunOptions]
    ) -> list[Result | PastaError]:
        """Run a program on many sets of inputs in the same forward passes. Takes the options of `run`.

        The list has a result or an error for each set of inputs, in their order. An error ends its own request only.
        """
        call = self._call(program, options)
        check_batch(inputs)
        outcomes: list[Result | PastaError | None] = []
        running: deque[tuple[int, RequestState]] = deque()
        for index, one in enumerate(inputs):
            outcomes.append(None)
            try:
                running.append((index, self._request(call, one, with_events=False)))
            except PastaError as problem:
                outcomes[index] = problem
        try:
            for _, request in running:
                self._submit(request)
            while running:
                self._step_for(running[0][1])
                while running and running[0][1].is_over:
                    index, request = running.popleft()
                    outcomes[index] = self._outcome_of(request)
        finally:
            self._cancel([request for _, request in running])
        return [one for one in outcomes if one is not None]

    async def arun(self, program: Program | Plan, inputs: Mapping[str, Any], **options: Unpack[RunOptions]) -> Result:
        """`run` for asyncio: concurrent calls share forward passes. Cancelling the task cancels the run."""
        request = self._submit(self._request(self._call(program, options), inputs, with_events=False))
        try:
            while not request.is_over:
                step = asyncio.ensure_future(asyncio.to_thread(self._step_for, request))
                try:
                    await asyncio.shield(step)
                except asyncio.CancelledError:
                    await step  # a step in a thread cannot be stopped in the middle
                    raise
        except BaseException:
            self._cancel([request])
            raise
        return _result_or_error(self._outcome_of(request))

    def plan(self, program: Program | Plan, *, template: str | None = None, mode: str | Mode = Mode.STRICT) -> Plan:
        """The plan that `run` uses; the same object for the same program. Raises `BadInputs` or `PlanError`."""
        return self._plans.plan(program, template=template, mode=mode)

    def check_integrity(self) -> None:
        """Assert that no cell is lost or owned twice."""
        with self._lock:
            self.scheduler.check_integrity()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, program: Program | Plan, given: RunOptions) -> _Call:
        options = options_of(given)
        plan = self.plan(program, template=options.template, mode=options.mode)
        if not options.any_mode:
            check_mode(self.trained_for, plan.mode)
        return _Call(plan, options, policy_for(plan, options))

    def _request(self, call: _Call, inputs: Mapping[str, Any], *, with_events: bool) -> RequestState:
        values = bind_inputs(call.plan, inputs)
        options = call.options
        make_reviewer = None if call.policy is None else partial(Review, call.policy)
        with self._lock:
            self._submitted += 1
            return RequestState(
                self._plans.bound(call.plan), values, number=self._submitted, seed=options.seed, base=options.sampling,
                make_reviewer=make_reviewer, details=options.details, with_events=with_events,
            )  # fmt: skip

    def _submit(self, request: RequestState) -> RequestState:
        with self._lock:
            request.started_at = time.perf_counter()
            self.scheduler.submit(request)
        return request

    def _stream(self, request: RequestState) -> Iterator[Event]:
        try:
            self._submit(request)
            while not request.is_over:
                self._step_for(request)
                yield from request.events.take()
            yield from request.events.take()  # another caller may have run the last step
            outcome = self._outcome_of(request)
            if isinstance(outcome, Result):
                yield Done(outcome)
            else:
                assert isinstance(outcome, RunError)
                yield Failed(outcome)
        finally:
            self._cancel([request])

    def _cancel(self, requests: Sequence[RequestState]) -> None:
        with self._lock:
            for request in requests:
                self.scheduler.cancel(request)

    def _outcome_of(self, request: RequestState) -> Result | PastaError:
        return outcome_of(request, self.encoder, chunk=self.limits.chunk, check_passes=self.checks_passes)

    # ── one forward pass ─────────────────────────────────────────────────────────────────────────────────

    def _step_for(self, request: RequestState) -> None:
        with self._lock:
            if not request.is_over:
                self._step()

    def _step(self) -> None:
        """One forward pass for all active requests."""
        with self._lock:
            logits = self._forward()
            if logits is not None:
                pending = self.scheduler.commit()
                while pending:
                    pending = self.scheduler.accept(self._sample(logits, pending))
            for request in self.scheduler.end_step():
                request.ended_at = time.perf_counter()

    def _forward(self) -> torch.Tensor | None:
        """The logits of the next step; None if there is nothing to feed. A device that runs out of memory is given
        smaller steps."""
        while (step := self.scheduler.schedule()) is not None:
            try:
                return self.model.forward(step.batch)
            except BaseException as problem:
                if not is_out_of_memory(problem):
                    self.scheduler.roll_back()
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


def _result_or_error(outcome: Result | PastaError) -> Result:
    if isinstance(outcome, PastaError):
        raise outcome
    return outcome
