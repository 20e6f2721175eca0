"""Answers compared with those from left to right: what is counted, and which `after` is advised."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel

import pastalang
from pastalang import Engine
from pastalang.bulk.compare import ITEM, Comparison, FieldAgreement, _places, compare
from pastalang.bulk.rows import task_of_type
from pastalang.errors import BadInputs
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel


class Price(BaseModel):
    shop: Literal["a", "b"]
    country: Literal["de", "us"]
    currency: Literal["eur", "usd"]


class Shop(BaseModel):
    where: Price
    open: bool


def engine() -> Engine:
    """Knows the country from the text, and the currency only from the country that it has written."""
    tokenizer = byte_tokenizer()

    def score(fed: FedToken) -> list[float]:
        seen = tokenizer.decode([one.token for one in sorted((*fed.sees, fed), key=lambda one: one.position)])
        answer = seen.partition("Assistant:")[2]
        likes = "de" if "Berlin" in seen and '"currency"' not in answer else "eur" if '"de"' in answer else "us"
        logits = [0.0] * 320
        for letter in likes:
            logits[tokenizer.convert_tokens_to_ids(letter)] = 9.0
        return logits

    return Engine(FakeModel(score, vocabulary=320), tokenizer)


DOCUMENTS = ["Berlin", "Boston", {"id": "B3", "text": "Berlin again"}, {"id": "C4", "text": ""}]


def by_name(found: Comparison) -> dict[str, FieldAgreement]:
    return {one.field: one for one in found.fields}


def test_the_field_that_explains_a_difference_is_found_by_trying() -> None:
    found = compare(engine(), task_of_type(Price), DOCUMENTS, in_flight=4)
    assert (found.documents, found.failed, found.same) == (3, 1, 1)
    fields = by_name(found)
    assert [(one.same, one.of) for one in fields.values()] == [(3, 3), (3, 3), (1, 3)]
    currency = fields["currency"]
    assert [(one.document, one.parallel, one.sequential) for one in currency.examples] == [
        ("document 0", '"usd"', '"eur"'), ("B3", '"usd"', '"eur"'),
    ]  # fmt: skip
    assert currency.advice is not None
    assert (currency.advice.after, currency.advice.fixes, currency.advice.tried) == ("currency after country", 2, 2)
    assert found.notes == () and Comparison.of_data(json.loads(json.dumps(found.as_data()))) == found


def test_a_field_of_an_object_inside_is_mended_where_it_stands() -> None:
    found = by_name(compare(engine(), task_of_type(Shop), ["Berlin", "Boston"], in_flight=2))
    assert set(found) == {"where.shop", "where.country", "where.currency", "open"}
    advice = found["where.currency"].advice
    assert advice is not None and advice.after == "where.currency after country"


def test_a_program_that_waits_already_agrees_with_left_to_right() -> None:
    class Waits(BaseModel):
        country: Literal["de", "us"]
        currency: Annotated[Literal["eur", "usd"], pastalang.After("country")]

    found = compare(engine(), task_of_type(Waits), ["Berlin", "Boston"], in_flight=2)
    assert found.same == 2 and all(one.advice is None for one in found.fields)


def test_notes_say_what_else_may_explain_a_difference() -> None:
    task = task_of_type(Price, options={"sampling": pastalang.Sampling(temperature=1.0)})
    assert compare(engine(), task, ["Boston"], in_flight=1).notes == (
        "values are sampled, with other chances in each mode: a part of the differences is chance",
    )
    with pytest.raises(BadInputs, match="a comparison is with the mode sequential"):
        compare(engine(), task_of_type(Price, options={"mode": "sequential"}), ["a"], in_flight=1)


def test_what_only_one_answer_has_counts_for_what_holds_it() -> None:
    one = {"lines": [{"a": 1}, {"a": 2}], "to": {"city": "x"}, "n": True}
    other = {"lines": [{"a": 1}], "to": None, "n": 1}
    assert [(path, same) for path, _, _, same in _places((), one, other)] == [
        ((), True),
        (("lines",), False),
        (("lines", ITEM), True),
        (("lines", ITEM, "a"), True),
        (("to",), False),
        (("n",), False),
    ]
