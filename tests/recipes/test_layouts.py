"""Documents state the same facts in many looks, and those of tests never occur in training."""

from __future__ import annotations

from random import Random

import pytest

from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.layouts import Entry, draw_look, lay_out

ENTRIES = [
    Entry("Due date", "3 May 2026", (), "Please pay by 3 May 2026."),
    Entry("Total", "$12.50", (), None),
    Entry("Items", "tea; salt", ("tea", "salt"), None),
]


def looks(part: Part) -> set[str]:
    random = Random(part.value)
    return {draw_look(random, part)("Due date", "3 May 2026") for _ in range(4000)}


def test_looks_of_tests_never_occur_in_training() -> None:
    assert len(looks(Part.TRAIN)) > 500
    assert not looks(Part.TRAIN) & looks(Part.TEST)


@pytest.mark.parametrize("part", Part)
def test_whatever_the_look_every_value_stands_in_the_document(part: Part) -> None:
    random = Random(1)
    for _ in range(300):
        text = lay_out("Invoice", ENTRIES, random, part)
        assert "3 May 2026" in text and "$12.50" in text
        assert "tea" in text and "salt" in text
