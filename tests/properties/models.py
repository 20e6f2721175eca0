"""Small models and tokenizers, built once for all cases: hashes of all that is seen, and weights in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from pastalang import Engine
from pastalang.runtime.binding.bound_plan import MakeGuide
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.models.probe_tokens import Accuracy, ProbeTokens
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, Score, hashed_model, hashed_score
from pastalang.testing.llama_memory import CarriedModel
from tests import oracle
from tests.oracle.differential import guides_for
from tests.oracle.logits import KINDS as WRITTEN_OUT
from tests.oracle.logits import plain_logits_of
from tests.oracle.toy_models import Family, toy_model
from tests.runtime.float64 import in_float64

VOCABULARY, HIDDEN = 320, 16

# What merges decides which tokens cross the border of a value.
WORDS: Mapping[str, tuple[str, ...]] = {
    "bytes": (),
    "quotes": ('",', '"\n', '",\n', '"}', '"\n}', "null,", "null\n", '"a', '["', '"]', '"],'),
    "lines": ("\n\n", ".\n", ". ", "\n- ", " so", "so: ", "* ", "1\n", "\n1", "\nend", "}\n", ',\n  "', "# "),
    "words": ('",\n  "', '"\n}', "\n- ", "null", "true", "false", '"tv"', 'tv"', "12", "2,", "],", "],\n", " end"),
}
# Texts that are tags, or become some together; and tokens that stand for tags.
TAGS: Mapping[str, tuple[str, ...]] = {
    "words of tags": (
        '<promise topic="a"/>',
        '<promise tokens="3"/>',
        '<promise tokens="0000000030"/>',
        "<sync/>",
        "</async>",
        "[Fork]",
    ),
    "tokens for tags": (' topic="b"/>', '/>x<promise topic="a"/>'),
}
CONTROL: Mapping[str, tuple[str, ...]] = {
    "tokens for tags": ("<promise", "<sync/>", "<async>", "</async>", "[Fork]", "<secret>")
}
LIKED = '"",\n}]:.#1tfn- '


def probe_tokens(seed: int, hidden: int = 1, *, is_mask: bool = False) -> ProbeTokens:
    """Random ones, which predict nothing: at one to three distances, one or two at each, or one for all of them."""
    noise = torch.Generator().manual_seed(seed)
    distances = 1 + (seed + 2 * is_mask) % 3
    shape = (1, 1, hidden) if is_mask else (distances, 1 + seed % 2, hidden)
    return ProbeTokens(torch.randn(shape, generator=noise, dtype=torch.float64), Accuracy.unknown(distances))


@dataclass(frozen=True)
class Hashes:
    """Logits that hash all that is seen, in its order; `liking` is added to those of tokens that end things."""

    seed: int
    liking: float = 0.0

    def score(self) -> Score:
        score = hashed_score(VOCABULARY, seed=self.seed)
        liked = np.zeros(VOCABULARY)
        liked[[*map(ord, LIKED), *range(256, VOCABULARY)]] = self.liking
        return lambda token: score(token) + liked  # type: ignore[return-value, arg-type]

    def logits(self) -> oracle.Logits:
        return oracle.logits_from(self.score())  # type: ignore[arg-type]

    def model(self, cells: int) -> Model:
        model = CarriedModel(self.score(), vocabulary=VOCABULARY, cells=cells, rows=600, spare=300)
        model.dtype, model.probe_tokens = torch.float64, probe_tokens(self.seed, is_mask=self.liking == 3.0)
        model.carried = FakeModel.carried  # other plans, too, which it does not look at
        return model


@dataclass(frozen=True)
class Weights:
    """A random model in float64. The slow decoder has a copy of its own, written out where it can be."""

    family: Family
    window: int | None = None
    layers: int = 1
    seed: int = 3

    def logits(self) -> oracle.Logits:
        slowest = weights(self)[1]
        return plain_logits_of(slowest) if slowest.config.model_type in WRITTEN_OUT else oracle.logits_of(slowest)

    def model(self, cells: int) -> Model:
        ahead = probe_tokens(self.seed, HIDDEN, is_mask=self.seed == 4)
        return TransformersModel(weights(self)[0], cells=cells, check=False, probe_tokens=ahead)


Kind = Hashes | Weights


@cache
def weights(kind: Weights) -> tuple[Any, Any]:
    """Two copies: one whose attention the engine replaces, one for the slow decoder."""

    def build() -> Any:
        sizes = {"layers": kind.layers, "hidden": HIDDEN, "heads": 2, "kv_heads": 1 + kind.seed % 2}
        return in_float64(toy_model(kind.family, seed=kind.seed, window=kind.window, **sizes))

    fast, slowest = build(), build()
    slowest.set_attn_implementation("eager")
    return fast, slowest


FAMILIES = (
    *(Weights(family, seed=seed) for family in (Family.LLAMA, Family.QWEN3) for seed in (3, 4)),
    *(Weights(family, seed=5, layers=2) for family in (Family.LLAMA, Family.QWEN3)),
    Weights(Family.QWEN3, window=7, layers=2),
    Weights(Family.MISTRAL, window=9),
)
NOT_WRITTEN_OUT = (Weights(Family.GEMMA3, window=5, layers=2),)  # slow decoding of these takes seconds
KINDS: tuple[Kind, ...] = (*FAMILIES, *(Hashes(seed, liking) for seed in (5, 6) for liking in (0.0, 3.0, 6.0)))


@cache
def tokenizer_of(words: str) -> Any:
    return byte_tokenizer(words={**WORDS, **TAGS}[words], control=CONTROL.get(words, ()))


@cache
def encoder_of(words: str) -> Encoder:
    return Encoder(tokenizer_of(words))


@cache
def guides_of(words: str) -> MakeGuide:
    """Guides are compiled once for all runs."""
    return guides_for(Engine(hashed_model(VOCABULARY), tokenizer_of(words)))
