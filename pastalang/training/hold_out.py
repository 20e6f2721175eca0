"""A part of the rows for validation, if nobody gave any."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from pastalang.training.data import Row

FEWEST = 20  # rows; with fewer, every row is trained on
_MOST = 200  # rows held out: each of them is decoded at every validation


def held_out(rows: Sequence[Row], share: float) -> frozenset[int]:
    """The numbers of the rows to validate with.

    Which they are depends on their inputs alone: rows with the same inputs stay together, and other rows of the file
    do not move them much.
    """
    if len(rows) < FEWEST or not share:
        return frozenset()
    names = [_name(row) for row in rows]
    chosen = set(sorted(names)[: min(_MOST, max(1, round(share * len(rows))))])
    return frozenset(number for number, name in enumerate(names) if name in chosen)


def _name(row: Row) -> str:
    return hashlib.sha256(json.dumps(dict(row.inputs), sort_keys=True).encode()).hexdigest()
