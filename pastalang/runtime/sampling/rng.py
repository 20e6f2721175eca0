"""Random bits by key: the same position in an answer always gets the same bits.

There is no generator with a state, so nothing that runs earlier, later or at the same time can change them.
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

    def words(self) -> tuple[int, int]:
        """64 random bits as two words of 32, the same on every machine."""
        fields = (str(self.seed), self.branch, ",".join(map(str, self.items)), str(self.index), self.purpose)
        text = "".join(f"{len(part)}:{part}" for part in fields)
        digest = blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")
