"""The real listings: titles of OA-Mine, split into training and held-out parts, and varied without end.

    Ellie Shoes Women's 8400, Red Patent, 14 M US     Brand, Gender, Model name, Color, Size
    Crocs Women's 3127, Red Patent, 9 M US            another brand, other digits; the rest is unchanged

A model would soon know a thousand titles by heart. So titles of a category are cut between their values and joined
anew, which moves values together with the words around them. Then values change places, names are invented, digits
change, and an attribute whose value was cut out of the title is asked for anyway.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias

from pastalang.training.data import read_rows
from pastalang.training.errors import BadRow
from recipes.pasta_mini.catalogue import load_names
from recipes.pasta_mini.listings import Listing

Pools: TypeAlias = Mapping[tuple[str, str], Sequence[str]]

_AS_IT_WAS, _JOINED_ONLY, _JOINED = 0.2, 0.2, 0.5  # the last: of those whose values are exchanged
_CUTS = 12  # tries to find two parts that fit
_EXCHANGED, _CUT, _SHAKEN = 0.45, 0.08, 0.3
_INVENTED = 0.35  # of the exchanged, where a value is a name
_ASKED, _SHUFFLED, _STRANGER, _CASED = 0.85, 0.3, 0.3, 0.06
_NAMED = 0.8  # an attribute whose values are nearly all different holds names


@dataclass(frozen=True, slots=True)
class Split:
    train: tuple[Listing, ...]
    held_out: tuple[Listing, ...]


def read_oa_mine(path: Path, *, seed: int = 0) -> Split:
    """The listings of OA-Mine. One title in ten, chosen by a hash of the title, is held out.

    Every attribute that a category has in the training part is asked for; it is null if the title does not state it.
    """
    rows = [(origin, row) for origin, row in read_rows(path)]
    titles = [_title(origin, row) for origin, row in rows]
    is_held_out = [zlib.crc32(f"{seed}/{title}".encode()) % 10 == 0 for title in titles]
    known: dict[str, dict[str, None]] = {}
    for (_, row), held_out in zip(rows, is_held_out, strict=True):
        if not held_out:
            known.setdefault(str(row["category"]), {}).update(dict.fromkeys(_stated(row)))
    listings = [_listing(title, row, known) for title, (_, row) in zip(titles, rows, strict=True)]
    parts = list(zip(listings, is_held_out, strict=True))
    return Split(tuple(one for one, held in parts if not held), tuple(one for one, held in parts if held))


class Mixer:
    """Draws variations of listings. The same listings and random stream give the same variations."""

    def __init__(self, listings: Sequence[Listing]) -> None:
        self._listings = listings
        self._pools = _pools(listings)
        self._category: dict[str, list[Listing]] = {}
        for listing in listings:
            self._category.setdefault(listing.category, []).append(listing)

    def draw(self, random: Random) -> Listing:
        listing = random.choice(self._listings)
        roll = random.random()
        if roll < _AS_IT_WAS:
            return listing
        if roll < _AS_IT_WAS + _JOINED_ONLY or random.random() < _JOINED:
            listing = _joined(listing, self._category[listing.category], random)
        return listing if roll < _AS_IT_WAS + _JOINED_ONLY else _mix(listing, self._pools, random)


def _title(origin: str, row: Mapping[str, object]) -> str:
    if not isinstance(row.get("input"), str) or not isinstance(row.get("target_scores"), dict):
        raise BadRow("has no `input` and `target_scores`: this is not a row of OA-Mine", origin=origin)
    return str(row["input"])


def _stated(row: Mapping[str, object]) -> dict[str, str]:
    scores = row["target_scores"]
    assert isinstance(scores, dict)
    return {name: next(iter(values)) for name, values in scores.items() if "n/a" not in values}


def _listing(title: str, row: Mapping[str, object], known: Mapping[str, Mapping[str, None]]) -> Listing:
    stated = _stated(row)
    category = str(row["category"])
    return Listing(category, title, "", {name: stated.get(name) for name in known.get(category, stated)})


def _joined(listing: Listing, others: Sequence[Listing], random: Random) -> Listing:
    """The beginning of this title and the end of another one. No attribute has a value in both parts."""
    for _ in range(_CUTS):
        other = random.choice(others)
        before, after = _part(listing, random, is_end=False), _part(other, random, is_end=True)
        if before is None or after is None or set(before[1]) & set(after[1]):
            continue
        title, values = f"{before[0]} {after[0]}", before[1] | after[1]
        if all(value in title for value in values.values()):
            names = dict.fromkeys((*listing.values, *other.values))
            return Listing(listing.category, title, "", {name: values.get(name) for name in names})
    return listing


def _part(listing: Listing, random: Random, *, is_end: bool) -> tuple[str, dict[str, str]] | None:
    """The title from or up to a space that no value covers, and the values that stand there."""
    places = _places(listing)
    if len(places) < sum(value is not None for value in listing.values.values()):
        return None
    spaces = [match.start() for match in re.finditer(r" +(?=[^\s])", listing.title)]
    free = [cut for cut in spaces if not any(start < cut < end for _, (start, end) in places)]
    if not free:
        return None
    cut = random.choice(free)
    part = listing.title[cut:].strip() if is_end else listing.title[:cut].strip()
    kept = ((name, span) for name, span in places if (span[0] >= cut) is is_end)
    return part, {name: listing.title[start:end] for name, (start, end) in kept}


def _mix(listing: Listing, pools: Pools, random: Random) -> Listing:
    title, values = listing.title, dict(listing.values)
    for name, (start, end) in _places(listing):
        value = _another(title[start:end], listing.category, name, pools, random)
        title = _cut(title, start, end) if value is None else title[:start] + value + title[end:]
        values[name] = value
    if random.random() < _CASED:
        change = random.choice((str.upper, str.lower))
        title, values = change(title), {name: value and change(value) for name, value in values.items()}
    asked = [name for name, value in values.items() if (value is None or value in title) and random.random() < _ASKED]
    asked = asked or list(values)[:1]
    if random.random() < _SHUFFLED:
        random.shuffle(asked)
    if random.random() < _STRANGER:
        stranger = _stranger(title, listing, pools, random)
        asked.insert(random.randint(0, len(asked)), stranger)
    found = {name: value if (value := values.get(name)) and value in title else None for name in asked}
    return Listing(listing.category, title, listing.description, found)


def _places(listing: Listing) -> list[tuple[str, tuple[int, int]]]:
    """Where the values stand in the title, the last one first. A value that overlaps another one is left out."""
    found: list[tuple[str, tuple[int, int]]] = []
    for name, value in listing.values.items():
        start = -1 if value is None else listing.title.find(value)
        end = start + len(value or "")
        if start >= 0 and all(end <= left or right <= start for _, (left, right) in found):
            found.append((name, (start, end)))
    return sorted(found, key=lambda place: -place[1][0])


def _another(value: str, category: str, name: str, pools: Pools, random: Random) -> str | None:
    """The value that replaces this one; None cuts it out."""
    roll = random.random()
    if roll < _CUT:
        return None
    pool = pools[category, name]
    if roll < _CUT + _EXCHANGED:
        is_name = name.casefold().startswith(("brand", "model", "sub")) or len(set(pool)) > _NAMED * len(pool) > 20
        return _invented(random) if is_name and random.random() < _INVENTED else random.choice(pool)
    if random.random() < _SHAKEN:
        return re.sub(r"\d", lambda _: str(random.randint(1, 9)), value)
    return value


def _invented(random: Random) -> str:
    names = load_names()
    return random.choice((names.brand, names.brand, names.series, names.word))(random)


def _cut(title: str, start: int, end: int) -> str:
    before, behind = title[:start].rstrip(" ,-|("), title[end:].lstrip(" )")
    return (before + (" " if before and behind[:1] not in ",;" else "") + behind).strip(" ,-|") or title[start:end]


def _stranger(title: str, listing: Listing, pools: Pools, random: Random) -> str:
    """An attribute of another category, none of whose values stands in this title."""
    names = sorted({name for category, name in pools if category != listing.category} - set(listing.values))
    for name in random.sample(names, min(8, len(names))):
        known = (value for (_, other), values in pools.items() if other == name for value in values)
        if not any(value.casefold() in title.casefold() for value in known):
            return name
    return "Warranty"


def _pools(listings: Sequence[Listing]) -> Pools:
    """Every value as often as it is stated."""
    pools: dict[tuple[str, str], list[str]] = {}
    for listing in listings:
        for name, value in listing.values.items():
            if value is not None:
                pools.setdefault((listing.category, name), []).append(value)
            else:
                pools.setdefault((listing.category, name), [])
    return pools
