"""What a step costs besides the model: python benchmarks/step_overhead.py [--out benchmarks/results/step.md]

Random models of three sizes; a prompt, then branches that each feed one token per step. `around` is everything that
the forward of a step does outside the model's own forward: views, masks, tensors. `in attention` is our attention
function, masks grouped, inside the model. Medians over the steps of one run.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from pastalang.runtime.batch import Capture, CellId, Empty, RowId, Run, StepBatch, TokenId
from pastalang.runtime.model.toy import Family, toy_model
from pastalang.runtime.model.transformers import TransformersModel

SIZES: dict[str, dict[str, int]] = {
    "0.1 M": {"vocabulary": 320, "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2},
    "19 M": {"vocabulary": 8192, "layers": 12, "hidden": 384, "heads": 6, "kv_heads": 2},
    "135 M": {"vocabulary": 49_152, "layers": 30, "hidden": 576, "heads": 9, "kv_heads": 3},
}


class Stopwatch:
    """Wraps a function and keeps how long its calls took."""

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


def measure(model: Any, *, branches: int, prompt: int, steps: int, wanted: bool = True) -> tuple[float, float]:
    """Median milliseconds of a step, and of what is around the model in it."""
    fast = TransformersModel(model, cells=prompt + branches * (steps + 1), check=False)
    inner = Stopwatch(model)
    fast._model = inner
    fast.forward(prompt_step(branches, prompt))
    totals, around = [], []
    for index in range(steps):
        batch = branch_step(branches, prompt, index)
        inner.seconds = 0.0
        start = time.perf_counter()
        fast.forward(batch)
        total = time.perf_counter() - start
        totals.append(total * 1e3)
        around.append((total - inner.seconds) * 1e3)
    return statistics.median(totals[2:]), statistics.median(around[2:])


def prompt_step(branches: int, prompt: int) -> StepBatch:
    return StepBatch(
        tokens=tuple(TokenId(token % 300) for token in range(prompt)),
        positions=tuple(range(prompt)),
        cells=tuple(CellId(cell) for cell in range(prompt)),
        runs=(Run(RowId(branches), 0, prompt),),
        wanted=(prompt - 1,),
        edits=(Empty(RowId(branches)),),
        captures=tuple(Capture(RowId(row), prompt - 1) for row in range(branches)),
    )


def branch_step(branches: int, prompt: int, index: int) -> StepBatch:
    return StepBatch(
        tokens=tuple(TokenId(row) for row in range(branches)),
        positions=tuple(prompt + 32 * row + index for row in range(branches)),
        cells=tuple(CellId(prompt + index * branches + row) for row in range(branches)),
        runs=tuple(Run(RowId(row), row, 1) for row in range(branches)),
        wanted=tuple(range(branches)),
    )


def table(*, prompt: int, steps: int) -> str:
    lines = ["| model | branches | step, ms | around, ms | around, % |", "|---|---|---|---|---|"]
    for name, size in SIZES.items():
        dtype = torch.float32 if size["hidden"] < 100 else torch.bfloat16
        model = toy_model(Family.LLAMA, dtype=dtype, spread=0.02, **size)
        for branches in (1, 16, 96):
            step, around = measure(model, branches=branches, prompt=prompt, steps=steps)
            share = 100 * around / step
            lines.append(f"| {name} {str(dtype)[6:]} | {branches} | {step:.1f} | {around:.2f} | {share:.1f} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = table(prompt=options.prompt, steps=options.steps)
    header = (
        f"# A step, and what is around the model in it\n\n"
        f"`python benchmarks/step_overhead.py --prompt {options.prompt} --steps {options.steps}`; "
        f"{torch.get_num_threads()} threads, {platform.machine()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, prompt of {options.prompt} tokens.\n\n"
    )
    if options.out:
        options.out.write_text(header + rows + "\n")


if __name__ == "__main__":
    main()
