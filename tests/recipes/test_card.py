"""The model card repeats the scores next to the weights."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pastalang.training.errors import BadData
from pastalang.training.metrics import Example, evaluate
from recipes.pasta_mini.card import Facts, Source, write_card
from tests.oracle.toy_models import toy_model

RIGHT = Example("tv", {"brand": ["Sony"], "colour": ["n/a"]}, {"brand": "Sony", "colour": "red"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pasta-mini"
    toy_model(vocabulary=320).save_pretrained(folder)
    scores = {"oa-mine, held out": asdict(evaluate([RIGHT]))}
    (folder / "scores.json").write_text(json.dumps({"sizes": {"seed": 7, "rows": 8}, "hours": 4.25, "scores": scores}))
    return folder


def test_the_figures_are_those_of_the_scores(folder: Path) -> None:
    decoded = {**asdict(evaluate([RIGHT])), "mode": "strict", "passes_per_document": 9.25}
    facts = Facts("python -m recipe", (Source("tales", "public domain", "language"),), (decoded,), "In two runs.")
    card = write_card(folder, facts).read_text("utf-8")
    assert card.startswith("---\nlicense: apache-2.0\n")
    assert "# pasta-mini" in card
    assert "| oa-mine, held out | 1 | 66.7 | 50.0 | 100.0 | 66.7 | 100.0 % | 50.0 % |" in card
    assert "| strict | 1 | 66.7 | 66.7 | 100.0 % | 0.0 % | 9.2 |" in card
    assert "| tales | public domain | language |" in card
    assert "accept several\nspellings of some values" in card
    assert "$ python -m recipe" in card
    assert "Seed 7; rows 8." in card
    assert "In two runs.\n\nTraining took 4.2 hours" in card
    assert "2 layers of\n32, a vocabulary of 320" in card


def test_scores_that_cannot_be_read_are_reported(folder: Path) -> None:
    (folder / "scores.json").write_text('{"sizes": {}}')
    with pytest.raises(BadData, match="does not hold the scores of a recipe"):
        write_card(folder, Facts("x"))
    (folder / "scores.json").unlink()
    with pytest.raises(BadData, match="could not be read"):
        write_card(folder, Facts("x"))
