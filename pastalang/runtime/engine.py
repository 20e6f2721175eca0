"""The engine: a model and a tokenizer come in once; then programs and inputs come in, results and events go out.

run      one request              batch    many, in the same passes
stream   one, event by event      arun     one of many that join and leave as they like
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import torch

from pastalang.errors import PastaError
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Program
from pastalang.runtime.binding.bound_plan import BoundPlan, MakeGuide
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.call import Options, RunOptions, options_of, template_of
from pastalang.runtime.chat import Encoder
from pastalang.runtime.decode.auto import AutoGuides
from pastalang.runtime.decode.guides import prepare
from pastalang.runtime.decode.sampler import Sampler
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.vocabulary import vocabulary_of
from pastalang.runtime.device_memory import empty_caches, is_shortage, problem_of
from pastalang.runtime.errors import BadInputs, LoadError, RunError
from pastalang.runtime.events import Done, Event, Failed
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.models.loading import Loaded, load_model
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.trained import TrainedFor, check_mode
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.outcome import outcome_of
from pastalang.runtime.repair.policy import Policy, policy_for
from pastalang.runtime.repair.review import Review
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.probes import note_details
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.scheduler import Limits, PendingSample, ScheduleFilter, Scheduler
from pastalang.runtime.scheduler.threads import with_threads

CELLS = 8192
PLANS = 64  # that are remembered, so that a program is planned once for many runs


@dataclass(frozen=True, slots=True)
class _Order:
    """What a call asks for, the same for all inputs of a batch."""

    plan: Plan
    options: Options
    policy: Policy | None


class Engine:
    """Not bound to a thread: calls take turns. `guides` and `may_move` are for tests.

    `trained_for`: the modes that the weights know; a run in another one is refused unless it says `any_mode`.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Any,
        *,
        limits: Limits | None = None,
        prefix_cells: int | None = None,
        trained_for: TrainedFor | None = None,
        guides: MakeGuide | None = None,
        may_move: ScheduleFilter | None = None,
    ) -> None:
        given: object = prefix_cells
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
            raise BadInputs(f"`prefix_cells` is a whole number from 0 on, not {prefix_cells!r}")
        if limits is not None and not isinstance(limits, Limits):
            raise BadInputs(f"`limits` are pastalang.Limits, not {limits!r:.60}")
        self.encoder = Encoder(tokenizer)
        _refuse_mismatch(model, self.encoder)
        self.model = model
        self.limits = limits or Limits()
        self.trained_for = trained_for
        self.scheduler = Scheduler(
            cells=model.cells, max_position=model.max_position, limits=self.limits, may_move=may_move,
            prefix_cells=model.cells // 4 if prefix_cells is None else prefix_cells,
        )  # fmt: skip
        vocabulary = vocabulary_of(tokenizer, size=model.vocabulary, ends=self.encoder.ends, encode=self.encoder.text)
        self._vocabulary = tokens = Tokens(vocabulary)
        self._guides = AutoGuides(tokens, self.encoder, guides or GuideCache(tokens))
        self._sampler = Sampler(model.vocabulary)
        self._lock = threading.RLock()
        self._submitted = 0
        self._planned: dict[tuple[int, str | None, Mode], tuple[Program, Plan]] = {}
        self._plans: dict[int, tuple[Plan, BoundPlan]] = {}

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
        """From a folder, a name on the hub, `pasta-mini`, or a transformers model and its tokenizer.

        What is noted beside the weights (`pastalang.json`) says which modes they were trained for; a model that is
        handed over has no note. Weights that are loaded here onto a CPU are `packed` for its kernels; those of a model
        that is handed over stay as they are.
        """
        given: object = cells
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise BadInputs(f"`cells` is a whole number from 1 on, not {cells!r}")
        if isinstance(source, tuple):
            if len(source) != 2 or not hasattr(source[0], "config"):
                raise LoadError("a model is handed over as a pair: a causal model of transformers and its tokenizer")
            found = Loaded(*source, trained_for=None)
        else:
            found = load_model(source, device=device, dtype=dtype, packed=packed)
        try:
            engine = Engine(
                TransformersModel(found.weights, cells=cells), found.tokenizer, limits=limits,
                prefix_cells=prefix_cells, trained_for=found.trained_for,
            )  # fmt: skip
        except MemoryError as problem:
            raise LoadError(f"a memory of {cells} cells is more than this machine can hold: {problem}") from problem
        prepare(engine._vocabulary)  # so that the first guides are not slow
        return engine

    # ── what people call ─────────────────────────────────────────────────────────────────────────────────

    def run(self, program: Program | Plan, inputs: Mapping[str, Any], **options: Unpack[RunOptions]) -> Result:
        """The options are described at `Options`. Raises `InputError`, `PlanError`, `LoadError` or a `RunError`."""
        for event in self.stream(program, inputs, **options):
            if isinstance(event, Done):
                return event.result
            if isinstance(event, Failed):
                raise event.error
        raise AssertionError("a run ends with `Done` or `Failed`")

    def stream(
        self, program: Program | Plan, inputs: Mapping[str, Any], **options: Unpack[RunOptions]
    ) -> Iterator[Event]:
        """The events of a run, the last one `Done` or `Failed`. It begins when the first one is asked for; closing the
        iterator gives everything back."""
        return self._stream(self._request(self._order(program, options), inputs))

    def batch(
        self, program: Program | Plan, inputs: Sequence[Mapping[str, Any]], **options: Unpack[RunOptions]
    ) -> list[Result | PastaError]:
        """Many requests in the same passes. What fails is an exception in the list; the others are not touched."""
        order = self._order(program, options)
        if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
            raise BadInputs(f"a batch is a list of inputs, one dict for each request, not a {type(inputs).__name__}")
        asked: list[RequestState | PastaError] = []
        for one in inputs:
            try:
                asked.append(self._request(order, one))
            except PastaError as problem:
                asked.append(problem)
        requests = [self._submit(one) for one in asked if isinstance(one, RequestState)]
        try:
            while not all(request.is_over for request in requests):
                self._step()
        except BaseException:
            self._cancel(requests)
            raise
        return [one if isinstance(one, PastaError) else self._outcome_of(one) for one in asked]

    async def arun(self, program: Program | Plan, inputs: Mapping[str, Any], **options: Unpack[RunOptions]) -> Result:
        """Runs beside all other `arun`s, in the same passes. Cancelling it gives everything back."""
        request = self._submit(self._request(self._order(program, options), inputs))
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
        outcome = self._outcome_of(request)
        if isinstance(outcome, PastaError):
            raise outcome
        return outcome

    def plan(self, program: Program | Plan, *, template: str | None = None, mode: str | Mode = Mode.STRICT) -> Plan:
        """The plan that `run` would run: the same one for the same program. Raises `BadInputs` or `PlanError`."""
        mode = options_of({"mode": mode, "template": template}).mode
        if isinstance(program, Plan):
            if template not in (None, program.template):
                raise BadInputs(f"the plan is one of the template `{program.template}`, not of `{template}`")
            return program
        if not isinstance(program, Program):
            raise TypeError(f"a program is what pastalang.compile or pastalang.load gives, not {program!r:.60}")
        key = id(program), template, Mode(mode)
        known = self._planned.get(key)
        if known is None or known[0] is not program:
            if len(self._planned) >= PLANS:
                self._planned.clear()
            chosen = template_of(program, template)
            known = self._planned[key] = program, build_plan(chosen, program, mode=Mode(mode))
        return known[1]

    def check_integrity(self) -> None:
        """Assert that no cell is lost or owned twice."""
        with self._lock:
            self.scheduler.check_integrity()

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────

    def _stream(self, request: RequestState) -> Iterator[Event]:
        try:
            self._submit(request)
            while not request.is_over:
                self._step_for(request)
                yield from request.take_events()
            yield from request.take_events()
            outcome = self._outcome_of(request)
            if isinstance(outcome, Result):
                yield Done(outcome)
            else:
                assert isinstance(outcome, RunError)
                yield Failed(outcome)
        finally:
            self._cancel([request])

    def _order(self, program: Program | Plan, given: RunOptions) -> _Order:
        """What a call asks for, its inputs left out. Raises what the call raises."""
        options = options_of(given)
        plan = self.plan(program, template=options.template, mode=options.mode)
        if not options.any_mode:
            check_mode(self.trained_for, plan.mode)
        return _Order(plan, options, policy_for(plan, options))

    def _request(self, order: _Order, inputs: Mapping[str, Any]) -> RequestState:
        values = bind_inputs(order.plan, inputs)
        options = order.options
        make_reviewer = None if order.policy is None else partial(Review, order.policy)
        with self._lock:
            self._submitted += 1
            return RequestState(
                self._tokens(order.plan), values, number=self._submitted, seed=options.seed, base=options.sampling,
                make_reviewer=make_reviewer, details=options.details,
            )  # fmt: skip

    def _submit(self, request: RequestState) -> RequestState:
        with self._lock:
            request.started_at = time.perf_counter()
            self.scheduler.submit(request)
        return request

    def _tokens(self, plan: Plan) -> BoundPlan:
        known = self._plans.get(id(plan))
        if known is None or known[0] is not plan:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            tokens = BoundPlan(with_threads(plan), self.encoder, self._guides)
            _ = tokens.turns  # a chat template that refuses them refuses the call
            tokens.refuse_what_cannot_fit()
            known = self._plans[id(plan)] = plan, tokens
        return known[1]

    def _step_for(self, request: RequestState) -> None:
        with self._lock:
            if not request.is_over:
                self._step()

    def _step(self) -> None:
        """One forward pass for everybody."""
        with self._lock:
            scheduler = self.scheduler
            logits = self._forward()
            if logits is not None:
                drawing = scheduler.drawings()
                while drawing:
                    drawing = scheduler.tell(self._draw(logits, drawing))
            for request in scheduler.end_step():
                request.ended_at = time.perf_counter()

    def _forward(self) -> torch.Tensor | None:
        """The logits of the next step, of as many tokens as the device has memory for; None where nobody asks."""
        while (step := self.scheduler.next_step()) is not None:
            try:
                return self.model.forward(step.batch)
            except BaseException as problem:
                if not is_shortage(problem):
                    self.scheduler.rollback_step()
                    raise
                told, can_be_smaller = problem_of(problem, tokens=len(step.batch))
            # Not before the exception is gone, which holds on to the tensors of the failed pass.
            empty_caches(self.model.device)
            self.scheduler.narrow(told, can_be_smaller=can_be_smaller)
        return None

    def _draw(self, logits: torch.Tensor, drawing: list[PendingSample]) -> list[Any]:
        asked = [(one, ask) for one in drawing if (ask := self.scheduler.ask(one)) is not None]
        rows = [one.row for one, _ in asked]
        chosen = logits if rows == list(range(len(logits))) else logits[rows]
        outcomes = self._sampler.choose(chosen, [ask for _, ask in asked])
        for (one, _), row in zip(asked, chosen, strict=True):
            request = one.branch.request
            if request.details and not request.is_over:
                with self.scheduler.blamed_on(request):
                    note_details(one.branch, row)
        return list(zip((one for one, _ in asked), outcomes, strict=True))

    def _outcome_of(self, request: RequestState) -> Result | PastaError:
        return outcome_of(request, self.encoder, chunk=self.limits.chunk)

    def _cancel(self, requests: Sequence[RequestState]) -> None:
        with self._lock:
            for request in requests:
                self.scheduler.cancel(request)


def _refuse_mismatch(model: Model, encoder: Encoder) -> None:
    if encoder.size > model.vocabulary:
        raise LoadError(
            f"the tokenizer has {encoder.size} tokens and the model knows {model.vocabulary}: "
            "they do not belong together"
        )
    if not encoder.ends:
        raise LoadError("the tokenizer names no token that ends the model's turn")
