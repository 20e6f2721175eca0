"""Answers follow the law of the model, whoever guesses: Pearson's test on answers that can be enumerated."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import pastalang
from pastalang import Engine, Sampling
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.sampling.sampler import Outcome, Sample
from pastalang.runtime.scheduler.draft_tree import PROBE
from pastalang.runtime.scheduler.scheduler import PendingSample
from pastalang.runtime.scheduler.state import BranchState
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel
from tests.properties.models import VOCABULARY, probe_tokens
from tests.properties.ways import Remembering
from tests.runtime.sampling.test_sampler import chi_squared_limit

LETTERS = tuple(b"abcd")
GUIDED = pastalang.compile("template t\nassistant json { a: string(pattern=/[a-d]{2}/) }\n")
FREE = pastalang.compile('template t\nassistant text """\n{a: string(max=2)}\n"""\n')
ROWS = np.random.default_rng(4).standard_normal((len(LETTERS) + 1, len(LETTERS))) * 1.2
SAMPLINGS = (
    Sampling(temperature=1.0),
    Sampling(temperature=0.6),
    Sampling(temperature=1.4, top_k=3),
    Sampling(temperature=1.0, top_p=0.8),
    Sampling(temperature=0.9, min_p=0.25),
)


def score(token: FedToken) -> Any:
    """Goes by the last letter. A probe predicts as if there were none."""
    logits = np.full(VOCABULARY, -60.0)
    logits[[*LETTERS]] = ROWS[LETTERS.index(token.token) if token.token in LETTERS else -1]
    return logits


def law(sampling: Sampling) -> dict[str, float]:
    """The probability of each answer, written out."""
    rows = []
    for row in ROWS:
        chances = np.exp(row / sampling.temperature)
        order = np.argsort(-chances)
        before = np.concatenate(([0.0], np.cumsum(chances[order])[:-1] / chances.sum()))
        kept = order[(before < (sampling.top_p or 1.0)) & (chances[order] >= (sampling.min_p or 0.0) * chances.max())]
        kept = kept[: sampling.top_k]
        rows.append({int(one): chances[one] / chances[kept].sum() for one in kept})
    found = {}
    for answer in product(range(len(LETTERS)), repeat=2):
        chance = 1.0
        for last, letter in zip((-1, *answer), answer, strict=False):
            chance *= rows[last].get(letter, 0.0)
        if chance:
            found[bytes(LETTERS[one] for one in answer).decode()] = chance
    return found


class AsPublished(Engine):
    """Accepts the candidate of a mask as the paper about SPACE says, algorithm 1: with the chance min(1, Q / P). If
    not, it draws from Q, where only what Q has more than P would keep the law."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.chance = np.random.default_rng(7)
        self._draw = self.loop._sample
        self.loop._sample = self._sample  # type: ignore[method-assign]

    def _sample(self, logits: torch.Tensor, pending: list[PendingSample]) -> list[tuple[PendingSample, Outcome]]:
        return [
            (one, self._accept(one.branch, logits[one.row], outcome)) for one, outcome in self._draw(logits, pending)
        ]

    def _accept(self, branch: BranchState, row: torch.Tensor, outcome: Outcome) -> Outcome:
        assert isinstance(outcome, Sample) and branch.pending.hole is not None
        if branch.memory.draft is None or outcome.token not in LETTERS:
            return outcome
        nodes, last = (node.guess for node in branch.memory.draft.nodes), branch.memory.draft.last
        candidates = [one.token for one in nodes if one.parent == last and one.kind != PROBE]
        if not candidates:
            return outcome
        law, masks = (np.exp(letters - letters.max()) for letters in (row.numpy()[[*LETTERS]], ROWS[-1]))
        law, masks = law / law.sum(), masks / masks.sum()
        candidate = LETTERS.index(candidates[0])
        if self.chance.random() > law[candidate] / masks[candidate]:
            candidate = self.chance.choice(len(LETTERS), p=law)
        return Sample(LETTERS[candidate], outcome.log_probability)


def engine_with(drafter: str) -> Engine:
    model = FakeModel(score, vocabulary=VOCABULARY)
    if drafter == "prompt tokens":
        model.probe_tokens = probe_tokens(5)
    if drafter in ("masks", "as published"):
        model.probe_tokens = probe_tokens(5, is_mask=True)
    kind = AsPublished if drafter == "as published" else Engine
    engine = kind(model, byte_tokenizer(), drafts="off" if drafter == "none" else 8)
    if drafter == "oracle":
        engine.scheduler.drafting.drafter = Remembering(3)
    return engine


def check_law(drafter: str, program: Any, sampling: Sampling, seeds: int) -> None:
    squared, limit = far_from_law(drafter, program, sampling, seeds)
    assert squared < limit, (drafter, sampling)


def far_from_law(drafter: str, program: Any, sampling: Sampling, seeds: int) -> tuple[float, float]:
    """Pearson's statistic, and what is rarely above it if answers follow the law."""
    engine, expected = engine_with(drafter), law(sampling)
    counts, confirmed = dict.fromkeys(expected, 0), 0
    for seed in range(seeds):
        again = 2 if drafter == "oracle" else 1  # which knows what it has seen once
        for _ in range(again):
            result = engine.run(program, seed=seed, sampling=sampling, on_truncated="keep")
        counts[result.value["a"] if program is GUIDED else result.text.strip()] += 1
        confirmed += result.usage.confirmed_tokens
    likely = [answer for answer, chance in expected.items() if chance * seeds >= 5]
    rare = seeds - sum(counts[answer] for answer in likely)
    rest = seeds - sum(expected[answer] * seeds for answer in likely)
    squared = sum((counts[one] - expected[one] * seeds) ** 2 / (expected[one] * seeds) for one in likely)
    squared += (rare - rest) ** 2 / rest if rest > 1e-6 else 0.0
    assert (confirmed > seeds / 20) is (drafter != "none")
    return squared, chi_squared_limit(len(likely) - (rest <= 1e-6))


DRAFTERS = ("none", "look-up", "oracle", "prompt tokens", "masks")


@pytest.mark.parametrize(
    ("drafter", "program"), [("look-up", GUIDED), ("oracle", FREE), ("prompt tokens", FREE), ("prompt tokens", GUIDED)]
)
def test_answers_with_drafts_follow_the_law(drafter: str, program: Any) -> None:
    check_law(drafter, program, SAMPLINGS[0], 120)


def test_masks_keep_the_law_and_the_published_rule_of_acceptance_does_not() -> None:
    ours, limit = far_from_law("masks", FREE, SAMPLINGS[0], 600)
    published, _ = far_from_law("as published", FREE, SAMPLINGS[0], 600)
    assert ours < limit < published


@pytest.mark.long
def test_the_published_rule_of_acceptance_is_far_from_the_law() -> None:
    squared, limit = far_from_law("as published", FREE, SAMPLINGS[0], 6000)
    assert squared > 10 * limit


@pytest.mark.long
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("program", [GUIDED, FREE], ids=["guided", "free"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_answers_with_drafts_follow_the_law_of_every_truncation(drafter: str, program: Any, sampling: Sampling) -> None:
    check_law(drafter, program, sampling, 3000)


def test_the_law_is_one() -> None:
    assert all(math.isclose(sum(law(sampling).values()), 1.0) for sampling in SAMPLINGS)
