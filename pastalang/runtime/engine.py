"""The engine runs programs on a model: one request or many, as results or events, in threads or asyncio.

All requests of an engine share its forward passes, which `loop` makes.
"""

from __future__ import annotations

import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Literal, Never, TypeVar, Unpack, overload

from pastalang.failures import PastaError
from pastalang.plan.branches import Mode, Overrun, Placement
from pastalang.plan.plan import Plan
from pastalang.program.types import Drafts, OnTruncated, Sampling
from pastalang.runtime.asking import Asking
from pastalang.runtime.binding.bound_plan import MakeGuide
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.call import (
    IN_FLIGHT,
    OPTIONS,
    RUN_DEFAULTS,
    Options,
    RunOptions,
    check_batch,
    check_drafts,
    check_in_flight,
    check_load_names,
    check_many,
    check_names,
    check_on_truncated,
    check_placement,
    check_seeds,
    check_size,
    merged_inputs,
    options_of,
    shows_options,
)
from pastalang.runtime.constraints.compile import prepare_vocabulary
from pastalang.runtime.constraints.tagged_text import TaggedTextGuides
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.drafts.budget import clock_of
from pastalang.runtime.drafts.drafter import EngineDrafter
from pastalang.runtime.drafts.sources import ProbeDrafts
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import BadInputs, LoadError, RunError
from pastalang.runtime.events import Done, Event, Failed
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.interrupts import in_thread
from pastalang.runtime.log import OnRequest, check_hook, report_outcome
from pastalang.runtime.long_document import WindowPlan
from pastalang.runtime.loop import Loop
from pastalang.runtime.models.llama_cpp import load_llama_cpp
from pastalang.runtime.models.loading import DType, LoadedModel, check_handed_over, check_tokenizer, load_model
from pastalang.runtime.models.protocol import Model, computed_in
from pastalang.runtime.models.source import LLAMA, OWN, Adapter, Host, check_host, host_of
from pastalang.runtime.models.training_note import TrainingNote, check_mode, check_overrun, check_threads
from pastalang.runtime.outcome import outcome_of
from pastalang.runtime.plan_cache import PlanCache, Runnable
from pastalang.runtime.repair.review import Review
from pastalang.runtime.repair.validation import Policy, policy_for
from pastalang.runtime.request_window import (
    Given,
    Inputs,
    RequestWindow,
    aoutcomes_in_turn,
    as_async,
    outcomes_in_turn,
)
from pastalang.runtime.result import Result, warn
from pastalang.runtime.scheduler.scheduler import ScheduleFilter, Scheduler
from pastalang.runtime.scheduler.state import RequestState
from pastalang.runtime.scheduler.step_budget import Limits
from pastalang.runtime.windows import TokenCounter, Windowing

M = TypeVar("M")

CELLS = 8192


@dataclass(frozen=True, slots=True)
class Call:
    """What a call asks for, the same for all inputs of a batch."""

    plan: Plan
    options: Options
    policy: Policy | None


