"""The engine runs programs on a model: `run` one request, `stream` its events; `arun` and `astream` await.

All requests of an engine share its forward passes. `batch` and `map`, for many inputs, are in `many_requests`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, TypeVar, Unpack, overload

from pastalang.errors import PastaError
from pastalang.program.types import Drafts, OnTruncated
from pastalang.runtime.call import RunOptions, check_load_names, check_size
from pastalang.runtime.constraints.compile import prepare_vocabulary
from pastalang.runtime.errors import LoadError, RunError
from pastalang.runtime.events import Done, Event, Failed
from pastalang.runtime.many_requests import ManyRequests
from pastalang.runtime.models.loading import DType, LoadedModel, load_model
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.plan_cache import Runnable
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.step_budget import Limits
from pastalang.runtime.truncation import warn

if TYPE_CHECKING:  # stands above the engine, and is imported by the call
    from pastalang.extraction import ExtractOptions
    from pastalang.runtime.extraction_result import Extraction

M = TypeVar("M")

CELLS = 8192


class Engine(ManyRequests):
    """Runs programs on one model.

        engine = pastalang.Engine.load("pasta-mini")
        result = engine.run("product.pasta", title="Sharp 42 inch TV")
        result.value, result.usage.forward_passes

    `load` takes a folder, a name on the hub, or a `transformers` model with its tokenizer. `run` returns a `Result`;
    `stream` yields events while fields are written; `batch` and `map` run many inputs in the same forward passes;
    `arun`, `astream` and `amap` are for asyncio. An engine may be used from several threads: calls take turns.
    """

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
        **unknown: Never,
    ) -> Engine:
        """Load a model: a folder, a name on the hub, `"pasta-mini"`, or a `transformers` model and its tokenizer.

        `cells` is the size of the KV cache in tokens. `dtype` is a type of torch or its name: "bfloat16" is faster on
        many CPUs and rounds more. Weights loaded onto a CPU are `packed` into the layout that its kernels read fastest;
        a model that you loaded is never changed. A file `pastalang.json` next to the weights names the modes they were
        trained for. `on_truncated` and `drafts` apply to calls that do not set them. Raises `LoadError`.
        """
        check_load_names(unknown, options=tuple(signature(Engine.load).parameters))
        check_size("cells", cells, minimum=1)
        pair = source if isinstance(source, tuple) else (source, tokenizer)
        if isinstance(source, tuple) or tokenizer is not None or hasattr(source, "config"):
            if len(pair) != 2 or not hasattr(pair[0], "config") or pair[1] is None:
                raise LoadError("pass a loaded model with its tokenizer: `Engine.load(model, tokenizer)`")
            found = LoadedModel(pair[0], pair[1], trained_for=None)
        else:
            found = load_model(source, device=device, dtype=dtype, packed=packed)
        try:
            engine = Engine(
                TransformersModel(found.weights, cells=cells, probe_tokens=found.probe_tokens), found.tokenizer,
                limits=limits, prefix_cells=prefix_cells, trained_for=found.trained_for, on_truncated=on_truncated,
                drafts=drafts,
            )  # fmt: skip
        except MemoryError as problem:
            raise LoadError(f"this machine has no memory for a KV cache of {cells} cells: {problem}") from problem
        prepare_vocabulary(engine._vocabulary)  # so that the first guides are not slow
        return engine

    # ── what people call ─────────────────────────────────────────────────────────────────────────────────

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
    def run(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result:
        """Run a program, a plan or a `.pasta` file on one set of inputs.

        Inputs are keywords, `run(program, title="…")`, or a dict, `run(program, {"title": "…"})`. An input that has the
        name of an option has to be in the dict.

        Options: `template`, `mode`, `any_mode`, `seed`, `sampling`, `model`, `repair`, `retry_below`, `keep_invalid`,
        `on_truncated`, `details`, `drafts`; see `pastalang.runtime.call.Options`. Raises `InputError` for wrong inputs,
        `PlanError` for a program that cannot be planned, `LoadError` for a mode that the weights do not know,
        `RunError` if decoding fails.
        """
        request = self._single_request(program, inputs, given, with_events=False)
        try:
            self._submit(request)
            while not request.is_over:
                self._step_for(request)
        finally:
            self._cancel([request])
        return _result_or_error(self._outcome_of(request))

    @overload
    def stream(
        self, program: Runnable, inputs: Mapping[str, Any], *, model: object = None, **options: Unpack[RunOptions]
    ) -> Iterator[Event]: ...
    @overload
    def stream(self, program: Runnable, inputs: None = None, **given: Any) -> Iterator[Event]: ...
    def stream(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Iterator[Event]:
        """Yield events while a program runs; the last one is `Done` or `Failed`. Called like `run`.

        The run begins with the first event that is taken. Closing the iterator cancels it.
        """
        return self._stream(self._single_request(program, inputs, given, with_events=True))

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
    async def arun(self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any) -> Result:
        """`run` for asyncio: concurrent calls share forward passes. Cancelling the task cancels the run."""
        request = self._submit(self._single_request(program, inputs, given, with_events=False))
        try:
            while not request.is_over:
                await self._astep_for(request)
        except BaseException:
            self._cancel([request])
            raise
        return _result_or_error(self._outcome_of(request))

    @overload
    def astream(
        self, program: Runnable, inputs: Mapping[str, Any], *, model: object = None, **options: Unpack[RunOptions]
    ) -> AsyncGenerator[Event, None]: ...
    @overload
    def astream(self, program: Runnable, inputs: None = None, **given: Any) -> AsyncGenerator[Event, None]: ...
    def astream(
        self, program: Runnable, inputs: Mapping[str, Any] | None = None, **given: Any
    ) -> AsyncGenerator[Event, None]:
        """`stream` for asyncio: `async for event in engine.astream(program, title="…")`.

        Concurrent streams and runs share forward passes. Leaving the loop early cancels the run as soon as the iterator
        is closed; `contextlib.aclosing` does that at once.
        """
        return self._astream(self._single_request(program, inputs, given, with_events=True))

    @overload
    def extract(
        self, type: type[M], text: str, *, details: Literal[False] = False, **options: Unpack[ExtractOptions]
    ) -> M: ...
    @overload
    def extract(
        self, type: type[M], text: str, *, details: Literal[True], **options: Unpack[ExtractOptions]
    ) -> Extraction[M]: ...
    @overload
    def extract(
        self, type: object, text: str, *, details: Literal[False] = False, **options: Unpack[ExtractOptions]
    ) -> Any: ...
    @overload
    def extract(
        self, type: object, text: str, *, details: Literal[True], **options: Unpack[ExtractOptions]
    ) -> Extraction[Any]: ...
    def extract(self, type: Any, text: str, **options: Any) -> Any:
        """Read a text and return an instance of the type, or an `Extraction` with `details=True`.

        Called like `pastalang.extract`, with the model of this engine.
        """
        from pastalang.extraction import question_of

        return question_of(type, text, options).ask(self)

    @overload
    async def aextract(
        self, type: type[M], text: str, *, details: Literal[False] = False, **options: Unpack[ExtractOptions]
    ) -> M: ...
    @overload
    async def aextract(
        self, type: type[M], text: str, *, details: Literal[True], **options: Unpack[ExtractOptions]
    ) -> Extraction[M]: ...
    @overload
    async def aextract(
        self, type: object, text: str, *, details: Literal[False] = False, **options: Unpack[ExtractOptions]
    ) -> Any: ...
    @overload
    async def aextract(
        self, type: object, text: str, *, details: Literal[True], **options: Unpack[ExtractOptions]
    ) -> Extraction[Any]: ...
    async def aextract(self, type: Any, text: str, **options: Any) -> Any:
        """`extract` for asyncio: concurrent calls share forward passes."""
        from pastalang.extraction import question_of

        return await question_of(type, text, options).aask(self)

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────

    def _stream(self, request: RequestState) -> Iterator[Event]:
        try:
            self._submit(request)
            while not request.is_over:
                self._step_for(request)
                yield from request.events.take()
            yield from request.events.take()  # another caller may have run the last step
            yield self._last_event(request)
        finally:
            self._cancel([request])

    async def _astream(self, request: RequestState) -> AsyncGenerator[Event, None]:
        try:
            self._submit(request)
            while not request.is_over:
                await self._astep_for(request)
                for event in request.events.take():
                    yield event
            for event in request.events.take():
                yield event
            yield self._last_event(request)
        finally:
            self._cancel([request])

    def _last_event(self, request: RequestState) -> Event:
        outcome = self._outcome_of(request)
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
