"""What a model extracts from the documents of HPD's data sets, as it comes: nothing is tuned here.

python -m benchmarks.attributes --oa-mine FILE --ae-110k FILE --wdc-pave FILE --model smollm2 --adapter extract none

The prompt is that of `pastalang.from_model`. Every attribute that the training part knows of a category is asked for,
and a value is a quotation from the document or null. Of OA-Mine, on which the shipped weights were trained, only the
held-out tenth is read. They have seen nothing of the other two, so all their documents are drawn from, with one seed.

--stacked 2 4    also as HPD does it: several documents of a category in one prompt, which shows the attributes once,
                 and one answer with a record for each. Every value sees all documents; none sees another value
--generate 12    also so many documents one after another, beside `generate` of transformers with the same weights
                 and the same prompt, which writes as many tokens as the whole answers have
--judge MODEL    also F1 as this model judges it, or the one on a server at this address, `http://host:8000/v1#name`
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

import numpy as np
import torch

from benchmarks.hpd import clock
from benchmarks.hpd.certainty import difference, interval
from benchmarks.hpd.documents import Corpus, Document, Name, read_corpus
from benchmarks.hpd.judged import judge_by, judged
from benchmarks.hpd.measure import CELLS, example_of, scores, stacks
from pastalang.compiler import compile
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.loading import load_model, load_tokenizer
from pastalang.runtime.models.source import SMOLLM2
from pastalang.training.evaluation import Request, decode
from pastalang.training.metrics import Example, evaluate, field_texts
from pastalang.training.recording import planner
from pastalang.values.conversion import Converted
from pastalang.values.describe import prompt_text
from pastalang.values.json import JsonValue
from pastalang.values.to_source import program_source, type_source

TEXT = "text"
HEAD = ("weights, mode", "documents", "F1", "F1 strict", "invented", "passes", "of `generate`", "seconds each")


def chosen(corpus: Corpus, count: int) -> tuple[Document, ...]:
    documents = corpus.held_out if corpus.name is Name.OA_MINE else (*corpus.train, *corpus.held_out)
    return tuple(Random(0).sample(documents, min(count, len(documents))))


@cache
def plans_of(asked: tuple[str, ...], stacked: int = 1) -> Callable[[Mode], Plan]:
    """The inputs are `text`, or `text1`, `text2` and so on; the answer of a stack has the keys "1", "2" and so on."""
    shape = _shape(asked, TEXT)
    if stacked == 1:
        return planner(compile(program_source(Converted(shape, {}), name="listing")))
    names = _inputs(stacked)
    records = t.Object(tuple(t.Field(str(at), _shape(asked, name)) for at, name in enumerate(names, 1)))
    return planner(
        compile(
            f"template listings({', '.join(f'{name}: text' for name in names)})\n\n"
            'system """\nRead the texts and fill in the record of each.\n\n'
            + prompt_text(shape).replace("{", "{{").replace("}", "}}")
            + '\n"""\nuser """\n'
            + "\n\n".join(f"{at}: {{{name}}}" for at, name in enumerate(names, 1))
            + f'\n"""\nassistant json {type_source(records)}\n'
        )
    )


def _shape(asked: tuple[str, ...], source: str) -> t.Object:
    value = t.Union((t.Verbatim(source), t.Null()))
    return t.Object(tuple(t.Field(name, value) for name in asked))


def _inputs(stacked: int) -> list[str]:
    return [TEXT] if stacked == 1 else [f"{TEXT}{at}" for at in range(1, stacked + 1)]


def measure(
    engine: Engine, tokenizer: Any, corpus: Corpus, documents: Sequence[Document], mode: Mode, stacked: int = 1
) -> dict[str, Any]:  # fmt: skip
    """`generated`: the tokens of the answer to a document with its keys, each of which would take `generate` a pass."""
    groups = stacks(documents, stacked) if stacked > 1 else [[number] for number in range(len(documents))]
    requests = [_request(corpus, [documents[number] for number in group], mode) for group in groups]
    began = clock.now()
    decoding = decode(engine, requests, batch=64, any_mode=True)
    seconds = clock.now() - began
    examples: dict[int, Example] = {}
    written: list[str] = []
    for group, row in zip(groups, decoding.rows, strict=True):
        for number, value in zip(group, _records(None if row.problem else row.values[0], len(group)), strict=True):
            texts = None if value is None else field_texts(value)
            examples[number] = example_of(documents[number], texts, truncated=any(row.truncated))
            if value is not None:
                written.append(json.dumps(value, ensure_ascii=False))
    asked = {one.category: corpus.asked[one.category] for one in documents}
    ordered = [examples[number] for number in range(len(documents))]
    return {
        **scores(evaluate(ordered, asked=asked), ordered),
        "passes": sum(row.passes for row in decoding.rows) / len(documents),
        "generated": sum(len(tokenizer.encode(one)) + 1 for one in written) / max(1, len(written)),
        "seconds": seconds / len(documents),
        "answers": [(one.text, ordered[at].predicted or {}) for at, one in enumerate(documents)],
    }


