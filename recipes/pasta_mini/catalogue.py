"""The vocabulary of the made-up listings: kinds of product, their attributes, and the values those may have.

`catalogue.toml` holds the words. Values are split by a hash, so a value drawn for a test never occurs in training.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

CATALOGUE = Path(__file__).with_name("catalogue.toml")
_MODEL_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_PACK_SIZES = (1, 2, 2, 3, 3, 4, 5, 6, 6, 8, 10, 12, 20, 24, 50, 100)


class Part(Enum):
    TRAIN = "train"
    TEST = "test"


Pool: TypeAlias = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class Attribute:
    """`names` are the ways in which people call it; `share` is how often a listing states it."""

    names: tuple[str, ...]
    share: float
    pool: Pool


@dataclass(frozen=True, slots=True)
class Category:
    """`nouns` end up in the title; attributes stand in the order in which titles usually state them."""

    name: str
    nouns: tuple[str, ...]
    fillers: tuple[str, ...]
    attributes: tuple[Attribute, ...]


@cache
def load_catalogue() -> tuple[Category, ...]:
    document = _document()
    pools = invented_pools(load_names())
    for name, definition in document["pools"].items():
        pools[name] = build_pool(definition, pools)
    return tuple(_category(table, pools) for table in document["categories"])


@cache
def load_names() -> NameParts:
    return NameParts(**{key: tuple(parts) for key, parts in _document()["names"].items()})


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))


def _category(table: dict[str, object], pools: dict[str, Pool]) -> Category:
    attributes = []
    for definition in table["attributes"]:  # type: ignore[attr-defined]
        pool = {key: value for key, value in definition.items() if key not in ("names", "share")}
        attributes.append(Attribute(tuple(definition["names"]), definition["share"], build_pool(pool, pools)))
    return Category(
        name=str(table["name"]),
        nouns=tuple(table["nouns"]),  # type: ignore[arg-type]
        fillers=tuple(table["fillers"]),  # type: ignore[arg-type]
        attributes=tuple(attributes),
    )


def draw(pool: Pool, random: Random, part: Part, *, attempts: int = 200) -> str:
    """A value of this part. A pool too small to have one gives any value."""
    value = pool(random)
    for _ in range(attempts):
        if belongs(value, part):
            break
        value = pool(random)
    return value


def belongs(value: str, part: Part) -> bool:
    """One value in five, chosen by a hash of the value itself, is kept for the test part."""
    return (zlib.crc32(value.casefold().encode()) % 5 == 0) is (part is Part.TEST)


def invented_pools(names: NameParts) -> dict[str, Pool]:
    return {
        "word": names.word,
        "brand": names.brand,
        "model": names.model,
        "series": names.series,
        "pack": names.pack,
    }


def build_pool(definition: Mapping[str, Any], known: Mapping[str, Pool]) -> Pool:
    """The pool that a table of the catalogue describes. It may refer to pools that are defined earlier."""
    match definition:
        case {"pool": str(name)}:
            return known[name]
        case {"values": list(values)}:
            return lambda random: str(random.choice(values))
        case {"either": list(definitions)}:
            pools = [build_pool(each, known) for each in definitions]
            return lambda random: random.choice(pools)(random)
        case {"join": list(definitions), **rest}:
            parts = [build_pool(each, known) for each in definitions]
            glue = str(rest.get("glue", " "))
            return lambda random: glue.join(part(random) for part in parts)
        case {"units": list(units), "low": low, "high": high, **rest}:
            return _amounts(units, low=low, high=high, decimals=int(rest.get("decimals", 0)))
        case _:
            raise ValueError(f"not a pool: {dict(definition)}")


def _amounts(units: list[str], *, low: float, high: float, decimals: int) -> Pool:
    """A number and its unit, in the ways in which shops write them: `8 oz`, `8oz`, `8-Ounce`."""

    def make(random: Random) -> str:
        number = round(random.uniform(low, high), random.choice((0, decimals)))
        text = str(int(number)) if number == int(number) else str(number)
        unit = random.choice(units)
        return text + (random.choice((" ", " ", " ", "", "-")) + unit if unit else "")

    return make


@dataclass(frozen=True, slots=True)
class NameParts:
    """Makes up names that nobody has seen (brands, models, series, packs) from the syllables of the catalogue."""

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
