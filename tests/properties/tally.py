"""The ten invariants, and how many different cases of each have been seen: a case comes in, it is counted once.

A case is what was drawn: a program and what it was run with. Drawn twice it is one case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import blake2b


class Invariant(Enum):
    """What always holds; the value is what a person reads."""

    ISOLATION = "isolation"  # what a token does not see has no part in its logits
    ORACLE = "oracle"  # the slow decoder gives the same tokens, and the same logits to 1e-9
    CONFLUENCE = "confluence"  # no pause, limit, batch, stack, memory or kept prompt changes a token
    LIVENESS = "liveness"  # every plan ends under every schedule
    ACCOUNTING = "accounting"  # every cell has one owner, none is left, and the plan says how many at most
    POSITIONS = "positions"  # they increase along every path
    DEPTH = "depth"  # a run takes the passes of its critical path
    VALIDITY = "validity"  # a JSON answer is JSON of its type
    TRAINING = "training"  # one training forward gives the logits of decoding
    DRAFTS = "drafts"  # tokens fed ahead and taken back leave no trace; those accepted are like any others


class Tally:
    """Digests of the cases of each invariant."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {one.value: set() for one in Invariant}

    def count(self, invariant: Invariant, *case: object) -> None:
        self._seen[invariant.value].add(blake2b(repr(case).encode(), digest_size=8).hexdigest())

    def add(self, seen: Mapping[str, Iterable[str]]) -> None:
        for name, digests in seen.items():
            self._seen[name].update(digests)

    def clear(self) -> None:
        for digests in self._seen.values():
            digests.clear()

    @property
    def seen(self) -> dict[str, list[str]]:
        return {name: sorted(digests) for name, digests in self._seen.items() if digests}

    @property
    def counts(self) -> dict[Invariant, int]:
        return {one: len(self._seen[one.value]) for one in Invariant}


ALL = Tally()  # of this process


def count(invariant: Invariant, *case: object) -> None:
    ALL.count(invariant, *case)
