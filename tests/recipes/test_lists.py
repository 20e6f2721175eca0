"""The answers that the adapter `apar` learned from, and the rows that become of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipes.smollm2 import lists


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
