"""Random numbers that belong to a place in the answer: who draws comes in, a number in [0, 1) goes out.

There is no generator that is advanced, so nothing that runs earlier, later or beside can change a draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw of a run: token `index` of a branch, inside the loop items `items`; `purpose` tells apart several."""

    seed: int
    branch: str
    items: tuple[int, ...]
    index: int
    purpose: str = ""

    def uniform(self) -> float:
        """The same number on every machine, with 53 random bits."""
        fields = (str(self.seed), self.branch, ",".join(map(str, self.items)), str(self.index), self.purpose)
        text = "".join(f"{len(part)}:{part}" for part in fields)
        digest = blake2b(text.encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) / (1 << 53)
