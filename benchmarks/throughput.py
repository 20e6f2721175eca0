"""Measure documents per second: `Engine.map`, and what else people write, with the same weights in the same run.

    python -m benchmarks.throughput --oa-mine train.jsonl [--weights pasta-mini random] [--documents 192] [--rounds 3]

Twelve attributes of product titles after shared instructions, each a quotation or null. Every side is measured in both
types at several batch sizes, and its best median counts:

    generate    `generate` of transformers writes as many tokens as our answer has, in padded batches
    per field   a prompt for each field, in batches that end with their longest value; only values are written
    outlines    `generate` with the logits processor of outlines, for a JSON Schema of the same fields

The limit is the rate at which the model feeds tokens in its best batch, without a cache. One thread, processor time.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import LogitsProcessorList

import pastalang
from benchmarks.subjects import make_model, make_tokenizer
from pastalang.runtime.models.loading import load_tokenizer, load_weights
from pastalang.runtime.models.packed import pack
from pastalang.runtime.models.source import shipped_folder
from pastalang.runtime.models.step_attention import ATTENTION

PAGE = Path(__file__).parent / "results" / "throughput.md"
FIELDS = (
    "Brand", "Item form", "Color", "Size", "Material", "Model name", "Gender", "Flavor", "Pack quantity", "Net content",
    "Scent", "Age range",
)  # fmt: skip
INSTRUCTIONS = (
    "Read the listing and fill in its attributes. Copy each value letter for letter from the text. "
    "Write null for what the text does not say."
)
PROGRAM = "\n".join(
    [
        'template attributes(title: text)\nsystem """', INSTRUCTIONS, '"""\nuser """\n{title}\n"""\nassistant json {',
        *(f'  "{name}": verbatim(title, max=16) | null' for name in FIELDS), "}",
    ]
)  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {name: {"anyOf": [{"type": "string", "maxLength": 48}, {"type": "null"}]} for name in FIELDS},
    "required": list(FIELDS),
    "additionalProperties": False,
}
IN_FLIGHT = (1, 4, 16, 64)
SHAPES = ((4, 64), (8, 64), (16, 64), (1, 256), (32, 32))  # rows and tokens of the batches of the limit
Side = Callable[[], float]  # documents per second


@dataclass
class Bench:
    """One set of weights in one type: an engine with packed weights, and the model as transformers loads it."""

    weights: str
    dtype: torch.dtype
    titles: Sequence[str]
    most_tokens: int  # of an answer: `generate` writes so many, and the rest is reckoned from them
    fed: int = 0
    answers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokenizer = make_tokenizer() if self.weights == "random" else load_tokenizer(self.weights)
        self.model, packed = self._load(), self._load()
        pack(packed)
        self.engine = pastalang.Engine.load((packed, self.tokenizer))
        self.program = pastalang.compile(PROGRAM)
        self._count_tokens()
        results = list(self.engine.map(self.program, ({"title": one} for one in self.titles[:32]), in_flight=16))
        self.answer_tokens = round(statistics.mean(len(self._tokens(one.text)) for one in results))
        self.value_tokens = [[max(1, len(one.tokens)) for one in result.fields] for result in results]

    def _load(self) -> Any:
        if self.weights == "random":
            return make_model(dtype=self.dtype)
        return load_weights(shipped_folder(self.weights) or self.weights, device="cpu", dtype=self.dtype)

    def _tokens(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def _count_tokens(self) -> None:
        forward = self.engine.model.forward

        def counted(batch: Any) -> torch.Tensor:
            self.fed += len(batch)
            return forward(batch)

        self.engine.model.forward = counted  # type: ignore[method-assign]

    # ── ours ─────────────────────────────────────────────────────────────────────────────────────────────

    def ours(self, in_flight: int, count: int, *, skip: int) -> tuple[float, float]:
        """Documents, and fed tokens, per second."""
        titles = self.titles[skip : skip + count]
        self.fed, began = 0, time.process_time()
        done = sum(1 for _ in self.engine.map(self.program, ({"title": one} for one in titles), in_flight=in_flight))
        seconds = time.process_time() - began
        return done / seconds, self.fed / seconds

    def limit(self) -> float:
        """The most tokens per second that the packed model feeds without a cache."""
        model = self.engine.model._model  # type: ignore[attr-defined]
        model.set_attn_implementation("sdpa")
        best = 0.0
        for rows, length in SHAPES:
            tokens = torch.randint(0, 4000, (rows, length))
            with torch.inference_mode():
                model(input_ids=tokens, use_cache=False, logits_to_keep=1)
                began = time.process_time()
                model(input_ids=tokens, use_cache=False, logits_to_keep=1)
            best = max(best, rows * length / (time.process_time() - began))
        model.set_attn_implementation(ATTENTION)
        return best

    # ── what else people write ───────────────────────────────────────────────────────────────────────────

    def generate(self, rows: int, processor: Any = None) -> float:
        prompts = [self._prompt(title) for title in self.titles[:rows]]
        tokens = self.answer_tokens
        if tokens <= self.most_tokens:
            return rows / self._write(prompts, tokens, processor)
        few = self.most_tokens // 4
        short, long = self._write(prompts, few, processor), self._write(prompts, self.most_tokens, processor)
        return rows / (long + (long - short) / (self.most_tokens - few) * (tokens - self.most_tokens))

    def per_field(self, documents: int) -> float:
        """Each batch is written up to its longest value."""
        prompts = [
            self._prompt(title) + self._tokens(f'{{\n  "{name}": ')
            for title in self.titles[:documents]
            for name in FIELDS
        ]
        longest = max(max(tokens) for tokens in self.value_tokens[:documents])
        return documents / self._write(prompts, longest, None)

    def outlines(self, rows: int) -> float:
        from outlines import from_transformers
        from outlines.backends.llguidance import LLGuidanceBackend

        if not hasattr(self, "_backend"):
            self._backend = LLGuidanceBackend(from_transformers(self.model, self.tokenizer))
        return self.generate(rows, lambda: self._backend.get_json_schema_logits_processor(json.dumps(SCHEMA)))

    def _prompt(self, title: str) -> list[int]:
        if getattr(self.tokenizer, "chat_template", None) is None:
            return self._tokens(f"{INSTRUCTIONS}\n\n{title}\n\n")
        turns = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": title}]
        text = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return self._tokens(text)

    def _write(self, prompts: Sequence[list[int]], tokens: int, processor: Any) -> float:
        """Seconds in which `generate` writes so many tokens after each prompt."""
        end = self.tokenizer.eos_token_id
        width = max(map(len, prompts))
        ids = torch.tensor([[end] * (width - len(one)) + one for one in prompts])
        seen = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts])
        options: dict[str, Any] = {"min_new_tokens": tokens}
        if processor is not None:  # an answer that ends earlier is padded to the end anyway
            options = {"logits_processor": LogitsProcessorList([processor()]), "eos_token_id": end}
        began = time.process_time()
        with torch.inference_mode():
            self.model.generate(
                ids, attention_mask=seen, max_new_tokens=tokens, do_sample=False, pad_token_id=end, **options
            )
        return time.process_time() - began


@dataclass
class Findings:
    """Rates by side, type and size, one for each round."""

    speeds: dict[tuple[str, torch.dtype, int], list[float]] = field(default_factory=dict)
    used: dict[torch.dtype, list[float]] = field(default_factory=dict)  # shares of the limit

    def note(self, side: str, dtype: torch.dtype, size: int, speed: float) -> None:
        self.speeds.setdefault((side, dtype, size), []).append(speed)
        say(f"{side}, {_name(dtype)}, {size}: {speed:.3f} documents per second")

    def best(self, side: str) -> tuple[float, torch.dtype, int]:
        return max((statistics.median(found), dtype, size) for (name, dtype, size), found in self._of(side))

    def _of(self, side: str) -> list[tuple[tuple[str, torch.dtype, int], list[float]]]:
        return [(key, found) for key, found in self.speeds.items() if key[0] == side]

    def median(self, dtype: torch.dtype, size: int) -> float:
        return statistics.median(self.speeds["ours", dtype, size])


def measure(bench: Bench, found: Findings, given: argparse.Namespace) -> None:
    """The sides take turns, so that other work on the machine affects all of them equally."""
    for round in range(given.rounds):
        for size in IN_FLIGHT:
            count = given.documents if size > 1 else max(4, given.documents // 4)
            speed, fed = bench.ours(size, count, skip=32 + round * given.documents)
            found.note("ours", bench.dtype, size, speed)
            if size == max(IN_FLIGHT):
                found.used.setdefault(bench.dtype, []).append(fed / bench.limit())
        for rows in given.rows:
            found.note("generate", bench.dtype, rows, bench.generate(rows))
            found.note("outlines", bench.dtype, rows, bench.outlines(rows))
        for documents in (1, 4, 16):
            if documents <= max(given.rows):
                found.note("per field", bench.dtype, documents, bench.per_field(documents))


def part(weights: str, found: Findings, answer_tokens: int, given: argparse.Namespace) -> list[str]:
    ours, *_ = found.best("ours")
    lines = [
        f"## {'Random weights, 135 M' if weights == 'random' else weights}",
        "",
        f"Answers of {answer_tokens} tokens. Ours: {given.documents} documents a round, {given.rounds} rounds. The",
        f"other sides: a batch a round, of at most {given.most_tokens} tokens; the rest of an answer is reckoned.",
        "",
        "| side | best with | documents per second | ours is faster by |",
        "|---|---|---:|---:|",
    ]
    for side in ("ours", "generate", "per field", "outlines"):
        speed, dtype, size = found.best(side)
        lines.append(f"| {side} | {_name(dtype)}, {size} | {speed:.2f} | {ours / speed:.1f}× |")
    dtypes = sorted(found.used, key=_name)
    lines += ["", f"| in flight | {' | '.join(map(_name, dtypes))} |", f"|---:|{'---:|' * len(dtypes)}"]
    for size in IN_FLIGHT:
        lines.append(f"| {size} | {' | '.join(f'{found.median(dtype, size):.2f}' for dtype in dtypes)} |")
    shares = ", ".join(f"{statistics.median(found.used[dtype]):.0%} in {_name(dtype)}" for dtype in dtypes)
    lines += ["", f"Tokens fed with {max(IN_FLIGHT)} in flight, of the most that the model can feed: {shares}.", ""]
    return lines


def write_page(parts: Sequence[list[str]], given: argparse.Namespace) -> None:
    settings = f"--documents {given.documents} --rounds {given.rounds} --rows {' '.join(map(str, given.rows))}"
    lines = [
        "# Documents per second",
        "",
        "Twelve attributes of product titles (OA-Mine), each a quotation or null, after shared instructions. The same",
        f"weights on all sides, one thread of a busy {platform.machine()} core{'' if _has_amx() else ' without AMX'}.",
        f"Processor time, medians; torch {torch.__version__}, transformers {transformers.__version__}.",
        "`benchmarks/throughput.py` says what each side does.",
        "",
        *(line for one in parts for line in one),
        f"`python -m benchmarks.throughput --oa-mine FILE --weights {' '.join(given.weights)} {settings}`",
        "",
    ]
    if given.dry:
        print("\n".join(lines))
    else:
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def _has_amx() -> bool:
    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oa-mine", type=Path, required=True)
    parser.add_argument("--weights", nargs="+", default=["pasta-mini", "random"])
    parser.add_argument("--documents", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=(1, 8, 32), help="batches of `generate` and outlines")
    parser.add_argument("--most-tokens", type=int, default=200, help="that `generate` writes; the rest is reckoned")
    parser.add_argument("--dry", action="store_true", help="the page is printed")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    with given.oa_mine.open(encoding="utf-8") as file:
        titles = [json.loads(line)["input"] for line in islice(file, 32 + given.rounds * given.documents)]
    parts: list[list[str]] = []
    for weights in given.weights:
        found = Findings()
        for dtype in (torch.float32, torch.bfloat16):
            gc.collect()
            bench = Bench(weights, dtype, titles, given.most_tokens)
            measure(bench, found, given)
            page = [*parts, part(weights, found, bench.answer_tokens, given)]
            write_page(page, given)  # now, so that an interrupted run keeps its results
        parts = page


if __name__ == "__main__":
    main()
