"""An engine whose model runs on a server: the same calls, and the same results.

    engine = pastalang.connect("http://host:8000/v1#name")
    engine.run("product.pasta", title="Sharp 42 inch TV")

A server that takes raw prompts (vLLM, SGLang, llama.cpp) is asked for each value alone, all that can begin at the same
time. A server that takes chats only is asked for the whole answer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import httpx

from pastalang.errors import PastaError
from pastalang.hosts import branches, whole
from pastalang.hosts.branches import Key, Memory, PlanRun
from pastalang.hosts.errors import HostError, Unsupported
from pastalang.hosts.servers import SERVERS, Kind, Server, kind_at
from pastalang.hosts.transport import Patience, Transport
from pastalang.hosts.turns import Turns, roles_of
from pastalang.plan.build import build_plan, with_history
from pastalang.plan.plan import Mode, Placement, Plan
from pastalang.program.types import Sampling
from pastalang.runtime.answer import answers_of, layout_of
from pastalang.runtime.answer_parts import FieldResult
from pastalang.runtime.call import OPTIONS, Options, check_names, merged_inputs, options_of, template_of
from pastalang.runtime.errors import BadInputs, Problem
from pastalang.runtime.events import Done, Event, Failed, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.inputs import roles_of as roles_of_history
from pastalang.runtime.plan_cache import Runnable
from pastalang.runtime.question import Question, question_of
from pastalang.runtime.repair.policy import Policy, policy_for
from pastalang.runtime.repair.validation import Objection, judge
from pastalang.runtime.result import Answer, Invalid, Result, Usage
from pastalang.runtime.trace import Trace
from pastalang.values.fit import read, to_python
from pastalang.values.paths import path_text, place_in_answer
from pastalang.values.quotes import no_texts, quotable_texts

T = TypeVar("T")
IN_FLIGHT: Final = 32
_REFUSED: Final = {
    "drafts": "drafts are guessed inside the model's process: leave `drafts` out",
}


@dataclass(frozen=True, slots=True)
class _Call:
    plan: Plan
    options: Options
    policy: Policy | None
    values: Mapping[str, Any]


class RemoteEngine:
    """Runs programs on a server. Made by `pastalang.connect`.

    `run`, `batch`, `map` and `stream` have twins for asyncio: `arun`, `amap`, `astream`. It may be used from several
    threads and event loops.
    """

    trained_for = None  # a server does not say what its weights were trained for
    longest_text = 1 << 40  # the server refuses what is too long for its model

    def __init__(self, transport: Transport, kind: Kind, model: str, *, tokenizer: Any, in_flight: int) -> None:
        self.kind = kind
        self.name = model
        self._transport = transport
        self._in_flight = in_flight
        self._server: Server | None = SERVERS[kind](transport, model) if kind.takes_raw_prompts else None
        self._turns = None if self._server is None else Turns(self._server, tokenizer)
        self._chats = whole.Chats(transport, model)
        self._plans: dict[tuple[int, str | None, Mode], tuple[Any, Plan]] = {}

    def __repr__(self) -> str:
        way = "one request for each value" if self.kind.takes_raw_prompts else "one request for each answer"
        return f"<RemoteEngine {self.name} at {self._transport.url} ({self.kind.value}): {way}>"

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections of the calls that do not await."""
        _BACKGROUND.run(self._transport.close())

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, program: Runnable, *, template: str | None = None, mode: str | Mode = Mode.STRICT) -> Plan:
        """The plan that `run` uses. Raises `Unsupported` for what this server cannot be asked."""
        plan = self._plan(program, template, Mode(mode))
        (branches if self.kind.takes_raw_prompts else whole).check_plan(plan)
        return plan

    def run(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result[Any]:
        """Run a program on one set of inputs; see `Engine.run`. Raises `HostError` if the server fails."""
        return _BACKGROUND.run(self.arun(program, inputs, **given))

    async def arun(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result[Any]:
        """`run` for asyncio. Cancelling the task closes its requests."""
        return await self._run(self._call(program, inputs, given))

    def batch(
        self,
        program: Runnable,
        inputs: Iterable[Mapping[str, Any]],
        *,
        seeds: Iterable[int] | None = None,
        **given: Any,
    ) -> list[Result[Any] | PastaError]:
        """Run a program on many sets of inputs. What fails is returned as its error."""
        given_inputs = list(inputs)
        chosen = [given.get("seed", 0)] * len(given_inputs) if seeds is None else list(seeds)
        if len(chosen) != len(given_inputs):
            raise BadInputs(f"`seeds` has {len(chosen)} numbers, and the batch {len(given_inputs)} sets of inputs")
        options = {name: value for name, value in given.items() if name != "seed"}

        async def all_of_them() -> list[Result[Any] | PastaError]:
            pairs = zip(given_inputs, chosen, strict=True)
            calls = (self._outcome(program, one, {**options, "seed": seed}) for one, seed in pairs)
            return list(await asyncio.gather(*calls))

        return _BACKGROUND.run(all_of_them())

    def map(
        self, program: Runnable, inputs: Iterable[Mapping[str, Any]], *, in_flight: int | None = None,
        return_errors: bool = False, **given: Any,
    ) -> Iterator[Result[Any] | PastaError]:  # fmt: skip
        """Run a program on any number of inputs, which are read as they are needed, and yield results in order."""
        return _BACKGROUND.iterate(
            lambda: self.amap(program, inputs, in_flight=in_flight, return_errors=return_errors, **given)
        )

    async def amap(
        self, program: Runnable, inputs: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]], *,
        in_flight: int | None = None, return_errors: bool = False, **given: Any,
    ) -> AsyncGenerator[Result[Any] | PastaError, None]:  # fmt: skip
        """`map` for asyncio."""
        most, waiting = in_flight or self._in_flight, asyncio.Queue[asyncio.Task[Any]]()
        source = _items(inputs)
        is_over = False
        try:
            while not is_over or not waiting.empty():
                while not is_over and waiting.qsize() < most:
                    try:
                        given_inputs = await anext(source)
                    except StopAsyncIteration:
                        is_over = True
                        break
                    task = asyncio.create_task(self._outcome(program, given_inputs, given))
                    waiting.put_nowait(task)
                if waiting.empty():
                    break
                outcome = await waiting.get_nowait()
                if isinstance(outcome, PastaError) and not return_errors:
                    raise outcome
                yield outcome
        finally:
            while not waiting.empty():
                waiting.get_nowait().cancel()

    def stream(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Iterator[Event]:
        """Yield events while a program runs; each value arrives whole. The last event is `Done` or `Failed`."""
        return _BACKGROUND.iterate(lambda: self.astream(program, inputs, **given))

    async def astream(
        self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any
    ) -> AsyncGenerator[Event, None]:
        """`stream` for asyncio. Leaving the loop cancels the run."""
        call = self._call(program, inputs, given)
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(call, events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            problem = task.exception()
            if problem is None:
                yield Done(task.result())
            elif isinstance(problem, PastaError):
                yield Failed(problem)  # type: ignore[arg-type]
            else:
                raise problem
        finally:
            task.cancel()

    def extract(self, type: Any, text: str, **options: Any) -> Any:
        """Read a text and return an instance of the type; see `pastalang.extract`."""
        return self.ask(question_of(type, text, options))

    async def aextract(self, type: Any, text: str, **options: Any) -> Any:
        """`extract` for asyncio."""
        return await self.aask(question_of(type, text, options))

    def ask(self, question: Question) -> Any:
        """The answer to a question of `extract`."""
        return _BACKGROUND.run(self.aask(question))

    async def aask(self, question: Question) -> Any:
        """`ask` for asyncio."""
        found = await self.arun(question.program, question.inputs, model=question.type, **question.options)
        return question.answer(found)

    # ── one run ──────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, program: Runnable, template: str | None, mode: Mode) -> Plan:
        from pastalang.compiler import load
        from pastalang.program.program import Program

        if isinstance(program, Plan):
            return program
        found = program if isinstance(program, Program) else load(program)
        key = id(found), template, mode
        known = self._plans.get(key)
        if known is None or known[0] is not found:
            known = self._plans[key] = found, build_plan(template_of(found, template), found, mode=mode)
        return known[1]

    def _call(self, program: Runnable, inputs: Mapping[str, Any] | None, given: Mapping[str, Any]) -> _Call:
        for name, advice in _REFUSED.items():
            if given.get(name) not in (None, "off"):
                raise Unsupported(f"a server cannot carry out `{name}={given[name]!r}`: {advice}")
        options = options_of({name: value for name, value in given.items() if name in OPTIONS})
        if options.retry_below is not None:
            raise Unsupported("`retry_below` needs the confidence of each token: it is for models in this process")
        if options.placement is not None and Placement(options.placement) is Placement.GAPS:
            raise Unsupported("a server places values right behind what they see: leave `placement` out")
        plan = self.plan(program, template=options.template, mode=options.mode)
        named = {name: value for name, value in given.items() if name not in OPTIONS}
        check_names(named, [input.name for input in plan.inputs])
        values = bind_inputs(plan, merged_inputs(inputs or {}, named, plan, given))
        if plan.history is not None:
            plan = with_history(plan, roles_of_history(values[plan.history.name]))
        return _Call(plan, options, policy_for(plan, options, has_checks=False), values)

    async def _outcome(
        self, program: Runnable, inputs: Mapping[str, Any], given: Mapping[str, Any]
    ) -> Result[Any] | PastaError:
        try:
            return await self._run(self._call(program, inputs, given))
        except PastaError as problem:
            return problem

    async def _run(self, call: _Call, tell: Callable[[Event], None] | None = None) -> Result[Any]:
        started = time.monotonic()
        patience = self._transport.patience
        end = None if patience.deadline is None else started + patience.deadline
        run = self._in_branches if self._server is not None else self._in_whole
        return await run(call, started, end, tell)

    async def _in_branches(
        self, call: _Call, started: float, end: float | None, tell: Callable[[Event], None] | None
    ) -> Result[Any]:
        assert self._server is not None and self._turns is not None
        turns = await self._turns.of(roles_of(call.plan))
        memory, replies, rounds = Memory(), [], 0
        while True:
            run = PlanRun(
                call.plan, call.values, server=self._server, turns=turns, sampling=_sampling(call.options),
                seed=call.options.seed, end=end, memory=memory, tell=tell,
            )  # fmt: skip
            await run.run()
            replies += run.replies
            answers, is_stacked = answers_of(run, may_be_wrong=call.policy is not None)  # type: ignore[arg-type]
            models, problems, blamed = _judged(run, answers, call.policy)
            if not blamed or call.policy is None or rounds >= call.policy.repair:
                break
            memory.forget(blamed)
            rounds += 1
        usage = _usage(
            [(one.prompt_tokens, one.cached_tokens, one.tokens) for one in replies], waves=run.waves, rounds=rounds,
            seconds=time.monotonic() - started, mode="branches",
        )  # fmt: skip
        return _finished(call, answers, is_stacked, usage, models, problems)

    async def _in_whole(
        self, call: _Call, started: float, end: float | None, tell: Callable[[Event], None] | None
    ) -> Result[Any]:
        plan, types = call.plan, dict(call.plan.types)
        sources = no_texts(plan.inputs) | quotable_texts(call.values)
        found = await self._chats.answer(
            plan, call.values, sampling=_sampling(call.options), seed=call.options.seed, end=end, sources=sources
        )
        assert plan.output is not None
        if found.mismatches:
            raise HostError(f"the server's answer does not fit its type: {found.mismatches[0]}")
        value = read(found.text, plan.output, types, sources=sources).value
        answer = Answer(to_python(plan.output, value, types), found.text, (), exact=value)
        if tell is not None:
            tell(FieldStarted("answer", ()))
            tell(TextDelta("answer", (), found.text))
            tell(FieldDone("answer", (), found.text, truncated=False))
        models, problems = [], []
        if call.policy is not None and call.policy.model is not None:
            model, objections = judge(_Checked(value), call.policy.model)
            models, problems = [model], [_problem(one) for one in objections]
        usage = _usage(
            [(found.prompt_tokens, found.cached_tokens, found.written_tokens)], waves=found.requests,
            rounds=found.requests - 1, seconds=time.monotonic() - started, mode="whole", requests=found.requests,
        )  # fmt: skip
        return _finished(call, (answer,), False, usage, models, problems)


def _sampling(options: Options) -> Sampling:
    return Sampling(on_truncated=options.on_truncated).over(options.sampling or Sampling())


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


@dataclass(frozen=True, slots=True)
class _Checked:
    """A JSON answer that fits its type, for a validator."""

    written: Any
    mismatches: tuple[Any, ...] = ()


def _judged(
    run: PlanRun, answers: tuple[Answer, ...], policy: Policy | None
) -> tuple[list[Any], list[Problem], set[Key]]:
    """The validated values, what a validator objects to, and the fields that are to blame."""
    models: list[Any] = []
    problems: list[Problem] = []
    blamed: set[Key] = set()
    if policy is None:
        return models, problems, blamed
    documents = [run.root] if len(answers) == 1 else run.documents
    for number, (answer, document) in enumerate(zip(answers, documents, strict=True)):
        model, objections = judge(layout_of(document), policy.model)  # type: ignore[arg-type]
        models.append(model)
        for one in objections:
            fields = [field for field in answer.fields if _is_to_blame(one, field.path, field.items)]
            blamed |= {(field.path, field.items) for field in fields}
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
    call: _Call, answers: tuple[Answer, ...], is_stacked: bool, usage: Usage, models: list[Any], problems: list[Problem]
) -> Result[Any]:
    """Raises `Invalid` if a validator still objects."""
    if call.policy is not None and call.policy.model is not None and not problems:
        answers = tuple(replace(one, value=model) for one, model in zip(answers, models, strict=True))
    result = Result(answers, is_stacked, usage, Trace(0, (), (), (), ()), tuple(problems))
    if problems and call.policy is not None and not call.policy.keep_invalid:
        raise Invalid(tuple(problems), plan=call.plan, result=result)
    return result


async def _items(inputs: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(inputs, AsyncIterable):
        async for one in inputs:
            yield one
    else:
        for one in inputs:
            yield one


class _Background:
    """The event loop, in a thread of its own, of all calls that do not await. It starts with the first of them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a result. An interrupt cancels the work, which closes its requests."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, begin: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
        items = begin()
        try:
            while True:
                try:
                    yield self.run(_next_of(items))
                except StopAsyncIteration:
                    return
        finally:
            self.run(items.aclose())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="pastalang hosts", daemon=True).start()
            return self._loop


async def _next_of(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


_BACKGROUND: Final = _Background()


def connect(
    url: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    kind: str = "auto",
    tokenizer: Any = None,
    timeout: float = 120.0,
    deadline: float | None = None,
    retries: int = 5,
    in_flight: int = IN_FLIGHT,
    transport: httpx.AsyncBaseTransport | None = None,
) -> RemoteEngine:
    """An engine whose model runs on a server: `connect("http://host:8000/v1#name")`.

    `kind` is "vllm", "sglang", "llama.cpp" or "openai"; "auto" asks the server. `model` may follow the address after a
    `#`; without one, the first model of the server is taken. `tokenizer` is one of `transformers`, or its name or
    folder, for servers that do not show their chat template. `timeout` is for one request, `deadline` for a run with
    all its retries (seconds), `in_flight` how many requests are open at the same time. Raises `HostError`.
    """
    address, _, named = url.partition("#")
    if not address.startswith(("http://", "https://")):
        raise BadInputs(f"the address of a server begins with http:// or https://, not {url!r:.60}")
    kinds = [one.value for one in Kind]
    if kind != "auto" and kind not in kinds:
        raise BadInputs(f"`kind` must be auto, {', '.join(kinds)}, not {kind!r:.40}")
    found = Transport(
        address.rstrip("/").removesuffix("/v1"), api_key=api_key,
        patience=Patience(timeout=timeout, deadline=deadline, retries=retries), in_flight=in_flight,
        transport=transport,
    )  # fmt: skip
    chosen, name = Kind.OPENAI if kind == "auto" else Kind(kind), model or named
    if kind == "auto" or not name:
        detected, first = _BACKGROUND.run(kind_at(found))
        chosen, name = detected if kind == "auto" else chosen, name or first
    if isinstance(tokenizer, str):
        from pastalang.runtime.models.loading import load_tokenizer

        tokenizer = load_tokenizer(tokenizer)
    return RemoteEngine(found, chosen, name, tokenizer=tokenizer, in_flight=in_flight)
