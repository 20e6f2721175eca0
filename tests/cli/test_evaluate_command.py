"""`pasta evaluate` prints the scores, and says what is wrong with its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pastalang.cli.main import build_app

RIGHT = [{"value": {"brand": "Sony", "color": None, "size": {"width": 5}}, "category": "tv"}]


def run(*words: str) -> Result:
    return CliRunner().invoke(build_app({"evaluate"}), ["evaluate", *words])


def lines(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("value", "f1", "hallucinated", "unreadable"),
    [
        ({"brand": "Sony", "color": None, "size": {"width": 5}}, 100.0, 0.0, 0.0),
        ({"brand": "Sony", "color": "red", "size": {"width": 5}}, 80.0, 100.0, 0.0),
        (None, 0.0, 0.0, 100.0),
    ],
)
def test_it_prints_the_scores(value: Any, f1: float, hallucinated: float, unreadable: float, tmp_path: Path) -> None:
    files = lines(tmp_path / "right.jsonl", RIGHT), lines(tmp_path / "found.jsonl", [{"value": value}])
    found = json.loads(run(*files, "--json").stdout)
    assert found["reported"]["f1"] == pytest.approx(f1, abs=0.01)
    assert found["strict"]["hallucination_rate"] == hallucinated
    assert found["unparseable_rate"] == unreadable
    assert f"F1               {f1:.2f}" in run(*files).stdout


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    files = lines(tmp_path / "right.jsonl", RIGHT * 2), lines(tmp_path / "found.jsonl", RIGHT)
    result = run(*files)
    assert result.exit_code == 1
    assert "has 2 rows" in result.stderr


def test_a_row_without_a_value_is_told_with_its_line(tmp_path: Path) -> None:
    files = lines(tmp_path / "right.jsonl", [{"brand": "Sony"}]), lines(tmp_path / "found.jsonl", RIGHT)
    result = run(*files)
    assert result.exit_code == 1
    assert "right.jsonl:1: the key `value` has to hold an object" in result.stderr
