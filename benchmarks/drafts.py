"""Drafts on listings: passes, tokens and time with and without, and whether the answers are the same.

    python -m benchmarks.drafts --oa-mine train.jsonl [--model pasta-mini] [--documents 30]

The titles are quoted from: ten attributes, each `verbatim(title) | null`. Both sides run in turn in one process, so
that a load from elsewhere meets both; the times are of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pastalang
from pastalang.runtime.call import Drafts

ATTRIBUTES = (
    "Brand", "Type", "Color", "Size", "Material", "Model", "Capacity", "Flavor", "Pack quantity", "Form",
)  # fmt: skip
PROGRAM = "\n".join(
    [
        "template attributes(title: text)",
        'user """',
        "{title}",
        '"""',
        "assistant json {",
        *(f'  "{name}": verbatim(title, max=24) | null' for name in ATTRIBUTES),
        "}",
    ]
)
WAYS: tuple[Drafts, ...] = ("off", "auto", 4, 8)


@dataclass
class Total:
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    answers: list[str] = field(default_factory=list)


def measure(model: str, titles: list[str], mode: str, temperature: float | None) -> dict[Drafts, Total]:
    """Each way has an engine of its own, because an engine remembers what fields held."""
    program = pastalang.compile(PROGRAM)
    engines = {way: pastalang.Engine.load(model) for way in WAYS}
    sampling = None if temperature is None else pastalang.Sampling(temperature=temperature)
    totals: dict[Drafts, Total] = {way: Total() for way in WAYS}
    for engine in engines.values():
        engine.run(program, title="", mode=mode, drafts="auto")
    for seed, title in enumerate(titles):
        for way, total in totals.items():
            began = time.process_time()
            result = engines[way].run(program, title=title, mode=mode, seed=seed, sampling=sampling, drafts=way)
            total.seconds += time.process_time() - began
            total.answers.append(result.text)
            usage = result.usage
            total.counts.update(
                passes=usage.forward_passes, drafted=usage.drafted_tokens, confirmed=usage.confirmed_tokens
            )
    return totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oa-mine", type=Path, required=True)
    parser.add_argument("--model", default="pasta-mini")
    parser.add_argument("--documents", type=int, default=30)
    given = parser.parse_args()
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    with given.oa_mine.open(encoding="utf-8") as file:
        titles = [json.loads(line)["input"] for line in islice(file, given.documents)]
    print("| mode | temperature | drafts | passes | drafted | confirmed | ms per document | time | same answers |")
    print("|---|---|---|---|---|---|---|---|---|")
    for mode in ("strict", "sequential"):
        for temperature in (None, 0.8):
            totals = measure(given.model, titles, mode, temperature)
            plain = totals["off"]
            for way, total in totals.items():
                each = {name: count / len(titles) for name, count in total.counts.items()}
                same = sum(a == b for a, b in zip(plain.answers, total.answers, strict=True))
                print(
                    f"| {mode} | {temperature or 0} | {way} | {each['passes']:.1f} | {each['drafted']:.1f} "
                    f"| {each['confirmed']:.1f} | {1000 * total.seconds / len(titles):.0f} "
                    f"| {total.seconds / plain.seconds:.2f}x | {same} of {len(titles)} |"
                )


if __name__ == "__main__":
    main()
