"""Measure guides with a large vocabulary, compared with llguidance and outlines: compiling, masks, 96 branches at once.

    python -m benchmarks.guides [FOLDER OF TEXT] > benchmarks/results/guides.md

The vocabulary is a byte-level BPE trained on the texts of the folder (or of the standard library). It is filled
up with joined tokens, so that tries and masks are as large as with a real model.
"""

from __future__ import annotations

import gc
import gzip
import random
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import pastalang
from pastalang.plan.branches import Form, Hole
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program import types as t
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.automaton_machine import forget_types
from pastalang.runtime.constraints.compile import compile_guide, prepare_vocabulary
from pastalang.runtime.constraints.guide import Guide, State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import Vocabulary, vocabulary_of

SIZE = 128_000
BRANCHES = 96
STEPS = 12
WALKS = 6
FOLLOW = ",\n  "
BRANDS = [f"Brand {number * 7919 % 100_003} {'GmbH' if number % 3 else 'Ltd'}" for number in range(10_000)]

TYPES: dict[str, t.Type] = {
    "integer": t.Integer(),
    "integer 0..1000000": t.Integer(minimum=0, maximum=1_000_000),
    "number": t.Number(),
    "number >= 0, by 0.01": t.Number(minimum=Decimal(0), multiple_of=Decimal("0.01")),
    "boolean or null": t.Union((t.Boolean(), t.Null())),
    "enum of 5": t.Union(tuple(t.Literal(text) for text in ("4K", "8K", "1080p", "720p", "SD"))),
    "enum of 10,000": t.Union(tuple(t.Literal(text) for text in BRANDS)),
    "date": t.Temporal(t.Moment.DATE),
    "datetime": t.Temporal(t.Moment.DATETIME),
    "uuid": t.Uuid(),
    "string": t.String(),
    "string, 20 characters": t.String(max_chars=20),
    "string, 400 characters": t.String(max_chars=400),
    "string or null": t.Union((t.String(), t.Null())),
    "email": t.String(format="email"),
    "url": t.String(format="url"),
    "hostname": t.String(format="hostname"),
    "duration": t.String(format="duration"),
    "email, 40 characters": t.String(format="email", max_chars=40),
    "/[A-Z]{2}-[0-9]{4}/": t.Regex("[A-Z]{2}-[0-9]{4}"),
    "verbatim, 14k characters": t.Verbatim("source"),
    "[string]": t.Array(t.String(), max_items=5),
    "[email]": t.Array(t.String(format="email"), max_items=5),
    "[string, 20 characters]": t.Array(t.String(max_chars=20), max_items=5),
    "any JSON": t.Anything(),
}


def train(folder: Path, size: int = SIZE) -> Tokens:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=40_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(_texts(folder), trainer)
    backend.add_special_tokens([AddedToken("<|end|>", special=True)])
    small = vocabulary_of(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>"))
    return Tokens(_filled(small, size))


def _filled(small: Vocabulary, size: int) -> Vocabulary:
    """Fill the vocabulary with pairs of tokens that no other token spells."""
    spelling, rng = list(small.spelling), random.Random(0)
    known = {text for text in spelling if text is not None}
    words = [text for text in spelling if text is not None and 1 < len(text) < 9]
    while len(spelling) < size:
        joined = rng.choice(words) + rng.choice(words)
        if joined not in known:
            known.add(joined)
            spelling.append(joined)
    return Vocabulary(tuple(spelling), small.ends)


def _texts(folder: Path) -> Iterator[str]:
    total = 0
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".txt", ".md", ".jsonl", ".gz") and path.is_file() and total < 12_000_000:
            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            text = raw.decode("utf-8", "ignore")
            total += len(text)
            yield text


@dataclass(frozen=True)
class Costs:
    """Milliseconds of processor time of this thread, so that other work on the machine does not count."""

    first: float  # compiling with the first mask, where nothing of the type is known yet
    again: float  # the same with another text that follows
    cached: float
    cold: list[float]  # every mask of some walks, each with a guide that was compiled for it alone: the least of three
    warm: list[float]  # every mask of twenty walks with one guide
    steps: list[float]  # all masks of a step of 96 branches that go their own ways, with one new guide


