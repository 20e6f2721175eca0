"""What the options of a choice weigh: rows of logits come in, each behind some way into the options; probabilities go
out. A way is the tokens taken so far, the forced ones among them.

    (…)            row:  "phone" 0.2   `t` 0.8 (several are left)
    (…, t)         row:  "tv" 0.5   "tape" 0.5                        "tv" = 0.8 × 0.5
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pastalang.runtime.decode.confidence import Shares

Way = tuple[int, ...]


@dataclass(slots=True)
class Weights:
    """Exact for the ways that have been looked at; what those weigh that have not is missing to 1."""

    rows: dict[Way, Shares] = field(default_factory=dict)

    def options(self) -> dict[str, float]:
        weights: dict[Way, float] = {}
        found: dict[str, float] = {}
        for way in sorted(self.rows, key=len):
            weights[way] = weight = self._weight(way, weights)
            for option, share in self.rows[way].settled.items():
                found[option] = found.get(option, 0.0) + weight * share
        return found

    def _weight(self, way: Way, weights: dict[Way, float]) -> float:
        """Of the way that was looked at last before this one, and of the token that leads on from there."""
        if not weights:
            return 1.0
        before = next(way[:length] for length in range(len(way) - 1, -1, -1) if way[:length] in weights)
        return weights[before] * self.rows[before].open.get(way[len(before)], 0.0)
