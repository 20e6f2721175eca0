"""Measure the engine on a GPU: python -m benchmarks.gpu [--out benchmarks/results/gpu.md]

    a pass      each branch of several documents feeds a token, in bfloat16: from the step to its logits
    documents   `extract_many` with smollm2 and its adapter, and `generate` of transformers with the same weights
    training    steps of `pasta train hpd` with dense masks and with FlexAttention

The documents are notes of a help desk of some 250 tokens, and the answers have twelve keys. `generate` writes as many
tokens as our answers have, in padded batches, without any constraint, and attends with the kernels that the engine
takes: with those of cuDNN, which torch prefers on some GPUs, it was slower, as the last line shows.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from pydantic import BaseModel

import pastalang
from benchmarks.rivals.tasks import _note
from benchmarks.step_overhead import Load
from pastalang.plan.branches import Mode
from pastalang.runtime.attention.attention import ready_kernels
from pastalang.runtime.models.loading import load_model, load_tokenizer, load_weights, place_of
from pastalang.training.batches import attend_in_blocks
from pastalang.training.fine_tune import Job, Reporter, gather
from pastalang.training.method import ParallelValues
from pastalang.training.run_folder import Step
from pastalang.training.settings import Attention, Settings
from pastalang.training.trainer import Processes, train

DEVICE, MODEL, ADAPTER = "cuda", "smollm2", "extract"
ROWS = (1, 16, 64, 256, 1024)
IN_FLIGHT = ((1, 8), (16, 64), (64, 192), (256, 512))  # and documents
BATCHES = ((1, 1), (64, 64), (256, 256))  # of `generate`, and documents
LENGTHS, TOKENS = (512, 2048, 4096), 16_384  # of a line in training, and of a batch
FIELDS, SHARED, OWN = 8, 64, 236  # branches of a document, tokens that all see, and tokens of its own


class Note(BaseModel):
    customer: str
    product: str
    city: str
    fault: str
    order: int
    units: int
    price: float
    days: int
    channel: Literal["phone", "email", "chat", "shop"]
    priority: Literal["low", "normal", "high", "urgent"]
    is_complete: bool
    wants_refund: bool


PROGRAM = '''template note(text: text)
user """
Read the text and fill in the record.

{text}
"""
assistant json {
  customer: string(max=16), product: string(max=16), city: string(max=12), fault: string(max=24)
  order: integer, units: integer, price: string(max=12), days: integer
  channel: "phone" | "email" | "chat" | "shop", wants_refund: boolean
}
'''


def notes(count: int) -> list[tuple[str, dict[str, Any]]]:
    chance = random.Random("gpu")
    return [_note(chance) for _ in range(count)]


class Page:
    """Written after each line, so that an interrupted run keeps its results."""

    def __init__(self, out: Path) -> None:
        self._out, self._lines = out, list[str]()

    def add(self, *lines: str) -> None:
        self._lines += lines
        self._out.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
        print(*lines, sep="\n", flush=True)


@contextmanager
def cleared() -> Iterator[None]:
    yield
    gc.collect()
    torch.cuda.empty_cache()


def timed(act: Any) -> float:
    """Milliseconds until the GPU is done."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    act()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - began)


# ── a pass ───────────────────────────────────────────────────────────────────────────────────────────────


