"""In which way weights should be asked that were not trained for values side by side: python -m benchmarks.asked

Each document is asked in strict mode, in strict mode with values that stand right behind what they see (`dense`), and
from left to right; and again with one example in the prompt. The documents are those of `everyday.toml` (without
examples: each has a program of its own), the written documents that the recipe of smollm2 holds out, and held-out
titles of OA-Mine. Differences come with the interval that holds 95 % of 2,000 draws of the documents.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from benchmarks.everyday import read_documents
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode, Placement
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.program.program import Program
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.source import SMOLLM2
from pastalang.training.evaluation import decode
from pastalang.values.json import JsonValue, same_json
from recipes.pasta_mini.documents import TEXT
from recipes.pasta_mini.listings import Listing
from recipes.pasta_mini.real_listings import read_oa_mine
from recipes.smollm2.lessons import program_of_titles
from recipes.smollm2.written import program_of, read_written

WAYS: Final = {
    "strict": (Mode.STRICT, Placement.GAPS), "dense": (Mode.STRICT, Placement.DENSE),
    "sequential": (Mode.SEQUENTIAL, Placement.GAPS),
}  # fmt: skip
_DRAWS: Final = 2000


@dataclass(frozen=True, slots=True)
class Case:
    program: Program
    text: str
    value: JsonValue


def cases_of(name: str, titles: Sequence[Listing], shown: int) -> Iterator[Case]:
    match name:
        case "everyday" if not shown:
            for one in read_documents():
                yield Case(one.program, one.text, dict(one.value))
        case "written":
            for record in read_written():
                if record.is_held_out:
                    program = program_of(record, shown)
                    yield from (Case(program, text, dict(value)) for text, value in record.documents[1:])
        case "titles":
            for number, listing in enumerate(titles):
                others = [other for other in titles if other.category == listing.category and other is not listing]
                names = list(listing.values)
                if others:
                    example = Random(number).choice(others)
                    program = program_of_titles(names, [example] if shown else [])
                    yield Case(program, listing.title, dict(listing.values))


def right_of(engine: Engine, cases: Sequence[Case], way: str) -> list[tuple[int, int]]:
    """For each case how many fields are right, and how many there are."""
    mode, placement = WAYS[way]
    plans: dict[int, Plan] = {}
    for one in cases:
        if id(one.program) not in plans:
            plans[id(one.program)] = build_plan(one.program.only_template, one.program, mode=mode, placement=placement)
    rows = decode(engine, [(plans[id(one.program)], {TEXT: one.text}) for one in cases], batch=8, any_mode=True).rows
    found = []
    for one, row in zip(cases, rows, strict=True):
        assert isinstance(one.value, dict)
        value = None if row.problem else row.values[0]
        given = value if isinstance(value, dict) else {}
        found.append((sum(same_json(given.get(key), right) for key, right in one.value.items()), len(one.value)))
    return found


def difference(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> str:
    """In points of the share of fields that are right."""
    left, right = np.array(one, dtype=np.float64), np.array(other, dtype=np.float64)
    drawn = np.random.default_rng(0).integers(0, len(left), (_DRAWS, len(left)))
    draws = 100 * (left[drawn, 0].sum(1) - right[drawn, 0].sum(1)) / left[drawn, 1].sum(1)
    low, high = np.percentile(draws, (2.5, 97.5))
    points = 100 * (left[:, 0].sum() - right[:, 0].sum()) / left[:, 1].sum()
    return f"{points:+.1f} ({low:+.1f} … {high:+.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.asked", description=__doc__)
    parser.add_argument("--oa-mine", type=Path, required=True, help="its open training part, as JSON lines")
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--adapter", default="none", help="its name or folder; none: the bare weights")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--count", type=int, default=145, help="of each kind, at most")
    given = parser.parse_args()
    try:
        titles = read_oa_mine(given.oa_mine).held_out
        adapter = None if given.adapter == "none" else given.adapter
        engine = Engine.load(given.model, adapter=adapter, dtype=given.dtype)
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    print("| documents | examples | fields | strict | dense | sequential | dense - strict | sequential - strict |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in ("everyday", "written", "titles"):
        for shown in (0, 1):
            cases = list(islice(cases_of(name, titles, shown), given.count))
            if not cases:
                continue
            found = {way: right_of(engine, cases, way) for way in WAYS}
            asked = sum(count for _, count in found["strict"])
            shares = [f"{100 * sum(right for right, _ in found[way]) / asked:.1f} %" for way in WAYS]
            gaps = [difference(found[way], found["strict"]) for way in ("dense", "sequential")]
            print(f"| {name}, {len(cases)} | {shown} | {asked} | {' | '.join([*shares, *gaps])} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
