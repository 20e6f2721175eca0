"""The scores, counted by hand."""

from __future__ import annotations

import pytest

from pastalang.training.metrics import Counts, Example, Outcome, evaluate, example_of, judge


def example(expected: dict[str, list[str]], predicted: dict[str, str | None] | None) -> Example:
    return Example("Tea", expected, predicted)


@pytest.mark.parametrize(
    ("accepted", "predicted", "outcome"),
    [
        (["n/a"], None, Outcome.ABSENT_LEFT_EMPTY),
        (["n/a"], "n/a", Outcome.ABSENT_LEFT_EMPTY),
        (["n/a"], "green", Outcome.ABSENT_BUT_FILLED),
        (["green"], None, Outcome.PRESENT_LEFT_EMPTY),
        (["green"], "None", Outcome.PRESENT_LEFT_EMPTY),
        (["green "], "green", Outcome.PRESENT_CORRECT),
        (["green "], "green ", Outcome.PRESENT_CORRECT),
        (["green", "Green tea"], "Green tea", Outcome.PRESENT_CORRECT),
        (["green"], "Green", Outcome.PRESENT_WRONG),
        (["green"], "green ", Outcome.PRESENT_WRONG),
        (["green"], "", Outcome.PRESENT_WRONG),
    ],
)
def test_every_outcome_of_an_attribute(accepted: list[str], predicted: str | None, outcome: Outcome) -> None:
    assert judge(example({"Color": accepted}, {"Color": predicted}), "Color") is outcome


def test_in_json_null_alone_is_no_value() -> None:
    given = [({"a": "None"}, {"a": "None"}), ({"a": "n/a"}, {"a": None}), ({"a": None}, {"a": "n/a"})]
    found = evaluate([example_of(*one) for one in given]).strict
    assert found == Counts(present_correct=1, present_left_empty=1, absent_but_filled=1)


def test_an_answer_that_cannot_be_parsed_counts_as_empty() -> None:
    report = evaluate([example({"Color": ["green"]}, None), example({"Color": ["red"]}, {"Color": "red"})])
    assert report.unparseable_rate == 50.0
    assert report.reported == Counts(present_left_empty=1, present_correct=1)


def test_f1_is_formed_from_rounded_precision_and_recall() -> None:
    counts = Counts(absent_but_filled=1, present_left_empty=2, present_correct=3, present_wrong=3)
    assert (counts.precision, counts.recall, counts.f1) == (42.86, 37.5, 40.0)


def test_inventing_an_attribute_that_is_not_listed_costs_only_in_the_strict_count() -> None:
    listing = example({"Brand": ["Numi"]}, {"Brand": "Numi", "Flavor": "mint"})
    report = evaluate([listing, example({"Flavor": ["mint"]}, {"Brand": None, "Flavor": "mint"})])
    assert report.reported.f1 == 100.0
    assert report.strict.absent_but_filled == 1
    assert report.strict.hallucination_rate == 50.0


def test_normalising_forgives_case_and_outer_space_only() -> None:
    report = evaluate([example({"Color": ["Mid-Blue"], "Size": ["8 M"]}, {"Color": " mid-blue ", "Size": "8M"})])
    assert report.normalised == Counts(present_correct=1, present_wrong=1)


def test_the_macro_score_is_the_mean_over_cells_that_say_something() -> None:
    report = evaluate(
        [
            example({"Brand": ["Numi"], "Cap": ["n/a"]}, {"Brand": "Numi", "Cap": None}),
            example({"Color": ["red"]}, {"Color": "blue"}),
        ]
    )
    assert report.macro_f1 == 50.0
