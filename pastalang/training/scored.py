"""Rows with right answers and an engine come in; what it decodes for them, its scores and its cost go out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pastalang.plan.plan import Plan
from pastalang.runtime.engine import Engine
from pastalang.training.answer import spell_json
from pastalang.training.answers import example_of
from pastalang.training.data import CATEGORY, VALUE, Row
from pastalang.training.decoding import Decoded, Decoding, Tell, decode
from pastalang.training.metrics import Example, Report, evaluate
from pastalang.values.json_text import JsonValue


@dataclass(frozen=True, slots=True)
class Scored:
    """`problems`: the origin of each row that could not be decoded, and why. They count as unreadable."""

    decoding: Decoding
    report: Report
    problems: tuple[tuple[str, str], ...]


def score_rows_by_decoding(
    engine: Engine, plan: Plan, rows: Sequence[Row], *, batch: int, any_mode: bool = False, tell: Tell | None = None
) -> Scored:
    decoding = decode(engine, [(plan, row.inputs) for row in rows], batch=batch, any_mode=any_mode, tell=tell)
    pairs = list(zip(rows, decoding.rows, strict=True))
    return Scored(
        decoding,
        evaluate(example for row, decoded in pairs for example in _examples(row, decoded)),
        tuple((row.origin, decoded.problem) for row, decoded in pairs if decoded.problem),
    )


def prediction_lines(scored: Scored, rows: Sequence[Row]) -> str:
    """JSON lines in the order of the rows, as `score_files` reads them."""
    lines = []
    for row, decoded in zip(rows, scored.decoding.rows, strict=True):
        value = list(decoded.values) if decoded.is_stacked else decoded.values[0]
        line: dict[str, JsonValue] = {VALUE: value, "truncated": any(decoded.truncated)}
        if row.category:
            line[CATEGORY] = row.category
        if decoded.problem:
            line["problem"] = decoded.problem
        lines.append(spell_json(line) + "\n")
    return "".join(lines)


def _examples(row: Row, decoded: Decoded) -> Iterator[Example]:
    right = row.answer.value if row.answer.is_stacked else [row.answer.value]
    assert isinstance(right, list)
    if decoded.problem:
        yield from (example_of(one, None, category=row.category, readable=False) for one in right)
        return
    for one, found, truncated in zip(right, decoded.values, decoded.truncated, strict=True):
        yield example_of(one, found, category=row.category, truncated=truncated)
