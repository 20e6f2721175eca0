"""Made-up documents state what their programs ask for, and what is kept for tests never occurs in training."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

from pastalang import Mode
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.training.answer import answer_of
from pastalang.values.json import JsonValue
from recipes.pasta_mini import documents as docs
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import TEXT, Document, Form, draw_document, draw_form, load_kinds, slot_id
from recipes.pasta_mini.facts import make_fact


def drawn(count: int, part: Part = Part.TRAIN) -> Iterator[tuple[Form, Document]]:
    random = Random(f"test/{part.value}")
    for _ in range(count):
        form = draw_form(random, part)
        yield form, draw_document(form, random, part)


def leaves(value: JsonValue) -> Iterator[JsonValue]:
    match value:
        case dict():
            for item in value.values():
                yield from leaves(item)
        case list():
            for item in value:
                yield from leaves(item)
        case _:
            yield value


def test_every_text_that_is_asked_for_stands_in_its_document_and_every_answer_fits() -> None:
    kinds = set()
    for form, document in drawn(800):
        body = form.program.only_template.messages[-1].body
        assert isinstance(body, JsonBody)
        assert isinstance(body.type, t.Object)
        [lesson] = docs.lessons_about(form, Random(1), Part.TRAIN, count=1, origin="x")
        plan = lesson.plan(Mode.STRICT)
        answer_of(plan, dict(document.value), {TEXT: document.text})
        for question in form.questions:
            inside = document.value[form.inner[0]] if form.inner and question.key in form.inner[1] else document.value
            assert isinstance(inside, dict)
            if question.as_text and inside[question.key] is not None:
                assert str(inside[question.key]) in document.text
        kinds.add(form.kind)
    assert len(kinds) > 90


def test_the_first_of_two_dates_is_the_earlier_one() -> None:
    found = 0
    for form, document in drawn(600):
        dates = {
            slot_id(question.slot): str(document.value[question.key])
            for question in form.questions
            if document.value.get(question.key) and question.type == t.Temporal(t.Moment.DATE)
        }
        for earlier, later in form.ordered:
            if earlier in dates and later in dates:
                assert dates[earlier] <= dates[later]
                found += 1
    assert found > 5


def test_about_a_third_of_what_is_asked_is_absent() -> None:
    values = [value for _, document in drawn(120) for value in leaves(dict(document.value))]
    assert 0.15 < sum(value is None for value in values) / len(values) < 0.45


def test_values_of_tests_never_occur_in_training() -> None:
    def people(part: Part) -> set[JsonValue]:
        return {
            document.value.get(question.key)
            for form, document in drawn(120, part)
            for question in form.questions
            if question.slot["pool"] == "person" and question.as_text
        } - {None}

    assert len(people(Part.TRAIN)) > 10
    assert not people(Part.TRAIN) & people(Part.TEST)


def test_texts_of_training_are_often_changed_so_that_nothing_is_gained_by_remembering_them() -> None:
    def cities(part: Part) -> list[str]:
        random = Random(f"cities/{part.value}")
        return [make_fact({"pool": "city"}, docs.load_pools(), random, part).printed.casefold() for _ in range(300)]

    known = {docs.load_pools()["city"](Random(seed)).casefold() for seed in range(4000)}
    changed = {part: sum(city not in known for city in cities(part)) / 300 for part in Part}
    assert 0.2 < changed[Part.TRAIN] < 0.4
    assert changed[Part.TEST] == 0


OPAQUE = re.compile(r"(field|value|x|item|entry|f|key|col)[_ ]?\d+", re.IGNORECASE)


def spellings(texts: Iterable[str]) -> list[str]:
    return ["".join(filter(str.isalnum, text.casefold())) for text in texts]


def trained(way: str) -> tuple[set[str], set[str]]:
    """Wordings of training, and those that are kept for tests."""
    all_ways = [spellings(slot.get(way, ())) for kind in load_kinds() for slot in kind["slots"]]
    kept = {ways[-1] for ways in all_ways if len(ways) > 1}
    return {text for ways in all_ways for text in (ways[:-1] or ways)}, kept


@pytest.mark.parametrize("way", ["names", "about", "say"])
def test_wordings_of_tests_never_occur_in_training(way: str) -> None:
    """Not even for another field: the last of several is for tests."""
    learned, kept = trained(way)
    assert not learned & kept


@pytest.mark.parametrize("way", ["names", "about"])
def test_programs_use_the_wordings_of_their_part(way: str) -> None:
    learned, kept = trained(way)
    for part, known in (Part.TRAIN, learned), (Part.TEST, kept | learned):
        asked = [question for form, _ in drawn(100, part) for question in form.questions if form.kind != "form"]
        names = [question.key for question in asked if not OPAQUE.fullmatch(question.key)]
        given = {*spellings(names if way == "names" else [one.about for one in asked if one.about])}
        assert given <= known
        assert (len(given & kept) > 20) is (part is Part.TEST)


def test_a_name_that_says_nothing_has_a_description() -> None:
    asked = [question for form, _ in drawn(300, Part.TRAIN) for question in form.questions]
    opaque = [question for question in asked if OPAQUE.fullmatch(question.key)]
    assert len(opaque) > 30
    assert all(question.about for question in opaque)


@pytest.mark.parametrize("kind", load_kinds(), ids=lambda kind: kind["name"])
def test_what_a_field_is_called_tells_it_from_the_others_of_its_kind(kind: Mapping[str, Any]) -> None:
    for ways in (("names", "labels"), ("about",), ("say",)):
        called = [{text for way in ways for text in spellings(slot.get(way, ()))} for slot in kind["slots"]]
        counted = Counter(text for texts in called for text in texts)
        assert [text for text, count in counted.items() if count > 1] == []