def measure(type: t.Type, prepared: Tokens, source: str) -> Costs:
    rng, cold, first = random.Random(0), list[float](), list[float]()
    for seed in range(WALKS):
        same: list[list[float]] = []
        for _ in range(3):
            guide, cost = _compiled(type, _as_new(prepared), source, FOLLOW)
            first.append(cost)
            same.append([])
            _walk(guide.start(max_tokens=64), random.Random(seed), same[-1])
        cold.extend(map(min, zip(*same, strict=True)))
    tokens = _as_new(prepared)
    guide, _ = _compiled(type, tokens, source, FOLLOW)
    again = [_compiled(type, tokens, source, f",{' ' * at}x")[1] for at in range(5)]
    cache, (plan, hole) = GuideCache(tokens), _hole(type)
    cached = _timed(lambda: cache(hole, plan, {"source": source}))
    warm: list[float] = []
    for _ in range(20):
        _walk(guide.start(max_tokens=64), rng, warm)
    guide, _ = _compiled(type, _as_new(prepared), source, FOLLOW)
    return Costs(statistics.median(first), statistics.median(again), cached, cold, warm, _steps(guide, rng))


def _hole(type: t.Type) -> tuple[Plan, Hole]:
    """A plan, and a hole of the type, as a request asks for its guide."""
    program = pastalang.compile("template t()\n\nassistant json {\n  f: string\n}\n")
    plan = build_plan(program.only_template, program)
    hole = next(segment for _, _, segment in walk_plan(plan) if isinstance(segment, Hole))
    return plan, replace(hole, type=type, follow=FOLLOW)


def _as_new(prepared: Tokens) -> Tokens:
    """The vocabulary with the tables that are made once for it, and no guide yet."""
    forget_types()
    found = Tokens(prepared.vocabulary, kept=dict(prepared.kept))
    found.__dict__.update({name: made for name, made in prepared.__dict__.items() if name not in found.__dict__})
    for name in ("reached", "matches"):
        found.kept.pop(name, None)
    return found


def _compiled(type: t.Type, tokens: Tokens, source: str, follow: str) -> tuple[Guide, float]:
    started = time.thread_time()
    guide = compile_guide(type, form=Form.JSON, follow=follow, vocabulary=tokens, sources={"source": source})
    guide.start(max_tokens=64).allowed()
    return guide, (time.thread_time() - started) * 1e3


def _steps(guide: Guide, rng: random.Random) -> list[float]:
    found, states = [], [guide.start(max_tokens=64) for _ in range(BRANCHES)]
    for _ in range(STEPS):
        masks: list[float] = []
        for state in states:
            _walk(state, rng, masks, most=1)
        states = [state if not state.is_finished else guide.start(max_tokens=64) for state in states]
        found.append(sum(masks))
    return found


