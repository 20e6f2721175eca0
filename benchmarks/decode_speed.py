"""How fast answers are written, against what people would use instead; all sides in one run, medians, same weights.

    python -m benchmarks.decode_speed [--rounds 3] [--documents 64] [--threads 2] [--quick]

A random model of about 135 M parameters in bfloat16 writes a JSON answer of 16 string fields of 12 tokens behind a
prompt of 256 tokens. Writes benchmarks/results/decode.md.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import pastalang
from benchmarks.rivals import generate_seconds, rows_per_field_step_seconds
from benchmarks.subjects import make_documents, make_model, make_tokenizer
from pastalang.plan.plan import Mode
from pastalang.runtime.engine import Engine
from pastalang.runtime.model.transformers import TransformersModel

RESULTS = Path(__file__).parent / "results" / "decode.md"
FIELDS = 16
TOKENS = 12
INSTRUCTIONS = "You read a text and fill in a form about it. Say in a few words what the text says of each point."


@dataclass(frozen=True)
class Row:
    what: str
    seconds: float
    passes: int | None
    documents: int = 1


def program_of(fields: int, *, tokens: int = TOKENS) -> Any:
    body = "\n".join(f"  field_{n}: string(max={tokens})" for n in range(fields))
    return pastalang.compile(
        f'template form(text: text)\n\nsystem """\n{INSTRUCTIONS}\n"""\n\nuser """\n{{text}}\n"""\n\n'
        f"assistant json {{\n{body}\n}}\n"
    )


class Bench:
    def __init__(self, *, documents: int, rounds: int) -> None:
        self.rounds = rounds
        self.tokenizer = make_tokenizer()
        self.weights = make_model()
        self.model = TransformersModel(self.weights, cells=32_768)
        self.engine = Engine(self.model, self.tokenizer, prefix_cells=0)
        self.texts = make_documents(documents, tokens=216, tokenizer=self.tokenizer)
        self.program = program_of(FIELDS)
        self.plans = {mode: self.engine.plan(self.program, mode=mode) for mode in (Mode.STRICT, Mode.SEQUENTIAL)}

    # ── sides ────────────────────────────────────────────────────────────────────────────────────────────

    def ours(self, mode: Mode, texts: Sequence[str]) -> tuple[float, Any]:
        self._take_over()
        began = time.perf_counter()
        results = self.engine.batch(self.plans[mode], [{"text": text} for text in texts])
        seconds = time.perf_counter() - began
        failed = [result for result in results if isinstance(result, Exception)]
        if failed:
            raise failed[0]
        return seconds, results[0]

    def generate(self, count: int, batch: int, new_tokens: int) -> float:
        prompts = [self.tokenizer(f"{INSTRUCTIONS}\n{text}")["input_ids"] for text in self.texts[:count]]
        return generate_seconds(self.weights, prompts, new_tokens=new_tokens, batch=batch, filler=0)

    def rows_per_field(self, rows: int, prompt: int) -> float:
        ids = self.tokenizer("\n".join(self.texts))["input_ids"][:prompt]
        return statistics.median(rows_per_field_step_seconds(self.weights, ids, rows=rows, steps=8))

    def our_step(self, fields: int, prompt: int) -> float:
        """Seconds of a decoding step of `fields` live branches behind a prompt of about `prompt` tokens."""
        ids = self.tokenizer("\n".join(self.texts))["input_ids"]
        text = self.tokenizer.decode(ids[: prompt - 40])
        plan = self.engine.plan(program_of(fields))
        self._take_over()
        seconds: list[float] = []
        last = time.perf_counter()
        forward = self.model.forward

        def timed(batch: Any) -> Any:
            nonlocal last
            now = time.perf_counter()
            seconds.append(now - last)
            last = now
            return forward(batch)

        self.model.forward = timed  # type: ignore[method-assign]
        try:
            self.engine.run(plan, {"text": text})
        finally:
            self.model.forward = forward  # type: ignore[method-assign]
        return statistics.median(seconds[2:])

    def _take_over(self) -> None:
        """`generate` switches the attention of the shared weights; switch it back."""
        self.model = TransformersModel(self.weights, cells=32_768, check=False)
        self.engine = Engine(self.model, self.tokenizer, prefix_cells=4096)

    # ── comparisons ──────────────────────────────────────────────────────────────────────────────────────

    def alone(self) -> list[Row]:
        _, result = self.ours(Mode.STRICT, self.texts[:1])
        written = len(self.tokenizer(result.text)["input_ids"])
        sides: dict[str, Callable[[], tuple[float, int | None]]] = {
            "ours, strict": lambda: self._timed(Mode.STRICT),
            "ours, sequential": lambda: self._timed(Mode.SEQUENTIAL),
            f"`generate`, the whole answer ({written} tokens)": lambda: (self.generate(1, 1, written), written),
        }
        return [Row(what, *_median(side, self.rounds)) for what, side in sides.items()]

    def _timed(self, mode: Mode) -> tuple[float, int | None]:
        seconds, result = self.ours(mode, self.texts[:1])
        return seconds, result.usage.forward_passes

    def together(self, ours: Sequence[int], theirs: Sequence[int]) -> list[Row]:
        _, result = self.ours(Mode.STRICT, self.texts[:1])
        written = len(self.tokenizer(result.text)["input_ids"])
        rows = []
        for size in ours:
            seconds = sum(
                self.ours(Mode.STRICT, self.texts[first : first + size])[0] for first in range(0, len(self.texts), size)
            )
            rows.append(Row(f"ours, strict, {size} at once", seconds, None, len(self.texts)))
        for size in theirs:
            count = min(len(self.texts), size)
            seconds = self.generate(count, size, written) * len(self.texts) / count
            rows.append(Row(f"`generate`, {size} rows at once", seconds, None, len(self.texts)))
        return rows


def _median(side: Callable[[], tuple[float, int | None]], rounds: int) -> tuple[float, int | None]:
    runs = []
    for _ in range(rounds):
        gc.collect()
        runs.append(side())
    return statistics.median(seconds for seconds, _ in runs), runs[0][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="one round, eight documents, nothing written")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rounds, documents = (1, 8) if options.quick else (options.rounds, options.documents)
    bench = Bench(documents=documents, rounds=rounds)
    report = write_report(bench, documents)
    print(report)
    if not options.quick:
        RESULTS.write_text(report, encoding="utf-8")


def write_report(bench: Bench, documents: int) -> str:
    alone = bench.alone()
    base = alone[0].seconds
    lines = [
        "# How fast answers are written",
        "",
        (
            f"135 M random Llama, bfloat16, {torch.get_num_threads()} thread(s) of an {platform.machine()} processor; "
            f"16 string fields of {TOKENS} tokens, prompt of about 256 tokens; medians of {bench.rounds}. "
            "Other load shared the machine: read the figures as ratios. `python -m benchmarks.decode_speed`."
        ),
        "",
        "## One document",
        "",
        "| side | seconds | forward passes | ours is faster by |",
        "|---|---:|---:|---:|",
        *(f"| {row.what} | {row.seconds:.2f} | {row.passes} | {row.seconds / base:.1f}× |" for row in alone),
        "",
        f"Theoretical against sequential: {(alone[1].passes or 0) / (alone[0].passes or 1):.1f}× fewer passes.",
        "",
        f"## {documents} documents with shared instructions",
        "",
        "`generate` is timed on one batch of each size; the figure is scaled to a second.",
        "",
        "| side | documents per second |",
        "|---|---:|",
    ]
    many = bench.together((1, 4, 8), (1, 8, 16, 32))
    lines += [f"| {row.what} | {row.documents / row.seconds:.3f} |" for row in many]
    best_ours = max(row.documents / row.seconds for row in many if row.what.startswith("ours"))
    best_theirs = max(row.documents / row.seconds for row in many if not row.what.startswith("ours"))
    lines += ["", f"Each side at its best: ours is faster by {best_ours / best_theirs:.1f}×.", ""]
    step, rows = bench.our_step(16, 1024), bench.rows_per_field(16, 1024)
    lines += [
        "## One step: 16 branches in one sequence, or 16 rows of a batch that share a prefix of 1,024 tokens",
        "",
        "| side | ms |",
        "|---|---:|",
        f"| ours | {1000 * step:.0f} |",
        f"| rows | {1000 * rows:.0f} |",
        "",
        f"Ours is faster by {rows / step:.1f}×.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
