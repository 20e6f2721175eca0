"""Measure a step without its model: python benchmarks/step_overhead.py [--out benchmarks/results/step.md]

The models are random, of three sizes. After a prompt, each branch feeds one token per step. `around` is the work of a
step outside the forward pass of the model: views, clusters, masks, tensors. The second table compares attention in one
piece with attention in clusters, if several documents share a step. The third counts all work between two forward
passes of a whole run, so also the scheduler, the guides and the sampler.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

import pastalang
from benchmarks.subjects import make_tokenizer
from pastalang.program.types import Sampling
from pastalang.runtime.attention.clusters import Costs
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.step import Capture, CellId, RowId, Run, StepBatch, TokenId
from tests.oracle.toy_models import Family, toy_model

SIZES: dict[str, dict[str, int]] = {
    "0.1 M": {"vocabulary": 320, "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2},
    "19 M": {"vocabulary": 8192, "layers": 12, "hidden": 384, "heads": 6, "kv_heads": 2},
    "135 M": {"vocabulary": 49_152, "layers": 30, "hidden": 576, "heads": 9, "kv_heads": 3},
}


MIXED = (
    "string(max=12)", "integer", "number", "date", "boolean", '"red" | "green" | "blue"', "uuid",
    "[integer](1..3, max_tokens=12)",
)  # fmt: skip


class Stopwatch:
    """Wraps a function and records the times of its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return self._function(*arguments, **options)
        finally:
            self.seconds += time.perf_counter() - start

    @property
    def config(self) -> Any:
        return self._function.config  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Load:
    """`documents` of `own` tokens after a prompt of `shared`, each with `fields` branches feeding a token per step."""

    documents: int
    fields: int
    shared: int
    own: int

    @property
    def branches(self) -> int:
        return self.documents * self.fields

    @property
    def prompt(self) -> int:
        return self.shared + self.documents * self.own

    def first(self) -> StepBatch:
        """The prompt and all documents in one step. Every field is forked from the end of its document."""
        runs = [Run(RowId(self.branches), 0, self.shared)]
        captures = []
        for document in range(self.documents):
            start = self.shared + document * self.own
            runs.append(Run(RowId(self.branches + 1 + document), start, self.own, after=(self.shared - 1,)))
            for field in range(self.fields):
                captures.append(Capture(RowId(document * self.fields + field), start + self.own - 1))
        places = [*range(self.shared), *(self.shared + at for _ in range(self.documents) for at in range(self.own))]
        return StepBatch(
            tokens=tuple(TokenId(token % 300) for token in range(self.prompt)),
            positions=tuple(places),
            cells=tuple(CellId(cell) for cell in range(self.prompt)),
            runs=tuple(runs),
            wanted=(),
            captures=tuple(captures),
        )

    def then(self, index: int) -> StepBatch:
        """One token for every field."""
        start = self.shared + self.own + index
        return StepBatch(
            tokens=tuple(TokenId(row % 300) for row in range(self.branches)),
            positions=tuple(start + 32 * (row % self.fields) for row in range(self.branches)),
            cells=tuple(CellId(self.prompt + index * self.branches + row) for row in range(self.branches)),
            runs=tuple(Run(RowId(row), row, 1) for row in range(self.branches)),
            wanted=tuple(range(self.branches)),
        )


@dataclass(frozen=True)
class Timing:
    """Milliseconds of the first step, the median of the later ones, and the median of the work around the model."""

    first: float
    step: float
    around: float


def measure(model: Any, load: Load, *, steps: int, costs: Sequence[Costs | None] = (None,)) -> list[Timing]:
    """A time for each of `costs`. They take turns step by step, so that other work affects all of them equally."""
    inner = Stopwatch(model)
    cells = load.prompt + load.branches * steps
    contestants = [TransformersModel(model, cells=cells, check=False, costs=each) for each in costs]
    for fast in contestants:
        fast._model = inner
    first = [timed(fast, load.first(), inner) for fast in contestants]
    later = [[timed(fast, load.then(index), inner) for fast in contestants] for index in range(steps)]
    return [
        Timing(total, median(step[at][0] for step in later[2:]), median(step[at][1] for step in later[2:]))
        for at, (total, _) in enumerate(first)
    ]


def timed(fast: TransformersModel, batch: StepBatch, inner: Stopwatch) -> tuple[float, float]:
    """Milliseconds of the whole step, and of the work around the model."""
    inner.seconds = 0.0
    start = time.perf_counter()
    fast.forward(batch)
    total = time.perf_counter() - start
    return total * 1e3, (total - inner.seconds) * 1e3


