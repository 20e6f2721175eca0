"""An engine whose model runs on a server: the same calls, and the same results.

    engine = pastalang.connect("http://host:8000/v1#name")
    engine.run("coffee.pasta", title="Norvika Coffee, Dark Roast, 12 oz")

A server that takes raw prompts (vLLM, SGLang, llama.cpp) is asked for each value alone, all that can begin at the same
time; where its tokenizer is at hand, every token is checked (`token_run`). A server that takes chats only is asked for
the whole answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent import futures
from concurrent.futures import Future
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import ceil
from typing import Any, Final, TypeVar
from weakref import finalize

from pastalang.failures import PastaError
from pastalang.hosts.branches import Key, Memory, PlanRun, Report
from pastalang.hosts.errors import Unsupported
from pastalang.hosts.servers import SERVERS, Kind, Server, Turns, roles_of
from pastalang.hosts.token_run import KnownTokens, TokenRun
from pastalang.hosts.transport import Transport
from pastalang.hosts.whole import Chats, spelled_at
from pastalang.plan.branches import Form, Hole, Mode, Placement
from pastalang.plan.build import with_history
from pastalang.plan.plan import Plan
from pastalang.plan.structure import fields_of
from pastalang.program.types import Object, Sampling
from pastalang.runtime.answer import answers_of, as_callers_see_it, layout_of
from pastalang.runtime.answer_parts import FieldResult
from pastalang.runtime.asking import Asking
from pastalang.runtime.call import (
    OPTIONS,
    Options,
    check_batch,
    check_in_flight,
    check_many,
    check_names,
    check_seeds,
    merged_inputs,
    options_of,
)
from pastalang.runtime.errors import BadInputs, Problem, RunError
from pastalang.runtime.events import Done, Event, Failed, FieldAgain, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.inputs import roles_of as roles_of_history
from pastalang.runtime.log import OnRequest, report_outcome
from pastalang.runtime.long_document import WindowPlan
from pastalang.runtime.plan_cache import Plans, Runnable
from pastalang.runtime.repair.validation import Objection, Policy, judge, policy_for
from pastalang.runtime.request_window import Given, Outcome, Window, aoutcomes_in_turn, as_async, outcomes_in_turn
from pastalang.runtime.result import Answer, Invalid, Result, Truncated, Usage, warn
from pastalang.runtime.trace import Trace
from pastalang.runtime.windows import TokenCounter, Windowing
from pastalang.values.json import write_json
from pastalang.values.paths import WHOLE, path_text, place_in_answer

T = TypeVar("T")
_TOKEN_BYTES: Final = 3  # of a token, where nothing knows the tokenizer
_LONGEST_TOKEN: Final = 1_000  # characters


@dataclass(frozen=True, slots=True)
class _Call:
    """What a call asks for, the same for all inputs of a batch. `named` are the inputs that it passes by keyword."""

    plan: Plan
    options: Options
    sampling: Sampling
    policy: Policy | None
    named: Mapping[str, Any]
    given: Mapping[str, Any]


class RemoteEngine(Asking):
    """Runs programs on a server. Made by `pastalang.connect`.

    `run`, `batch`, `map` and `stream` have twins for asyncio: `arun`, `amap`, `astream`. It may be used from several
    threads and event loops.
    """

    trained_for = None  # a server does not say what its weights were trained for
    longest_text = 1 << 40  # the server refuses what is too long for its model

    def __init__(
        self, transport: Transport, kind: Kind, model: str, *, tokenizer: Any, in_flight: int, keys_in_words: bool
    ) -> None:  # fmt: skip
        self.kind = kind
        self.name = model
        self._transport = transport
        self._in_flight = in_flight
        self._server: Server | None = SERVERS[kind](transport, model) if kind.takes_raw_prompts else None
        self._counter = _counter_of(tokenizer)
        self._turns = None if self._server is None else Turns(self._server, tokenizer)
        # None: values are asked for as texts
        self.known_tokens = None if tokenizer is None or self._server is None else KnownTokens(tokenizer)
        self._chats = Chats(transport, model, keys_in_words=keys_in_words)
        self._plans = Plans()
        self._numbers = count(1)  # of runs
        self.on_request: OnRequest | None = None
        finalize(self, _BACKGROUND.close_later, transport).atexit = False

    def __repr__(self) -> str:
        way = "one request for each value" if self.kind.takes_raw_prompts else "one request for each answer"
        return f"<RemoteEngine {self.name} at {self._transport.url} ({self.kind.value}): {way}>"

    @property
    def takes_chats_only(self) -> bool:
        """Whether an answer is asked for as a whole: its values have no limits in tokens and no confidence."""
        return not self.kind.takes_raw_prompts

    @property
    def address(self) -> str:
        """The server and the model, as `--model` takes them."""
        return f"{self._transport.url}/v1#{self.name}"

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections of the calls that do not await."""
        _BACKGROUND.run(self._transport.close())

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────

    def plan(
        self, program: Runnable, *, template: str | None = None, mode: str | Mode = Mode.STRICT,
        placement: str | Placement | None = None,
    ) -> Plan:  # fmt: skip
        """The plan that `run` uses. Raises `Unsupported` for what this server cannot be asked."""
        options_of({"placement": placement})
        if placement is not None and Placement(placement) is Placement.GAPS:
            raise Unsupported("a server places values right behind what they see: leave `placement` out")
        plan = self._plans.plan(program, template=template, mode=mode)
        (check_plan if self.kind.takes_raw_prompts else check_whole)(plan)
        return plan

    def run(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result[Any]:
        """Run a program on one set of inputs; see `Engine.run`. Raises `HostError` if the server fails."""
        result = _BACKGROUND.run(self._run(*self._bound(self._call(program, given), inputs)))
        warn(result.truncations)
        return result

    async def arun(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result[Any]:
        """`run` for asyncio. Cancelling the task closes its requests."""
        result = await self._run(*self._bound(self._call(program, given), inputs))
        warn(result.truncations)
        return result

    def batch(
        self,
        program: Runnable,
        inputs: Sequence[Mapping[str, Any]],
        *,
        seeds: Sequence[int] | None = None,
        **given: Any,
    ) -> list[Result[Any] | PastaError]:
        """Run a program on many sets of inputs. What fails is returned as its error."""
        check_batch(inputs)
        batch = list(inputs)
        if seeds is not None:
            check_seeds(seeds, batch, given)
        call = self._call(program, given)
        drawn = [call.options.seed] * len(batch) if seeds is None else seeds
        calls = [replace(call, options=replace(call.options, seed=seed)) for seed in drawn]

        async def all_of_them() -> list[Outcome]:
            return await asyncio.gather(*map(self._outcome, calls, batch))

        found = _BACKGROUND.run(all_of_them())
        warn(cut for one in found if isinstance(one, Result) for cut in one.truncations)
        return found

    def map(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int | None = None,
        return_errors: bool = False, **given: Any,
    ) -> Iterator[Result[Any] | PastaError]:  # fmt: skip
        """Run a program on any number of inputs, which are read as they are needed, and yield results in order."""
        pairs = self._window(program, given, inputs, in_flight).outcomes(iter(inputs))
        return outcomes_in_turn(pairs, return_errors=return_errors)

    def map_unordered(
        self, program: Runnable, inputs: Iterable[Given], *, in_flight: int | None = None, **given: Any
    ) -> Iterator[tuple[int, Result[Any] | PastaError]]:
        """`map` in the order in which runs end: yields the 0-based number of the inputs with its result or error."""
        return self._window(program, given, inputs, in_flight, in_order=False).outcomes(iter(inputs))

    def amap(
        self, program: Runnable, inputs: Iterable[Given] | AsyncIterable[Given], *,
        in_flight: int | None = None, return_errors: bool = False, **given: Any,
    ) -> AsyncGenerator[Result[Any] | PastaError, None]:  # fmt: skip
        """`map` for asyncio."""
        window = self._window(program, given, inputs, in_flight, is_async=True)
        return aoutcomes_in_turn(window.aoutcomes(as_async(inputs)), return_errors=return_errors)

    def stream(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Iterator[Event]:
        """Yield events while a program runs; each value arrives whole. The last event is `Done` or `Failed`.

        Closing the iterator cancels the run.
        """
        bound = self._bound(self._call(program, given), inputs)
        return _warning(_BACKGROUND.iterate(lambda: self._events(*bound)))

    async def astream(
        self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any
    ) -> AsyncGenerator[Event, None]:
        """`stream` for asyncio. Leaving the loop cancels the run."""
        async with aclosing(self._events(*self._bound(self._call(program, given), inputs))) as events:
            async for event in events:
                yield _warned(event)

    def windows_of(
        self, plan: Plan, windowing: Windowing, *, input: str, type: Any, options: Mapping[str, Any]
    ) -> WindowPlan:
        """How documents are read in windows; see `Engine.windows_of`. Without a `tokenizer`, a token is counted for
        every three bytes, which is more than tokenizers need for most texts."""
        return WindowPlan(windowing, plan, input, type, bool(options.get("keep_invalid")), self._counter, lambda: 0)

    # ── one run ──────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, program: Runnable, given: Mapping[str, Any]) -> _Call:
        """Raises `Unsupported` for what this server cannot be asked, and what `Engine.run` raises for wrong options."""
        options = options_of({name: value for name, value in given.items() if name in OPTIONS})
        base = Sampling(on_truncated=options.on_truncated, drafts=options.drafts).over(options.sampling or Sampling())
        if base.drafts not in (None, "off"):
            raise Unsupported("drafts are guessed inside the model's process: leave `drafts` out with a server")
        if options.retry_below is not None:
            raise Unsupported(
                "`retry_below` decodes fields again inside the model's process: leave it out with a server"
            )
        plan = self.plan(program, template=options.template, mode=options.mode, placement=options.placement)
        named = {name: value for name, value in given.items() if name not in OPTIONS}
        check_names(named, [input.name for input in plan.inputs])
        sampling = base if self.kind.takes_raw_prompts else whole_sampling(plan, base)
        return _Call(plan, options, sampling, policy_for(plan, options, has_checks=False), named, given)

    def _window(
        self, program: Runnable, given: Mapping[str, Any], inputs: object, in_flight: int | None, *,
        in_order: bool = True, is_async: bool = False,
    ) -> _Window:  # fmt: skip
        most = self._in_flight if in_flight is None else in_flight
        check_in_flight(most)
        check_many(inputs, can_be_async=is_async)
        call = self._call(program, given)
        begin: Callable[[Coroutine[Any, Any, Outcome]], Any] = asyncio.ensure_future if is_async else _BACKGROUND.begin
        return _Window(lambda one: begin(self._outcome(call, one)), most, in_order=in_order)

    async def _outcome(self, call: _Call, inputs: Given) -> Outcome:
        """A result, or the error in its place."""
        if isinstance(inputs, PastaError):
            return inputs
        try:
            return await self._run(*self._bound(call, inputs))
        except PastaError as problem:
            return problem
        except Exception as problem:  # a mistake of ours: other runs go on anyway
            return RunError(f"internal error: {type(problem).__name__}: {problem}")

    async def _events(self, call: _Call, values: Mapping[str, Any]) -> AsyncGenerator[Event, None]:
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(call, values, events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            problem = task.exception()
            if problem is None:
                yield Done(task.result())
            elif isinstance(problem, RunError):
                yield Failed(problem)
            else:
                raise problem
        finally:
            task.cancel()

    def _bound(self, call: _Call, inputs: Mapping[str, Any] | None) -> tuple[_Call, Mapping[str, Any]]:
        """The call on one set of inputs, and their values. Raises `BadInputs`."""
        plan = call.plan
        values = bind_inputs(plan, merged_inputs({} if inputs is None else inputs, call.named, plan, call.given))
        if plan.history is None:
            return call, values
        return replace(call, plan=with_history(plan, roles_of_history(values[plan.history.name]))), values

    async def _run(self, call: _Call, values: Mapping[str, Any], report: Report = lambda event: None) -> Result[Any]:
        started = time.monotonic()
        patience = self._transport.patience
        end = None if patience.deadline is None else started + patience.deadline
        run = self._in_branches if self._server is not None else self._in_whole
        found: Result[Any] | PastaError
        number = next(self._numbers)
        try:
            found = await run(call, values, started, end, report)
        except PastaError as problem:
            found = problem
        report_outcome(number, call.plan, found, time.monotonic() - started, self.on_request)
        if isinstance(found, PastaError):
            raise found
        return found

    async def _in_branches(
        self, call: _Call, values: Mapping[str, Any], started: float, end: float | None,
        report: Report,
    ) -> Result[Any]:  # fmt: skip
        assert self._server is not None and self._turns is not None
        turns = await self._turns.of(roles_of(call.plan), end=end)
        memory, replies, rounds = Memory(), [], 0
        while True:
            known = None if self.known_tokens is None else self.known_tokens.bound(call.plan)
            begin = partial(PlanRun, call.plan) if known is None else partial(TokenRun, known)
            run: PlanRun = begin(
                values, server=self._server, turns=turns, sampling=call.sampling, seed=call.options.seed, end=end,
                memory=memory, report=report,
            )  # fmt: skip
            await run.run()
            replies += run.replies
            answers, is_stacked = answers_of(run, may_be_wrong=call.policy is not None)
            models, problems, blamed = _judged(run, answers, call.policy)
            if not blamed or call.policy is None or rounds >= call.policy.repair:
                break
            memory.forget(blamed)
            for (name, items), reason in blamed.items():
                report(FieldAgain(name, items, reason))
            rounds += 1
        usage = _usage(
            [(one.prompt_tokens, one.cached_tokens, one.tokens) for one in replies], waves=run.waves, rounds=rounds,
            seconds=time.monotonic() - started, mode="branches",
        )  # fmt: skip
        return _finished(call, answers, is_stacked, usage, models, problems, run.prompt)

    async def _in_whole(
        self, call: _Call, values: Mapping[str, Any], started: float, end: float | None,
        report: Report,
    ) -> Result[Any]:  # fmt: skip
        found = await self._chats.answer(
            call.plan, values, sampling=call.sampling, seed=call.options.seed, end=end, policy=call.policy
        )
        for name, text in _values_of(call.plan, found.answer):
            report(FieldStarted(name, ()))
            report(TextDelta(name, (), text))
            report(FieldDone(name, (), text, truncated=False))
        usage = _usage(
            [(found.prompt_tokens, found.cached_tokens, found.written_tokens)], waves=found.requests,
            rounds=found.requests - 1, seconds=time.monotonic() - started, mode="whole", requests=found.requests,
        )  # fmt: skip
        exact, asked = found.answer.exact, found.requests
        problems = [
            Problem(path_text(one.path), one.reason, spelled_at(exact, one.path), asked) for one in found.objections
        ]
        return _finished(call, (found.answer,), False, usage, [found.model], problems, found.prompt)


class _Window(Window["Future[Outcome] | asyncio.Future[Outcome]"]):
    """The runs of one call to a server: in the background, or in the caller's event loop."""

    def __init__(self, begin: Callable[[Given], Any], in_flight: int, *, in_order: bool) -> None:
        super().__init__(in_flight, in_order=in_order)
        self._begin = begin

    def run_of(self, given: Given) -> Any:
        return self._begin(given)

    def go_on(self, running: Sequence[Any]) -> None:
        futures.wait(running, return_when=futures.FIRST_COMPLETED)

    def cancel(self, runs: Sequence[Any]) -> None:
        for one in runs:
            one.cancel()

    async def ago_on(self, running: Sequence[Any], pull: asyncio.Task[Given] | None) -> None:
        waited = [*running, *([] if pull is None else [pull])]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)

    async def acancel(self, runs: Sequence[Any]) -> None:
        self.cancel(runs)


def _warning(events: Generator[Event, None, None]) -> Generator[Event, None, None]:
    with closing(events):
        for event in events:
            yield _warned(event)


def _warned(event: Event) -> Event:
    if isinstance(event, Done):
        warn(event.result.truncations)
    return event


def _values_of(plan: Plan, answer: Answer) -> list[tuple[str, str]]:
    """The values of an object with their names, or all of an answer that is no object."""
    if not isinstance(plan.output, Object) or not isinstance(answer.exact, dict):
        return [(WHOLE, answer.text)]
    return [(path_text((key,)), write_json(value)) for key, value in answer.exact.items()]


def _usage(
    counts: list[tuple[int, int, int]],
    *,
    waves: int,
    rounds: int,
    seconds: float,
    mode: Any,
    requests: int | None = None,
) -> Usage:
    """What the server says that it read and wrote. Forward passes are its own business."""
    return Usage(
        input_tokens=sum(prompt for prompt, _, _ in counts), reused_tokens=sum(cached for _, cached, _ in counts),
        output_tokens=sum(written for _, _, written in counts), forced_tokens=0, forward_passes=0, critical_path=waves,
        theoretical_speedup=len(counts) / max(waves, 1), peak_cells=0, attended_tokens=0.0, seconds=seconds,
        attempts=rounds, mode=mode, requests=len(counts) if requests is None else requests,
    )  # fmt: skip


def _counter_of(tokenizer: Any) -> TokenCounter:
    if tokenizer is None:
        return TokenCounter(lambda text: ceil(len(text.encode("utf-8", "surrogatepass")) / _TOKEN_BYTES), _TOKEN_BYTES)
    return TokenCounter(lambda text: len(tokenizer.encode(text, add_special_tokens=False)), _LONGEST_TOKEN)


def _judged(
    run: PlanRun, answers: tuple[Answer, ...], policy: Policy | None
) -> tuple[list[Any], list[Problem], dict[Key, str]]:
    """The validated values, what a validator objects to, and the fields that are to blame, with the reason."""
    models: list[Any] = []
    problems: list[Problem] = []
    blamed: dict[Key, str] = {}
    if policy is None:
        return models, problems, blamed
    documents = [run.root] if len(answers) == 1 else run.documents
    for number, (answer, document) in enumerate(zip(answers, documents, strict=True)):
        model, objections = judge(layout_of(document), policy.model)
        models.append(model)
        for one in objections:
            fields = [field for field in answer.fields if _is_to_blame(one, field.path, field.items)]
            blamed |= {(field.path, field.items): one.reason for field in fields}
            problems.append(_problem(one, fields, number))
    return models, problems, blamed


def _is_to_blame(objection: Objection, path: str, items: tuple[int, ...]) -> bool:
    """True if the field is at the objected place, inside of it, around it, or read by the validator that objects."""
    place, where = place_in_answer(path, items), path_text(objection.path)
    read_too = [path_text((*objection.path, name)) for name in objection.fields]
    return any(place == one or place.startswith((f"{one}.", f"{one}[")) or not one for one in (where, *read_too)) or (
        bool(where) and where.startswith((f"{place}.", f"{place}["))
    )


def _problem(objection: Objection, fields: Sequence[FieldResult] = (), document: int = 0) -> Problem:
    text, attempts = (fields[0].text, fields[0].attempts) if fields else ("", 1)
    return Problem(path_text(objection.path), objection.reason, text, attempts, document)


def _finished(
    call: _Call, answers: tuple[Answer, ...], is_stacked: bool, usage: Usage, models: list[Any],
    problems: list[Problem], prompt: str,
) -> Result[Any]:  # fmt: skip
    """Raises `Invalid` if a validator still objects, and `Truncated` if a value was cut that must not be."""
    if call.policy is not None and call.policy.model is not None and not problems:
        answers = tuple(replace(one, value=model) for one, model in zip(answers, models, strict=True))
    answers = tuple(as_callers_see_it(one, call.plan) for one in answers)
    result = Result(answers, is_stacked, usage, Trace(0, (), (), (), ()), tuple(problems), prompt)
    if problems and call.policy is not None and not call.policy.keep_invalid:
        raise Invalid(tuple(problems), plan=call.plan, result=result)
    if refused := [one for one in result.truncations if one.became == "raise"]:
        raise Truncated(refused, plan=call.plan, result=result)
    return result


class _Background:
    """The event loop, in a thread of its own, of all calls that do not await. It starts with the first of them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a result. An interrupt cancels the work, which closes its requests."""
        if threading.current_thread() is self._thread:
            work.close()
            raise BadInputs(
                "a call that waits for a server was made from a validator, or from another function that a run is "
                "waiting for: call it after the run, or await its twin for asyncio"
            )
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, begin: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        items = begin()
        try:
            while True:
                try:
                    yield self.run(_next_of(items))
                except StopAsyncIteration:
                    return
        finally:
            self.run(items.aclose())

    def close_later(self, transport: Transport) -> None:
        """Close the connections of an engine that nobody has any more. Called at any moment, in any thread."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(transport.close(), self._loop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="pastalang hosts", daemon=True)
                self._thread.start()
            return self._loop

    def forget(self) -> None:
        """In the child of a fork, where the thread does not run."""
        self._loop = self._thread = None
        self._starting = threading.Lock()


async def _next_of(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


_BACKGROUND: Final = _Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BACKGROUND.forget)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns, in the event loop of all calls that do not await."""
    return _BACKGROUND.run(work)


# ── what servers cannot be asked ──────────────────────────────────────────────────────────────────────────────


_HERE: Final = "which needs the model in this process"
_RAW: Final = "a server that takes raw prompts (vLLM, SGLang, llama.cpp) or a model in this process"
_NOT_IN_CHATS: Final = ("top_k", "min_p", "repetition_penalty")


def check_plan(plan: Plan) -> None:
    """Raises `Unsupported` for what no server can be asked."""
    if plan.mode is Mode.LOCKSTEP:
        raise Unsupported("lock-step needs the model in this process: use strict or sequential with a server")
    for _, _, segment in fields_of(plan):
        if segment.sampling.drafts not in (None, "off"):
            raise Unsupported(f"`{segment.field}` is guessed ahead (`drafts`), {_HERE}")
        if isinstance(segment, Hole) and segment.auto is not None:
            raise Unsupported(f"`{segment.field}` lets the model open threads, {_HERE}")
        if isinstance(segment, Hole) and segment.form is Form.THOUGHT:
            raise Unsupported(f"the answer begins with a thought of at most {segment.max_tokens} tokens, {_HERE}")


def check_whole(plan: Plan) -> None:
    """Raises `Unsupported` for a program whose answer cannot be asked for as one JSON value."""
    check_plan(plan)
    if plan.output is None:
        raise Unsupported(f"this server takes chats only, and answers them as JSON: a text with holes needs {_RAW}")
    if any(input.each for input in plan.inputs):
        raise Unsupported("this server takes chats only: call `batch` or `map` in place of an `each` input")


def whole_sampling(plan: Plan, base: Sampling) -> Sampling:
    """How all of an answer is drawn. Raises `Unsupported` for values that are drawn each in its own way, and for what
    a chat cannot be asked."""
    drawn: dict[Sampling, str] = {}
    for _, _, segment in fields_of(plan):
        drawn.setdefault(replace(segment.sampling.over(base), on_truncated=None, drafts=None), segment.field)
    if len(drawn) > 1:
        one, other, *_ = drawn.values()
        raise Unsupported(
            f"this server takes chats only: `{one}` and `{other}` are drawn differently, which needs {_RAW}"
        )
    found = next(iter(drawn), base)
    for name in _NOT_IN_CHATS:
        if getattr(found, name) is not None:
            raise Unsupported(f"this server takes chats only, which have no `{name}`: it needs {_RAW}")
    return found
