"""How often rounding changes a sampled answer: with drafts, and among other requests, next to the same answer alone.

    python -m benchmarks.rounding [--model pasta-mini] [--answers 200]

Passes of different widths add up in different orders. Every answer has a seed of its own, at temperature 1.
Log-probabilities are compared up to the first token that differs.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any, Final

import torch

import pastalang

PROGRAM: Final = pastalang.compile(
    'template t(listing: text)\nuser """\n{listing}\n"""\nassistant json '
    "{ brand: string(max=30), note: string(max=30) }\n"
)
LISTING: Final = "Acme ceramic travel mug, 350 ml, dishwasher safe, matte black, with a lid of bamboo"
TYPES: Final = ("float32", "bfloat16")


def answers(model: str, dtype: Any, count: int) -> dict[str, list[pastalang.Result]]:
    """The same answers in several ways, each with an engine of its own."""
    seeds, inputs = range(count), {"listing": LISTING}
    options: dict[str, Any] = {"sampling": pastalang.Sampling(temperature=1.0), "on_truncated": "keep"}
    alone, again, drafted, together = (pastalang.Engine.load(model, dtype=dtype, prefix_cells=0) for _ in range(4))
    batch = together.batch(PROGRAM, [inputs] * count, seeds=seeds, drafts="off", **options)
    return {
        "alone": [alone.run(PROGRAM, inputs, seed=seed, drafts="off", **options) for seed in seeds],
        "run again": [again.run(PROGRAM, inputs, seed=seed, drafts="off", **options) for seed in seeds],
        "with 8 drafts": [drafted.run(PROGRAM, inputs, seed=seed, drafts=8, **options) for seed in seeds],
        "among all others": [one for one in batch if isinstance(one, pastalang.Result)],
    }


def moved(one: pastalang.Result, other: pastalang.Result) -> float:
    """The largest difference of two log-probabilities of the same token after the same tokens."""
    largest = 0.0
    for a, b in zip(one.fields, other.fields, strict=True):
        for first, second, p, q in zip(a.tokens, b.tokens, a.log_probabilities, b.log_probabilities, strict=False):
            if first != second:
                break
            largest = max(largest, abs(p - q))
    return largest


def line(dtype: str, way: str, plain: Sequence[pastalang.Result], found: Sequence[pastalang.Result]) -> str:
    pairs = list(zip(plain, found, strict=True))
    differ = sum(one.text != other.text for one, other in pairs)
    return f"| {dtype} | {way} | {max(moved(*pair) for pair in pairs):.1g} | {differ} of {len(plain)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pasta-mini")
    parser.add_argument("--answers", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    print("| weights | way | a log-probability moves by at most | answers that differ |")
    print("|---|---|---|---|")
    for dtype in TYPES:
        found = answers(given.model, dtype, given.answers)
        plain = found.pop("alone")
        for way, results in found.items():
            print(line(dtype, way, plain, results), flush=True)


if __name__ == "__main__":
    main()
