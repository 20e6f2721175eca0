"""Measure what `{schema}` in the prompt does to extraction: python benchmarks/schema_in_prompt.py ROWS [--most 60]

ROWS are the listings of OA-Mine. The held-out titles are extracted by programs that differ in nothing but how the
system message shows the schema. The F1 is that of `pasta evaluate`; prompt tokens are the mean of the titles.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pastalang
from pastalang.training.metrics import ABSENT, Example, evaluate
from pastalang.values.json import write_json
from recipes.pasta_mini.listings import Listing
from recipes.pasta_mini.real_listings import read_oa_mine

ORDER = "You extract product attributes. Write null when the listing does not say."
WAYS = {
    "no schema": ORDER,
    "skeleton": f"{ORDER}\n\n{{schema}}",
    "list": f'{ORDER}\n\n{{schema(style="list")}}',
    "JSON Schema": f'{ORDER}\n\n{{schema(style="json")}}',
}


@dataclass(frozen=True, slots=True)
class Score:
    f1: float
    prompt_tokens: float


def program_for(listing: Listing, order: str) -> pastalang.Program:
    fields = "\n".join(f"  {write_json(name)}: verbatim(title, max=24) | null" for name in listing.values)
    return pastalang.compile(
        f'template t(title: text)\nsystem """\n{order}\n"""\nuser """\nTitle: {{title}}\n"""\n'
        f"assistant json {{\n{fields}\n}}\n"
    )


def score(engine: pastalang.Engine, listings: Sequence[Listing], order: str) -> Score:
    examples, tokens = [], 0
    programs: dict[tuple[str, ...], pastalang.Program] = {}
    for listing in listings:
        program = programs.setdefault(tuple(listing.values), program_for(listing, order))
        result = engine.run(program, {"title": listing.title})
        expected = {name: (value or ABSENT,) for name, value in listing.values.items()}
        examples.append(Example(listing.category, expected, dict(result.value)))
        tokens += result.usage.input_tokens
    return Score(evaluate(examples).reported.f1, tokens / len(listings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--model", default="pasta-mini")
    parser.add_argument("--most", type=int, default=None, help="only so many of the held-out titles")
    given = parser.parse_args()
    listings = read_oa_mine(given.rows).held_out[: given.most]
    engine = pastalang.Engine.load(given.model)
    print(f"{given.model}, {len(listings)} held-out titles\n")
    print("| schema in the prompt | F1 | prompt tokens |\n|---|---:|---:|")
    for name, order in WAYS.items():
        found = score(engine, listings, order)
        print(f"| {name} | {found.f1:.1f} | {found.prompt_tokens:.0f} |", flush=True)


if __name__ == "__main__":
    main()
