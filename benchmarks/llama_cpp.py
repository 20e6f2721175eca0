"""Twelve fields of a document in llama.cpp, at the same time and as it writes JSON itself, in one run.

python -m benchmarks.llama_cpp --model SmolLM2-135M-Instruct.Q8_0.gguf --report benchmarks/results/llama-cpp.md

Both sides read the same tokens with the same file, one thread and a KV cache in float16, and take the most probable
token. llama.cpp writes the whole answer from left to right under the grammar that it makes of the JSON Schema. Both
keep the beginning of the prompt that all documents share. Seconds are of the processor, because other programs take
turns on this machine; documents alternate between the sides.

With `--same WEIGHTS.f32.gguf`, documents of `everyday.toml` are decoded by llama.cpp and by transformers with dense
placement, both in float32, and their tokens are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.everyday import TEXT, read_documents
from pastalang import Engine, Program, compile

SYSTEM = "You read a note of a help desk and fill in a record about it."
KINDS: Mapping[str, Mapping[str, str]] = {
    "open": {
        "customer": "string(max=10)", "product": "string(max=10)", "city": "string(max=8)", "fault": "string(max=14)",
        "order": "integer(0..99999)", "units": "integer(1..99)", "price": "number(min=0, max_tokens=7)",
        "days": "integer(0..99)", "channel": '"phone" | "email" | "chat" | "shop"',
        "priority": '"low" | "normal" | "high" | "urgent"', "is_under_warranty": "boolean", "wants_refund": "boolean",
    },
    "closed": {
        "channel": '"phone" | "email" | "chat" | "shop"', "priority": '"low" | "normal" | "high" | "urgent"',
        "mood": '"calm" | "annoyed" | "angry"', "topic": '"delivery" | "defect" | "invoice" | "return"',
        "is_under_warranty": "boolean", "wants_refund": "boolean", "is_complete": "boolean", "was_opened": "boolean",
        "has_receipt": "boolean", "is_business": "boolean", "was_late": "boolean", "needs_reply": "boolean",
    },
}  # fmt: skip
LONGEST = {"customer": 30, "product": 30, "city": 24, "fault": 44}  # characters, for a schema, which counts no tokens
_NAMES = ("Ada Brook", "Jonas Weil", "Mira Castell", "Tom Okafor", "Lena Sand", "Igor Palm")
_THINGS = ("kettle K20", "lamp Aurora", "drill D7", "heater Nord 3", "speaker Tuva", "fan Breeze 2")
_CITIES = ("Lindau", "Porto", "Graz", "Odense", "Leeds", "Turku")
_FAULTS = ("does not switch on", "arrived with a cracked case", "makes a loud noise", "smells of burning")


def document(chance: Random) -> str:
    """About three hundred tokens in which the values stand among sentences that say nothing of them."""
    name, thing, city = chance.choice(_NAMES), chance.choice(_THINGS), chance.choice(_CITIES)
    order, units, price = chance.randrange(10_000, 99_999), chance.randrange(1, 9), chance.randrange(900, 19_900) / 100
    facts = [
        f"{name} from {city} wrote by {chance.choice(('email', 'chat', 'phone'))} about order {order}.",
        f"The order had {units} pieces of the {thing} at {price:.2f} each.",
        f"According to the customer, the {thing} {chance.choice(_FAULTS)}.",
        f"It was delivered {chance.randrange(1, 40)} days ago, and the box was opened the same evening.",
        chance.choice(("The receipt is attached.", "The customer cannot find the receipt.")),
        chance.choice(("The customer wants the money back.", "The customer would rather have a replacement.")),
        chance.choice(("The tone was calm throughout.", "The customer was angry and asked for a call today.")),
    ]
    talk = [
        "The note was taken while the line was busy, so a few details may have to be asked for again.",
        "A colleague of the evening shift has already looked at the case and found nothing unusual in the system.",
        "Our records show that the warehouse had sent the parcel on time and that the carrier scanned it twice.",
        "The customer has been with the shop for several years and has not complained before.",
        "Please keep in mind that the shop is closed for stocktaking on the last two days of the month.",
        "No photographs have been sent so far, although the form on the website asks for them.",
        "The usual questions about the packaging, the seal and the accessories were not asked in this call.",
        "If the case goes to the manufacturer, it takes up to three weeks until an answer comes back to the shop.",
    ]
    chance.shuffle(talk)
    return " ".join(part for pair in zip_longest(facts, talk, fillvalue="") for part in pair if part)


def program_of(fields: Mapping[str, str]) -> Program:
    body = "\n".join(f"  {name}: {type}" for name, type in fields.items())
    messages = f'system """\n{SYSTEM}\n"""\nuser """\n{{text}}\n"""'
    return compile(f"template note(text: text)\n{messages}\nassistant json {{\n{body}\n}}\n")


def schema_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """What llama.cpp is asked for: the same fields in the same order."""

    def one(name: str, type: str) -> dict[str, Any]:
        if type == "boolean":
            return {"type": "boolean"}
        if type.startswith('"'):
            return {"enum": [option.strip().strip('"') for option in type.split("|")]}
        if type.startswith("string"):
            return {"type": "string", "minLength": 1, "maxLength": LONGEST[name]}
        if type.startswith("integer"):
            low, high = type.removeprefix("integer(").rstrip(")").split("..")
            return {"type": "integer", "minimum": int(low), "maximum": int(high)}
        return {"type": "number"}

    return {
        "type": "object", "properties": {name: one(name, type) for name, type in fields.items()},
        "required": list(fields), "additionalProperties": False,
    }  # fmt: skip


@dataclass
class Side:
    """Seconds of the processor for each document, and how many tokens were written or passes were made."""

    name: str
    seconds: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def measure(self, run: Callable[[], int]) -> None:
        began = time.process_time()
        self.steps.append(run())
        self.seconds.append(time.process_time() - began)

    @property
    def per_document(self) -> float:
        return statistics.median(self.seconds)


class Sequential:
    """llama.cpp with its own grammar of a JSON Schema, through the class that llama-cpp-python has for it."""

    def __init__(self, model: Path, prompt: Callable[[str], list[int]], cells: int) -> None:
        from llama_cpp import Llama

        self._llama = Llama(
            str(model), n_ctx=cells, n_threads=1, n_threads_batch=1, n_batch=512, flash_attn=True, verbose=False
        )
        self._prompt = prompt

    def __call__(self, text: str, grammar: Any) -> int:
        found: Any = self._llama.create_completion(
            self._prompt(text), grammar=grammar, temperature=0.0, max_tokens=400, repeat_penalty=1.0
        )
        json.loads(found["choices"][0]["text"])
        return int(found["usage"]["completion_tokens"])


class Comparison:
    """The engines, and a table of what they took."""

    def __init__(self, model: Path, documents: int) -> None:
        self._engine, self._other = (Engine.load(model, host="llama.cpp", device="cpu", cells=8192) for _ in range(2))
        self._sequential = Sequential(model, lambda text: prompt_of(self._engine, text), 8192)
        self._documents = documents

    def rows(self) -> Iterator[str]:
        for kind, fields in KINDS.items():
            sides = self._measured(kind, fields)
            slowest = sides[0].per_document
            for one in sides:
                yield (
                    f"| {kind} | {one.name} | {statistics.mean(one.steps):.1f} | {one.per_document:.2f} | "
                    f"{slowest / one.per_document:.2f}x |"
                )

    def _measured(self, kind: str, fields: Mapping[str, str]) -> list[Side]:
        from llama_cpp import LlamaGrammar

        chance, program = Random(kind), program_of(fields)
        grammar = LlamaGrammar.from_json_schema(json.dumps(schema_of(fields)))
        runs: dict[str, Callable[[str], int]] = {
            "llama.cpp, JSON Schema": lambda text: self._sequential(text, grammar),
            "PastaLang": lambda text: self._engine.run(program, text=text).usage.forward_passes,
            "PastaLang, `drafts=8`": lambda text: self._other.run(program, text=text, drafts=8).usage.forward_passes,
        }
        sides = [Side(name) for name in runs]
        for run in runs.values():
            run(document(chance))  # warms up
        for text in [document(chance) for _ in range(self._documents)]:
            for side, run in zip(sides, runs.values(), strict=True):
                side.measure(partial(run, text))
        return [*sides, self._together(program, [document(chance) for _ in range(self._documents)])]

    def _together(self, program: Program, texts: Sequence[str]) -> Side:
        began = time.process_time()
        found = list(self._engine.map(program, ({"text": text} for text in texts), in_flight=8))
        seconds = (time.process_time() - began) / len(texts)
        return Side("PastaLang, 8 documents at once", [seconds], [one.usage.forward_passes for one in found])


def prompt_of(engine: Engine, text: str) -> list[int]:
    """The tokens before the answer, as the engine feeds them."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    tokenizer = engine.encoder.tokenizer
    found: list[int] = tokenizer.encode(
        tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True), add_special_tokens=False
    )
    return found


