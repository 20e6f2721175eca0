"""Measure the border between a literal and a hole: how often it produces tokens that the tokenizer would not have
written, and what that costs a model that was trained only on the output of its tokenizer.

    python -m benchmarks.seams > benchmarks/results/seams.md

The runtime writes the answers with a teacher in place of the model, once with the white space in the literal and once
with the white space in the hole. The fed tokens are compared with the tokens of the whole answer. The model is a table
of the tokens that followed the same four tokens (else three, two, one) in answers that were tokenized as a whole.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import pastalang
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel
from pastalang.training.recording import planner, record
from pastalang.values.json import parse_json

ANSWERS = 60
SIGHT = 4  # tokens that the table looks back
NEWER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MAKERS = ["Sony", "Samsung", "Philips", "Panasonic", "Grundig", "Sharp", "Hisense", "Toshiba", "Loewe", "Metz"]
COLOURS = ["black", "white", "silver", "graphite", "walnut", "anthracite"]
KEYS = [f"{name} {part}" for name in ("front", "back", "left", "right", "top") for part in ("panel", "cover", "frame")]


class Kept(BoundPlan):
    """A plan whose literals keep their white space."""

    @cached_property
    def bound(self) -> Plan:
        return self.plan


class Keeping(Engine):
    """An engine whose literals keep their white space."""

    def _tokens(self, plan: Plan) -> BoundPlan:
        return Kept(plan, self.encoder, self._guides)


@dataclass(frozen=True)
class Kind:
    """One kind of hole: its type and values, in JSON or as text in a sentence."""

    name: str
    type: str
    is_json: bool = True

    def value(self, rng: random.Random) -> Any:
        return {
            "a string": f"{rng.choice(MAKERS)} {rng.choice(COLOURS)}",
            "an enum": rng.choice(["active", "archived", "good"]),
            "a number": rng.choice([rng.randrange(10_000), rng.randrange(400) + 0.25]),
            "a boolean": rng.random() < 0.5,
            "a string or null": rng.choice([None, rng.choice(MAKERS)]),
            "a number or null": rng.choice([None, rng.randrange(10_000)]),
            "a list of strings": rng.sample(MAKERS, rng.randrange(3)),
            "text in a sentence": f"{rng.choice(MAKERS)} {rng.choice(COLOURS)}",
        }[self.name]

    @property
    def source(self) -> str:
        if self.is_json:
            return f'template t\nuser """Say."""\nassistant json {{ first: {self.type}, next: "x" | "y" }}\n'
        return (
            f'template t\nuser """Say."""\nassistant text """\nIt is {{first: {self.type}}}\n{{next: "x" | "y"}}\n"""\n'
        )


KINDS = (
    Kind("a string", "string(max=40)"),
    Kind("an enum", '"active" | "archived" | "good"'),
    Kind("a number", "number"),
    Kind("a boolean", "boolean"),
    Kind("a string or null", "string(max=40) | null"),
    Kind("a number or null", "number | null"),
    Kind("a list of strings", "[string(max=9)](max_tokens=60)"),
    Kind("text in a sentence", "string(max=40)", is_json=False),
)


class Trained:
    """A tokenizer, with its encoder and its vocabulary."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.encoder = Encoder(tokenizer)
        self.tokens = Tokens(vocabulary_of(tokenizer, ends=self.encoder.ends, encode=self.encoder.text))
        self.shelf = GuideCache(self.tokens)

    def spelled(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self.tokens.vocabulary.spelling[token] or b"" for token in tokens)

    def borders(self, tokens: Sequence[int]) -> set[int]:
        """The borders between tokens, in bytes."""
        at, found = 0, set()
        for token in tokens:
            at += len(self.tokens.vocabulary.spelling[token] or b"")
            found.add(at)
        return found


def texts(seed: int, count: int) -> Iterator[str]:
    """The texts for the tokenizers and the table: answers and sentences in which each key has its own facts."""
    rng = random.Random(seed)
    for _ in range(count):
        answer = {key: fact(key) for key in rng.sample(KEYS, 5)}
        yield json.dumps(answer, indent=2)
        flat = {kind.name: kind.value(rng) for kind in KINDS}
        yield "\n".join(f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in flat.items())
        yield f"It is {flat['text in a sentence']}\nx"


def fact(key: str) -> Any:
    rng = random.Random(f"fact {key}")
    return rng.choice([f"{rng.choice(MAKERS)} {rng.choice(COLOURS)}", rng.randrange(1000), True, None])


def tokenizers() -> dict[str, Trained]:
    newer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(NEWER), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return {
        "byte-level, words split as by GPT-2": Trained(_byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))),
        "byte-level, words split as by newer models": Trained(_byte_level(newer)),
        "SentencePiece": Trained(_sentence_piece()),
        "bytes": Trained(byte_tokenizer()),
    }


def _byte_level(split: Any) -> Any:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = split
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=4_000, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(texts(1, 2_000), trainer)
    return _with_end(backend)


