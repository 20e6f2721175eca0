from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pastalang import Sampling
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.sampling.rng import RandomKey
from pastalang.runtime.sampling.sampler import (
    NotFinite,
    NothingAllowed,
    Outcome,
    Sample,
    Sampler,
    SampleRequest,
    waiting_times,
)

VOCABULARY = 300


def mask(*tokens: int, vocabulary: int = VOCABULARY) -> TokenMask:
    bits = np.zeros(-(-vocabulary // 32) * 32, dtype=bool)
    bits[list(tokens)] = True
    words = np.packbits(bits, bitorder="little").view(np.uint32)
    words.flags.writeable = False
    return words


def draw(index: int = 0, *, seed: int = 0, branch: str = "brand", items: tuple[int, ...] = ()) -> RandomKey:
    return RandomKey(seed, branch, items, index)


def random_logits(rows: int, seed: int = 0, vocabulary: int = VOCABULARY) -> torch.Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 2


def tokens_of(outcomes: tuple[Outcome, ...]) -> list[int]:
    assert all(isinstance(outcome, Sample) for outcome in outcomes)
    return [outcome.token for outcome in outcomes if isinstance(outcome, Sample)]


def frequencies(logits: torch.Tensor, sampling: Sampling, *, draws: int = 4000, **options: TokenMask) -> torch.Tensor:
    """How often each token comes, over many draws from the same row."""
    asks = [SampleRequest(draw(index), sampling, **options) for index in range(draws)]
    tokens = tokens_of(Sampler(logits.shape[1]).sample(logits.expand(draws, -1), asks))
    return torch.bincount(torch.tensor(tokens), minlength=logits.shape[1]) / draws


# ── which token ──────────────────────────────────────────────────────────────────────────────────────────


def test_of_equally_likely_tokens_the_first_is_taken() -> None:
    assert tokens_of(Sampler(VOCABULARY).sample(torch.zeros(1, VOCABULARY), [SampleRequest(draw())])) == [0]


@pytest.mark.parametrize("allowed", [(5,), (3, 299), tuple(range(40, 290)), tuple(range(299))])
@pytest.mark.parametrize("temperature", [None, 0.0, 0.7, 5.0])
def test_only_allowed_tokens_are_taken(allowed: tuple[int, ...], temperature: float | None) -> None:
    logits = random_logits(50)
    logits[:, 0] = 40.0  # what the model would write
    asks = [SampleRequest(draw(index), Sampling(temperature=temperature), mask(*allowed)) for index in range(50)]
    assert set(tokens_of(Sampler(VOCABULARY).sample(logits, asks))) <= set(allowed)


def test_tokens_beyond_the_mask_are_padding_of_the_model_and_never_taken() -> None:
    logits = torch.zeros(1, 320)
    logits[0, 310] = 50.0
    assert tokens_of(Sampler(320).sample(logits, [SampleRequest(draw(), allowed=mask(*range(300)))])) == [0]


def test_a_mask_may_be_longer_than_the_vocabulary_of_the_model() -> None:
    logits = torch.zeros(1, 290)
    assert tokens_of(Sampler(290).sample(logits, [SampleRequest(draw(), allowed=mask(289, 299))])) == [289]


def test_a_writable_mask_is_read_every_time() -> None:
    sampler, words = Sampler(VOCABULARY), mask(4).copy()
    assert tokens_of(sampler.sample(torch.zeros(1, VOCABULARY), [SampleRequest(draw(), allowed=words)])) == [4]
    words[:] = mask(9)
    assert tokens_of(sampler.sample(torch.zeros(1, VOCABULARY), [SampleRequest(draw(), allowed=words)])) == [9]


def test_masks_beyond_the_limit_are_dropped_and_read_again() -> None:
    from pastalang.runtime.sampling.candidates import MaskCache

    masks, logits = MaskCache(VOCABULARY, limit=100), torch.zeros(1, VOCABULARY)
    kept = [mask(token) for token in range(20)]
    for _ in range(2):
        for token, words in enumerate(kept):
            (candidates,) = masks.candidates(logits, [words])
            assert candidates.token(candidates.logits.argmax(dim=1)).tolist() == [token]
    assert masks._size <= 100


# ── how likely ───────────────────────────────────────────────────────────────────────────────────────────


def test_top_p_of_a_flat_row_looks_beyond_the_first_likeliest() -> None:
    found = frequencies(torch.zeros(1, 5000), Sampling(temperature=1.0, top_p=0.9), draws=500)
    assert len(found.nonzero()) > 400  # of 4,500 equally likely ones; the first look is at 256


def test_the_log_probability_is_that_of_the_model_among_the_allowed_tokens() -> None:
    logits = random_logits(2)
    allowed = (3, 77, 150, 299)
    asks = [
        SampleRequest(draw(), Sampling(temperature=4.0), mask(*allowed)),
        SampleRequest(draw(), Sampling(temperature=4.0)),
    ]
    few, every = Sampler(VOCABULARY).sample(logits, asks)
    assert isinstance(few, Sample) and isinstance(every, Sample)
    among = logits[0, list(allowed)].log_softmax(0)[allowed.index(few.token)]
    assert math.isclose(few.log_probability, float(among), abs_tol=1e-5)
    assert math.isclose(every.log_probability, float(logits[1].log_softmax(0)[every.token]), abs_tol=1e-5)


# ── independence ─────────────────────────────────────────────────────────────────────────────────────────

SAMPLINGS = st.sampled_from(
    [
        Sampling(),
        Sampling(temperature=0.9),
        Sampling(temperature=1.5, top_k=20),
        Sampling(temperature=1.0, top_p=0.8),
        Sampling(temperature=1.0, min_p=0.02),
        Sampling(temperature=0.7, repetition_penalty=1.3),
    ]
)
MASKS = st.sampled_from([None, mask(1, 2, 3), mask(*range(0, 300, 2)), mask(*range(1, 300)), mask(250)])
ASKS = st.lists(st.tuples(SAMPLINGS, MASKS, st.integers(0, 50)), min_size=1, max_size=12)


@given(ASKS, st.randoms(use_true_random=False))
def test_a_sample_depends_on_no_other_row(parts: list[tuple[Sampling, TokenMask | None, int]], order: object) -> None:
    logits = random_logits(len(parts))
    asks = [SampleRequest(draw(index), sampling, allowed, (1, 2)) for sampling, allowed, index in parts]
    together = Sampler(VOCABULARY).sample(logits, asks)
    alone = [Sampler(VOCABULARY).sample(logits[row : row + 1], [ask])[0] for row, ask in enumerate(asks)]
    assert list(together) == alone
    shuffled = list(range(len(asks)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    mixed = Sampler(VOCABULARY).sample(logits[shuffled], [asks[row] for row in shuffled])
    assert [mixed[shuffled.index(row)] for row in range(len(asks))] == alone


def test_a_key_has_the_same_bits_everywhere_and_for_ever() -> None:
    assert draw().words() == (3779582195, 3078105756)
    times = waiting_times([draw(), draw(1)], torch.tensor([0, 1, 299]), dtype=torch.float64)
    expected = [[0.239216096, 2.074434004, 0.902739159], [0.428706598, 0.503318883, 1.342948689]]
    torch.testing.assert_close(times, torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=0)


def test_draws_differ_by_seed_branch_items_index_and_purpose() -> None:
    places = [
        RandomKey(0, "a", (), 1),
        RandomKey(1, "a", (), 1),
        RandomKey(0, "b", (), 1),
        RandomKey(0, "a", (1,), 1),
        RandomKey(0, "a", (1, 1), 1),
        RandomKey(0, "a", (11,), 1),
        RandomKey(0, "a", (), 11),
        RandomKey(0, "a1", (), 1),
        RandomKey(0, "a", (), 1, "choose"),
    ]
    assert len({place.words() for place in places}) == len(places)


def test_the_times_of_neighbouring_keys_and_tokens_are_exponential_and_independent() -> None:
    shares = (-waiting_times([draw(index) for index in range(100)], torch.arange(400), dtype=torch.float64)).exp()
    counts = torch.histc(shares.flatten(), bins=100, min=0, max=1)
    assert float(((counts - 400) ** 2 / 400).sum()) < 149.5  # 99 degrees of freedom, one in a thousand
    for one, other in ((shares[:, 1:], shares[:, :-1]), (shares[1:], shares[:-1])):
        pairs = (one.flatten() * 10).long() * 10 + (other.flatten() * 10).long()
        expected = one.numel() / 100
        counts = torch.bincount(pairs, minlength=100)
        assert float(((counts - expected) ** 2 / expected).sum()) < 149.5


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.6),
        Sampling(temperature=1.3, top_k=5),
        Sampling(temperature=1.0, top_p=0.8),
        Sampling(temperature=0.8, min_p=0.05),
        Sampling(temperature=1.0, top_k=9, top_p=0.9, min_p=0.02),
        Sampling(temperature=1.0, repetition_penalty=1.4),
    ],
)
@pytest.mark.parametrize("allowed", [None, tuple(range(0, 60, 3))])
def test_every_truncation_keeps_the_law(sampling: Sampling, allowed: tuple[int, ...] | None) -> None:
    logits = random_logits(1, seed=3, vocabulary=60)
    open_to = range(60) if allowed is None else allowed
    scores = {token: float(logits[0, token]) for token in open_to}
    for token in (0, 3, 4):
        if token in scores and (penalty := sampling.repetition_penalty):
            scores[token] *= penalty if scores[token] < 0 else 1 / penalty
    chances = {token: math.exp(score / sampling.temperature) for token, score in scores.items()}  # type: ignore[operator]
    order = sorted(chances, key=lambda token: -chances[token])[: sampling.top_k]
    total, reached, kept = sum(chances[token] for token in order), 0.0, []
    for token in order:
        if reached < (sampling.top_p or 1.0) and chances[token] >= (sampling.min_p or 0.0) * chances[order[0]]:
            kept.append(token)
        reached += chances[token] / total
    expected = torch.tensor([chances[token] for token in kept])
    words = None if allowed is None else mask(*allowed, vocabulary=60)
    asks = [SampleRequest(draw(index, seed=1), sampling, words, (0, 3, 4)) for index in range(5_000)]
    tokens = tokens_of(Sampler(60).sample(logits.expand(5_000, -1), asks))
    assert set(tokens) <= set(kept)
    counts = torch.bincount(torch.tensor(tokens), minlength=60)[kept]
    expected = expected / expected.sum() * 5_000
    rare = expected < 5  # put together, as the test of Pearson asks
    counts = torch.cat((counts[~rare], counts[rare].sum()[None])).double()
    expected = torch.cat((expected[~rare], expected[rare].sum()[None])).double()
    chi_squared = float(((counts - expected) ** 2 / expected.clamp(min=1e-9)).sum())
    assert chi_squared < chi_squared_limit(len(counts) - 1 - int(not rare.any()))


def chi_squared_limit(freedom: int) -> float:
    """One in ten thousand, after Wilson and Hilferty."""
    part = 2 / (9 * max(1, freedom))
    return max(1, freedom) * (1 - part + 3.719 * math.sqrt(part)) ** 3


def test_similar_distributions_nearly_always_give_the_same_token() -> None:
    logits = random_logits(1, vocabulary=40)
    near = logits + random_logits(1, seed=7, vocabulary=40) * 0.05
    asks = [SampleRequest(draw(index), Sampling(temperature=1.0)) for index in range(2000)]
    one, other = (tokens_of(Sampler(40).sample(row.expand(2000, -1), asks)) for row in (logits, near))
    shared = float(torch.minimum(logits.softmax(1), near.softmax(1)).sum())
    assert sum(a == b for a, b in zip(one, other, strict=True)) / 2000 > shared - 0.08


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("temperature", [None, 1.0])
@pytest.mark.parametrize("sampling", [{}, {"top_p": 0.5}, {"top_k": 5}, {"min_p": 0.1}])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_not_finite_is_named_and_the_others_are_drawn(
    bad: float, sampling: dict[str, float], temperature: float | None
) -> None:
    logits = random_logits(3)
    logits[1, 17] = bad
    how = Sampling(temperature=temperature, **sampling)  # type: ignore[arg-type]
    outcomes = Sampler(VOCABULARY).sample(logits, [SampleRequest(draw(index), how) for index in range(3)])
    assert [type(outcome) for outcome in outcomes] == [Sample, NotFinite, Sample]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("allowed", [(5,), tuple(range(18, 300))])
def test_a_token_that_is_not_allowed_may_be_anything(bad: float, allowed: tuple[int, ...]) -> None:
    logits = random_logits(3, vocabulary=1300)
    asks = [SampleRequest(draw(), Sampling(), mask(*allowed, *range(300, 1300), vocabulary=1300))] * 3
    expected = Sampler(1300).sample(logits, asks)
    logits[1, 17] = bad
    assert Sampler(1300).sample(logits, asks) == expected


@pytest.mark.parametrize("temperature", [None, 1.0])
def test_a_row_in_which_nothing_is_allowed_is_named_and_the_others_are_drawn(temperature: float | None) -> None:
    logits = random_logits(3)
    logits[2, 5] = -math.inf
    how = Sampling(temperature=temperature)
    asks = [
        SampleRequest(draw(), how, mask()),
        SampleRequest(draw(), how, mask(7)),
        SampleRequest(draw(), how, mask(5)),
    ]
    outcomes = Sampler(VOCABULARY).sample(logits, asks)
    assert [type(outcome) for outcome in outcomes] == [NothingAllowed, Sample, NothingAllowed]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_every_precision_is_taken(dtype: torch.dtype) -> None:
    logits = random_logits(4).to(dtype)
    how = Sampling(temperature=1.0, top_p=0.9, min_p=0.01)
    outcomes = Sampler(VOCABULARY).sample(logits, [SampleRequest(draw(index), how) for index in range(4)])
    assert all(isinstance(outcome, Sample) for outcome in outcomes)


def test_no_rows_give_no_outcomes() -> None:
    assert Sampler(VOCABULARY).sample(torch.zeros(0, VOCABULARY), []) == ()