def same(weights: Path, documents: int) -> list[str]:
    """How many answers have the same tokens, and where the others begin to differ."""
    here = Engine.load(weights, host="llama.cpp", device="cpu", dtype="float32")
    there = Engine.load(weights, device="cpu", dtype="float32", placement="dense")
    equal, fields, alike, lines = 0, 0, 0, []
    for one in read_documents()[:documents]:
        found, expected = (engine.run(one.program, {TEXT: one.text}) for engine in (here, there))
        pairs = list(zip(found.fields, expected.fields, strict=False))
        differ = [(ours, theirs) for ours, theirs in pairs if ours.tokens != theirs.tokens]
        equal += not differ and len(found.fields) == len(expected.fields)
        fields, alike = fields + len(pairs), alike + len(pairs) - len(differ)
        lines += [f"- {one.style}, `{ours.field}`: {ours.text!r} and {theirs.text!r}" for ours, theirs in differ]
    said = f"{equal} of {documents} documents and {alike} of {fields} values have the same tokens in both."
    print(said, *lines, sep="\n", flush=True)
    return [said, "", *lines]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a GGUF file")
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--same", type=Path, help="a GGUF file in float32")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    lines: list[str] = []
    if given.model is not None:
        lines += ["| questions | side | passes, or tokens | seconds a document | documents a second |"]
        lines += ["|---|---|---:|---:|---:|", *Comparison(given.model, given.documents).rows(), ""]
        print(*lines, sep="\n", flush=True)
    if given.same is not None:
        lines += same(given.same, 50)
    if given.report is not None:
        given.report.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
