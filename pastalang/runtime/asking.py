"""`extract` and its relatives of an engine, whether its model runs in this process or elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from typing_extensions import TypeVar

from pastalang.failures import PastaError
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.runtime.call import EXTRACT_DEFAULTS, ExtractOptions, shows_options
from pastalang.runtime.events import Event
from pastalang.runtime.interrupts import in_thread
from pastalang.runtime.long_document import TEXT, WindowCall, WindowPlan, aextraction_of, extraction_of
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.runtime.partial_model import Partial, apartials, check_streamed, partials
from pastalang.runtime.question import Question, question_of
from pastalang.runtime.result import Extraction, Result
from pastalang.runtime.windows import Windowing

M = TypeVar("M", default=Any)


class Asking(ABC):
    """Asks for a value of a type, about a text. `extract_many` is in `bulk`, which stands on engines."""

    trained_for: TrainingNote | None

    @overload
    def extract(
        self, type: type[M], text: str, *, details: Literal[False] = False, **options: Unpack[ExtractOptions]
    ) -> M: ...
    @overload
    def extract(
        self, type: type[M], text: str, *, details: Literal[True], **options: Unpack[ExtractOptions]
    ) -> Extraction[M]: ...
    @overload
    def extract(self, type: object, text: str, *, details: bool = False, **options: Unpack[ExtractOptions]) -> Any: ...
    @shows_options(EXTRACT_DEFAULTS, ExtractOptions)
    def extract(self, type: Any, text: str, *, details: bool = False, **options: Any) -> Any:
        """Read a text and return an instance of the type, or an `Extraction` with `details=True`.

        Called like `pastalang.extract`, with the model of this engine.
        """
        return self.ask(question_of(type, text, {**options, "details": details}))

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
        self, type: object, text: str, *, details: bool = False, **options: Unpack[ExtractOptions]
    ) -> Any: ...
    @shows_options(EXTRACT_DEFAULTS, ExtractOptions)
    async def aextract(self, type: Any, text: str, *, details: bool = False, **options: Any) -> Any:
        """`extract` for asyncio: concurrent calls share forward passes."""
        return await self.aask(question_of(type, text, {**options, "details": details}))

    @shows_options(EXTRACT_DEFAULTS, ExtractOptions)
    def stream_model(self, type: type[M] | Mapping[str, Any], text: str, **options: Any) -> Iterator[Partial[M]]:
        """Read a text as `extract` does, and yield a `Partial` of the value whenever a field is done.

            for partial in engine.stream_model(Invoice, text):
                print(partial.value.total)  # None until it is done

        The last one has the value of the type as `final`. The run begins with the first that is taken, and closing the
        iterator cancels it. Raises what `extract` raises.
        """
        question = check_streamed(question_of(type, text, options))
        inputs = question.inputs_for(self.trained_for)
        return partials(question, self.stream(question.program, inputs, model=question.type, **question.options))

    @shows_options(EXTRACT_DEFAULTS, ExtractOptions)
    def astream_model(
        self, type: type[M] | Mapping[str, Any], text: str, **options: Any
    ) -> AsyncGenerator[Partial[M], None]:
        """`stream_model` for asyncio."""
        question = check_streamed(question_of(type, text, options))
        inputs = question.inputs_for(self.trained_for)
        return apartials(question, self.astream(question.program, inputs, model=question.type, **question.options))

    def ask(self, question: Question) -> Any:
        """The answer to a question of `extract`."""
        if question.windowing is not None:
            document, parts, options = self._windows(question, question.windowing)
            runs = partial(self.map, question.program, parts, return_errors=True, **options)
            return question.answered(extraction_of(document, runs))
        inputs = question.inputs_for(self.trained_for)
        return question.answer(self.run(question.program, inputs, model=question.type, **question.options))

    async def aask(self, question: Question) -> Any:
        """`ask` for asyncio."""
        if (windowing := question.windowing) is not None:
            document, parts, options = await in_thread(lambda: self._windows(question, windowing))
            outcomes = self.amap(question.program, parts, return_errors=True, **options)
            return question.answered(await aextraction_of(document, outcomes))
        inputs = question.inputs_for(self.trained_for)
        return question.answer(await self.arun(question.program, inputs, model=question.type, **question.options))

    def _windows(self, question: Question, windowing: Windowing) -> WindowCall:
        given, options = question.inputs_for(self.trained_for), question.options
        plan = self.plan(question.program, mode=options.get("mode", Mode.STRICT), placement=options.get("placement"))
        return self.windows_of(plan, windowing, input=TEXT, type=question.type, options=options).call(given, options)

    # ── what it stands on ────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def plan(self, *program: Any, **options: Any) -> Plan: ...

    @abstractmethod
    def run(self, *program: Any, **given: Any) -> Result[Any]: ...

    @abstractmethod
    async def arun(self, *program: Any, **given: Any) -> Result[Any]: ...

    @abstractmethod
    def stream(self, *program: Any, **given: Any) -> Iterator[Event]: ...

    @abstractmethod
    def astream(self, *program: Any, **given: Any) -> AsyncGenerator[Event, None]: ...

    @abstractmethod
    def map(self, *program: Any, **given: Any) -> Iterator[Result[Any] | PastaError]: ...

    @abstractmethod
    def amap(self, *program: Any, **given: Any) -> AsyncGenerator[Result[Any] | PastaError, None]: ...

    @abstractmethod
    def windows_of(
        self, plan: Plan, windowing: Windowing, *, input: str, type: Any, options: Mapping[str, Any]
    ) -> WindowPlan: ...

    if not TYPE_CHECKING:  # type checkers go on finding names that there are not

        def __getattr__(self, name: str) -> Any:
            if name in ("extract_many", "aextract_many"):
                raise AttributeError(f"for many documents, write `pastalang.{name}(type, documents, model=engine)`")
            raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`", name=name, obj=self)
