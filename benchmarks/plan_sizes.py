"""Tabulate what ordinary Pydantic models plan: python -m benchmarks.plan_sizes [--write | --save FILE]

Positions, cells and passes of each model with everything at its limit, next to the figures in `plan-sizes-before.json`,
which `--save` wrote before strings and lists shared the room of an answer. `--write` records the table in
`results/plan-sizes.md`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from tokenizers import Tokenizer

import pastalang
from benchmarks.ordinary_models import MODELS
from pastalang.plan.forecast import forecast
from pastalang.plan.token_bounds import Lengths

RESULTS = Path(__file__).parent / "results"
TABLE, BEFORE = RESULTS / "plan-sizes.md", RESULTS / "plan-sizes-before.json"
GOAL = 1_500  # positions


class Mini:
    """The tokenizer of `pasta-mini`. It counts the text, but for gaps, which count bytes whatever the tokenizer."""

    def __init__(self) -> None:
        folder = Path(pastalang.__file__).parent / "weights" / "pasta-mini"
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def size_of(model: type[BaseModel], lengths: Lengths) -> tuple[int, int, int]:
    """Positions, cells and passes at most."""
    program = pastalang.from_model(model)
    found = forecast(pastalang.build_plan(program.only_template, program), lengths)
    return found.highest_position.high + 1, found.peak_cells.high, found.passes.high


def sizes() -> dict[str, tuple[int, int, int]]:
    lengths = Lengths(encoder=Mini())
    return {model.__name__: size_of(model, lengths) for model in MODELS}


def table(before: dict[str, tuple[int, int, int]], now: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    below = {key: sum(size[0] < GOAL for size in one.values()) for key, one in (("before", before), ("now", now))}
    yield "# What ordinary Pydantic models plan\n"
    yield f"Below {GOAL:,} positions: {below['now']} of {len(now)} models, {below['before']} before.\n"
    yield "| model | positions | cells | passes | positions before | cells before | passes before |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, size in now.items():
        yield "| " + " | ".join([name, *(f"{number:,}" for number in (*size, *before[name]))]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Tabulate what ordinary Pydantic models plan.")
    parser.add_argument("--write", action="store_true", help=f"record the table in {TABLE.name}")
    parser.add_argument("--save", type=Path, help="write the figures as JSON, to compare others with")
    given = parser.parse_args()
    now = sizes()
    if given.save is not None:
        given.save.write_text(json.dumps(now) + "\n", encoding="utf-8")
        return
    text = "\n".join(table(json.loads(BEFORE.read_text("utf-8")), now)) + "\n"
    if given.write:
        TABLE.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
