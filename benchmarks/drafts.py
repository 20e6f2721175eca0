"""Drafts on listings: passes, tokens and time with and without, and whether the answers are the same.

    python -m benchmarks.drafts --oa-mine train.jsonl [--model pasta-mini] [--documents 40] [--batch 4] [--rivals]

The titles are quoted from: ten attributes, each `verbatim(title) | null`. All ways run in turn in one process, so that
a load from elsewhere meets all of them; the times are of the processor. Each way has an engine of its own, because an
engine remembers what fields held: its first documents are slower than its later ones.

`--rivals` lets `transformers` write as many tokens after the same prompt, as they come, without and with its own
look-up of the prompt.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import pastalang
from pastalang.program.types import Drafts
from pastalang.runtime.models.source import shipped_folder

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
LOOKED_UP = 10  # tokens that `transformers` guesses ahead


@dataclass
class Total:
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    answers: list[str] = field(default_factory=list)


def measure(
    model: str, titles: Sequence[str], mode: str, temperature: float | None, batch: int = 1
) -> dict[Drafts, Total]:
    program = pastalang.compile(PROGRAM)
    engines = {way: pastalang.Engine.load(model) for way in WAYS}
    sampling = None if temperature is None else pastalang.Sampling(temperature=temperature)
    totals: dict[Drafts, Total] = {way: Total() for way in WAYS}
    for engine in engines.values():
        engine.run(program, title="", mode=mode, drafts="auto")
    for seed, start in enumerate(range(0, len(titles), batch)):
        rows = [{"title": title} for title in titles[start : start + batch]]
        for way, total in totals.items():
            began = time.process_time()
            results = engines[way].batch(program, rows, mode=mode, seed=seed, sampling=sampling, drafts=way)
            total.seconds += time.process_time() - began
            answers = [result for result in results if isinstance(result, pastalang.Result)]
            assert len(answers) == len(rows), "every listing has an answer"
            total.counts["passes"] += max(result.usage.forward_passes for result in answers)
            for result in answers:
                usage = result.usage
                total.answers.append(result.text)
                total.counts.update(
                    drafted=usage.drafted_tokens, confirmed=usage.confirmed_tokens,
                    tokens=usage.output_tokens + usage.forced_tokens - usage.input_tokens,
                )  # fmt: skip
    return totals


def generate(model: str, titles: Sequence[str], tokens: int, looked_up: int | None) -> Total:
    """`transformers` writes so many tokens for each title, without a guide."""
    folder = shipped_folder(model) or model
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    total = Total()
    network.register_forward_pre_hook(lambda *_: total.counts.update(passes=1))
    for title in titles:
        chat = [{"role": "user", "content": title}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text + '{\n  "Brand": ', return_tensors="pt", add_special_tokens=False)
        began = time.process_time()
        with torch.inference_mode():
            network.generate(
                **prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0,
                prompt_lookup_num_tokens=looked_up,
            )  # fmt: skip
        total.seconds += time.process_time() - began
        total.counts["tokens"] += tokens
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oa-mine", type=Path, required=True)
    parser.add_argument("--model", default="pasta-mini")
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rivals", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    with given.oa_mine.open(encoding="utf-8") as file:
        titles = [json.loads(line)["input"] for line in islice(file, given.documents)]
    print("| mode | temperature | drafts | passes | drafted | confirmed | ms per document | time | same answers |")
    print("|---|---|---|---|---|---|---|---|---|")
    tokens = 0
    for mode in ("strict", "sequential"):
        for temperature in (None,) if given.batch > 1 or given.rivals else (None, 0.8):
            totals = measure(given.model, titles, mode, temperature, given.batch)
            plain = totals["off"]
            tokens = round(plain.counts["tokens"] / len(titles))
            for way, total in totals.items():
                each = {name: count / len(titles) for name, count in total.counts.items()}
                same = sum(a == b for a, b in zip(plain.answers, total.answers, strict=True))
                print(
                    f"| {mode} | {temperature or 0} | {way} | {given.batch * each['passes']:.1f} "
                    f"| {each['drafted']:.1f} | {each['confirmed']:.1f} | {1000 * total.seconds / len(titles):.0f} "
                    f"| {total.seconds / plain.seconds:.2f}x | {same} of {len(titles)} |",
                    flush=True,
                )
    if given.rivals:
        for name, looked_up in (("generate", None), ("generate, prompt look-up", LOOKED_UP)):
            total = generate(given.model, titles, tokens, looked_up)
            print(
                f"| {name} | 0 | {looked_up or 'off'} | {total.counts['passes'] / len(titles):.1f} | | "
                f"| {1000 * total.seconds / len(titles):.0f} | | {tokens} tokens |",
                flush=True,
            )


if __name__ == "__main__":
    main()
