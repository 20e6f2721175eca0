"""Judges, and pictures of the trade-off: what a biased judge says, and which points no other one beats."""

from __future__ import annotations

import io
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pastalang.training.errors import BadData
from pastalang.training.thread_eval import Point, Verdict, best_of, draw, point_of, verdict_on, win_loss_ratio, win_rate


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        (lambda one, other: "first" if one > other else "second", Verdict(1.0, True, 0, won=2.0)),
        (lambda one, other: "second" if one > other else "first", Verdict(0.0, True, 0, lost=2.0)),
        (lambda one, other: "tie", Verdict(0.5, True, 0, won=1.0, lost=1.0)),
        (lambda one, other: "first", Verdict(0.5, False, 0, won=1.0, lost=1.0)),  # whatever stands first
        (lambda one, other: "tie" if one > other else "second", Verdict(0.5, False, 0, won=1.5, lost=0.5)),
    ],
)
def test_a_pair_is_won_only_if_it_is_won_in_both_orders(judge, expected) -> None:  # type: ignore[no-untyped-def]
    assert verdict_on(lambda _, one, other: judge(one, other), {}, "b", "a") == expected


def test_what_is_not_a_verdict_is_refused() -> None:
    with pytest.raises(BadData, match=r"the judge returns first, second or tie, .* not 'A'"):
        verdict_on(lambda *_: "A", {}, "b", "a")


@pytest.mark.parametrize("sure", [1.5, -0.1, float("nan"), "very"])
def test_a_confidence_is_between_0_and_1(sure: object) -> None:
    with pytest.raises(BadData, match="with a confidence between 0 and 1, not"):
        verdict_on(lambda *_: ("first", sure), {}, "b", "a")  # type: ignore[arg-type, return-value]


def test_the_confidence_of_wins_is_divided_by_that_of_losses() -> None:
    def prefers_b(_: object, one: str, other: str) -> tuple[str, float]:
        return ("first", 0.9) if one == "b" else ("second", 0.6)

    won, lost = (verdict_on(prefers_b, {}, *pair) for pair in (("b", "a"), ("a", "b")))
    assert (won.won, won.lost, lost.won, lost.lost) == (1.5, 0.0, 0.0, 1.5)
    unsure, tied = verdict_on(lambda *_: ("first", 0.4), {}, "b", "a"), verdict_on(lambda *_: "tie", {}, "b", "a")
    assert win_loss_ratio([won, unsure]) == pytest.approx((1.5 + 0.4) / 0.4)
    assert win_loss_ratio([won]) == pytest.approx(15.0), "no loss counts as a tenth of a sure one"
    assert win_loss_ratio([lost]) == 0.0 < win_loss_ratio([tied, tied]) == 1.0, "as good is better than worse"


def test_a_judge_who_prefers_longer_answers_finds_equal_ones_equal() -> None:
    """Half of the answers are longer by much, a few are shorter; all are as good as the others."""
    chance = random.Random(0)
    longer = [chance.choice((300, 250, 40, -60)) for _ in range(400)]
    found = win_rate([Verdict(float(chance.random() < (0.9 if one > 0 else 0.1)), True, one) for one in longer])
    assert found is not None and found.rate > 0.65
    assert abs(found.at_equal_lengths - 0.5) < 0.12
    low, high = found.at_equal_lengths_interval
    assert low < 0.5 < high and low <= found.at_equal_lengths <= high


@given(st.lists(st.tuples(st.sampled_from((0.0, 0.5, 1.0)), st.integers(-500, 500)), min_size=1, max_size=12))
@settings(max_examples=10, deadline=None)
def test_rates_are_shares_and_turn_round_with_the_two_sides(pairs: list[tuple[float, int]]) -> None:
    found = win_rate([Verdict(share, True, longer) for share, longer in pairs])
    turned = win_rate([Verdict(1 - share, True, -longer) for share, longer in pairs])
    assert found is not None and turned is not None
    assert found.wins + found.ties + turned.wins == found.pairs == len(pairs)
    assert 0 < found.at_equal_lengths < 1
    assert found.rate + turned.rate == pytest.approx(1)
    assert found.at_equal_lengths + turned.at_equal_lengths == pytest.approx(1, abs=1e-6)


def test_there_is_no_rate_without_verdicts() -> None:
    assert win_rate([]) is None


# ── the trade-off ────────────────────────────────────────────────────────────────────────────────────────

speeds = st.integers(1, 5).map(float)


def point(speed: float, quality: float, name: str = "", of: str = "F1 of words") -> Point:
    return Point(name, speed, (speed, speed), of, quality / 10, (quality / 10, quality / 10))


@given(st.lists(st.builds(point, speeds, speeds), min_size=1, max_size=8))
def test_the_best_points_are_those_that_no_other_beats(points: list[Point]) -> None:
    best = best_of(points)
    assert best == sorted(best, key=lambda one: (one.speed, one.quality))
    for one in points:
        others = [other for other in points if (other.speed, other.quality) != (one.speed, one.quality)]
        beaten = any(other.speed >= one.speed and other.quality >= one.quality for other in others)
        assert (one in best) is not beaten
    assert all(slow.quality >= fast.quality for slow, fast in pairwise(best))


def test_a_picture_shows_every_point_and_joins_the_best() -> None:
    many = draw([point(1, 9, "linear"), point(2, 8, "pasta"), point(1.5, 4, "blind")])
    colours = {colour for _, colour in Image.open(io.BytesIO(many)).getcolors(1 << 20)}
    assert {(0x0B, 0x6E, 0x4F), (0x8A, 0x8A, 0x8A)} <= colours  # the best ones, and the one that is beaten
    assert Image.open(io.BytesIO(draw([point(1, 9)]))).size == Image.open(io.BytesIO(many)).size
    with pytest.raises(BadData, match="different things: F1 of words of a; parts that are right of b"):
        draw([point(1, 9, "a"), point(2, 8, "b", of="parts that are right")])
    with pytest.raises(BadData, match="old is not a report of `pasta evaluate threads --out`"):
        point_of("old", {"theoretical": 1.0})
