"""Answers judged in pairs: each pair in both orders, with ties, and at equal lengths.

A judge gets the inputs and two answers and returns which is better: `first`, `second` or `tie`, alone or with its
confidence between 0 and 1. Judges prefer what stands in one place, and what is longer. So a pair is won only if it is
won in both places, and the win rate at equal lengths is what a logistic curve over the difference of lengths says of
answers that are equally long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.training.errors import BadData, raised
from pastalang.training.likelihood import Interval, interval_of_mean

Judge: TypeAlias = Callable[[Mapping[str, Any], str, str], str | tuple[str, float]]

FIRST, SECOND, TIE = "first", "second", "tie"
_VERDICTS: Final = (FIRST, SECOND, TIE)
_LEAST_LOSS: Final = 0.1
_RESAMPLES: Final = 200
_STEPS: Final = 25  # of Newton's method, which needs about five
_CLOSE: Final = 1e-9  # a step that changes nothing any more
_HELD: Final = 1e-3  # what keeps the slope finite where all longer answers win


@dataclass(frozen=True, slots=True)
class Verdict:
    """`share` of the win: 1, 0.5 for a tie, or 0. `longer`: by how many characters the answer is longer.

    `won` and `lost` are the confidence of the judge in the orders in which the answer was better, and was worse.
    """

    share: float
    is_consistent: bool
    longer: int
    won: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class WinRate:
    """`inconsistent` pairs, which are ties, were judged differently in the two orders."""

    pairs: int
    wins: int
    ties: int
    inconsistent: int
    rate: float
    interval: Interval
    at_equal_lengths: float
    at_equal_lengths_interval: Interval


def verdict_on(judge: Judge, inputs: Mapping[str, Any], answer: str, other: str) -> Verdict:
    """Raises `BadData` if the judge fails, and for what is no verdict."""
    once, sure_once = _asked(judge, inputs, answer, other)
    again, sure_again = _asked(judge, inputs, other, answer)
    is_won, is_lost = (once, again) == (FIRST, SECOND), (once, again) == (SECOND, FIRST)
    return Verdict(
        share=1.0 if is_won else 0.0 if is_lost else 0.5,
        is_consistent=is_won or is_lost or once == again == TIE,
        longer=len(answer) - len(other),
        won=sure_once * (once == FIRST) + sure_again * (again == SECOND),
        lost=sure_once * (once == SECOND) + sure_again * (again == FIRST),
    )


def _asked(judge: Judge, inputs: Mapping[str, Any], first: str, second: str) -> tuple[str, float]:
    """The verdict, and how sure the judge is of it: wholly, if it does not say."""
    try:
        found = judge(dict(inputs), first, second)
    except Exception as problem:
        raise BadData(f"the judge raises {raised(problem)}") from problem
    match found:
        case str(verdict) if verdict in _VERDICTS:
            return verdict, 1.0
        case (str(verdict), int() | float() as confidence) if verdict in _VERDICTS and 0 <= confidence <= 1:
            return verdict, float(confidence)
    raise BadData(
        f"the judge returns first, second or tie, or one of them with a confidence between 0 and 1, not {found!r:.60}"
    )


def win_loss_ratio(verdicts: Sequence[Verdict]) -> float:
    """The confidence in wins for each of that in losses. Few losses count as a tenth of a sure one, so that the ratio
    stays finite."""
    return sum(one.won for one in verdicts) / max(_LEAST_LOSS, sum(one.lost for one in verdicts))


def win_rate(verdicts: Sequence[Verdict]) -> WinRate | None:
    """None without verdicts."""
    if not verdicts:
        return None
    shares = np.array([one.share for one in verdicts])
    longer = np.array([one.longer for one in verdicts], dtype=np.float64)
    random = np.random.default_rng(0)
    draws = random.integers(0, len(shares), (_RESAMPLES, len(shares)))
    controlled = sorted(_at_equal_lengths(shares[draw], longer[draw]) for draw in draws)
    return WinRate(
        pairs=len(verdicts),
        wins=sum(one.share == 1 for one in verdicts),
        ties=sum(one.share == 0.5 for one in verdicts),
        inconsistent=sum(not one.is_consistent for one in verdicts),
        rate=float(shares.mean()),
        interval=interval_of_mean(shares.tolist()),
        at_equal_lengths=_at_equal_lengths(shares, longer),
        at_equal_lengths_interval=(controlled[int(0.025 * _RESAMPLES)], controlled[int(0.975 * _RESAMPLES) - 1]),
    )


def _at_equal_lengths(shares: NDArray[np.float64], longer: NDArray[np.float64]) -> float:
    """The rate where a logistic curve over the difference of lengths crosses zero.

    Half a win and half a loss at equal lengths are added, so that it stays finite where one side wins everything.
    """
    spread = float(longer.std()) or 1.0
    x = np.column_stack([np.ones(len(longer) + 1), np.append(np.tanh(longer / spread), 0.0)])
    y, held = np.append(shares, 0.5), np.diag([0.0, _HELD])
    weights = np.zeros(2)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (y - p) - held @ weights
        curve = x.T @ (x * (p * (1 - p))[:, None]) + held + 1e-9 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        weights += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < _CLOSE:
            break
    return 1 / (1 + math.exp(-float(weights[0])))
