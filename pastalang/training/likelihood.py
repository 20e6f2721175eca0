"""How likely a model finds tokens of a recorded row: as they were recorded, and without some of what they saw.

    recorded   prompt  1. AAAA  2. BBBB           B sees A
    a copy                         BBBB           at the same positions, and it does not see A

Both are in one forward pass: the row, and after it copies of the tokens that would see less. So the two differ in what
is seen and in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import TokenMask
from pastalang.training.batches import collate
from pastalang.training.forward import logits_of
from pastalang.training.recording import Numbers, TrainingRow

Hidden: TypeAlias = frozenset[int]  # places of a row
Interval: TypeAlias = tuple[float, float]

_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """How likely is `token` after `place`, among the `allowed` tokens? None allows all."""

    place: int
    token: int
    allowed: TokenMask | None = None


class Copies:
    """A row, and after it copies of its tokens that do not see some others. `window`: of the model's sliding layers."""

    def __init__(self, row: TrainingRow, *, window: int | None = None) -> None:
        self._row, self._window = row, window
        self._seen: list[Numbers] = [np.flatnonzero(line).astype(np.int32) for line in row.visible]
        self._near: dict[int, Numbers] = {}
        self._sources = list(range(len(row)))
        self._known: dict[tuple[int, Hidden], int] = {}

    def place(self, token: int, hidden: Hidden) -> int:
        """The place of a token that sees nothing hidden, and nothing that has seen it."""
        if hidden.isdisjoint(self._seen[token].tolist()):
            return token
        if (token, hidden) not in self._known:
            others = [self.place(int(one), hidden) for one in self._seen[token] if one != token and one not in hidden]
            place = self._known[token, hidden] = len(self._sources)
            self._sources.append(token)
            self._seen.append(np.array([*others, place], dtype=np.int32))
            if self._window is not None and len(others) >= self._window:
                nearest = sorted(others, key=lambda one: int(self._row.positions[self._sources[one]]))
                self._near[place] = np.array([*nearest[len(others) + 1 - self._window :], place], dtype=np.int32)
        return self._known[token, hidden]

    def row(self) -> TrainingRow:
        """All of it as one row, without labels."""
        sees = self._matrix(self._seen)
        near = None
        if self._row.sees_near is not None or self._near:
            recorded = [np.flatnonzero(line).astype(np.int32) for line in self._row.near]
            near = self._matrix(
                [*recorded, *(self._near.get(n, self._seen[n]) for n in range(len(recorded), len(sees)))]
            )
        return replace(
            self._row, tokens=self._row.tokens[self._sources], positions=self._row.positions[self._sources],
            labels=self._row.labels[self._sources], sees=np.packbits(sees, axis=1), taught=(), writers=(),
            sees_near=None if near is None else np.packbits(near, axis=1),
        )  # fmt: skip

    def _matrix(self, seen: Sequence[Numbers]) -> NDArray[np.bool_]:
        matrix = np.zeros((len(seen), len(seen)), dtype=np.bool_)
        for place, others in enumerate(seen):
            matrix[place, others] = True
        return matrix


def log_likelihoods(model: Any, row: TrainingRow, asked: Sequence[Asked]) -> NDArray[np.float64]:
    """In nats, in the order of `asked`."""
    if not asked:
        return np.zeros(0)
    places = sorted({one.place for one in asked})
    where = torch.zeros(1, len(row), dtype=torch.bool)
    where[0, places] = True
    with torch.inference_mode():
        batch = collate([[row]], len(row)).to(next(model.parameters()).device)
        logits = logits_of(model, batch, where=where.to(batch.tokens.device)).double().cpu().numpy()
    index = {place: number for number, place in enumerate(places)}
    return np.array([_log_likelihood(logits[index[one.place]], one) for one in asked])


def _log_likelihood(logits: NDArray[np.float64], asked: Asked) -> float:
    among = logits
    if asked.allowed is not None:
        bits = np.unpackbits(asked.allowed.view(np.uint8), bitorder="little")[: len(logits)].astype(np.bool_)
        among = logits[: len(bits)][bits]
    highest = among.max()
    return float(logits[asked.token] - highest - np.log(np.exp(among - highest).sum()))


def interval_of_mean(values: Sequence[float]) -> Interval:
    """What holds 95 % of the means of resampled values."""
    if len(values) < 2:
        return (values[0], values[0]) if len(values) else (0.0, 0.0)
    random, array = np.random.default_rng(0), np.array(values, dtype=np.float64)
    means = np.sort(array[random.integers(0, len(array), (_RESAMPLES, len(array)))].mean(axis=1))
    return float(means[int(0.025 * _RESAMPLES)]), float(means[int(0.975 * _RESAMPLES) - 1])