def toy(name: str) -> Any:
    size = SIZES[name]
    return toy_model(Family.LLAMA, dtype=torch.float32 if name == "0.1 M" else torch.bfloat16, spread=0.02, **size)


def branches_table(*, prompt: int, steps: int) -> list[str]:
    lines = ["| model | branches | step, ms | around, ms | around, % |", "|---|---|---|---|---|"]
    for name in SIZES:
        model = toy(name)
        for branches in (1, 16, 96):
            (timing,) = measure(model, Load(1, branches, 1, prompt - 1), steps=steps)
            times = f"{timing.step:.1f} | {timing.around:.2f} | {100 * timing.around / timing.step:.1f}"
            lines.append(f"| {name} {str(model.dtype)[6:]} | {branches} | {times} |")
            print(lines[-1], flush=True)
    return lines


def documents_table(*, steps: int) -> list[str]:
    lines = [
        "| documents x fields | first step, ms: whole | clusters | later steps, ms: whole | clusters | around, ms |",
        "|---|---|---|---|---|---|",
    ]
    model = toy("135 M")
    for documents, fields in ((1, 16), (1, 96), (4, 16), (16, 16)):
        load = Load(documents, fields, 64, 200)
        whole, apart = measure(model, load, steps=steps, costs=(Costs(small_step=1 << 60), None))
        lines.append(
            f"| {documents} x {fields} | {whole.first:.0f} | {apart.first:.0f} | {whole.step:.0f} | {apart.step:.0f} "
            f"| {apart.around:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def runs_table() -> list[str]:
    """Whole runs of an engine: JSON objects of string fields, and of fields of many types."""
    lines = ["| model | fields | branches | step, ms | not the model, ms | share |", "|---|---|---|---|---|---|"]
    tokenizer = make_tokenizer()
    for name in ("19 M", "135 M"):
        for kinds in (("string(max=12)",), MIXED):
            for branches in (16, 96):
                step, rest = run_timing(toy(name), tokenizer, kinds, branches)
                what = "strings" if len(kinds) == 1 else f"{len(kinds)} types"
                lines.append(f"| {name} | {what} | {branches} | {step:.1f} | {rest:.2f} | {rest / step:.1%} |")
                print(lines[-1], flush=True)
    return lines


def run_timing(model: Any, tokenizer: Any, kinds: Sequence[str], branches: int) -> tuple[float, float]:
    """The median milliseconds between two steps in which all branches draw, and their part outside the model."""
    fields = "\n".join(f"  field_{n}: {kinds[n % len(kinds)]}" for n in range(branches))
    program = pastalang.compile(
        f'template form\n\nuser """\nFill in the form.\n"""\n\nassistant json {{\n{fields}\n}}\n'
    )
    inner = Stopwatch(model)
    fast = TransformersModel(model, cells=branches * 64 + 512, check=False)
    fast._model = inner
    engine = Engine(fast, tokenizer, prefix_cells=0)
    engine.run(program, {})  # guides are compiled once
    marks: list[tuple[float, float, int]] = []
    forward = fast.forward

    def marked(batch: StepBatch) -> torch.Tensor:
        marks.append((time.perf_counter(), inner.seconds, len(batch)))
        return forward(batch)

    fast.forward = marked  # type: ignore[method-assign]
    for seed in range(3):
        engine.run(program, {}, seed=seed, sampling=Sampling(temperature=1.0))
    steps = [
        (end - start, end - start - (after - before))
        for (start, before, tokens), (end, after, following) in pairwise(marks)
        if tokens <= 2 * branches and following <= tokens
    ]
    return 1e3 * median(step for step, _ in steps[:-1]), 1e3 * median(rest for _, rest in steps[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    setting = (
        f"`python benchmarks/step_overhead.py --prompt {options.prompt} --steps {options.steps}`: "
        f"{torch.get_num_threads()} threads, {platform.machine()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}. Medians of the steps of one run, on a machine with other work."
    )
    page = [
        "# A step, and what is around the model in it",
        "",
        setting,
        "",
        f"## Branches behind a prompt of {options.prompt} tokens",
        "",
        *branches_table(prompt=options.prompt, steps=options.steps),
        "",
        "## Documents of 200 tokens behind 64 shared ones, 135 M parameters",
        "",
        *documents_table(steps=options.steps),
        "",
        "## Whole runs: what is not the model's own forward",
        "",
        "From one step to the next, all branches drawing at temperature 1: scheduler, guides, masks, sampler.",
        "",
        *runs_table(),
    ]
    if options.out:
        options.out.write_text("\n".join(page) + "\n")


if __name__ == "__main__":
    main()
