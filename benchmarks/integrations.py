"""Measure guides as a logits processor of `generate`, compared with the integrations of outlines and llguidance.

    python -m benchmarks.integrations [--layers 30] [--new-tokens 32] [--out benchmarks/results/integrations.md]

All use one model of random weights, one tokenizer, the same types and the same draws. `constraint` is the time of the
logits processor for a step of the whole batch, and `step` the time of model, constraint and draw. Both are medians. The
first call, in which two of them compile a kernel, has a column of its own. Values are cut at the token limit.
"""

from __future__ import annotations

import argparse
import json
import platform
import sysconfig
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerFast

from benchmarks.subjects import make_model
from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.automaton_machine import forget_types
from pastalang.runtime.constraints.compile import compile_guide, prepare_vocabulary
from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import mask_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.values.fit import read
from pastalang.values.to_schema import schema_text

VOCABULARY = 49_152
PROMPT = 256

TYPES: dict[str, t.Type] = {
    "integer 0..100": t.Integer(minimum=0, maximum=100),
    "date": t.Temporal(t.Moment.DATE),
    "enum of 5": t.Union(tuple(t.Literal(text) for text in ("4K", "8K", "1080p", "720p", "SD"))),
    "string": t.String(),
    "[string, 20 characters]": t.Array(t.String(max_chars=20), max_items=5),
    "record": t.Object(
        (
            t.Field("brand", t.Union((t.String(), t.Null()))),
            t.Field("kind", t.Union((t.Literal("tv"), t.Literal("monitor")))),
            t.Field("inches", t.Integer(minimum=1, maximum=120)),
            t.Field("tags", t.Array(t.String(), max_items=4)),
        )
    ),
}


class Timed(LogitsProcessor):  # type: ignore[misc]
    """A logits processor that records when its calls begin and end."""

    def __init__(self, inner: Callable[[Any, Any], Any]) -> None:
        self.inner = inner
        self.calls: list[tuple[float, float]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        began = time.perf_counter()
        found: torch.Tensor = self.inner(input_ids, scores)
        self.calls.append((began, time.perf_counter()))
        return found


@dataclass
class Ours:
    """A state of the guide for each row. A row whose value has ended may only end its turn."""

    guide: Any
    width: int
    end: int
    limit: int
    states: list[State] = field(default_factory=list)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not self.states:
            self.states = [self.guide.start(max_tokens=self.limit) for _ in range(len(input_ids))]
        else:
            for state, token in zip(self.states, input_ids[:, -1].tolist(), strict=True):
                if not state.is_finished:
                    state.advance(token)
        ended = mask_of(self.width, [self.end])
        masks = np.stack([ended if state.is_finished else state.allowed() for state in self.states])
        bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little", count=self.width)
        scores[:, : self.width].masked_fill_(torch.from_numpy(bits) == 0, -torch.inf)
        scores[:, self.width :] = -torch.inf
        return scores

    def texts(self, input_ids: torch.Tensor) -> list[str]:
        """Accept the last draws, which a logits processor does not see."""
        for state, token in zip(self.states, input_ids[:, -1].tolist(), strict=True):
            if not state.is_finished:
                state.advance(token)
        return [state.text for state in self.states]


class LLGuidance:
    """llguidance with its own functions for torch: one mask for the whole batch, applied at once."""

    def __init__(self, tokenizer: Any, schema: str) -> None:
        from llguidance import LLMatcher

        grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
        self._first = LLMatcher(tokenizer, grammar)
        self._matchers: list[Any] = []
        self._width = tokenizer.vocab_size

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        from llguidance.torch import allocate_token_bitmask, apply_token_bitmask_inplace, fill_next_token_bitmask

        if not self._matchers:
            self._matchers = [self._first.deep_copy() for _ in range(len(input_ids))]
            self._bits = allocate_token_bitmask(len(input_ids), self._width)
        else:
            for matcher, token in zip(self._matchers, input_ids[:, -1].tolist(), strict=True):
                if not matcher.is_stopped():
                    matcher.consume_token(token)
        for row, matcher in enumerate(self._matchers):
            fill_next_token_bitmask(matcher, self._bits, row)
        apply_token_bitmask_inplace(scores, self._bits)
        return scores


@dataclass(frozen=True)
class Stage:
    """The model, the tokenizer and the types that all integrations share."""

    model: Any
    tokenizer: PreTrainedTokenizerFast
    limit: int

    @property
    def end(self) -> int:
        return int(self.tokenizer.eos_token_id)

    @property
    def width(self) -> int:
        return int(self.model.config.vocab_size)


Contestant = Callable[[t.Type], Callable[[Any, Any], Any]]  # compiles a processor for a type


def contestants(stage: Stage) -> Iterator[tuple[str, float, Contestant]]:
    """An integration: its name, the seconds to prepare the vocabulary once, and how it compiles a type."""
    began = time.perf_counter()
    tokens = Tokens(vocabulary_of(stage.tokenizer))
    assert tokens.trie is not None
    prepare_vocabulary(tokens)
    compile_guide(t.Array(t.Null()), form=Form.JSON, follow="", vocabulary=tokens)

    def ours(type: t.Type) -> Ours:
        forget_types()
        tokens.kept.pop("reached", None)
        guide = compile_guide(type, form=Form.JSON, follow="", vocabulary=tokens)
        guide.start(max_tokens=stage.limit).allowed()
        return Ours(guide, tokens.size, stage.end, stage.limit)

    yield "pastalang", time.perf_counter() - began, ours

    from llguidance.hf import from_tokenizer

    began = time.perf_counter()
    own = from_tokenizer(stage.tokenizer)
    yield "llguidance", time.perf_counter() - began, lambda type: LLGuidance(own, schema_text(type))

    from outlines import from_transformers
    from outlines.backends.llguidance import LLGuidanceBackend
    from outlines.backends.outlines_core import OutlinesCoreBackend

    wrapped = from_transformers(stage.model, stage.tokenizer)
    backends: dict[str, Any] = {"outlines (llguidance)": LLGuidanceBackend, "outlines (own core)": OutlinesCoreBackend}
    for name, backend in backends.items():
        began = time.perf_counter()
        made = backend(wrapped)
        yield name, time.perf_counter() - began, partial(_with_outlines, made)


def _with_outlines(backend: Any, type: t.Type) -> Callable[[Any, Any], Any]:
    found: Callable[[Any, Any], Any] = backend.get_json_schema_logits_processor(schema_text(type))
    return found


@dataclass(frozen=True)
class Measured:
    """Times in milliseconds, and the shares of values that are JSON and that fit the type."""

    compile: float
    first: float
    constraint: float
    step: float
    whole: int
    fits: int


def measure(stage: Stage, type: t.Type, contestant: Contestant, *, rows: int) -> Measured:
    began = time.perf_counter()
    processor = contestant(type)
    compiled = time.perf_counter() - began
    timed = Timed(processor)
    generator = torch.Generator().manual_seed(0)
    prompt = torch.randint(100, 8000, (rows, PROMPT), generator=generator)
    torch.manual_seed(1)
    with torch.inference_mode():
        written = stage.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=stage.limit, do_sample=True, top_k=0,
            logits_processor=LogitsProcessorList([timed]), pad_token_id=stage.end, eos_token_id=stage.end,
        )  # fmt: skip
    inside = [end - begin for begin, end in timed.calls]
    between = [after[0] - before[0] for before, after in zip(timed.calls, timed.calls[1:], strict=False)]
    texts = _texts(stage, processor, written)
    return Measured(
        compile=compiled * 1e3,
        first=inside[0] * 1e3,
        constraint=median(inside[1:] or inside) * 1e3,
        step=median(between or [0]) * 1e3,
        whole=sum(map(_is_json, texts)),
        fits=sum(read(text, type, {}).fits for text in texts),
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _texts(stage: Stage, processor: Any, written: torch.Tensor) -> list[str]:
    if isinstance(processor, Ours):
        return processor.texts(written)
    texts: list[str] = stage.tokenizer.batch_decode(written[:, PROMPT:], skip_special_tokens=True)
    return texts


def make_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer as wide as the model, trained on the modules of the standard library."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<end>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False, min_frequency=1,
    )  # fmt: skip
    paths = sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.parts)
    backend.train_from_iterator((path.read_text("utf-8", "ignore") for path in paths[:400]), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", pad_token="<end>")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--layers", type=int, default=30)
    options.add_argument("--new-tokens", type=int, default=32)
    options.add_argument("--rows", type=int, nargs="+", default=[1, 16])
    options.add_argument("--only", nargs="*", default=list(TYPES))
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    tokenizer = make_tokenizer(Path(sysconfig.get_path("stdlib")))
    stage = Stage(make_model(layers=given.layers), tokenizer, given.new_tokens)
    lines = list(report(stage, given.only, given.rows, given.layers))
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def report(stage: Stage, names: list[str], batches: list[int], layers: int) -> Iterator[str]:
    for line in _report(stage, names, batches, layers):
        print(line, flush=True)
        yield line


