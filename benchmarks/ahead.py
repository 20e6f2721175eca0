"""What probes predict on a program: tokens per pass, what passes are fed, and time, next to no drafts and to look-up.

    python -m benchmarks.ahead --model FOLDER --program FILE --data rows.jsonl [--documents 40] [--mode sequential]

`FOLDER` holds prompt tokens (`pasta train ppd`) or a mask token (`pasta train space`). Each way has an engine of its
own, and all take the documents in turn. Rows with a `category` get a table for each, of so many documents. A pass is
fed at most so many tokens besides the first of each branch. Times are of the processor, on a GPU by the clock. The
table before says how good the probes were at the end of their training. With `--together N`, so many documents are
answered in a batch, one way after the other, and `--ways` names some of the ways.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch

import pastalang
from pastalang.program.types import Drafts
from pastalang.runtime.drafts.drafter import EngineDrafter
from pastalang.runtime.models.source import OWN, DTypeName
from pastalang.training.probe_lines import table

FED = (7, 15)  # besides the last token of a branch


@dataclass(frozen=True)
class Way:
    name: str
    drafts: Drafts
    looks_up: bool = True
    predicts: bool = True


WAYS = (
    Way("off", "off"),
    *(Way(f"look-up, {most}", most, predicts=False) for most in FED),
    *(Way(f"probes, {most}", most, looks_up=False) for most in FED),
    *(Way(f"both, {most}", most) for most in FED),
    Way("look-up, auto", "auto", predicts=False),
    Way("probes, auto", "auto", looks_up=False),
    Way("both, auto", "auto"),
)


@dataclass
class Total:
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    answers: list[str] = field(default_factory=list)


def engine_for(model: str, way: Way, **options: Any) -> pastalang.Engine:
    engine = pastalang.Engine.load(model, drafts=way.drafts, **options)
    drafter = engine.loop.drafter
    assert isinstance(drafter, EngineDrafter)
    if not way.predicts:
        drafter._ahead = None
    if not way.looks_up:
        drafter._texts.matches = lambda *_: []  # type: ignore[method-assign]
        drafter._values.after = lambda *_: []  # type: ignore[method-assign]
        drafter._values.closing = lambda *_: None  # type: ignore[method-assign]
        drafter._ngrams.after = lambda _: iter(())  # type: ignore[method-assign]
    return engine


def measure(engines: list[pastalang.Engine], program: Any, rows: list[dict[str, Any]], **options: Any) -> list[Total]:
    totals = [Total() for _ in engines]
    for engine in engines:
        engine.run(program, rows[0], **options)
    for seed, row in enumerate(rows):
        for engine, total in zip(engines, totals, strict=True):
            began = time.process_time()
            result = engine.run(program, row, seed=seed, **options)
            total.seconds += time.process_time() - began
            total.answers.append(result.text)
            usage = result.usage
            total.counts.update(
                passes=usage.forward_passes, drawn=usage.output_tokens, fed=usage.drafted_tokens,
                confirmed=usage.confirmed_tokens,
            )  # fmt: skip
    return totals


def measure_together(
    way: Way, load: dict[str, Any], program: Any, rows: list[dict[str, Any]], together: int, **options: Any
) -> list[Total]:
    """What each row takes, where so many are answered in a batch. Their seconds are shared equally."""
    engine = engine_for(load["model"], way, **load["options"])
    clock = time.process_time if engine.model.device.type == "cpu" else time.perf_counter
    engine.run(program, rows[0], **options)
    totals = []
    for first in range(0, len(rows), together):
        some = rows[first : first + together]
        began = clock()
        results = engine.batch(program, some, seeds=range(first, first + len(some)), **options)
        seconds = (clock() - began) / len(some)
        for result in results:
            usage = result.usage
            counts = Counter(
                passes=usage.forward_passes, drawn=usage.output_tokens, fed=usage.drafted_tokens,
                confirmed=usage.confirmed_tokens,
            )  # fmt: skip
            totals.append(Total(seconds, counts, [result.text]))
    return totals


def added(totals: list[Total]) -> Total:
    counts = sum((one.counts for one in totals), Counter[str]())
    return Total(sum(one.seconds for one in totals), counts, [text for one in totals for text in one.answers])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--mode", default="strict")
    parser.add_argument("--temperature", type=float)
    parser.add_argument(
        "--dtype",
        choices=get_args(DTypeName),
        help="of the weights; float32 rounds so little that answers should be the same",
    )
    parser.add_argument("--adapter", default=OWN, help="a name or a folder; none: the bare weights")
    parser.add_argument("--together", type=int, default=0, help="documents of a batch, of all kinds")
    parser.add_argument("--ways", default="", help="the names of ways to measure besides none, with | between them")
    parser.add_argument("--cells", type=int, default=16384)
    given = parser.parse_args()
    options: dict[str, Any] = {"adapter": None if given.adapter == "none" else given.adapter, "dtype": given.dtype}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    program = pastalang.load(given.program)
    ahead = pastalang.Engine.load(given.model, **options).model.probe_tokens
    for line in () if ahead is None else table(ahead.accuracy):
        print(line)
    names = [one.name for one in program.only_template.inputs]
    sampling = None if given.temperature is None else pastalang.Sampling(temperature=given.temperature)
    kinds = rows_by_kind(given.data, names, given.documents)
    ways = [way for way in WAYS if way is WAYS[0] or not given.ways or way.name in given.ways.split("|")]
    running: dict[str, Any] = {"mode": given.mode, "sampling": sampling}
    if given.together:
        load = {"model": given.model, "options": options | {"cells": given.cells}}
        every = [row for rows in kinds.values() for row in rows]
        found = [measure_together(way, load, program, every, given.together, **running) for way in ways]
        for kind, rows in kinds.items():
            print(*([f"\n{kind}"] if kind else []))
            report(ways, [added(totals[: len(rows)]) for totals in found], len(rows))
            found = [totals[len(rows) :] for totals in found]
        return
    for kind, rows in kinds.items():
        print(*([f"\n{kind}"] if kind else []))
        engines = [engine_for(given.model, way, **options) for way in ways]
        report(ways, measure(engines, program, rows, **running), len(rows))


def rows_by_kind(data: Path, names: list[str], most: int) -> dict[str, list[dict[str, Any]]]:
    """The inputs of the first rows of each `category`; rows without one are of one kind."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    with data.open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            kinds.setdefault(row.get("category", ""), []).append({name: row[name] for name in names if name in row})
    return {kind: rows[:most] for kind, rows in kinds.items()}


def report(ways: list[Way], totals: list[Total], documents: int) -> None:
    plain = totals[0]
    print("| drafts | passes | tokens per pass | fed ahead per pass | ms per document | time | same answers |")
    print("|---|---|---|---|---|---|---|")
    for way, total in zip(ways, totals, strict=True):
        passes = total.counts["passes"]
        same = sum(one == other for one, other in zip(plain.answers, total.answers, strict=True))
        print(
            f"| {way.name} | {passes / documents:.1f} | {total.counts['drawn'] / passes:.2f} "
            f"| {total.counts['fed'] / passes:.1f} | {1000 * total.seconds / documents:.0f} "
            f"| {total.seconds / plain.seconds:.2f}x | {same} of {documents} |"
        )


if __name__ == "__main__":
    main()