def _timed(act: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.thread_time()
        act()
        times.append((time.thread_time() - started) * 1e3)
    return statistics.median(times)


def _walk(state: State, rng: random.Random, masks: list[float], most: int = 64) -> None:
    while not state.is_finished and most:
        started = time.thread_time()
        mask = state.allowed()
        masks.append((time.thread_time() - started) * 1e3)
        state.advance(int(rng.choice(tokens_of(mask))))
        most -= 1


# ── rivals ───────────────────────────────────────────────────────────────────────────────────────────────

_STRING = r'"([^"\\\x00-\x1f]|\\["\\/bfnrt])*"'
RIVALS = {
    "integer": "(-?(0|[1-9][0-9]{0,18}))",
    "enum of 5": '"(4K|8K|1080p|720p|SD)"',
    "date": '"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"',
    "string": _STRING,
}


def rival_rows(tokens: Tokens) -> Iterator[str]:
    """Measure compiling, and the masks of 96 branches as each integration with transformers makes them: one by one."""
    from llguidance import LLMatcher
    from outlines_core import Guide, Index
    from outlines_core import Vocabulary as OutlinesVocabulary

    from pastalang.runtime.constraints.matcher import llguidance_tokenizer

    tokenizer = llguidance_tokenizer(tokens)
    end = min(tokens.vocabulary.ends)
    spelled = {text: list(ids) for text, ids in tokens.by_text.items()}
    words = np.zeros((BRANCHES, (SIZE + 32) // 32), dtype=np.uint32)
    for name, pattern in RIVALS.items():
        started = time.thread_time()
        matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_regex(pattern), log_level=0)
        matcher.compute_bitmask()
        llg = (time.thread_time() - started) * 1e3
        copies = [matcher.deep_copy() for _ in range(BRANCHES)]
        llg_step = _timed(
            lambda copies=copies: [
                copy.unsafe_compute_mask_ptr(words[at].ctypes.data, words.shape[1] * 4)
                for at, copy in enumerate(copies)
            ]
        )
        started = time.thread_time()
        index = Index(pattern, OutlinesVocabulary(end, spelled))
        outlines = (time.thread_time() - started) * 1e3
        guides = [Guide(index) for _ in range(BRANCHES)]
        step = _timed(
            lambda guides=guides: [
                guide.write_mask_into(words[at].ctypes.data, words.shape[1], 4) for at, guide in enumerate(guides)
            ]
        )
        yield f"| {name} | {llg:.2f} | {llg_step:.2f} | {outlines:.0f} | {step:.2f} |"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sysconfig.get_path("stdlib")) / "email"
    tokens = train(folder)
    trained = time.thread_time()
    assert tokens.trie is not None and tokens.by_text
    built = time.thread_time()
    prepare_vocabulary(tokens)
    compile_guide(t.Array(t.Null()), form=Form.JSON, follow="", vocabulary=tokens)  # llguidance's own tokenizer
    ready = time.thread_time()
    gc.collect()
    gc.freeze()
    print("# Guides with a vocabulary of 128,000 tokens\n")
    print(f"One thread, milliseconds of its own time. Once per vocabulary before: trie {(built - trained) * 1e3:.0f},")
    print(f"what all types share {(ready - built) * 1e3:.0f}. Compiling counts the first mask.")
    print(
        f"Cold: {WALKS} walks, each with a guide of its own and nothing kept of its type, every mask as it was in the"
    )
    print(
        "quickest of three runs of the walk. Warm: twenty walks with one guide. What imports left is not looked at by"
    )
    print("the garbage collector: all of it takes 40 ms, in whichever mask comes then.")
    print(f"96 masks: {BRANCHES} branches that go their own ways for {STEPS} steps with one new guide.\n")
    print("| type | compile | other seam | cached | mask p50 | p99, cold | p99, warm | 96 masks, median | most |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    source, every = (" ".join(BRANDS))[:14_000], list[Costs]()
    for name, type in TYPES.items():
        costs = measure(type, tokens, source)
        numbers = (
            *(costs.first, costs.again, costs.cached, statistics.median(costs.cold), np.percentile(costs.cold, 99)),
            *(np.percentile(costs.warm, 99), statistics.median(costs.steps), max(costs.steps)),
        )
        print(f"| {name} | {' | '.join(f'{number:.3f}' for number in numbers)} |", flush=True)
        every.append(costs)
    compiled = np.percentile([costs.first for costs in every], 95)
    cold = np.percentile([mask for costs in every for mask in costs.cold], 99)
    warm = np.percentile([mask for costs in every for mask in costs.warm], 99)
    print(f"\nAll types together: compiling p95 {compiled:.1f}, masks p99 {cold:.3f} cold and {warm:.3f} warm.")
    print("\n## Beside the engines as their own integrations drive them\n")
    print("| pattern | llguidance compile | 96 masks | outlines-core compile | 96 masks |")
    print("|---|---:|---:|---:|---:|")
    for row in rival_rows(tokens):
        print(row)


if __name__ == "__main__":
    main()
