"""The made-up listings have the properties that training relies on."""

from __future__ import annotations

from itertools import islice

from recipes.pasta_mini.catalogue import Part, belongs
from recipes.pasta_mini.listings import make_listings


def test_every_stated_value_is_a_span_of_the_text() -> None:
    for listing in islice(make_listings(1, Part.TRAIN), 500):
        for value in listing.values.values():
            assert value is None or value in f"{listing.title}\n{listing.description}"


def test_a_listing_that_says_everything_in_its_description_still_has_a_title() -> None:
    for listing in islice(make_listings(9, Part.TRAIN), 20_000):
        assert listing.title.strip()


def test_about_half_of_what_is_asked_is_absent() -> None:
    answers = [value for listing in islice(make_listings(2, Part.TRAIN), 1000) for value in listing.values.values()]
    assert 0.4 < sum(value is None for value in answers) / len(answers) < 0.65


def test_brands_of_the_test_part_never_occur_in_training() -> None:
    def brands(part: Part) -> set[str]:
        listings = islice(make_listings(3, part), 2000)
        return {value for listing in listings if (value := listing.values.get("Brand")) is not None}

    train, test = brands(Part.TRAIN), brands(Part.TEST)
    assert len(train) > 500
    assert not train & test
    assert all(belongs(brand, Part.TEST) for brand in test)


def test_some_listings_say_it_in_the_description_only() -> None:
    listings = list(islice(make_listings(4, Part.TRAIN), 500))
    described = [
        listing
        for listing in listings
        if any(value and value not in listing.title for value in listing.values.values())
    ]
    assert 20 < len(described) < 250
