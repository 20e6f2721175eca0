"""What a model extracts from the documents of HPD's data sets, as it comes: nothing is tuned here.

python -m benchmarks.attributes --oa-mine FILE --ae-110k FILE --wdc-pave FILE --model smollm2 --adapter extract none

The prompt is that of `pastalang.from_model`. Every attribute that the training part knows of a category is asked for,
and a value is a quotation from the document or null. Of OA-Mine, on which the shipped weights were trained, only the
held-out tenth is read. They have seen nothing of the other two, so all their documents are drawn from, with one seed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.hpd import clock
from benchmarks.hpd.certainty import difference, interval
from benchmarks.hpd.documents import Corpus, Document, Name, read_corpus
from benchmarks.hpd.measure import CELLS, example_of, scores
from pastalang.compiler import compile
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.loading import load_tokenizer
from pastalang.runtime.models.source import SMOLLM2
from pastalang.training.evaluation import decode
from pastalang.training.metrics import evaluate, field_texts
from pastalang.training.recording import planner
from pastalang.values.conversion import Converted
from pastalang.values.to_source import program_source

TEXT = "text"
HEAD = ("weights, mode", "documents", "F1", "F1 strict", "invented", "passes", "of `generate`", "seconds each")


def chosen(corpus: Corpus, count: int) -> tuple[Document, ...]:
    documents = corpus.held_out if corpus.name is Name.OA_MINE else (*corpus.train, *corpus.held_out)
    return tuple(Random(0).sample(documents, min(count, len(documents))))


@cache
def plans_of(asked: tuple[str, ...]) -> Callable[[Mode], Plan]:
    value = t.Union((t.Verbatim(TEXT), t.Null()))
    shape = t.Object(tuple(t.Field(name, value) for name in asked))
    return planner(compile(program_source(Converted(shape, {}), name="listing")))


def measure(
    engine: Engine, tokenizer: Any, corpus: Corpus, documents: Sequence[Document], mode: Mode
) -> dict[str, Any]:  # fmt: skip
    """`generated`: the tokens of the answers with their keys, each of which would take `generate` a pass."""
    requests = [(plans_of(corpus.asked[one.category])(mode), {TEXT: one.text}) for one in documents]
    began = clock.now()
    decoding = decode(engine, requests, batch=64, any_mode=True)
    seconds = clock.now() - began
    values = [None if row.problem else row.values[0] for row in decoding.rows]
    examples = [
        example_of(one, None if value is None else field_texts(value), truncated=any(row.truncated))
        for one, value, row in zip(documents, values, decoding.rows, strict=True)
    ]
    asked = {one.category: corpus.asked[one.category] for one in documents}
    written = [json.dumps(value, ensure_ascii=False) for value in values if value is not None]
    return {
        **scores(evaluate(examples, asked=asked), examples),
        "passes": sum(row.passes for row in decoding.rows) / len(documents),
        "generated": sum(len(tokenizer.encode(one)) + 1 for one in written) / max(1, len(written)),
        "seconds": seconds / len(documents),
    }


def line(name: str, found: dict[str, Any]) -> str:
    low, high = interval(found)
    return (
        f"| {name} | {found['documents']} | {found['f1']:.1f} ({low:.1f} … {high:.1f}) | {found['strict_f1']:.1f} "
        f"| {found['hallucinated']:.1f} % | {found['passes']:.1f} | {found['passes'] / found['generated']:.2f} "
        f"| {found['seconds']:.2f} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attributes", description="Score a model as it comes.")
    for name in Name:
        parser.add_argument(f"--{name}", type=Path, help="its open training part, JSON lines, gzip or not")
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--adapter", nargs="+", default=["extract", "none"], help="names or folders; none: without")
    parser.add_argument("--mode", type=Mode, nargs="+", default=list(Mode), choices=list(Mode))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--documents", type=int, default=145, help="of each data set, at most")
    given = parser.parse_args()
    files = {name: path for name in Name if (path := getattr(given, name.replace("-", "_")))}
    try:
        tokenizer = load_tokenizer(given.model)
        engines = [
            (one, Engine.load(given.model, dtype=given.dtype, adapter=None if one == "none" else one, cells=CELLS))
            for one in given.adapter
        ]
        for name, path in files.items():
            corpus = read_corpus(name, path)
            documents = chosen(corpus, given.documents)
            print(f"\n{name}\n\n| {' | '.join(HEAD)} |\n|---|{'---:|' * (len(HEAD) - 1)}")
            for adapter, engine in engines:
                found = {}
                for mode in given.mode:
                    found[mode] = measure(engine, tokenizer, corpus, documents, mode)
                    print(line(f"{adapter}, {mode.value}", found[mode]), flush=True)
                for one, other in ((Mode.STRICT, Mode.SEQUENTIAL), (Mode.LOCKSTEP, Mode.STRICT)):
                    if one in found and other in found:
                        gap = difference(found[one], found[other])
                        print(f"{adapter}, {one.value} - {other.value}: {gap}", file=sys.stderr, flush=True)
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
