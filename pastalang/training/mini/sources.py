"""What pasta-mini is made from: files and the made-up listings come in, listings by part and texts go out."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pastalang.training.answer import spell_json
from pastalang.training.data import read_rows
from pastalang.training.errors import BadData, BadRow
from pastalang.training.synthetic.listing import Listing, make_listings
from pastalang.training.synthetic.pools import Part


@dataclass(frozen=True, slots=True)
class Split:
    train: tuple[Listing, ...]
    held_out: tuple[Listing, ...]


def read_oa_mine(path: Path, *, seed: int = 0) -> Split:
    """Listings of OA-Mine; one title in ten, chosen by its own hash, is held out.

    Every attribute that the training part knows of a category is asked for: what a title does not state is null.
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


def made_up(count: int, *, seed: int, part: Part = Part.TRAIN) -> list[Listing]:
    return list(islice(make_listings(seed, part), count))


def read_texts(paths: Sequence[Path]) -> list[str]:
    """Plain texts, gzip or not; of `.jsonl` files the `text` of every row."""
    texts = []
    for path in paths:
        try:
            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            text = raw.decode("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise BadData(f"{path} could not be read: {problem}") from problem
        is_rows = ".jsonl" in path.suffixes
        texts += [json.loads(line)["text"] for line in text.splitlines()] if is_rows else [text]
    return texts


def as_text(listing: Listing) -> str:
    """A listing with its answer, as a text to learn the tokens and the look of the thing from."""
    fields = ",\n  ".join(f"{spell_json(name)}: {spell_json(value)}" for name, value in listing.values.items())
    return f"Title: {listing.title}\n{listing.description}\n{{\n  {fields}\n}}"


def _title(origin: str, row: Mapping[str, object]) -> str:
    if not isinstance(row.get("input"), str) or not isinstance(row.get("target_scores"), dict):
        raise BadRow("has no `input` and `target_scores`: this is no row of OA-Mine", origin=origin)
    return str(row["input"])


def _stated(row: Mapping[str, object]) -> dict[str, str]:
    scores = row["target_scores"]
    assert isinstance(scores, dict)
    return {name: next(iter(values)) for name, values in scores.items() if "n/a" not in values}


def _listing(title: str, row: Mapping[str, object], known: Mapping[str, Mapping[str, None]]) -> Listing:
    stated = _stated(row)
    category = str(row["category"])
    return Listing(category, title, "", {name: stated.get(name) for name in known.get(category, stated)})
