"""Measure how fast answers are written, compared with the alternatives, in one run and with the same weights.

    python -m benchmarks.decode_speed [--rounds 3] [--documents 64] [--threads 1]

A random model of about 135 M parameters in bfloat16 writes a JSON answer of 16 string fields of 12 tokens after a
prompt of 256 tokens. With one thread it counts processor time, which other work on the machine disturbs less than the
elapsed time. Writes benchmarks/results/decode.md and its pictures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

import pastalang
from benchmarks.alternatives import (
    Clock,
    generate_seconds,
    prefill_seconds,
    rows_per_field_step_seconds,
    step_seconds,
)
from benchmarks.decode_report import Found, Pair, Report, Rival, Row
from benchmarks.subjects import make_documents, make_model, make_tokenizer
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.packed import pack
from pastalang.runtime.models.step_attention import ATTENTION
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.result import Result

FIELDS = 16
TOKENS = 12
PROMPT = 256
NAMES = (
    "title", "name", "type", "state", "value", "size", "order", "level", "source", "target", "reason", "result",
    "owner", "date", "place", "comment",
)  # fmt: skip
INSTRUCTIONS = "You read a text and fill in a form about it. Say in a few words what the text says of each point."
MEASURED_IN_BOTH_MODES = 8  # fields; beyond them one value after another is so slow that it is reckoned


def program_of(fields: int, *, tokens: int = TOKENS) -> Any:
    body = "\n".join(f"  {name_of(field)}: string(max={tokens})" for field in range(fields))
    return pastalang.compile(
        f'template form(text: text)\n\nsystem """\n{INSTRUCTIONS}\n"""\n\nuser """\n{{text}}\n"""\n\n'
        f"assistant json {{\n{body}\n}}\n"
    )


def name_of(field: int) -> str:
    """A word that people use as the name of a field, with a number when the words run out."""
    again, word = divmod(field, len(NAMES))
    return f"{NAMES[word]}_{again + 1}" if again else NAMES[word]


class Bench:
    def __init__(self, *, documents: int, rounds: int, clock: Clock) -> None:
        self.rounds = rounds
        self.clock = clock
        self.tokenizer = make_tokenizer()
        self.weights = make_model()
        self.model = TransformersModel(self.weights, cells=32_768)
        self.engine = Engine(self.model, self.tokenizer, prefix_cells=4096)
        self._plans: dict[tuple[int, Mode], Plan] = {}
        self.texts = make_documents(documents, tokens=PROMPT - 50, tokenizer=self.tokenizer)

    # ── one side, once ───────────────────────────────────────────────────────────────────────────────────

    def ours(self, fields: int, texts: Sequence[str], mode: Mode = Mode.STRICT) -> tuple[float, Result]:
        """Seconds for these documents in one batch, with compiled guides and an empty prefix cache."""
        self.weights.set_attn_implementation(ATTENTION)
        plan = self._warm_plan(fields, mode)
        self._forget_prompts()
        began = self.clock()
        results = self.engine.batch(plan, [{"text": text} for text in texts])
        seconds = self.clock() - began
        for result in results:
            if isinstance(result, Exception):
                raise result
        first = results[0]
        assert isinstance(first, Result)
        return seconds, first

    def _warm_plan(self, fields: int, mode: Mode) -> Plan:
        """A short run compiles the guides first, because they are compiled once for each program."""
        if (fields, mode) not in self._plans:
            self._plans[fields, mode] = self.engine.plan(program_of(fields), mode=mode)
            self.engine.run(self._plans[fields, Mode.STRICT], {"text": "Short."})
        return self._plans[fields, mode]

    def _forget_prompts(self) -> None:
        while self.engine.scheduler.prefix.evict(self.engine.scheduler.memory.cells):
            pass

    def our_step(self, fields: int, prompt: int) -> float:
        """The median decoding step of `fields` live branches after a prompt of about `prompt` tokens."""
        ids = self.tokenizer("\n".join(self.texts))["input_ids"]
        text = self.tokenizer.decode(ids[: prompt - 40])
        forward, seconds = self.model.forward, []

        def timed(batch: Any) -> Any:
            began = self.clock()
            logits = forward(batch)
            seconds.append(self.clock() - began)
            return logits

        self.model.forward = timed  # type: ignore[method-assign]
        try:
            self.ours(fields, [text])
        finally:
            self.model.forward = forward  # type: ignore[method-assign]
        return statistics.median(seconds[-8:])

    # ── comparisons ──────────────────────────────────────────────────────────────────────────────────────

    def alone(self) -> Found:
        """Measure one document. The sides take turns, so that other work on the machine affects all of them equally."""
        seconds: dict[str, list[float]] = {"strict": [], "sequential": [], "generate": []}
        for text in self.texts[: self.rounds]:
            for mode in (Mode.STRICT, Mode.SEQUENTIAL):
                found, result = self.ours(FIELDS, [text], mode)
                seconds[mode.value].append(found)
                passes, written = result.usage.forward_passes, _written(result)
                if mode is Mode.STRICT:
                    strict_passes = passes
            prompt = self.tokenizer(f"{INSTRUCTIONS}\n{text}")["input_ids"]
            seconds["generate"].append(generate_seconds(self.weights, prompt, new_tokens=written, clock=self.clock))
            say(f"one document: {[(side, round(times[-1], 2)) for side, times in seconds.items()]}")
        strict, sequential, generate = (statistics.median(times) for times in seconds.values())
        return Found(
            Row("ours, strict", strict, strict_passes),
            Row("ours, sequential", sequential, passes),
            Row(f"`generate`, the whole answer ({written} tokens)", generate, written),
        )

    def together(self, sizes: Sequence[int], *, sample: int) -> dict[int, float]:
        """Documents per second by batch size: a sample of the documents for each size, and all of them for the best."""
        found = {size: self._at_once(size, self.texts[:sample]) for size in sizes}
        best = max(found, key=lambda size: found[size])
        found[best] = self._at_once(best, self.texts)
        return found

    def _at_once(self, size: int, texts: Sequence[str]) -> float:
        parts = [texts[first : first + size] for first in range(0, len(texts), size)]
        seconds = sum(self.ours(FIELDS, part)[0] for part in parts)
        say(f"{size} at once: {len(texts) / seconds:.3f} documents a second")
        return len(texts) / seconds

    def rivals(self, sizes: Sequence[int], *, written: int) -> list[Rival]:
        """Documents per second of a plain loop around the model, in both dtypes."""
        found = []
        for dtype in (torch.bfloat16, torch.float32):
            model = self.weights if dtype is torch.bfloat16 else make_model(dtype=dtype)
            prefill = prefill_seconds(model, prompt=PROMPT, clock=self.clock)
            lengths = [PROMPT + written * part // 4 for part in (1, 3)]
            for rows in sizes:
                step = step_seconds(model, rows=rows, lengths=lengths, clock=self.clock)
                found.append(Rival(str(dtype)[6:], rows, 1 / (prefill + written * step / rows)))
                say(f"{found[-1]}")
        return found

    def steps(self) -> Pair:
        """Measure a step of 16 branches, and of 16 rows that share a prefix of 1,024 tokens."""
        ours = self.our_step(FIELDS, 1024)
        rows = rows_per_field_step_seconds(self.weights, rows=FIELDS, prompt=1024, steps=8, clock=self.clock)
        say(f"a step: {ours:.3f} against {rows:.3f}")
        return Pair(ours, rows)

    def by_fields(self, counts: Sequence[int]) -> dict[int, Pair]:
        """Seconds for one document in strict and in sequential mode."""
        found: dict[int, Pair] = {}
        measured: dict[int, float] = {}
        for count in counts:
            strict, _ = self.ours(count, self.texts[:1])
            if count <= MEASURED_IN_BOTH_MODES:
                sequential, _ = self.ours(count, self.texts[:1], Mode.SEQUENTIAL)
                measured[count] = sequential
            else:
                (low, before), (high, last) = sorted(measured.items())[-2:]
                sequential = last + (last - before) / (high - low) * (count - high)
            found[count] = Pair(strict, sequential)
            say(f"{count} fields: {strict:.2f} against {sequential:.2f}")
        return found

    def packed(self, *, size: int) -> tuple[Pair, Pair, Pair]:
        """Measure one document in both modes, and many at once, without and with packed weights.

        It comes last, because packing changes the model.
        """
        before = self._three(size)
        pack(self.weights)
        strict, sequential, together = map(Pair, before, self._three(size))
        return strict, sequential, together

    def _three(self, size: int) -> tuple[float, float, float]:
        alone = {
            mode: statistics.median(self.ours(FIELDS, [text], mode)[0] for text in self.texts[: self.rounds])
            for mode in (Mode.STRICT, Mode.SEQUENTIAL)
        }
        together = statistics.median(self.ours(FIELDS, self.texts[:size])[0] for _ in range(self.rounds))
        say(f"packed or not: {[round(seconds, 2) for seconds in (*alone.values(), together)]}")
        return alone[Mode.STRICT], alone[Mode.SEQUENTIAL], together


def _written(result: Result) -> int:
    """The tokens of the answer, decoded or forced: a model without PastaLang would have to write all of them."""
    return round(result.usage.theoretical_speedup * result.usage.critical_path)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


PARTS = ("alone", "together", "steps", "fields", "packed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--sample", type=int, default=16, help="documents at sizes that are not the best")
    parser.add_argument("--sizes", type=int, nargs="+", default=(1, 2, 4, 8, 16), help="documents in the same passes")
    parser.add_argument("--fields", type=int, nargs="+", default=(1, 2, 4, 8, 16, 32, 64, 128))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--dry", action="store_true", help="nothing is written")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    report = Report(" ".join(["python -m benchmarks.decode_speed", *sys.argv[1:]]), is_kept=not options.dry)
    measure(Bench(documents=options.documents, rounds=options.rounds, clock=clock), report, options)


def measure(bench: Bench, report: Report, options: argparse.Namespace) -> None:
    """Measure part by part. The page is written after each part, so that an interrupted run keeps its results."""
    if "alone" in options.parts:
        report.alone(bench.alone())
    if "together" in options.parts:
        written = _written(bench.ours(FIELDS, bench.texts[:1])[1])
        sample = min(options.sample, options.documents)
        together = bench.together(options.sizes, sample=sample)
        rivals = bench.rivals((16, 32, 64), written=written)
        report.together(together, rivals, documents=options.documents, sample=sample, written=written)
    if "steps" in options.parts:
        report.steps(bench.steps())
    if "fields" in options.parts:
        report.by_fields(bench.by_fields(options.fields))
    if "packed" in options.parts:
        size = 8
        report.packed(*bench.packed(size=size), documents=size)


if __name__ == "__main__":
    main()
