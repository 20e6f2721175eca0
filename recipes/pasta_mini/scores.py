"""Scores of recorded rows with teacher forcing: a forward pass for each row, the right answers before each value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.constraints.guide import TokenMask
from pastalang.training.batches import collate, logits_of
from pastalang.training.metrics import Example, Report, evaluate
from pastalang.training.recording import TaughtToken, TrainingRow

_RIGHT, _WRONG = "right", "wrong"


def score_rows(model: Any, rows: Sequence[TrainingRow], *, categories: Sequence[str] = (), batch: int = 16) -> Report:
    """`categories`: those of the rows, if they have any."""
    named = categories or [""] * len(rows)
    examples = []
    was_training = model.training
    model.eval()
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        for row, category, logits in zip(part, named[start:], _logits(model, part), strict=False):
            examples.append(_example(row, category, logits))
    model.train(was_training)
    return evaluate(examples)


@torch.no_grad()
def _logits(model: Any, rows: Sequence[TrainingRow]) -> list[NDArray[np.float32]]:
    device = next(model.parameters()).device
    together = collate([[row] for row in rows], max(map(len, rows))).to(device)
    logits = logits_of(model, together).float().cpu().numpy()
    return [logits[index] for index in range(len(rows))]


def _example(row: TrainingRow, category: str, logits: NDArray[np.float32]) -> Example:
    expected: dict[str, list[str]] = {}
    predicted: dict[str, str | None] = {}
    ordered = sorted(row.taught, key=_name)
    for name, places in groupby(ordered, key=_name):
        taught = list(places)
        drawn = [_likeliest(logits[one.place], one.allowed) for one in taught]
        expected[name] = ["n/a" if taught[0].is_absent else _RIGHT]
        predicted[name] = _outcome(taught, drawn)
    return Example(category, expected, predicted)


def _outcome(taught: Sequence[TaughtToken], drawn: Sequence[int]) -> str | None:
    if all(one.token == token for one, token in zip(taught, drawn, strict=True)):
        return None if taught[0].is_absent else _RIGHT
    return None if drawn[0] == taught[0].absent else _WRONG


def _name(taught: TaughtToken) -> str:
    return taught.field + "".join(f"[{item}]" for item in taught.items)


def _likeliest(logits: NDArray[np.float32], allowed: TokenMask | None) -> int:
    if allowed is None:
        return int(logits.argmax())
    bits = np.unpackbits(allowed.view(np.uint8), bitorder="little")[: len(logits)].astype(np.bool_)
    return int(np.where(bits, logits[: len(bits)], -np.inf).argmax())
