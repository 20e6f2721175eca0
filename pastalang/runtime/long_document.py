"""A document that is read in windows: its runs, and the extraction that their outcomes become.

text ── windows ── inputs of each ── runs ── outcomes ── merge ── validators of the type ── Extraction
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Final, TypeAlias

from pastalang.failures import PastaError
from pastalang.plan.plan import Plan
from pastalang.runtime.answer_parts import Stretch
from pastalang.runtime.errors import BadInputs, OutOfMemory, Problem, TooLong
from pastalang.runtime.merge import MergedAnswer, Reading, merge
from pastalang.runtime.repair.validation import CheckedValue, judge, validator_of
from pastalang.runtime.result import Answer, Extraction, Invalid, Result, Usage, Window
from pastalang.runtime.trace import ROOT_LANE, Trace
from pastalang.runtime.windows import TokenCounter, Windowing, windows_of
from pastalang.values.fit import find_mismatches, to_python
from pastalang.values.json import places_of
from pastalang.values.paths import path_text

TEXT: Final = "text"  # the input of the program of a type
Outcome: TypeAlias = Result[Any] | PastaError  # of the run of one window
WindowCall: TypeAlias = "tuple[LongDocument, Iterator[Mapping[str, Any]], dict[str, Any]]"
_SMALLER: Final = (TooLong, OutOfMemory)  # errors that a smaller window may avoid


def extraction_of(document: LongDocument, runs: Callable[[], Iterable[Outcome]]) -> Extraction[Any]:
    """The extraction of a call: runs its windows, and raises the error of the first that has one, or `Invalid` for what
    all say."""
    for outcome in runs():
        _raise_error_of(document.add(outcome).found)
    return _raise_error_of(document.extraction())


async def aextraction_of(document: LongDocument, outcomes: AsyncGenerator[Outcome]) -> Extraction[Any]:
    """`extraction_of` for asyncio."""
    async with aclosing(outcomes):
        async for outcome in outcomes:
            _raise_error_of(document.add(outcome).found)
    return _raise_error_of(await asyncio.to_thread(document.extraction))


def _raise_error_of(found: Extraction[Any]) -> Extraction[Any]:
    if found.error is not None:
        raise found.error
    return found


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How documents are read in windows: the plan of every window, and the input that is cut into them.

    `type` validates values, as `model=` of a run does; None leaves them as the plan types them. Raises `BadInputs` for
    an answer that cannot be merged.
    """

    windowing: Windowing
    plan: Plan
    input: str
    type: Any
    keep_invalid: bool
    counter: TokenCounter
    passes: Callable[[], int]  # of the engine so far

    def __post_init__(self) -> None:
        if self.plan.output is None:
            raise BadInputs(f"`{self.plan.template}` writes running text; only JSON answers of windows can be merged")

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the run of a window. What validators object to in a part may be right in the whole."""
        return {**given, "model": self.type} | ({} if self.type is None else {"keep_invalid": True})

    def call(self, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> WindowCall:
        """The document of a call of `extract`, with the inputs and the options of the runs of its windows."""
        document = self.document(inputs[self.input])
        return document, ({**inputs, self.input: part} for part in document.parts()), self.options(options)

    def document(self, text: str, *, id: str | int | None = None) -> LongDocument:
        return LongDocument(self, text, id, begun=time.perf_counter(), passes=self.passes())


@dataclass(slots=True)
class LongDocument:
    """A document and its windows so far, in the order of the text."""

    plan: WindowPlan
    text: str
    id: str | int | None
    begun: float
    passes: int  # of the engine before it
    windows: list[Window] = field(default_factory=list)
    _places: list[tuple[int, int]] = field(default_factory=list)

    def parts(self) -> Iterator[str]:
        """The text of each window, cut as it is needed."""
        for start, end in windows_of(self.text, self.plan.counter, self.plan.windowing):
            self._places.append((start, end))
            yield self.text[start:end]

    def add(self, outcome: Outcome) -> Window:
        """The outcome of the next window."""
        start, end = self._places[len(self.windows)]
        found = Extraction.of(_placed(outcome, start, end) if isinstance(outcome, PastaError) else outcome)
        self.windows.append(Window(start, end, found))
        return self.windows[-1]

    def extraction(self) -> Extraction[Any]:
        """What all windows say. An error of one of them is that of the document."""
        windows = tuple(self.windows)
        error = next((one.found.error for one in windows if one.found.error is not None), None)
        if error is not None:
            return Extraction(None, None, error, self.id, windows)
        plan, output = self.plan.plan, self.plan.plan.output
        assert output is not None
        types = dict(plan.types)
        readings = [
            Reading.of(
                answer, one.start, self.text[one.start : one.end], input=self.plan.input, type=output, types=types
            )
            for one in windows
            for answer in one.found.result.answers
        ]
        merged = merge(readings, output, types, self.plan.windowing.merge)
        result, problems = self._result(merged)
        if problems and not self.plan.keep_invalid:
            return Extraction(None, result, Invalid(problems, plan=plan, result=result), self.id, windows)
        return Extraction(result.value, result, None, self.id, windows)

    def _result(self, merged: MergedAnswer) -> tuple[Result[Any], tuple[Problem, ...]]:
        output, types = self.plan.plan.output, dict(self.plan.plan.types)
        assert output is not None
        validator = None if self.plan.type is None else validator_of(self.plan.type)
        mismatches = find_mismatches(output, merged.value, types)
        value, objections = judge(CheckedValue(merged.value, mismatches), validator)
        if validator is None and not mismatches:
            value = to_python(output, merged.value, types)
        tree = places_of(merged.text)
        problems = tuple(
            Problem(path_text(one.path), one.reason, merged.text[slice(*tree.at(one.path).place)], 1)
            for one in objections
        )
        sources = {path: text for one in self.windows for path, text in one.found.sources.items()}
        answer = Answer(
            value, merged.text, merged.fields, (Stretch(merged.text, ROOT_LANE, True),), None, merged.value,
            {**sources, self.plan.input: self.text}, merged.truncations,
        )  # fmt: skip
        passes = self.plan.passes() - self.passes
        usage = _usage([one.found.usage for one in self.windows], passes, time.perf_counter() - self.begun)
        return Result((answer,), False, usage, Trace(usage.forward_passes, (), (), (), ()), problems), problems


def _placed(error: PastaError, start: int, end: int) -> PastaError:
    """The error with the window that it is about, and what may help."""
    if not isinstance(error, _SMALLER):
        return error
    return type(error)(f"{error.reason} (characters {start:,} to {end:,}): choose a smaller `window`")


def _usage(parts: Sequence[Usage], passes: int, seconds: float) -> Usage:
    """The sums over all windows, which share passes. Of cells, those of the largest."""
    path = max(one.critical_path for one in parts)
    drawn = sum(one.output_tokens for one in parts)
    return Usage(
        input_tokens=sum(one.input_tokens for one in parts),
        reused_tokens=sum(one.reused_tokens for one in parts),
        output_tokens=drawn,
        forced_tokens=sum(one.forced_tokens for one in parts),
        forward_passes=passes,
        critical_path=path,
        theoretical_speedup=fsum(one.theoretical_speedup * one.critical_path for one in parts) / max(path, 1),
        peak_cells=max(one.peak_cells for one in parts),
        attended_tokens=fsum(one.attended_tokens * one.output_tokens for one in parts) / max(drawn, 1),
        seconds=seconds,
        repair_passes=sum(one.repair_passes for one in parts),
        repair_tokens=sum(one.repair_tokens for one in parts),
        attempts=sum(one.attempts for one in parts),
        drafted_tokens=sum(one.drafted_tokens for one in parts),
        confirmed_tokens=sum(one.confirmed_tokens for one in parts),
        mode=parts[0].mode,
        requests=sum(one.requests for one in parts),
    )
