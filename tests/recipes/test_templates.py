"""Templates print what is stated, and nothing of what is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from random import Random
from typing import Any

import pytest

from pastalang.program import types as t
from pastalang.values.quotes import is_quotation
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import AS_TEXT, load_kinds, load_pools, slot_id
from recipes.pasta_mini.facts import Fact, make_fact, type_of
from recipes.pasta_mini.templates import read_template


def filled(template: str, seed: int = 0, **stated: str) -> str:
    facts = {name.replace("_", " "): Fact(value, value) for name, value in stated.items()}
    return read_template(template).fill(facts, Random(seed))[0]


@pytest.mark.parametrize(
    ("template", "stated", "text"),
    [
        ("{name}!", {"name": "Ada"}, "Ada!"),
        ("{name}{due date| until {}}.", {"name": "Ada", "due_date": "May"}, "Ada until May."),
        ("{name}{due date| until {}}.", {"name": "Ada"}, "Ada."),
        ("a\n{due date|until {}}\nb", {}, "a\nb"),
        ("a\n\n{name}", {"name": "Ada"}, "a\n\nAda"),
        ("{due date|{}}, {name}", {"name": "Ada"}, "Ada"),
        ("{job|{}{firm| at {}}}", {"job": "cook", "firm": "Bo"}, "cook at Bo"),
        ("x{job|{}{firm| at {}}}", {"firm": "Bo"}, "x"),
        ("x{job|{} of {firm}}", {"job": "cook"}, "x"),
        ("a | b {name| | {}}", {"name": "Ada"}, "a | b  | Ada"),
        ("{|only}", {}, "only"),
    ],
)
def test_a_text_goes_with_what_it_is_about(template: str, stated: Mapping[str, str], text: str) -> None:
    assert filled(template, **stated) == text


def test_names_inside_of_an_empty_place_are_not_stated() -> None:
    template = read_template("{who} {job|{}{firm| at {}}}{|, {city}|}")
    assert (template.required, template.optional) == ({"who", "city"}, {"job", "firm"})
    facts = {name: Fact(name, name) for name in ("who", "firm", "city")}
    assert "firm" not in template.fill(facts, Random(0))[1]
    assert {template.fill(facts, Random(seed))[1] for seed in range(9)} == {
        frozenset({"who"}),
        frozenset({"who", "city"}),
    }


def test_a_list_is_printed_line_by_line_in_one_way() -> None:
    fact = Fact("tea; rice; salt", ["tea", "rice", "salt"], is_span=False, lines=("tea", "rice", "salt"))
    template = read_template("{things*|{|-|+} {}\n}end")
    texts = {template.fill({"things": fact}, Random(seed))[0] for seed in range(9)}
    assert texts == {"- tea\n- rice\n- salt\nend", "+ tea\n+ rice\n+ salt\nend"}


def test_choices_and_digits_follow_the_seed() -> None:
    texts = [filled("{|{#3}|b|}", seed) for seed in range(40)]
    assert texts == [filled("{|{#3}|b|}", seed) for seed in range(40)]
    assert {"b", ""} < set(texts) and all(len(text) == 3 and text.isdigit() for text in set(texts) - {"b", ""})


@pytest.mark.parametrize("kind", load_kinds(), ids=lambda kind: kind["name"])
def test_templates_name_what_their_kind_may_state(kind: Mapping[str, Any]) -> None:
    slots = {slot_id(slot) for slot in kind["slots"]}
    templates = [read_template(text) for text in kind["templates"]]
    assert len(templates) > 3, "the last one is for tests"
    for template in templates:
        assert template.names | set(template.fixed) <= slots
        assert not template.names & set(template.fixed)
        assert len(template.names) > 2


_BROKEN = re.compile(
    r" [.,;:)](?!\.)|(?<!\.)\.\.(?!\.)|\(\)|\([,. ]|^[,.;)]|[.!?] +(?:and|or|at|on) |, *[.,]|: *\Z", re.MULTILINE
)


@pytest.mark.parametrize("kind", load_kinds(), ids=lambda kind: kind["name"])
def test_a_template_reads_well_whatever_is_left_out(kind: Mapping[str, Any]) -> None:
    for text in kind["templates"]:
        template = read_template(text)
        for stated in (frozenset[str](), template.optional, *map(frozenset, combinations(template.optional, 1))):
            facts = {name: Fact("Xy", "Xy", lines=("Xy", "Xy")) for name in template.required | stated}
            for seed in range(4):
                found = template.fill(facts, Random(seed))[0]
                assert not _BROKEN.search(found), found


@pytest.mark.parametrize("kind", load_kinds(), ids=lambda kind: kind["name"])
def test_texts_can_be_quoted_from_a_template_unless_it_is_glued(kind: Mapping[str, Any]) -> None:
    random = Random(kind["name"])
    slots = {slot_id(slot): slot for slot in kind["slots"] if type_of(slot) == t.String() or slot["pool"] in AS_TEXT}
    for template in filter(lambda one: not one.is_glued, map(read_template, kind["templates"])):
        facts = {slot_id(slot): Fact("7", "7", lines=("7",)) for slot in kind["slots"]}
        facts |= {name: make_fact(slot, load_pools(), random, Part.TRAIN) for name, slot in slots.items()}
        text, printed = template.fill(facts, random)
        for name in printed & slots.keys():
            if facts[name].printed in text:
                assert is_quotation(facts[name].printed, text, t.QuoteUnit.WORDS), (name, text)


def test_what_a_template_says_in_its_own_words_is_not_printed() -> None:
    template = read_template("We did not get {amount}.{=paid:false}")
    assert (template.fixed, template.names) == ({"paid": False}, {"amount"})
    assert filled("We did not get {amount}.{=paid:false}", amount="9") == "We did not get 9."


def test_what_is_fixed_holds_for_the_whole_text() -> None:
    with pytest.raises(AssertionError, match="stands inside of a place"):
        read_template("We did not get {amount|{=paid:false}{}}.")


def test_values_that_are_one_word_with_what_they_touch_are_known() -> None:
    for text in ("FN:{name}", "{date};{time};x", "{name}{date|,{}},{time}", "{name}'s {city}", "{logger}.log"):
        assert read_template(text).is_glued
    assert not read_template('FN: {name}, {city| in {}}: {date}; "{time}"').is_glued
