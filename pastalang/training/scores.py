"""How good a model is at recorded rows, in one forward per batch: rows come in, the scores of `metrics` go out.

A value is right if the model's likeliest allowed token is the right one at each of its places. In strict mode that
is exactly what greedy decoding would give; in the other modes a value here stands behind right ones only, so the
score is an upper bound there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.runtime.decode.guide import TokenMask
from pastalang.training.forward import logits_of
from pastalang.training.metrics import Example, Report, evaluate
from pastalang.training.packing import collate
from pastalang.training.sequence import Sequence as Row
from pastalang.training.sequence import Taught

_RIGHT, _WRONG = "right", "wrong"


def score_rows(model: Any, rows: Sequence[Row], *, categories: Sequence[str] = (), batch: int = 16) -> Report:
    """`categories` are those of the rows, where they have some."""
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
def _logits(model: Any, rows: Sequence[Row]) -> list[NDArray[np.float32]]:
    device = next(model.parameters()).device
    together = collate([[row] for row in rows], max(map(len, rows))).to(device)
    logits = logits_of(model, together).float().cpu().numpy()
    return [logits[index] for index in range(len(rows))]


def _example(row: Row, category: str, logits: NDArray[np.float32]) -> Example:
    expected: dict[str, list[str]] = {}
    predicted: dict[str, str | None] = {}
    ordered = sorted(row.taught, key=_name)
    for name, places in groupby(ordered, key=_name):
        taught = list(places)
        drawn = [_likeliest(logits[one.place], one.allowed) for one in taught]
        expected[name] = ["n/a" if taught[0].is_absent else _RIGHT]
        predicted[name] = _outcome(taught, drawn)
    return Example(category, expected, predicted)


def _outcome(taught: Sequence[Taught], drawn: Sequence[int]) -> str | None:
    if all(one.token == token for one, token in zip(taught, drawn, strict=True)):
        return None if taught[0].is_absent else _RIGHT
    return None if drawn[0] == taught[0].absent else _WRONG


def _name(taught: Taught) -> str:
    return taught.field + "".join(f"[{item}]" for item in taught.items)


def _likeliest(logits: NDArray[np.float32], allowed: TokenMask | None) -> int:
    if allowed is None:
        return int(logits.argmax())
    bits = np.unpackbits(allowed.view(np.uint8), bitorder="little")[: len(logits)].astype(np.bool_)
    return int(np.where(bits, logits[: len(bits)], -np.inf).argmax())
