"""From the listings file to pools of values, split so that what a test draws never occurs in training."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from enum import Enum
from random import Random
from typing import Any, TypeAlias

from pastalang.training.synthetic.names import NameParts


class Part(Enum):
    TRAIN = "train"
    TEST = "test"


Pool: TypeAlias = Callable[[Random], str]


def draw(pool: Pool, random: Random, part: Part, *, attempts: int = 200) -> str:
    """A value of the asked part; a pool too small to have one gives what it has."""
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
    """The pool that one table of the listings file describes; it may refer to pools that stand before it."""
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
