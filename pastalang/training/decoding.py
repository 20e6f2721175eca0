"""What a model makes of rows: requests come in, decoded by the engine some at a time, answers and their cost go out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pastalang.errors import PastaError
from pastalang.plan.plan import Plan
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import Result
from pastalang.values.json_text import JsonValue

Request: TypeAlias = tuple[Plan, Mapping[str, Any]]
Tell: TypeAlias = Callable[[int], None]  # how many requests are done


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of one request: a value and whether a limit cut it, for each document; one, unless they are stacked.

    Of a run that failed, `values` holds None alone, and `problem` says why.
    """

    values: tuple[JsonValue, ...]
    truncated: tuple[bool, ...]
    passes: int
    is_stacked: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decoding:
    """`passes` of requests that share them count for each of the requests."""

    rows: tuple[Decoded, ...]
    seconds: float

    @property
    def documents(self) -> int:
        return sum(len(row.values) for row in self.rows)

    @property
    def passes_per_document(self) -> float:
        """Of the runs that did not fail."""
        done = [row for row in self.rows if not row.problem]
        return sum(row.passes for row in done) / max(1, sum(len(row.values) for row in done))

    @property
    def documents_per_second(self) -> float:
        return self.documents / self.seconds if self.seconds else 0.0


def decode(
    engine: Engine, requests: Sequence[Request], *, batch: int, any_mode: bool = False, tell: Tell | None = None
) -> Decoding:
    """Greedy where the programs do not say otherwise. `batch` requests of one plan share their passes."""
    found: dict[int, Decoded] = {}
    began = time.perf_counter()
    for plan, numbers in _chunks(requests, batch):
        results = engine.batch(plan, [requests[number][1] for number in numbers], any_mode=any_mode)
        found |= {number: _decoded(result) for number, result in zip(numbers, results, strict=True)}
        if tell is not None:
            tell(len(found))
    seconds = time.perf_counter() - began
    return Decoding(tuple(found[number] for number in range(len(requests))), seconds)


def _chunks(requests: Sequence[Request], size: int) -> Iterable[tuple[Plan, list[int]]]:
    """The numbers of the requests, plan by plan."""
    by_plan: dict[int, list[int]] = {}
    for number, (plan, _) in enumerate(requests):
        by_plan.setdefault(id(plan), []).append(number)
    for numbers in by_plan.values():
        for first in range(0, len(numbers), size):
            yield requests[numbers[0]][0], numbers[first : first + size]


def _decoded(result: Result | PastaError) -> Decoded:
    if isinstance(result, PastaError):
        return Decoded((None,), (False,), 0, problem=str(result))
    return Decoded(
        tuple(answer.exact for answer in result.answers),
        tuple(any(field.truncated for field in answer.fields) for answer in result.answers),
        result.usage.forward_passes,
        result.is_stacked,
    )
