"""Draws a finished run as one self-contained HTML page: each branch, what it decoded in which pass, what it saw."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from typing import TypeAlias

from pastalang.plan.plan import Plan
from pastalang.runtime.answer_parts import Stretch
from pastalang.runtime.result import Result, Usage
from pastalang.runtime.trace import ForcedTokens, JoinedLanes, Trace


@dataclass(frozen=True, slots=True)
class PageLane:
    """One branch instance. `parent` and `forked_in` (a pass, from 1) say where it forked; the root has neither."""

    id: int
    name: str
    parent: int | None
    forked_in: int | None


@dataclass(frozen=True, slots=True)
class PageCell:
    """What one lane was fed in one pass, or sampled from its logits.

    `probability` is None for forced text. `position` is the position of the first token.
    """

    lane: int
    forward_pass: int
    text: str
    tokens: int
    probability: float | None
    position: int

    @property
    def is_forced(self) -> bool:
        return self.probability is None


@dataclass(frozen=True, slots=True)
class SeenLane:
    """At its end, `lane` saw the first `tokens` tokens of `seen`."""

    lane: int
    seen: int
    tokens: int


Figure: TypeAlias = tuple[str, str]  # one number of the headline, and what it means: 5.2×, fewer passes


@dataclass(frozen=True, slots=True)
class PageDocument:
    title: str
    subtitle: str
    figures: tuple[Figure, ...]
    passes: int
    sequential_passes: int
    lanes: tuple[PageLane, ...]
    cells: tuple[PageCell, ...]
    joins: tuple[JoinedLanes, ...]
    sights: tuple[SeenLane, ...]
    answer: tuple[Stretch, ...]


def page_of(result: Result, plan: Plan, *, model: str = "") -> PageDocument:
    """The content of the page. `model` is the name that the page shows for the model."""
    trace, sequential = result.trace, result.usage.output_tokens
    return PageDocument(
        title=plan.template,
        subtitle=" · ".join(part for part in (plan.source_name, plan.mode.value, model) if part),
        figures=_figures(trace, result.usage, sequential),
        passes=trace.passes,
        sequential_passes=sequential,
        lanes=tuple(PageLane(lane.id, lane.where, lane.parent, lane.forked_in) for lane in trace.lanes),
        cells=_cells(trace),
        joins=tuple(replace(join, since=max(join.since, 1)) for join in trace.joins),
        sights=_seen_lanes(trace),
        answer=tuple(piece for answer in result.answers for piece in answer.stretches),
    )


def _figures(trace: Trace, usage: Usage, sequential: int) -> tuple[Figure, ...]:
    passes = max(trace.passes, 1)
    guesses = ((f"{usage.confirmed_tokens:,} of {usage.drafted_tokens:,}", "guesses right"),)
    return (
        (f"{trace.passes:,}", "forward passes"),
        (f"{sequential:,}", "left to right"),
        (f"{sequential / passes:.1f}×", "fewer passes"),
        *(guesses if usage.drafted_tokens else ()),
        (f"{usage.peak_cells:,}", "cells at most"),
        (f"{usage.seconds:.2f} s", "in all"),
    )


def _cells(trace: Trace) -> tuple[PageCell, ...]:
    """The cells of the page. In each pass, forced text comes before what was sampled after it."""
    forced = _forced_cells(trace.fed)
    drawn = [
        PageCell(drew.lane, drew.forward_pass, drew.text, 1, math.exp(drew.log_probability), drew.position)
        for drew in trace.drawn
    ]
    return tuple(sorted((*forced, *drawn), key=lambda cell: (cell.forward_pass, cell.lane, not cell.is_forced)))


def _forced_cells(fed: Iterable[ForcedTokens]) -> list[PageCell]:
    """Forced text. Adjacent tokens of one lane and one pass are one cell, such as a prompt that is partly cached."""
    cells: list[PageCell] = []
    for one in sorted(fed, key=lambda one: (one.lane, one.forward_pass, one.position)):
        last = cells[-1] if cells else None
        follows = last is not None and (one.lane, one.forward_pass, one.position) == (
            last.lane, last.forward_pass, last.position + last.tokens
        )  # fmt: skip
        if last is not None and follows:
            cells[-1] = replace(last, text=last.text + one.text, tokens=last.tokens + one.tokens)
        else:
            cells.append(PageCell(one.lane, one.forward_pass, one.text, one.tokens, None, one.position))
    return cells


def _seen_lanes(trace: Trace) -> tuple[SeenLane, ...]:
    own = dict.fromkeys((lane.id for lane in trace.lanes), 0)
    for fed in trace.fed:
        own[fed.lane] += fed.tokens
    for drew in trace.drawn:
        own[drew.lane] += 1
    seen = [SeenLane(lane.id, other, tokens) for lane in trace.lanes for other, tokens in lane.sees if tokens]
    return (*seen, *(SeenLane(lane, lane, tokens) for lane, tokens in own.items() if tokens))


def render_page(document: PageDocument) -> str:
    """The HTML of the page. Data enters as inert JSON and as text nodes, never as markup or script."""
    folder = files("pastalang.runtime.display")
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "%TITLE%": escape(document.title),
        "%STYLE%": folder.joinpath("page.css").read_text(encoding="utf-8"),
        "%DATA%": inert_json(asdict(document)),
        "%SCRIPT%": folder.joinpath("page.js").read_text(encoding="utf-8"),
    }
    return fill_page(page, parts)


def inert_json(data: object) -> str:
    """JSON in which no character can end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")


def fill_page(page: str, parts: dict[str, str]) -> str:
    """Replaces the markers one after another, so that a marker inside a part is left alone."""
    rest, filled = page, []
    for marker, part in parts.items():
        head, found, rest = rest.partition(marker)
        assert found, f"the page has no place for {marker}"
        filled += [head, part]
    return "".join([*filled, rest])
