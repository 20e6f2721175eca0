"""Where the time of a document goes, and how far from the machine's own rates that is.

    python -m benchmarks.rivals.profile [--model smollm2] [--small]

Prints JSON. Products are measured by their number of rows, with the shapes of the model and as many weights, so that
nothing stays in the cache of the processor that would not stay there in a pass.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import median
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile

import pastalang
from benchmarks.rivals.sides.ours import GREEDY, program_of
from benchmarks.rivals.tasks import TASKS, YES_NO, Document, record
from pastalang.runtime.models.llama import LlamaShape
from pastalang.runtime.models.packed import PackedLinear, can_pack

ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 256)
PROMPT_ROWS: Final = 256  # the width whose rate is that of a prompt
_PROMPTS: Final = 4  # documents of which the prompt alone is timed
_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "products": ("mkldnn::_linear_pointwise", "aten::addmm", "aten::mm", "aten::linear"),
    "attention": ("flash_attention", "aten::bmm", "aten::baddbmm", "softmax", "scaled_dot_product"),
    "gathers and writes of the cache": ("index", "gather", "scatter", "aten::copy_", "aten::cat", "aten::embedding"),
    "masks and draws": ("masked_fill", "aten::argmax", "aten::max", "aten::where", "bitwise", "aten::sort", "topk"),
}  # fmt: skip
OTHER, PYTHON = "norms, rotations, sums", "Python, and what is between operations"


def products_of(shape: LlamaShape) -> list[tuple[int, int, int]]:
    """Outputs, inputs, and how many of them a pass has, without the head."""
    width, kept = shape.heads * shape.head, shape.kv_heads * shape.head
    shapes = ((width + 2 * kept, shape.hidden), (shape.hidden, width), (2 * shape.inner, shape.hidden))
    return [(*one, shape.layers) for one in (*shapes, (shape.hidden, shape.inner))]


def rates(shape: LlamaShape, rows: Sequence[int], seconds: float) -> dict[int, float]:
    """Billions of operations a second of all products of the layers, by rows."""
    weights = [
        torch.randn(outputs, inputs) / inputs for outputs, inputs, count in products_of(shape) for _ in range(count)
    ]
    products = [PackedLinear(one) if can_pack() else torch.nn.functional.linear for one in weights]
    work = 2 * sum(one.numel() for one in weights)
    found = {}
    with torch.inference_mode():
        for count in rows:
            states = {one.shape[1]: torch.randn(count, one.shape[1]) for one in weights}
            times: list[float] = []
            while sum(times) < seconds or len(times) < 3:
                began = time.process_time()
                for weight, product in zip(weights, products, strict=True):
                    given = states[weight.shape[1]]
                    product(given) if can_pack() else product(given, weight)  # type: ignore[call-arg]
                times.append(time.process_time() - began)
            found[count] = work * count / median(times[1:]) / 1e9
    return found


class Profiled:
    """One engine, and the documents of A."""

    def __init__(self, model: str) -> None:
        self.engine = pastalang.Engine.load(model, adapter=None, device="cpu", dtype="float32")

    def run(self, document: Document) -> pastalang.Result:
        program, inputs = program_of(document)
        return self.engine.run(program, dict(inputs), sampling=GREEDY, on_truncated="keep")

    def parts(self, documents: Sequence[Document]) -> dict[str, Any]:
        """Seconds of a document by what they go to. The profiler times operations; the whole is timed without it."""
        for document in documents[:3]:
            self.run(document)  # makes the masks
        plain, timed = documents[3 : len(documents) // 2 + 2], documents[len(documents) // 2 + 2 :]
        began = time.process_time()
        results = [self.run(document) for document in plain]
        whole = (time.process_time() - began) / len(plain)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
            began, clock = time.process_time(), time.perf_counter()
            for document in timed:
                self.run(document)
            own = (time.process_time() - began) / (time.perf_counter() - clock)  # of the time that the profiler saw
        groups, widths = Counter[str](), Counter[int]()
        for event in found.key_averages(group_by_input_shape=True):
            seconds = own * event.self_cpu_time_total / 1e6 / len(timed)
            group = _group_of(event.key)
            groups[group] += seconds
            if group == "products" and event.input_shapes and event.input_shapes[0]:
                widths[event.input_shapes[0][0]] += seconds
        groups[PYTHON] = max(0.0, whole - sum(groups.values()))
        usage = results[0].usage
        return {
            "seconds": whole, "groups": dict(groups), "widths": dict(sorted(widths.items())),
            "passes": median(one.usage.forward_passes for one in results), "prompt": usage.input_tokens,
            "fed": median(one.usage.input_tokens - one.usage.reused_tokens + one.usage.forced_tokens
                          + one.usage.output_tokens for one in results),
            "drawn": median(one.usage.output_tokens for one in results),
        }  # fmt: skip

    def prompt_seconds(self, documents: Sequence[Document]) -> float:
        """Of these prompts with a single question, whose answer takes one pass: that of the prompt."""
        asked = [replace(one, schema=record(is_clear=YES_NO)) for one in documents]
        self.run(asked[0])
        return median(_timed(lambda one=one: self.run(one)) for one in asked[1:])


def _timed(act: Callable[[], Any]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def _group_of(operation: str) -> str:
    return next((group for group, names in _GROUPS.items() if any(name in operation for name in names)), OTHER)


def needed_operations(shape: LlamaShape, fed: float, drawn: float) -> float:
    """Of the tokens that must be fed: all layers for each, the head for those from which a token is drawn."""
    layers = 2 * sum(outputs * inputs * count for outputs, inputs, count in products_of(shape))
    return fed * layers + drawn * 2 * shape.vocabulary * shape.hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        profiled = Profiled(given.model)
        documents = list(islice(TASKS["A"].documents(), 9 if given.small else 19))
        shape = profiled.engine.loop.model.shape  # type: ignore[attr-defined]
        found: dict[str, Any] = {
            "rates": rates(shape, (*ROWS[:2], PROMPT_ROWS) if given.small else ROWS, 0.1 if given.small else 1.0),
            "document": profiled.parts(documents[:-_PROMPTS]),
        }
        found["prompt_seconds"] = profiled.prompt_seconds(documents[-_PROMPTS:])
        parts = found["document"]
        work = needed_operations(shape, parts["fed"], parts["drawn"])
        peak = max(found["rates"].values())
        found["limit"] = {"operations": work, "seconds": work / 1e9 / peak, "peak": peak}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
