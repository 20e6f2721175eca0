"""From the listings file to the kinds of product: their attributes, how often each is stated, how it reads."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pastalang.training.synthetic.names import NameParts
from pastalang.training.synthetic.pools import Pool, build_pool, invented_pools


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
    return tomllib.loads(files("pastalang.training.synthetic").joinpath("listings.toml").read_text(encoding="utf-8"))


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
