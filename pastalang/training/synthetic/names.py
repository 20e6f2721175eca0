"""From a random stream to names that nobody has seen: brands, models, series, packs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_MODEL_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_PACK_SIZES = (1, 2, 2, 3, 3, 4, 5, 6, 6, 8, 10, 12, 20, 24, 50, 100)


@dataclass(frozen=True, slots=True)
class NameParts:
    """The pieces that names are put together from, as the listings file gives them."""

    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    codas: tuple[str, ...]
    endings: tuple[str, ...]
    houses: tuple[str, ...]
    firsts: tuple[str, ...]
    seconds: tuple[str, ...]
    packs: tuple[str, ...]

    def word(self, random: Random) -> str:
        syllables = (self._syllable(random) for _ in range(random.choice((1, 2, 2, 2, 3))))
        word = "".join(syllables) + random.choice(self.endings)
        return word.capitalize() if random.random() < 0.85 else word.upper()

    def brand(self, random: Random) -> str:
        match random.choices(range(7), weights=(42, 16, 14, 10, 8, 5, 5))[0]:
            case 0:
                return self.word(random)
            case 1:
                return f"{self.word(random)} {random.choice(self.houses)}"
            case 2:
                return self.pair(random)
            case 3:
                return f"{self.word(random)} {self.word(random)}"
            case 4:
                return f"{self.word(random)}'s"
            case 5:
                return "".join(random.choices(_MODEL_LETTERS, k=random.choice((2, 3, 3, 4))))
            case _:
                return f"{self.pair(random)} {random.choice(self.houses)}"

    def model(self, random: Random) -> str:
        letters = "".join(random.choices(_MODEL_LETTERS, k=random.choice((1, 2, 2, 3))))
        digits = random.randint(1, 9999)
        match random.choices(range(5), weights=(35, 25, 15, 15, 10))[0]:
            case 0:
                return f"{letters}-{digits}"
            case 1:
                return f"{letters}{digits}"
            case 2:
                return str(digits)
            case 3:
                return f"{self.word(random)} {random.randint(1, 30)}"
            case _:
                return f"{self.word(random)}-{random.choice('WXSTK')}"

    def series(self, random: Random) -> str:
        return self.word(random) if random.random() < 0.5 else self.pair(random)

    def pack(self, random: Random) -> str:
        number, word = random.choice(_PACK_SIZES), random.choice(self.packs)
        ways = (f"Pack of {number}", f"{number} {word}", f"{number}-{word}", f"Set of {number}", f"{number}x")
        return random.choice(ways)

    def pair(self, random: Random) -> str:
        return f"{random.choice(self.firsts)} {random.choice(self.seconds)}"

    def _syllable(self, random: Random) -> str:
        return random.choice(self.onsets) + random.choice(self.vowels) + random.choice(self.codas)
