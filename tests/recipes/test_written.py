"""Documents written by hand: what is asked about them, what is changed in them, and files that are not right."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from transformers import AutoTokenizer

from pastalang.plan.branches import Mode
from pastalang.runtime.models.source import WEIGHTS
from pastalang.training.errors import BadData, BadRow
from pastalang.training.recording import Recorder
from recipes.smollm2.scores import written_lessons
from recipes.smollm2.written import lessons_of, problems_of, read_records, read_written

SHOP = """=== a receipt
shop: string "who sold it"  # store; the seller
paid: number
>>>
Bought at Tamsin & Rowe for 12.40 on order 20417755.
>>> {"shop": "Tamsin & Rowe", "paid": 12.40}
"""


def test_every_document_can_be_taught_and_answers_stay_in_texts_that_are_changed() -> None:
    records = read_written()
    kinds = [record.kind for record in records]
    assert len(set(kinds)) == len(kinds) > 200 and 0.05 < sum(one.is_held_out for one in records) / len(kinds) < 0.12
    assert {one.kind for one in read_written("home,trade")} < set(kinds)
    held, others = (written_lessons(20, held_out=either) for either in (True, False))
    assert {one.origin for one in held} <= {one.kind for one in records if one.is_held_out} and len(held) == 20
    assert not {one.origin for one in held} & {one.origin for one in others} and len(others) == 20
    with pytest.raises(BadData, match="no written documents called `nowhere`"):
        read_written("nowhere")
    recorder = Recorder(AutoTokenizer.from_pretrained(WEIGHTS / "pasta-mini"))
    random, taught = Random(0), 0
    lessons = [one for record in random.sample(records, 12) for one in lessons_of(record, random, shown=1)]
    for lesson in lessons:
        with suppress(BadRow):  # a span that is glued to its neighbour
            taught += bool(recorder.row(lesson, Mode.STRICT).taught)
    assert taught > 0.95 * len(lessons)
    said = [one for record in records[::60] for one in problems_of(record, recorder, 700)]
    assert all("not always a fault" in one for one in said)


def test_names_and_numbers_are_exchanged_in_text_and_answer_alike(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(SHOP, encoding="utf-8")
    [record] = read_records(tmp_path / "a.txt")
    random = Random(0)
    found = [(lesson.inputs["text"], dict(lesson.value)) for _ in range(40) for lesson in lessons_of(record, random)]
    shops = {(text, shop) for text, value in found for shop in value.values() if isinstance(shop, str)}
    assert len(shops) > 5 and all(shop in text for text, shop in shops)
    assert {"shop", "Store"} <= {key for _, value in found for key in value}


@pytest.mark.parametrize(
    "old, new", [("shop: string", "shop: text"), (">>> {", ""), ('"paid"', '"price"'), (" 12.40}", "}")]
)
def test_a_record_that_is_wrong_is_named(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(SHOP.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match="receipt: "):
        [*read_records(tmp_path / "a.txt")]