def pass_line(rows: int, *, steps: int) -> str:
    fields = min(rows, FIELDS)
    load = Load(rows // fields, fields, SHARED, OWN)
    found = load_model(MODEL, device=DEVICE, dtype="bfloat16", adapter=ADAPTER, with_transformers=False)
    model = found.model(cells=load.prompt + rows * steps)
    first = timed(lambda: model.forward(load.first()))
    later = [timed(lambda at=at: model.forward(load.then(at))) for at in range(steps)][steps // 3 :]
    median = statistics.median(later)
    speed = 1e3 * rows / median
    return f"| {rows:,} | {load.documents:,} | {load.prompt:,} | {first:,.0f} | {median:.1f} | {speed:,.0f} |"


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


def read(engine: pastalang.Engine, texts: Sequence[str], in_flight: int, found: list[Any]) -> None:
    found += pastalang.extract_many(Note, texts, model=engine, in_flight=in_flight)


def ours(page: Page, texts: Sequence[str], rounds: int) -> int:
    """Returns how many tokens an answer has."""
    engine = pastalang.Engine.load(MODEL, device=DEVICE, dtype="bfloat16", adapter=ADAPTER, cells=1 << 18)
    found = list[Any]()
    read(engine, texts[:8], 8, found)
    for in_flight, count in IN_FLIGHT:
        speeds = []
        for _ in range(rounds):
            engine.loop.forget_prompts()
            took = timed(partial(read, engine, texts[:count], in_flight, found))
            speeds.append(1e3 * count / took)
        passes = statistics.median(one.usage.forward_passes for one in found[-count:])
        page.add(f"| PastaLang, {in_flight} in flight | {statistics.median(speeds):.1f} | {passes:.0f} |")
    answers = [json.dumps(one.value.model_dump(), indent=2) for one in found if one.value is not None]
    return int(statistics.median(len(engine.encoder.text(answer)) for answer in answers))


def theirs(page: Page, texts: Sequence[str], tokens: int) -> None:
    tokenizer, model = load_tokenizer(MODEL), load_weights(place_of(MODEL), device=DEVICE, dtype="bfloat16")
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.eos_token
    system = {"role": "system", "content": f"Fill in a record with the keys {', '.join(Note.model_fields)}."}
    prompts = [
        tokenizer.apply_chat_template(
            [system, {"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        for text in texts
    ]

    def run(batch: int, count: int, kernels: AbstractContextManager[Any]) -> None:
        with torch.inference_mode(), kernels:
            for at in range(0, count, batch):
                given = tokenizer(prompts[at : at + batch], return_tensors="pt", padding=True).to(DEVICE)
                model.generate(**given, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)

    for batch, count in BATCHES:
        took = timed(lambda: run(batch, count, ready_kernels(torch.device(DEVICE))))  # noqa: B023
        page.add(f"| `generate`, batches of {batch} | {1e3 * count / took:.1f} | {tokens} |")
    batch, _ = BATCHES[1]
    took = timed(lambda: run(batch, batch, nullcontext()))
    page.add(f"| `generate`, batches of {batch}, cuDNN | {1e3 * batch / took:.1f} | {tokens} |")


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────


def training_line(length: int, attention: Attention, folder: Path, *, steps: int) -> str:
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text, "value": value}) + "\n" for text, value in notes(500)))
    settings = Settings(steps=steps, learning_rate=5e-5, warmup_steps=2, save_every=0)
    method = ParallelValues(pastalang.compile(PROGRAM), (Mode.STRICT,))
    job = Job(
        method, MODEL, rows, folder / "out", settings, held_out=0.0, rows=TOKENS // length, length=length, device=DEVICE
    )
    dataset, done = gather(job, Reporter(lambda _: None)), list[Step]()
    model = dataset.base.load(device=DEVICE, seed=0, lora=None)
    if attention is Attention.FLEX:
        attend_in_blocks(model)
    torch.cuda.reset_peak_memory_stats()
    out = folder / f"{length}-{attention.value}"
    nobody = Processes(rank=1)  # only the first one saves
    train(
        model, dataset.batches, settings, out, identity={}, report=lambda _: None, on_step=done.append, processes=nobody
    )
    later = done[steps // 3 :]
    speed = statistics.median(step.tokens / step.seconds for step in later)
    memory = torch.cuda.max_memory_allocated() / 1e9
    losses = " ".join(f"{step.loss:.3f}" for step in done[:4])
    return f"| {length:,} | {attention.value} | {done[0].seconds:.1f} | {speed:,.0f} | {memory:.1f} | {losses} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gpu.md")
    parser.add_argument("--steps", type=int, default=18, help="of a median")
    parser.add_argument("--rounds", type=int, default=2, help="of documents")
    parser.add_argument("--parts", nargs="+", default=["pass", "documents", "training"])
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, help="of lines in training")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    page = Page(given.out)
    page.add(
        "# The engine on a GPU", "", f"`python -m benchmarks.gpu`, on one {torch.cuda.get_device_name()}, torch "
        f"{torch.__version__}, transformers {transformers.__version__}. SmolLM2-135M, medians."
    )  # fmt: skip
    if "pass" in given.parts:
        page.add(
            "",
            "## A pass",
            "",
            "| tokens | documents | tokens before them | first step, ms | a pass, ms | tokens per second |",
            "|---:|---:|---:|---:|---:|---:|",
        )
        for rows in ROWS:
            with cleared():
                page.add(pass_line(rows, steps=given.steps))
    if "documents" in given.parts:
        texts = [text for text, _ in notes(max(count for _, count in IN_FLIGHT))]
        page.add("", "## Documents", "", "| | documents per second | passes of a document |", "|---|---:|---:|")
        with cleared():
            tokens = ours(page, texts, given.rounds)
        with cleared():
            theirs(page, texts, tokens)
    if "training" in given.parts:
        page.add(
            "",
            "## Training",
            "",
            "| tokens of a line | attention | first step, s | tokens per second | memory, GB | losses |",
            "|---:|---|---:|---:|---:|---|",
        )
        with tempfile.TemporaryDirectory() as folder:
            for length in given.lengths:
                for attention in Attention:
                    with cleared():
                        page.add(training_line(length, attention, Path(folder), steps=given.steps))


if __name__ == "__main__":
    main()