def _report(stage: Stage, names: list[str], batches: list[int], layers: int) -> Iterator[str]:
    yield "# Constraints inside `generate`, beside the integrations of others"
    yield ""
    yield (
        f"`python -m benchmarks.integrations --layers {layers} --new-tokens {stage.limit}`: {torch.get_num_threads()} "
        f"thread, {platform.machine()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{len(stage.tokenizer):,} tokens, prompt {PROMPT}, all in milliseconds. `constraint` and `step` are medians "
        "for the whole batch; `first mask` holds what is compiled late. The weights are random, so few values end by "
        f"themselves: the last two columns say how many rows are JSON, and of their type, behind {stage.limit} tokens."
    )
    yield ""
    yield "| type | rows | | compile | first mask | constraint | step | whole JSON | fit their type |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|"
    known = list(contestants(stage))
    for type in names:
        for rows in batches:
            for name, _, contestant in known:
                yield _row(name, type, rows, stage, contestant)
    once = [f"{name} {seconds * 1e3:.0f}" for name, seconds, _ in known]
    yield ""
    yield f"Once for the vocabulary before: {', '.join(once)} ms."


def _row(name: str, type: str, rows: int, stage: Stage, contestant: Contestant) -> str:
    try:
        found = measure(stage, TYPES[type], contestant, rows=rows)
    except Exception as problem:  # a rival may refuse a type or fail in the middle: that is its result
        return f"| {type} | {rows} | {name} | {json.dumps(str(problem)[:60])} | | | | | 0 |"
    return (
        f"| {type} | {rows} | {name} | {found.compile:.1f} | {found.first:.1f} | {found.constraint:.2f} "
        f"| {found.step:.0f} | {found.whole} | {found.fits} |"
    )


if __name__ == "__main__":
    main()
