"""What guides cost with a large vocabulary: compile, mask, 96 branches at once, beside llguidance and outlines.

    python -m benchmarks.guides [FOLDER OF TEXT] > benchmarks/results/guides.md

The vocabulary is a byte-level BPE trained on the text of the folder (or of the standard library) and filled up to
its size with joined tokens, so that tries and masks have the size that they have with a real model.
"""

from __future__ import annotations

import gzip
import random
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pastalang.plan.plan import Form
from pastalang.program import types as t
from pastalang.runtime.decode.cache import GuideCache
from pastalang.runtime.decode.guide import State
from pastalang.runtime.decode.guides import compile_guide, prepare
from pastalang.runtime.decode.mask import tokens_of
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.vocabulary import Vocabulary, vocabulary_of

SIZE = 128_000
BRANCHES = 96
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
    "/[A-Z]{2}-[0-9]{4}/": t.Regex("[A-Z]{2}-[0-9]{4}"),
    "verbatim, 14k characters": t.Verbatim("source"),
    "[string]": t.Array(t.String(max_chars=20), max_items=5),
    "any JSON": t.Anything(),
}


def train(folder: Path) -> Tokens:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=40_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(_texts(folder), trainer)
    backend.add_special_tokens([AddedToken("<|end|>", special=True)])
    small = vocabulary_of(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>"))
    return Tokens(_filled(small, SIZE))


def _filled(small: Vocabulary, size: int) -> Vocabulary:
    """Up to the size, with pairs of tokens that no other token spells."""
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


def measure(type: t.Type, tokens: Tokens, source: str) -> tuple[list[float], float, list[float], float]:
    """Milliseconds: of compiling with the first mask, of the same from the cache, of every mask on twenty walks,
    and of the masks of 96 branches together."""
    compiling, cache = [], GuideCache(tokens)
    cached = _timed(lambda: cache.guide(type, form=Form.JSON, follow=FOLLOW, sources={"source": source}))
    for _ in range(5):
        started = time.perf_counter()
        guide = compile_guide(type, form=Form.JSON, follow=FOLLOW, vocabulary=tokens, sources={"source": source})
        guide.start(max_tokens=64).allowed()
        compiling.append((time.perf_counter() - started) * 1e3)
    rng, masks = random.Random(0), []
    for _ in range(20):
        _walk(guide.start(max_tokens=64), rng, masks)
    branches = []
    for _ in range(BRANCHES):
        state = guide.start(max_tokens=64)
        _walk(state, rng, [], most=rng.randrange(4))
        if not state.is_finished:
            branches.append(state)
    return compiling, cached, masks, _timed(lambda: [state.allowed() for state in branches])


def _timed(act: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        act()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def _walk(state: State, rng: random.Random, masks: list[float], most: int = 64) -> None:
    while not state.is_finished and most:
        started = time.perf_counter()
        mask = state.allowed()
        masks.append((time.perf_counter() - started) * 1e3)
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
    """Compiling, and the masks of 96 branches as each integration with transformers makes them: one after another."""
    from llguidance import LLMatcher
    from outlines_core import Guide, Index
    from outlines_core import Vocabulary as OutlinesVocabulary

    from pastalang.runtime.decode.engines.matcher import tokenizer_of

    tokenizer = tokenizer_of(tokens)
    end = min(tokens.vocabulary.ends)
    spelled = {text: list(ids) for text, ids in tokens.by_text.items()}
    words = np.zeros((BRANCHES, (SIZE + 32) // 32), dtype=np.uint32)
    for name, pattern in RIVALS.items():
        started = time.perf_counter()
        matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_regex(pattern), log_level=0)
        matcher.compute_bitmask()
        llg = (time.perf_counter() - started) * 1e3
        copies = [matcher.deep_copy() for _ in range(BRANCHES)]
        llg_step = _timed(
            lambda copies=copies: [
                copy.unsafe_compute_mask_ptr(words[at].ctypes.data, words.shape[1] * 4)
                for at, copy in enumerate(copies)
            ]
        )
        started = time.perf_counter()
        index = Index(pattern, OutlinesVocabulary(end, spelled))
        outlines = (time.perf_counter() - started) * 1e3
        guides = [Guide(index) for _ in range(BRANCHES)]
        step = _timed(
            lambda guides=guides: [
                guide.write_mask_into(words[at].ctypes.data, words.shape[1], 4) for at, guide in enumerate(guides)
            ]
        )
        yield f"| {name} | {llg:.2f} | {llg_step:.2f} | {outlines:.0f} | {step:.2f} |"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sysconfig.get_path("stdlib")) / "email"
    started = time.perf_counter()
    tokens = train(folder)
    trained = time.perf_counter()
    assert tokens.trie is not None and tokens.by_text
    built = time.perf_counter()
    prepare(tokens)
    ready = time.perf_counter()
    print("# Guides with a vocabulary of 128,000 tokens\n")
    print(f"One thread, {trained - started:.0f} s to train. Milliseconds; once per vocabulary before: ")
    print(f"trie {(built - trained) * 1e3:.0f}, free strings {(ready - built) * 1e3:.0f}.\n")
    print(
        "| type | compile and first mask, first | again, median | from the cache | mask p50 | mask p99 | 96 branches |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    source = (" ".join(BRANDS))[:14_000]
    for name, type in TYPES.items():
        compiling, cached, masks, together = measure(type, tokens, source)
        p99 = float(np.percentile(masks, 99))
        print(
            f"| {name} | {compiling[0]:.2f} | {statistics.median(compiling):.2f} | {cached:.3f} |"
            f" {statistics.median(masks):.3f} | {p99:.3f} | {together:.2f} |"
        )
    print("\n## Beside the engines as their own integrations drive them\n")
    print("| pattern | llguidance compile | 96 masks | outlines-core compile | 96 masks |")
    print("|---|---:|---:|---:|---:|")
    for row in rival_rows(tokens):
        print(row)


if __name__ == "__main__":
    main()
