"""Variations of listings still state their values, and read like titles."""

from __future__ import annotations

from random import Random

import pytest

from recipes.pasta_mini.listings import Listing
from recipes.pasta_mini.real_listings import Mixer


def listing(brand: str, colour: str, size: str | None) -> Listing:
    title = f"{brand} Running Shoe, {colour}" + (f", {size}" if size else "")
    return Listing("Shoes", title, "", {"Brand": brand, "Color": colour, "Size": size})


REAL = [
    listing("Asics", "Red", "9 M US"), listing("Nike", "Light Blue", None), listing("Puma", "Black/White", "41 EU"),
    Listing("Tea", "Lipton Green Tea, 20 Bags", "", {"Brand": "Lipton", "Flavor": "Green Tea", "Warranty": None}),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_every_attribute_is_stated_or_null(seed: int) -> None:
    mixer, random = Mixer(REAL), Random(seed)
    for _ in range(10):
        drawn = mixer.draw(random)
        assert drawn.values
        assert drawn.title.strip() == drawn.title != ""
        assert all(value is None or value in drawn.title for value in drawn.values.values())
        assert "  " not in drawn.title


def test_values_change_places_names_are_invented_and_strangers_are_null() -> None:
    mixer, random = Mixer(REAL), Random(7)
    drawn = [mixer.draw(random) for _ in range(600)]
    shoes = [one for one in drawn if one.category == "Shoes"]
    assert {"Asics", "Nike", "Puma"} < {one.values["Brand"] for one in shoes if one.values.get("Brand")}
    assert any(one.title.startswith("Asics") and "Light Blue" in one.title for one in shoes)
    assert any(one.values.get("Size") not in (None, "9 M US", "41 EU") for one in shoes), "digits change"
    assert any(one.values.get("Flavor", "") is None for one in shoes), "tea has a flavor, a shoe does not"
    assert any("Color" in one.values and one.values["Color"] is None for one in shoes), "a value was cut out"