def _sentence_piece() -> Any:
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = (f"<0x{byte:02X}>" for byte in range(256))
    trainer = trainers.BpeTrainer(vocab_size=4_000, special_tokens=["<unk>", *bytes_], show_progress=False)
    backend.train_from_iterator(texts(1, 2_000), trainer)
    described = json.loads(backend.to_str())
    described["added_tokens"] = [one for one in described["added_tokens"] if not one["content"].startswith("<0x")]
    return _with_end(Tokenizer.from_str(json.dumps(described)))


def _with_end(backend: Tokenizer) -> Any:
    backend.add_special_tokens(["<|end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", clean_up_tokenization_spaces=False)


# ── tokens that the tokenizer would not have written ─────────────────────────────────────────────────────


def shares(trained: Trained, kind: Kind, *, hand_over: bool) -> tuple[float, float, float]:
    """The percentages of values with odd tokens at the start and at the end, and the mean number of draws."""
    program = pastalang.compile(kind.source)
    plan = planner(program)(Mode.SEQUENTIAL)
    bound = (BoundPlan if hand_over else Kept)(plan, trained.encoder, trained.shelf)
    rng, before, after, draws = random.Random(2), 0, 0, 0
    for _ in range(ANSWERS):
        value = kind.value(rng)
        row = record(bound, trained.tokens, {}, parse_json(json.dumps({"first": value, "next": "x"})))
        fed = row.tokens.tolist()
        text = trained.spelled(fed).decode()
        opening = '"first": ' if kind.is_json else "It is "
        spelled = json.dumps(value) if kind.is_json else value
        start = len(text[: text.rindex(opening)]) + len(opening)
        end = start + len(spelled)
        assert text[start:end] == spelled, "the values are ASCII and stand where they should"
        root = text.rindex("Assistant:\n") + len("Assistant:\n")
        first = sum(border <= root for border in sorted(trained.borders(fed)))
        own = {root + border for border in trained.borders(trained.encoder.text(text[root:]))}
        odd = own ^ {border for border in trained.borders(fed) if border > root}
        assert first
        before += any(start - len(opening) < border <= start + 1 for border in odd)
        after += any(end - 1 <= border <= end + 1 for border in odd)
        draws += sum(taught.field == "first" for taught in row.taught)
    return 100 * before / ANSWERS, 100 * after / ANSWERS, draws / ANSWERS


# ── what it does to the value that is chosen ─────────────────────────────────────────────────────────────


class Table:
    """Counts of the tokens that followed up to four tokens."""

    def __init__(self, trained: Trained) -> None:
        self._trained = trained
        self._seen: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for text in texts(3, 2_000):
            tokens = trained.encoder.text(text)
            for at, token in enumerate(tokens):
                for length in range(SIGHT + 1):
                    if length <= at:
                        self._seen[tokens[at - length : at]][token] += 1

    def score(self, fed: FedToken) -> list[float]:
        path = [one.token for one in sorted({*fed.sees, fed}, key=lambda one: one.position)]
        logits = [0.0] * len(self._trained.tokenizer)
        for length in range(SIGHT + 1):
            counts: Counter[int] = self._seen.get(tuple(path[len(path) - length :]), Counter())
            total = sum(counts.values())
            for token, count in counts.items():
                logits[token] += 100.0**length * count / total / 100.0**SIGHT * 50
        return logits


def chosen(trained: Trained, *, hand_over: bool) -> float:
    """The percentage of facts that the table gets right, if it may write any kind of value."""
    fields = ", ".join(f"{json.dumps(key)}: string(max=40) | number | boolean | null" for key in KEYS)
    program = pastalang.compile(f'template t\nuser """Say."""\nassistant json {{ {fields} }}\n')
    table = Table(trained)
    kind = Engine if hand_over else Keeping
    engine = kind(FakeModel(table.score, vocabulary=len(trained.tokenizer)), trained.tokenizer)
    result = engine.run(program, {})
    right = sum(bool(result.value[key] == fact(key)) for key in KEYS)
    return 100 * right / len(KEYS)


def main() -> None:
    trained = tokenizers()
    print("# Tokens at the borders of values, and what they do\n")
    print(f"{ANSWERS} answers per line, written by the runtime. Per cent of values where the tokens that are fed")
    print("differ from the tokenizer's own; draws are those of the value.\n")
    print("| tokenizer | value | odd in front | handed over | odd behind | handed over | draws | handed over |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for name, one in trained.items():
        for kind in KINDS:
            kept, handed = (shares(one, kind, hand_over=hand_over) for hand_over in (False, True))
            columns = (f"{number:.1f}" for pair in zip(kept, handed, strict=True) for number in pair)
            print(f"| {name} | {kind.name} | {' | '.join(columns)} |", flush=True)
    print("\nPer cent of facts told right by a model that has only read what the tokenizer writes:\n")
    print("| tokenizer | kept | handed over |")
    print("|---|---:|---:|")
    for name, one in trained.items():
        kept_right, handed_right = (chosen(one, hand_over=hand_over) for hand_over in (False, True))
        print(f"| {name} | {kept_right:.0f} | {handed_right:.0f} |", flush=True)


if __name__ == "__main__":
    main()
