"""Which of two values of an unsure field stays, what is reported of it, and which fields an objection is about."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, model_validator

import pastalang
from pastalang import Done, Engine, FieldAgain, Mode, Sampling
from pastalang.runtime.repair.validation import validate, validator_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model, uniform_model
from tests.properties.test_events import told_in_the_end

PROGRAM = pastalang.compile('template t()\nuser """\nGo.\n"""\nassistant json { a: integer(0..9) }\n')
WARM = Sampling(temperature=1.0)


def engine() -> Engine:
    return Engine(uniform_model(320), byte_tokenizer())


@pytest.mark.parametrize("seed", range(4))
def test_a_value_stays_if_the_next_one_is_only_as_probable(seed: int) -> None:
    before = engine().run(PROGRAM, {}, seed=seed, sampling=WARM)
    events = list(engine().stream(PROGRAM, {}, seed=seed, sampling=WARM, retry_below=0.9))
    assert [event.reason for event in events if isinstance(event, FieldAgain)] == ["unsure", "it stays as it was"]
    after = engine().run(PROGRAM, {}, seed=seed, sampling=WARM, retry_below=0.9)
    assert after.value == before.value
    assert after.usage.attempts == 1


ROWS = pastalang.compile(
    'template t()\nuser """go"""\nassistant json {\n'
    "  rows: [{ a: string(max=3), b: integer(0..99), c: string(max=3) after a }](1..3)\n}\n"
)


@pytest.mark.parametrize("mode", Mode)
def test_values_that_come_back_with_the_one_that_stays_are_reported_again(mode: Mode) -> None:
    """With an item, all that follows in its list is decoded again, and comes back with it."""
    stayed = 0
    for seed in range(12):
        runner = Engine(hashed_model(320, seed=seed), byte_tokenizer(), prefix_cells=0)
        for threshold in (0.3, 0.9):
            options = {"mode": mode, "seed": seed, "sampling": WARM, "retry_below": threshold}
            events = list(runner.stream(ROWS, {}, **options))  # type: ignore[arg-type]
            last = events[-1]
            assert isinstance(last, Done)
            stayed += sum(isinstance(event, FieldAgain) and "stays" in event.reason for event in events)
            known = told_in_the_end(events)
            for field in last.result.fields:
                assert known[field.path, field.items] == field.text
    assert stayed


class Product(BaseModel):
    brand: str
    price: int
    words: list[str]

    @model_validator(mode="after")
    def has_no_brand_of_these(self) -> Product:
        if any(self.brand == other for other in ("Sharp", "Sony")):
            raise ValueError("another brand")
        return self


def test_what_a_validator_reads_inside_an_expression_is_what_it_objects_to() -> None:
    _, [objection] = validate(validator_of(Product), {"brand": "Sony", "price": 3, "words": []})
    assert "brand" in objection.fields
    assert not {"price", "words"} & set(objection.fields)
