"""Drafts on listings: passes, tokens and time with and without, and whether the answers are the same.

    python -m benchmarks.drafts --oa-mine train.jsonl [--model pasta-mini] [--documents 40] [--batch 4]
    python -m benchmarks.drafts --oa-mine train.jsonl [--model pasta-mini] [--documents 40] --rivals

The titles are quoted from: ten attributes, each `verbatim(title) | null`. All ways run in turn in one process, so that
a load from elsewhere meets all of them; the times are of the processor. Each way has an engine of its own, because an
engine remembers what fields held: its first documents are slower than its later ones.

`--rivals` lets `transformers` write as many tokens after the same prompt, as they come: alone, with its own look-up of
the prompt, and with an assistant model. An assistant has to share the tokenizer of the model. No smaller model does, so
the first layers of the model stand in for one, under its own head; they were not trained to write.
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
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

import pastalang
from pastalang.program.types import Drafts
from pastalang.runtime.models.source import shipped_folder
from pastalang.values.describe import counted

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
LOOKED_UP, MOST_OF_AN_ASSISTANT = 10, 20  # tokens that `transformers` guesses ahead; the second is its default


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


def load(folder: str, **changes: int) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **changes).eval()


def generate(
    model: str, titles: Sequence[str], tokens: int, *, looked_up: int | None = None, layers: int | None = None
) -> Total:
    """`transformers` writes so many tokens for each title, without a guide. The assistant has so many layers."""
    folder = str(shipped_folder(model) or model)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    network, options, total = load(folder), {}, Total()
    network.register_forward_pre_hook(lambda *_: total.counts.update(passes=1))
    if looked_up is not None:
        options["prompt_lookup_num_tokens"] = looked_up
    if layers is not None:
        options["assistant_model"] = assistant = load(folder, num_hidden_layers=layers)
        assistant.generation_config.num_assistant_tokens = MOST_OF_AN_ASSISTANT
        assistant.register_forward_pre_hook(lambda *_: total.counts.update(assistant=1))
    for title in titles:
        chat = [{"role": "user", "content": title}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text + '{\n  "Brand": ', return_tensors="pt", add_special_tokens=False)
        began = time.process_time()
        with torch.inference_mode():
            found = network.generate(
                **prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0, **options
            )
        total.seconds += time.process_time() - began
        total.answers.append(tokenizer.decode(found[0, prompt["input_ids"].shape[1] :]))
        total.counts["tokens"] += found.shape[1] - prompt["input_ids"].shape[1]
    return total


def compare(model: str, titles: Sequence[str]) -> None:
    """Ours and theirs in one table, one document at once, greedily."""
    print("| side | drafts | passes | of the assistant | tokens per pass | ms per document | same answers |")
    print("|---|---|---|---|---|---|---|")

    def show(side: str, drafts: int | str, total: Total, plain: Total) -> None:
        each = {name: total.counts[name] / len(titles) for name in ("passes", "assistant", "tokens")}
        same = sum(a == b for a, b in zip(plain.answers, total.answers, strict=True))
        assistant = f"{each['assistant']:.1f}" if each["assistant"] else ""
        print(
            f"| {side} | {drafts} | {each['passes']:.1f} | {assistant} "
            f"| {each['tokens'] / each['passes']:.1f} | {1000 * total.seconds / len(titles):.0f} "
            f"| {same} of {len(titles)} |",
            flush=True,
        )

    tokens = 0
    for mode in ("strict", "sequential"):
        totals = measure(model, titles, mode, None)
        tokens = round(totals["off"].counts["tokens"] / len(titles))
        for way, total in totals.items():
            show(f"PastaLang, {mode}", way, total, totals["off"])
    plain = generate(model, titles, tokens)
    show("`generate`", "off", plain, plain)
    show("`generate`, prompt look-up", LOOKED_UP, generate(model, titles, tokens, looked_up=LOOKED_UP), plain)
    assisted = f"to {MOST_OF_AN_ASSISTANT}, if sure"
    for layers in range(1, AutoConfig.from_pretrained(shipped_folder(model) or model).num_hidden_layers):
        found = generate(model, titles, tokens, layers=layers)
        show(f"`generate`, assistant of {counted(layers, 'layer')}", assisted, found, plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oa-mine", type=Path, required=True)
    parser.add_argument("--model", default="pasta-mini")
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rivals", action="store_true")
    given = parser.parse_args()
    logging.set_verbosity_error()  # the layers that an assistant leaves out
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    with given.oa_mine.open(encoding="utf-8") as file:
        titles = [json.loads(line)["input"] for line in islice(file, given.documents)]
    if given.rivals:
        compare(given.model, titles)
        return
    print("| mode | temperature | drafts | passes | drafted | confirmed | ms per document | time | same answers |")
    print("|---|---|---|---|---|---|---|---|---|")
    for mode in ("strict", "sequential"):
        for temperature in (None,) if given.batch > 1 else (None, 0.8):
            totals = measure(given.model, titles, mode, temperature, given.batch)
            plain = totals["off"]
            for way, total in totals.items():
                each = {name: count / len(titles) for name, count in total.counts.items()}
                same = sum(a == b for a, b in zip(plain.answers, total.answers, strict=True))
                print(
                    f"| {mode} | {temperature or 0} | {way} | {given.batch * each['passes']:.1f} "
                    f"| {each['drafted']:.1f} | {each['confirmed']:.1f} | {1000 * total.seconds / len(titles):.0f} "
                    f"| {total.seconds / plain.seconds:.2f}x | {same} of {len(titles)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
