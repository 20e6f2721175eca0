"""Truncation exactly at its threshold, and the entries that caches of masks keep."""

from __future__ import annotations

import numpy as np
import torch

from pastalang import Sampling
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.tokens import MAX_RECENT, Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.sampling.candidates import MaskCache
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.runtime.sampling.test_sampler import frequencies, mask

FLAT = torch.zeros(1, 4)  # probabilities of exactly a quarter


def drawn(sampling: Sampling) -> int:
    """The number of different tokens sampled, of four that are equally likely."""
    return int(frequencies(FLAT, sampling, draws=400).count_nonzero())


def test_top_p_keeps_no_more_tokens_once_it_is_reached() -> None:
    assert [drawn(Sampling(temperature=1.0, top_p=top_p)) for top_p in (0.25, 0.5, 0.75, 1.0)] == [1, 2, 3, 4]


def test_min_p_keeps_tokens_exactly_at_its_threshold() -> None:
    assert drawn(Sampling(temperature=1.0, min_p=1.0)) == 4


class Counted(MaskCache):
    """Counts how often masks are read."""

    reads = 0

    def _read(self, mask: TokenMask):  # type: ignore[no-untyped-def]
        self.reads += 1
        return super()._read(mask)


def test_the_least_recently_used_mask_is_dropped_first() -> None:
    one = mask(1)
    size = one.nbytes + np.dtype(np.int64).itemsize
    masks, logits = Counted(300, limit=2 * size), torch.zeros(1, 300)
    kept = {"a": one, "b": mask(2), "c": mask(3)}

    def reads(names: str) -> int:
        before = masks.reads
        for name in names:
            masks.candidates(logits, [kept[name]])
        return masks.reads - before

    assert reads("ab") == 2
    assert reads("abab") == 0, "there is room for two"
    assert reads("a") == 0
    assert reads("c") == 1, "in the place of `b`"
    assert reads("ac") == 0
    assert reads("b") == 1, "in the place of `a`"
    assert reads("cb") == 0


def test_the_oldest_of_the_results_that_guides_share_is_dropped_first() -> None:
    tokens = Tokens(vocabulary_of(byte_tokenizer()))
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    for number in range(MAX_RECENT + 1):
        tokens.cached_recent(number, lambda number=number: make(number))  # type: ignore[misc]
    assert len(tokens.recent) == MAX_RECENT
    made.clear()
    for number in (1, MAX_RECENT, 0):
        assert tokens.cached_recent(number, lambda number=number: make(number)) == number  # type: ignore[misc]
    assert made == [0]


def test_a_mask_that_nobody_holds_any_more_is_forgotten() -> None:
    """A server meets new types for as long as it runs, and their guides are dropped at some time."""
    masks, logits = MaskCache(300), torch.zeros(1, 300)
    kept = [mask(token) for token in range(10)]
    for one in kept:
        masks.candidates(logits, [one])
    assert len(masks) == 10
    del kept[:7], one
    assert len(masks) == 3
    [candidates] = masks.candidates(logits, [mask(7)])  # may have the place in memory that a former one had
    assert candidates.token(candidates.logits.argmax(dim=1)).tolist() == [7]
