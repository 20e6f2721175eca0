"""The answers that the adapters `apar` and `pasta` learned from, the rows that become of them, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pastalang import Mode, compile
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.training.batches import collate
from pastalang.training.bonbon import log_probabilities
from pastalang.training.recording import Lesson, Recorder, planner
from recipes import likelihood
from recipes.smollm2 import lists
from tests.oracle.toy_models import toy_model


def test_rows_are_answers_of_which_a_quarter_is_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["lists", "--out", str(tmp_path)])
    lists.main()
    train, test = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("train", "test")
    )
    prompts = {row["prompt"] for row in [*train, *test]}
    assert len(prompts) == len(train) + len(test) and all(row["prompt"] and row["value"] for row in [*train, *test])
    assert 0.2 < len(test) / len(prompts) < 0.3


def test_a_last_part_without_anything_after_it_has_no_tag_and_topics_have_two_words() -> None:
    one = '<promise topic="Old red brick" tokens="10"/><async>One.</async>'
    assert lists.shortened(f"1. {one}\n2. {one}") == f"1. {one.replace(' brick', '')}\n2. One."
    assert lists.shortened(f"{one}\n{one}\n<sync/>End.").count("<async>") == 2


def test_what_the_parts_of_a_row_cost_is_what_the_row_costs() -> None:
    plan = planner(compile('template t(p: text)\nuser """{p}"""\nassistant auto(pasta, max=99)'))
    value = 'A <promise topic="Old b" tokens="10"/><async>Old brick</async>\n<sync/>End.'
    row = Recorder(byte_tokenizer()).row(Lesson(plan, {"p": "x"}, value, "1"), Mode.STRICT, with_writers=True)
    model = toy_model(vocabulary=320)
    found = likelihood.costs(model, byte_tokenizer(), row)
    assert found.pop("tokens") == len("A Old brick\nEnd.") and set(found) == {"text", "topics", "tags"}
    assert sum(found.values()) == pytest.approx(-log_probabilities(model, collate([[row]], len(row))).item(), rel=1e-4)
