"""The model of the package extracts, in every mode, from texts it has never seen."""

from __future__ import annotations

import json
from functools import cache

import pytest
import torch

from benchmarks.everyday import measure, read_documents
from pastalang import Engine, Mode
from pastalang.runtime.models.source import shipped_folder
from pastalang.training.metrics import Example, Report, evaluate
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.lessons import extraction_program
from recipes.pasta_mini.listings import made_up

LISTINGS = [one for one in made_up(20, seed=21, part=Part.TEST) if not one.description][:10]


@cache
def engine() -> Engine:
    return Engine.load("pasta-mini", device="cpu", dtype=torch.float32)


@cache
def report(mode: Mode) -> Report:
    examples = []
    for listing in LISTINGS:
        program = extraction_program(tuple(listing.values), limit=24, order="Extract.", is_quoted=True)
        found = engine().run(program, {"title": listing.title}, mode=mode)
        assert all(value is None or value in listing.title for value in found.value.values())
        longest = max(len(field.tokens) for field in found.fields)
        if mode is Mode.STRICT:
            assert found.usage.critical_path <= longest + 2
            assert found.usage.forward_passes < found.usage.output_tokens
        expected = {name: ["n/a" if value is None else value] for name, value in listing.values.items()}
        examples.append(Example(listing.category, expected, found.value))
    return evaluate(examples)


@pytest.mark.parametrize("mode", Mode)
def test_most_values_of_listings_that_were_never_seen_are_found(mode: Mode) -> None:
    assert report(mode).reported.f1 > 50
    assert report(mode).strict.hallucination_rate < 20


def test_values_that_are_written_at_once_are_as_good_as_those_in_turn() -> None:
    assert report(Mode.STRICT).reported.f1 > report(Mode.SEQUENTIAL).reported.f1 - 8


@pytest.mark.parametrize("verbatim", [False, True])
def test_most_fields_of_documents_that_were_written_by_hand_are_right(verbatim: bool) -> None:
    documents = read_documents(verbatim=verbatim)
    assert len(measure(engine(), documents, Mode.STRICT)) < 0.45 * sum(len(document.value) for document in documents)


def test_the_scores_that_it_came_with_are_those_of_its_card() -> None:
    folder = shipped_folder("pasta-mini")
    assert folder is not None
    counts = json.loads((folder / "scores.json").read_text())["scores"]["oa-mine, held out"]["reported"]
    right, wrong = counts["present_correct"], counts["present_wrong"]
    given, present = right + wrong + counts["absent_but_filled"], right + wrong + counts["present_left_empty"]
    f1 = 200 * right / (given + present)
    assert f1 > 60
    assert f"| {f1:.1f} |" in (folder / "README.md").read_text(encoding="utf-8")
    assert (folder / "model.safetensors").stat().st_size < 24 << 20
