"""Made-up documents state what their programs ask for, and what is kept for tests never occurs in training."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from pastalang.plan.plan import Mode
from pastalang.program import types as t
from pastalang.program.program import JsonBody
from pastalang.training.answer import answer_of
from pastalang.values.json import JsonValue
from recipes.pasta_mini import documents as docs
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import TEXT, Document, Form, draw_document, draw_form, load_kinds
from recipes.pasta_mini.lessons import document_lessons


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
    for form, document in drawn(200):
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
    assert kinds == {*(kind["name"] for kind in load_kinds()), "form"}


def test_about_a_third_of_what_is_asked_is_absent() -> None:
    values = [value for _, document in drawn(120) for value in leaves(dict(document.value))]
    assert 0.15 < sum(value is None for value in values) / len(values) < 0.45


def test_names_and_values_of_tests_never_occur_in_training() -> None:
    def names(part: Part) -> set[str]:
        return {
            question.key.replace("_", " ").casefold()
            for form, _ in drawn(80, part)
            for question in form.questions
            if len(question.slot["names"]) > 1 and "_" in question.key
        }

    def people(part: Part) -> set[JsonValue]:
        return {
            document.value.get(question.key)
            for form, document in drawn(120, part)
            for question in form.questions
            if question.slot["pool"] == "person" and question.as_text
        } - {None}

    assert not names(Part.TRAIN) & {name for form, _ in drawn(30, Part.TEST) for name in _kept_names(form)}
    assert len(people(Part.TRAIN)) > 10
    assert not people(Part.TRAIN) & people(Part.TEST)


def _kept_names(form: Form) -> Iterator[str]:
    others = {name for kind in load_kinds() for slot in kind["slots"] for name in slot["names"][:-1]}
    return (slot["names"][-1] for slot in form.slots if len(slot["names"]) > 1 and slot["names"][-1] not in others)


@pytest.mark.parametrize("part", Part)
def test_the_same_seed_gives_the_same_lessons(part: Part) -> None:
    once, again = (document_lessons(8, seed=5, part=part) for _ in range(2))
    assert len({lesson.category for lesson in once}) == 8, "a field of another program is not an absent one"
    assert [(one.inputs, one.value) for one in once] == [(one.inputs, one.value) for one in again]
