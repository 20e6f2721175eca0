"""Random numbers by key: the same position in an answer always gets the same number in [0, 1).

There is no generator with a state, so nothing that runs earlier, later or at the same time can change a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class RandomKey:
    """One draw of a run: token `index` of a branch, inside the loop items `items`; `purpose` distinguishes several."""

    seed: int
    branch: str
    items: tuple[int, ...]
    index: int
    purpose: str = ""

    def uniform(self) -> float:
        """A number with 53 random bits, the same on every machine."""
        fields = (str(self.seed), self.branch, ",".join(map(str, self.items)), str(self.index), self.purpose)
        text = "".join(f"{len(part)}:{part}" for part in fields)
        digest = blake2b(text.encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) / (1 << 53)
