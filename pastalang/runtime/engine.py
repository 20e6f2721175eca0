"""The engine: a model and a tokenizer come in once; then programs and inputs come in, results and events go out.

run      one request              batch    many, in the same passes
stream   one, event by event      arun     one of many that join and leave as they like
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from pastalang.errors import PastaError
from pastalang.plan.build import build_plan
from pastalang.plan.passes import passes_taken
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Program
from pastalang.program.types import Sampling
from pastalang.runtime.assemble import answers_of, realised_of
from pastalang.runtime.decode.sampler import Sampler
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.vocabulary import vocabulary_of
from pastalang.runtime.details import note_details
from pastalang.runtime.errors import LoadError, RunError
from pastalang.runtime.events import Done, Event, Failed
from pastalang.runtime.guides import GuideShelf
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.model.load import load_weights
from pastalang.runtime.model.protocol import Model
from pastalang.runtime.model.transformers import TransformersModel
from pastalang.runtime.prompt import Encoder
from pastalang.runtime.recorded import trace_of
from pastalang.runtime.repair.invalid import Invalid
from pastalang.runtime.repair.policy import Policy, policy_for
from pastalang.runtime.repair.review import Review
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.loop import Drawing, Limits, MayMove, Scheduler
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.tokens import MakeGuide, TokenPlan
from pastalang.runtime.usage import Usage

CELLS = 8192


class Engine:
    """Not bound to a thread: calls take turns. `guides` and `may_move` are for tests."""

    def __init__(
        self,
        model: Model,
        tokenizer: Any,
        *,
        limits: Limits | None = None,
        prefix_cells: int | None = None,
        guides: MakeGuide | None = None,
        may_move: MayMove | None = None,
    ) -> None:
        self.encoder = Encoder(tokenizer)
        _refuse_mismatch(model, self.encoder)
        self.model = model
        self.limits = limits or Limits()
        self.scheduler = Scheduler(
            cells=model.cells, max_position=model.max_position, limits=self.limits, may_move=may_move,
            prefix_cells=model.cells // 4 if prefix_cells is None else prefix_cells,
        )  # fmt: skip
        vocabulary = vocabulary_of(tokenizer, size=model.vocabulary, ends=self.encoder.ends, encode=self.encoder.text)
        self._guides = guides or GuideShelf(Tokens(vocabulary))
        self._sampler = Sampler(model.vocabulary)
        self._lock = threading.RLock()
        self._submitted = 0
        self._plans: dict[int, TokenPlan] = {}

    @staticmethod
    def load(
        source: str | Path | tuple[Any, Any],
        *,
        device: str | None = None,
        dtype: torch.dtype | None = None,
        cells: int = CELLS,
        limits: Limits | None = None,
        prefix_cells: int | None = None,
    ) -> Engine:
        """From a folder, a name on the hub, or a transformers model and its tokenizer."""
        if isinstance(source, tuple):
            weights, tokenizer = source
        else:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(source)
            weights = load_weights(source, device=device, dtype=dtype)
        return Engine(TransformersModel(weights, cells=cells), tokenizer, limits=limits, prefix_cells=prefix_cells)

    # ── what people call ─────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        program: Program | Plan,
        inputs: Mapping[str, Any],
        *,
        template: str | None = None,
        mode: str | Mode = Mode.STRICT,
        seed: int = 0,
        sampling: Sampling | None = None,
        model: type[BaseModel] | None = None,
        repair: int = 0,
        retry_below: float | None = None,
        keep_invalid: bool = False,
        details: bool = False,
    ) -> Result:
        """Raises `InputError`, `PlanError` or a `RunError`.

        `model`: a Pydantic model that the JSON answer has to satisfy; the value is then an instance of it.
        `repair`: how often a field that it objects to is decoded again; `retry_below`: a field less probable than
        this is decoded again too. `keep_invalid`: what is wrong in the end is marked, where `Invalid` is raised.
        `details`: each field also says how much probability its type has ruled out.
        """
        events = self.stream(
            program, inputs, template=template, mode=mode, seed=seed, sampling=sampling, model=model,
            repair=repair, retry_below=retry_below, keep_invalid=keep_invalid, details=details,
        )  # fmt: skip
        for event in events:
            if isinstance(event, Done):
                return event.result
            if isinstance(event, Failed):
                raise event.error
        raise AssertionError("a run ends with `Done` or `Failed`")

    def stream(
        self,
        program: Program | Plan,
        inputs: Mapping[str, Any],
        *,
        template: str | None = None,
        mode: str | Mode = Mode.STRICT,
        seed: int = 0,
        sampling: Sampling | None = None,
        model: type[BaseModel] | None = None,
        repair: int = 0,
        retry_below: float | None = None,
        keep_invalid: bool = False,
        details: bool = False,
    ) -> Iterator[Event]:
        """The events of a run, the last one `Done` or `Failed`. Closing the iterator gives everything back."""
        plan = self.plan(program, template=template, mode=mode)
        policy = policy_for(plan, model=model, repair=repair, retry_below=retry_below, keep_invalid=keep_invalid)
        request = self._submit(plan, inputs, seed, sampling, policy, details)
        return self._stream(request)

    def batch(
        self,
        program: Program | Plan,
        inputs: Sequence[Mapping[str, Any]],
        *,
        template: str | None = None,
        mode: str | Mode = Mode.STRICT,
        seed: int = 0,
        sampling: Sampling | None = None,
        model: type[BaseModel] | None = None,
        repair: int = 0,
        retry_below: float | None = None,
        keep_invalid: bool = False,
        details: bool = False,
    ) -> list[Result | PastaError]:
        """Many requests in the same passes. What fails is an exception in the list; the others are not touched."""
        plan = self.plan(program, template=template, mode=mode)
        policy = policy_for(plan, model=model, repair=repair, retry_below=retry_below, keep_invalid=keep_invalid)
        submitted: list[RequestState | PastaError] = []
        for one in inputs:
            try:
                submitted.append(self._submit(plan, one, seed, sampling, policy, details))
            except PastaError as problem:
                submitted.append(problem)
        requests = [one for one in submitted if isinstance(one, RequestState)]
        try:
            while not all(request.is_over for request in requests):
                self._step()
        except BaseException:
            self._cancel(requests)
            raise
        return [one if isinstance(one, PastaError) else self._outcome(one) for one in submitted]

    async def arun(
        self,
        program: Program | Plan,
        inputs: Mapping[str, Any],
        *,
        template: str | None = None,
        mode: str | Mode = Mode.STRICT,
        seed: int = 0,
        sampling: Sampling | None = None,
        model: type[BaseModel] | None = None,
        repair: int = 0,
        retry_below: float | None = None,
        keep_invalid: bool = False,
        details: bool = False,
    ) -> Result:
        """Runs beside all other `arun`s, in the same passes. Cancelling it gives everything back."""
        plan = self.plan(program, template=template, mode=mode)
        policy = policy_for(plan, model=model, repair=repair, retry_below=retry_below, keep_invalid=keep_invalid)
        request = self._submit(plan, inputs, seed, sampling, policy, details)
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
        outcome = self._outcome(request)
        if isinstance(outcome, PastaError):
            raise outcome
        return outcome

    def plan(self, program: Program | Plan, *, template: str | None = None, mode: str | Mode = Mode.STRICT) -> Plan:
        """The plan that `run` would run."""
        if isinstance(program, Plan):
            return program
        chosen = program.only_template if template is None else program.templates[template]
        return build_plan(chosen, program, mode=Mode(mode))

    def check_integrity(self) -> None:
        """Assert that no cell is lost or owned twice."""
        with self._lock:
            self.scheduler.check_integrity()

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────

    def _stream(self, request: RequestState) -> Iterator[Event]:
        try:
            while not request.is_over:
                self._step_for(request)
                yield from request.take_events()
            yield from request.take_events()
            outcome = self._outcome(request)
            if isinstance(outcome, Result):
                yield Done(outcome)
            else:
                assert isinstance(outcome, RunError)
                yield Failed(outcome)
        finally:
            self._cancel([request])

    def _submit(
        self,
        plan: Plan,
        inputs: Mapping[str, Any],
        seed: int,
        sampling: Sampling | None,
        policy: Policy | None,
        details: bool,
    ) -> RequestState:
        values = bind_inputs(plan, inputs)
        make_reviewer = None if policy is None else partial(Review, policy)
        with self._lock:
            self._submitted += 1
            request = RequestState(
                self._tokens(plan), values, number=self._submitted, seed=seed, base=sampling,
                make_reviewer=make_reviewer, details=details,
            )  # fmt: skip
            request.started_at = time.perf_counter()
            self.scheduler.submit(request)
        return request

    def _tokens(self, plan: Plan) -> TokenPlan:
        known = self._plans.get(id(plan))
        if known is None or known.plan is not plan:
            if len(self._plans) >= 64:
                self._plans.clear()
            known = self._plans[id(plan)] = TokenPlan(plan, self.encoder, self._guides)
        return known

    def _step_for(self, request: RequestState) -> None:
        with self._lock:
            if not request.is_over:
                self._step()

    def _step(self) -> None:
        """One forward pass for everybody."""
        with self._lock:
            scheduler = self.scheduler
            step = scheduler.next_step()
            if step is not None:
                logits = self.model.forward(step.batch)
                drawing = scheduler.drawings()
                while drawing:
                    drawing = scheduler.tell(self._draw(logits, drawing))
            for request in scheduler.end_step():
                request.ended_at = time.perf_counter()

    def _draw(self, logits: torch.Tensor, drawing: list[Drawing]) -> list[Any]:
        asked = [(one, ask) for one in drawing if (ask := self.scheduler.ask(one)) is not None]
        rows = [one.row for one, _ in asked]
        chosen = logits if rows == list(range(len(logits))) else logits[rows]
        outcomes = self._sampler.choose(chosen, [ask for _, ask in asked])
        for (one, _), row in zip(asked, chosen, strict=True):
            if one.branch.request.details:
                note_details(one.branch, row)
        return list(zip((one for one, _ in asked), outcomes, strict=True))

    def _cancel(self, requests: Sequence[RequestState]) -> None:
        with self._lock:
            for request in requests:
                self.scheduler.cancel(request)

    def _outcome(self, request: RequestState) -> Result | PastaError:
        if request.error is not None:
            return request.error
        try:
            answers, is_stacked = answers_of(request)
            usage = self._usage(request)
        except RunError as problem:
            return problem
        review = request.reviewer if isinstance(request.reviewer, Review) else None
        if review is not None and review.models:
            answers = tuple(replace(one, value=value) for one, value in zip(answers, review.models, strict=True))
        result = Result(answers, is_stacked, usage, trace_of(request))
        if review is not None and review.problems and not review.policy.keep_invalid:
            return Invalid(review.problems, plan=request.plan, result=result)
        return result

    def _usage(self, request: RequestState) -> Usage:
        drawn = sum(len(branch.drawn) for branch in request.branches)
        draft = request.draft or request.stand
        realised = realised_of(request, chunk=self.limits.chunk)
        critical_path = passes_taken(request.plan, realised)
        if not request.was_held_back and self.limits.chunk is None and draft.last_draw != critical_path:
            # Our mistake: it ends this request with a typed error, and leaves its batch mates alone.
            raise RunError(
                f"internal error: {draft.last_draw} passes were taken, and the plan asks for {critical_path}",
                plan=request.plan,
            )
        answer = sum(len(self.encoder.text(one.text)) for one in _forced_answer(request))
        return Usage(
            input_tokens=_input_tokens(request),
            reused_tokens=request.reused_tokens,
            output_tokens=drawn,
            forced_tokens=answer,
            forward_passes=request.forward_passes,
            critical_path=critical_path,
            theoretical_speedup=(draft.drawn + answer) / max(critical_path, 1),
            peak_cells=request.peak_cells,
            attended_tokens=request.attended / max(drawn, 1),
            seconds=request.ended_at - request.started_at,
            repair_passes=request.forward_passes - draft.forward_passes,
            repair_tokens=drawn - draft.drawn,
            attempts=request.reviewer.attempts if isinstance(request.reviewer, Review) else 0,
        )


def _input_tokens(request: RequestState) -> int:
    """What stands before the model's own turn; of stacked documents, what they share is counted once."""
    root = request.root
    shared = root.prompt or root.start + len(root.tokens)
    return shared + sum(branch.prompt for branch in request.branches if branch is not root)


def _forced_answer(request: RequestState) -> list[Any]:
    """The forced pieces of the model's own turn."""
    answers, _ = answers_of(request)
    return [stretch for answer in answers for stretch in answer.stretches if stretch.is_forced]


def _refuse_mismatch(model: Model, encoder: Encoder) -> None:
    if encoder.size > model.vocabulary:
        raise LoadError(
            f"the tokenizer has {encoder.size} tokens and the model knows {model.vocabulary}: "
            "they do not belong together"
        )
    if not encoder.ends:
        raise LoadError("the tokenizer names no token that ends the model's turn")