class Engine(Asking):
    """Runs programs on one model.

        engine = pastalang.Engine.load("pasta-mini")
        result = engine.run("coffee.pasta", title="Norvika Coffee, Dark Roast, 12 oz")
        print(result.value["Brand"], result.usage.forward_passes)  # Norvika 5

    `load` takes a folder, a name on the hub, or a `transformers` model with its tokenizer. `run` returns a `Result`;
    `stream` yields events while fields are written; `batch` and `map` run many inputs in the same forward passes;
    `arun`, `astream` and `amap` are for asyncio. An engine may be used from several threads: calls take turns.
    """

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
        placement: Placement | str | None = None,
        on_request: OnRequest | None = None,
        guides: MakeGuide | None = None,
        schedule_filter: ScheduleFilter | None = None,
    ) -> None:
        """Use `Engine.load` unless you bring a model of your own kind. `guides` and `schedule_filter` are for tests.

        A run in a mode that is not in `trained_for` is refused unless it is called with `any_mode=True`. `on_request`
        is called with each request that has ended.
        """
        if isinstance(model, str | os.PathLike) or tokenizer is None:
            shown = repr(os.fspath(model)) if isinstance(model, str | os.PathLike) else "model, tokenizer"
            raise TypeError(f"an engine is made by loading a model: `pastalang.Engine.load({shown})`")
        if prefix_cells is not None:
            check_size("prefix_cells", prefix_cells, minimum=0)
        if limits is not None and not isinstance(limits, Limits):
            raise BadInputs(f"`limits` must be a pastalang.Limits, not {limits!r:.60}")
        if problems := [*check_on_truncated(on_truncated), *check_drafts(drafts), *check_placement(placement)]:
            raise BadInputs(*problems)
        check_hook("on_request", on_request)
        self.encoder = Encoder(tokenizer)
        check_tokenizer(model, self.encoder)
        self.model = model
        self.limits = limits or Limits()
        self.trained_for = trained_for
        self.on_truncated = on_truncated
        self.on_request = on_request
        vocabulary = vocabulary_of(tokenizer, size=model.vocabulary, ends=self.encoder.ends, encode=self.encoder.text)
        trained = model.probe_tokens
        ahead = None if trained is None else ProbeDrafts(trained, model.vocabulary, model.max_position)
        written = None if trained is None else trained.written
        drafter = EngineDrafter(vocabulary, clock_of(model.device), ahead, written)
        self.drafts = drafts
        self.scheduler = Scheduler(
            cells=model.cells, max_position=model.max_position, limits=self.limits, schedule_filter=schedule_filter,
            prefix_cells=model.cells // 4 if prefix_cells is None else prefix_cells, drafter=drafter,
            carried=model.carried,
        )  # fmt: skip
        self._vocabulary = Tokens(vocabulary)
        make_guide = TaggedTextGuides(self._vocabulary, self.encoder, guides or GuideCache(self._vocabulary))
        overrun = Overrun.CONTINUE if trained_for is None else trained_for.overrun
        in_words = trained_for is not None and trained_for.keys_in_words
        chosen = Placement(placement or model.carried.placement or Placement.GAPS)
        model.carried.check_placement(chosen)
        self._plans = PlanCache(self.encoder, make_guide, overrun, chosen, model.carried, keys_in_words=in_words)
        self.loop = Loop(model, self.scheduler, drafter)
        self._numbers = count(1)  # of requests

    @staticmethod
    def load(
        source: str | Path | tuple[Any, Any],
        tokenizer: Any = None,
        *,
        device: str | None = None,
        dtype: DType | None = None,
        cells: int = CELLS,
        limits: Limits | None = None,
        prefix_cells: int | None = None,
        packed: bool = True,
        on_truncated: OnTruncated | None = None,
        drafts: Drafts = "off",
        placement: Placement | str | None = None,
        adapter: Adapter = OWN,
        on_request: OnRequest | None = None,
        host: Host = "transformers",
        **unknown: Never,
    ) -> Engine:
        """Load a model: a folder, a GGUF file, a name on the hub, `"pasta-mini"`, `"smollm2"`, or a
        `transformers` model and its tokenizer.

        `cells` is the size of the KV cache in tokens. `dtype` is a type of torch or its name: "bfloat16" is faster on
        many CPUs and rounds more, and "int8" reads a quarter of the bytes of float32, on a CPU. Weights loaded onto a
        CPU are `packed` into the layout that its kernels read fastest; a model that you loaded is never changed. A file
        `pastalang.json` next to the weights names the modes they were trained for. `adapter` is the name or the folder
        of an adapter (LoRA), which is merged into the weights; None loads the bare weights of a model that has an
        adapter of its own. `host="llama.cpp"` decodes a GGUF file in llama.cpp, where `dtype` is that of the KV cache.
        `on_truncated`, `drafts` and `placement` apply to calls that do not set them. `on_request` is called with a
        `FinishedRequest` when a request has ended. Raises `LoadError`.
        """
        check_load_names(unknown, options=tuple(signature(Engine.load).parameters))
        check_size("cells", cells, minimum=1)
        check_host(host)
        pair = source if isinstance(source, tuple) else (source, tokenizer)
        found = None
        if host_of(source, host) == LLAMA:
            model, tokenizer = load_llama_cpp(
                source, tokenizer, cells=cells, device=device, dtype=dtype, adapter=adapter
            )
        elif isinstance(source, tuple) or tokenizer is not None or hasattr(source, "config"):
            if len(pair) != 2 or not hasattr(pair[0], "config") or pair[1] is None:
                raise LoadError("pass a loaded model with its tokenizer: `Engine.load(model, tokenizer)`")
            check_handed_over(dtype)
            if adapter not in (OWN, None):
                raise LoadError("an adapter is merged when weights are loaded: merge it into the model that you pass")
            found = LoadedModel(pair[0], pair[1], trained_for=None)
        else:
            found = load_model(
                source, device=device, dtype=dtype, packed=packed, adapter=adapter, with_transformers=False
            )
        try:
            engine = Engine(
                model if found is None else found.model(cells=cells, packed=packed),
                tokenizer if found is None else found.tokenizer,
                limits=limits, prefix_cells=prefix_cells, trained_for=None if found is None else found.trained_for,
                on_truncated=on_truncated, drafts=drafts, placement=placement, on_request=on_request,
            )  # fmt: skip
        except MemoryError as problem:
            raise LoadError(f"this machine has no memory for a KV cache of {cells} cells: {problem}") from problem
        prepare_vocabulary(engine._vocabulary)  # so that the first guides are not slow
        return engine

    def __repr__(self) -> str:
        model = self.model
        modes = (
            ""
            if self.trained_for is None
            else f", trained for {', '.join(mode.value for mode in self.trained_for.modes)}"
        )
        size = f"{model.cells:,} cells, {model.max_position + 1:,} positions, {model.vocabulary:,} tokens"
        return f"<Engine on {model.device} in {computed_in(model)}: {size}{modes}>"

    def plan(
        self, program: Runnable, *, template: str | None = None, mode: str | Mode = Mode.STRICT,
        placement: str | Placement | None = None,
    ) -> Plan:  # fmt: skip
        """The plan that `run` uses; the same object for the same program. Raises `BadInputs` or `PlanError`."""
        return self._plans.plan(program, template=template, mode=mode, placement=placement)

    @property
    def longest_text(self) -> int:
        """A text of more characters is too long for the model, which need not be found out by tokenizing all of it.

        A token covers at most the bytes of the longest one. Normalization makes at most one character of three.
        """
        return 3 * self._vocabulary.longest * (self.model.max_position + 1)

    def check_integrity(self) -> None:
        """Assert that no cell is lost or owned twice."""
        self.loop.check_integrity()

    # ── one set of inputs ────────────────────────────────────────────────────────────────────────────────

    @overload
    def run(
        self, program: Runnable, inputs: Mapping[str, Any], *, model: type[M], **options: Unpack[RunOptions]
    ) -> Result[M]: ...
    @overload
    def run(
        self, program: Runnable, inputs: Mapping[str, Any], *, model: object = None, **options: Unpack[RunOptions]
    ) -> Result: ...
    @overload
    def run(self, program: Runnable, inputs: None = None, *, model: type[M], **given: Any) -> Result[M]: ...
    @overload
    def run(self, program: Runnable, inputs: None = None, *, model: object = None, **given: Any) -> Result: ...
    @shows_options(RUN_DEFAULTS, RunOptions, also="inputs_by_name")
    def run(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result:
        """Run a program, a plan or a `.pasta` file on one set of inputs.

        Inputs are keywords, `run(program, title="…")`, or a dict, `run(program, {"title": "…"})`. An input that has the
        name of an option has to be in the dict.

        Options: `template`, `mode`, `placement`, `any_mode`, `seed`, `sampling`, `model`, `repair`, `retry_below`,
        `keep_invalid`, `on_truncated`, `details`, `drafts`; see `pastalang.runtime.call.Options`. Raises `InputError`
        for wrong inputs, `PlanError` for a program that cannot be planned, `LoadError` for a mode that the weights do
        not know, `RunError` if decoding fails.
        """
        request = self.prepare(program, inputs, given, with_events=False)
        try:
            self.loop.submit(request)
            while not request.is_over:
                self.loop.step_for(request)
        finally:
            self.loop.cancel([request])
        return _result_or_error(self.outcome_of(request))

    @shows_options(RUN_DEFAULTS, RunOptions, also="inputs_by_name")
    def stream(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Iterator[Event]:
        """Yield events while a program runs; the last one is `Done` or `Failed`. Called like `run`.

        The run begins with the first event that is taken. Closing the iterator cancels it.
        """
        return self._stream(self.prepare(program, inputs, given, with_events=True))

    @overload
    async def arun(
        self, program: Runnable, inputs: Mapping[str, Any], *, model: type[M], **options: Unpack[RunOptions]
    ) -> Result[M]: ...
    @overload
    async def arun(
        self, program: Runnable, inputs: Mapping[str, Any], *, model: object = None, **options: Unpack[RunOptions]
    ) -> Result: ...
    @overload
    async def arun(self, program: Runnable, inputs: None = None, *, model: type[M], **given: Any) -> Result[M]: ...
    @overload
    async def arun(self, program: Runnable, inputs: None = None, *, model: object = None, **given: Any) -> Result: ...
    @shows_options(RUN_DEFAULTS, RunOptions, also="inputs_by_name")
    async def arun(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result:
        """`run` for asyncio: concurrent calls share forward passes. Cancelling the task cancels the run."""
        request = await in_thread(lambda: self.prepare(program, inputs, given, with_events=False))
        try:
            await self.loop.asubmit(request)
            while not request.is_over:
                await self.loop.astep_for(request)
        finally:
            await self.loop.acancel([request])
        return _result_or_error(self.outcome_of(request))

    @shows_options(RUN_DEFAULTS, RunOptions, also="inputs_by_name")
    def astream(
        self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any
    ) -> AsyncGenerator[Event, None]:
        """`stream` for asyncio: `async for event in engine.astream(program, title="…")`.

        Concurrent streams and runs share forward passes. Leaving the loop early cancels the run as soon as the iterator
        is closed; `contextlib.aclosing` does that at once.
        """
        return self._astream(*self._asked(program, inputs, given))

    # ── many sets of inputs ──────────────────────────────────────────────────────────────────────────────

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
            seeds = [seed for seed, one in zip(seeds, batch, strict=True) if not isinstance(one, PastaError)]
        window = self._window(program, given, None, seeds=seeds)
        found = [outcome for _, outcome in window.outcomes(iter(batch))]
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

            titles = ["Norvika Coffee, Dark Roast, 12 oz", "Molinari Coffee, Light Roast, 250 g"]
            results = engine.map("coffee.pasta", ({"title": title} for title in titles))
            print([result.value["Brand"] for result in results])  # ['Norvika', 'Molinari']

        `inputs` are read as they are needed. `in_flight` of them run at the same time, and the next one begins as soon
        as one ends; it does not change any result. Nothing runs while the caller does not ask for more, and memory does
        not grow with the number of inputs. Closing the iterator cancels what is in flight.

        The first error is raised, and ends the iterator. With `return_errors=True` it is yielded in its place instead,
        and the others go on. If `inputs` itself raises, what it gave before is yielded first. An error in place of
        inputs, such as that of a row which could not be read, counts as their result.
        """
        check_in_flight(in_flight)
        check_many(inputs)
        window = self._window(program, given, in_flight)
        window.check()
        return outcomes_in_turn(window.outcomes(iter(inputs)), return_errors=return_errors)

    def map_unordered(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int = IN_FLIGHT, **given: Any
    ) -> Iterator[tuple[int, Result[Any] | PastaError]]:
        """`map` in the order in which requests end: yields the 0-based number of the inputs with its result or error.

        No result waits for an earlier and slower one.
        """
        check_in_flight(in_flight)
        check_many(inputs)
        window = self._window(program, given, in_flight, in_order=False)
        window.check()
        return window.outcomes(iter(inputs))

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
        window = self._window(program, given, in_flight)
        pairs = window.aoutcomes(as_async(inputs, before=window.check))
        return aoutcomes_in_turn(pairs, return_errors=return_errors)

    # ── documents that are longer than the context ──────────────────────────────────────────────────────────

    def windows_of(
        self, plan: Plan, windowing: Windowing, *, input: str, type: Any, options: Mapping[str, Any]
    ) -> WindowPlan:
        """How documents are read in windows of this model. Raises `BadInputs` for an answer that cannot be merged."""
        counter = TokenCounter(self.encoder.count, self.longest_text // (self.model.max_position + 1))
        keep_invalid, scheduler = bool(options.get("keep_invalid")), self.scheduler
        return WindowPlan(windowing, plan, input, type, keep_invalid, counter, lambda: scheduler.forward_passes)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, program: Runnable, given: Mapping[str, Any]) -> tuple[Call, dict[str, Any]]:
        """What is asked for, and the inputs that were passed by keyword."""
        options = options_of({name: value for name, value in given.items() if name in OPTIONS})
        plan = self.plan(program, template=options.template, mode=options.mode, placement=options.placement)
        named = {name: value for name, value in given.items() if name not in OPTIONS}
        check_names(named, [input.name for input in plan.inputs])
        if not options.any_mode:
            check_mode(self.trained_for, plan.mode)
            check_threads(self.trained_for, plan)
            check_overrun(self.trained_for, plan)
        return Call(plan, options, policy_for(plan, options, has_checks=self._plans.has_checks(plan))), named

    def prepare(
        self, program: Runnable, inputs: Mapping[str, Any] | None, given: Mapping[str, Any], *, with_events: bool,
        keeper: str = "", repair: int | None = None,
    ) -> RequestState:  # fmt: skip
        """A request that has not begun. Whoever steps the `loop` of the engine, such as a server, submits it there.

        Only requests with the same `keeper` share kept prompts. `repair`: how often values are decoded again that do
        not pass the checks of their schemas, if the answer has any.
        """
        call, values = self._asked(program, inputs, given)
        if call.policy is not None and repair is not None:
            call = replace(call, policy=replace(call.policy, repair=repair, checks=repair))
        return self._request(call, values, with_events=with_events, keeper=keeper)

    def _asked(
        self, program: Runnable, inputs: Mapping[str, Any] | None, given: Mapping[str, Any]
    ) -> tuple[Call, dict[str, Any]]:
        """What is asked for, and the value of every input."""
        call, named = self._call(program, given)
        merged = merged_inputs({} if inputs is None else inputs, named, call.plan, given)
        return call, bind_inputs(call.plan, merged)

    def _request(self, call: Call, values: dict[str, Any], *, with_events: bool, keeper: str = "") -> RequestState:
        options = call.options
        called = Sampling(on_truncated=options.on_truncated, drafts=options.drafts)
        engine_wide = Sampling(on_truncated=self.on_truncated, drafts=self.drafts)
        base = called.over(options.sampling or Sampling()).over(engine_wide)
        make_reviewer = None if call.policy is None else partial(Review, call.policy)
        request = self.loop.in_turn(
            lambda: RequestState(
                self._plans.bound(call.plan), values, number=next(self._numbers), seed=options.seed, base=base,
                make_reviewer=make_reviewer, details=options.details, with_events=with_events,
                keeper=keeper,
            )
        )  # fmt: skip
        if "auto" in request.drafts:
            self.loop.measure_steps()
        return request

    def _window(
        self, program: Runnable, given: Mapping[str, Any], in_flight: int | None, *, in_order: bool = True,
        seeds: Sequence[int] | None = None,
    ) -> RequestWindow:  # fmt: skip
        """`seeds` are those of the requests in the order in which they are made."""
        call, named = self._call(program, given)
        left = None if seeds is None else iter(seeds)

        def make(inputs: Inputs) -> RequestState:
            own = call if left is None else replace(call, options=replace(call.options, seed=next(left)))
            values = bind_inputs(call.plan, merged_inputs(inputs, named, call.plan, given))
            return self._request(own, values, with_events=False)

        def check() -> None:
            self.loop.in_turn(lambda: self._plans.bound(call.plan))

        return RequestWindow(self.loop, make, self.outcome_of, in_flight, in_order=in_order, check=check)

    def outcome_of(self, request: RequestState) -> Result | PastaError:
        """The result of a request that is over, or its error."""
        outcome = outcome_of(request, self.encoder, chunk=self.limits.chunk, check_passes=self.checks_passes)
        number, seconds = request.options.number, request.schedule.seconds
        report_outcome(number, request.plan, outcome, seconds, self.on_request)
        return outcome

    # ── what callers get ─────────────────────────────────────────────────────────────────────────────────

    def _stream(self, request: RequestState) -> Iterator[Event]:
        try:
            self.loop.submit(request)
            while not request.is_over:
                self.loop.step_for(request)
                yield from request.events.take()
            yield from request.events.take()  # another caller may have run the last step
            yield self._last_event(request)
        finally:
            self.loop.cancel([request])

    async def _astream(self, call: Call, values: dict[str, Any]) -> AsyncGenerator[Event, None]:
        request = await in_thread(lambda: self._request(call, values, with_events=True))
        try:
            await self.loop.asubmit(request)
            while not request.is_over:
                await self.loop.astep_for(request)
                for event in request.events.take():
                    yield event
            for event in request.events.take():
                yield event
            yield self._last_event(request)
        finally:
            await self.loop.acancel([request])

    def _last_event(self, request: RequestState) -> Event:
        outcome = self.outcome_of(request)
        if isinstance(outcome, Result):
            warn(outcome.truncations)
            return Done(outcome)
        assert isinstance(outcome, RunError)
        return Failed(outcome)


def _result_or_error(outcome: Result | PastaError) -> Result:
    if isinstance(outcome, PastaError):
        raise outcome
    warn(outcome.truncations)
    return outcome