def _request(corpus: Corpus, documents: Sequence[Document], mode: Mode) -> Request:
    plan = plans_of(corpus.asked[documents[0].category], len(documents))(mode)
    return plan, {name: one.text for name, one in zip(_inputs(len(documents)), documents, strict=True)}


def _records(value: JsonValue, stacked: int) -> list[JsonValue]:
    if stacked == 1 or not isinstance(value, dict):
        return [value] * stacked
    return [value[str(at)] for at in range(1, stacked + 1)]


@torch.inference_mode()
def beside_generate(
    engine: Engine, weights: Any, tokenizer: Any, corpus: Corpus, documents: Sequence[Document]
) -> tuple[float, float, float, float]:  # fmt: skip
    """Seconds and passes of a document, then those of `generate`, one document after another.

    `generate` writes as many tokens as the same answer has in one line, so it loses no time by not knowing when to end.
    The first document is read once before, and that does not count.
    """
    measured = []
    for one in (documents[0], *documents):
        plan, inputs = _request(corpus, [one], Mode.STRICT)
        began = clock.now()
        result = engine.run(plan, inputs)
        ended = clock.now()
        tokens = len(tokenizer.encode(json.dumps(result.exact, ensure_ascii=False))) + 1
        prompt = tokenizer.encode(result.prompt, add_special_tokens=False, return_tensors="pt").to(weights.device)
        weights.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens,
            do_sample=False, pad_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        measured.append((ended - began, result.usage.forward_passes, clock.now() - ended, tokens))
    seconds, passes, others_seconds, others_passes = np.mean(measured[1:], axis=0).tolist()
    return seconds, passes, others_seconds, others_passes


def line(name: str, found: dict[str, Any]) -> str:
    low, high = interval(found)
    return (
        f"| {name} | {found['documents']} | {found['f1']:.1f} ({low:.1f} … {high:.1f}) | {found['strict_f1']:.1f} "
        f"| {found['hallucinated']:.1f} % | {found['passes']:.1f} | {found['passes'] / found['generated']:.2f} "
        f"| {found['seconds']:.2f} |"
    )


def report(
    engine: Engine, tokenizer: Any, corpus: Corpus, documents: Sequence[Document], given: Any, adapter: str
) -> None:  # fmt: skip
    ways = [(mode, stacked) for stacked in (1, *given.stacked) for mode in given.mode]
    found = {}
    for mode, stacked in ways:
        found[mode, stacked] = measure(engine, tokenizer, corpus, documents, mode, stacked)
        print(line(f"{adapter}, {_named(mode, stacked)}", found[mode, stacked]), flush=True)
    for one, other in _compared(ways):
        gap = difference(found[one], found[other])
        print(f"{adapter}, {_named(*one)} - {_named(*other)}: {gap}", file=sys.stderr, flush=True)
    for way in ways if given.judge else ():
        say = judged(judge_by(given.judge), found[way]["answers"])
        print(f"{adapter}, {_named(*way)}, as {given.judge} judges it: F1 {say.f1:.1f}, {dict(say.counts)}", flush=True)
    if given.generate:
        kept = None if adapter == "none" else adapter
        plain = load_model(given.model, dtype=given.dtype, adapter=kept, packed=False).weights
        some = documents[: given.generate]
        seconds, passes, others_seconds, tokens = beside_generate(engine, plain, tokenizer, corpus, some)
        print(
            f"{adapter}, {len(some)} documents one after another: {seconds:.2f} s and {passes:.1f} passes each; "
            f"`generate`: {others_seconds:.2f} s and {tokens:.1f}, {others_seconds / seconds:.1f} times as long; "
            f"{clock.machine()}",
            flush=True,
        )


def _named(mode: Mode, stacked: int) -> str:
    return mode.value if stacked == 1 else f"{mode.value}, {stacked} in a prompt"


def _compared(ways: Sequence[tuple[Mode, int]]) -> list[tuple[tuple[Mode, int], tuple[Mode, int]]]:
    """Modes with one another, and stacks with documents alone in the same mode."""
    modes = [((Mode.STRICT, 1), (Mode.SEQUENTIAL, 1)), ((Mode.LOCKSTEP, 1), (Mode.STRICT, 1))]
    pairs = [*modes, *((way, (way[0], 1)) for way in ways if way[1] > 1)]
    return [(one, other) for one, other in pairs if one in ways and other in ways]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attributes", description="Score a model as it comes.")
    for name in Name:
        parser.add_argument(f"--{name}", type=Path, help="its open training part, JSON lines, gzip or not")
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--adapter", nargs="+", default=["extract", "none"], help="names or folders; none: without")
    parser.add_argument("--mode", type=Mode, nargs="+", default=list(Mode), choices=list(Mode))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--documents", type=int, default=145, help="of each data set, at most")
    parser.add_argument("--stacked", type=int, nargs="+", default=[], help="documents in one prompt, as HPD has them")
    parser.add_argument("--generate", type=int, default=0, help="documents to measure beside `generate`")
    parser.add_argument("--judge", metavar="MODEL", help="a model, or the address of one, that judges the answers")
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
                report(engine, tokenizer, corpus, documents, given, adapter)
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
