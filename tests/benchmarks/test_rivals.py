"""The harness of `make bench`: that it measures, checks answers and writes its page; no time is looked at."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks.rivals.__main__ import main
from benchmarks.rivals.figures import exponent_of, median_of
from benchmarks.rivals.goals import goals
from benchmarks.rivals.page import RECORD, Page, write_pages
from benchmarks.rivals.tasks import TASKS

ABOUT = dict.fromkeys(("processor", "python", "torch", "transformers", "day", "has_avx512"), "1") | {
    "model": "smollm2", "threads": 1, "load": 0.1,
}  # fmt: skip


def record_of(seconds: dict[str, float]) -> dict[str, Any]:
    answers = [
        {"task": "A", "side": side, "number": number, "is_first": number == 0, "memory": 5, "tokens": 40, "passes": 7,
         "fits": True, "right": 5, "known": 9} | dict.fromkeys(("wall", "processor"), one + number)
        for side, one in seconds.items() for number in range(4)
    ]  # fmt: skip
    return {"about": ABOUT, "answers": answers, "batches": [], "skipped": {}, "failed": []}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "images").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Name\n\n## Speed\n\nOld.\n\n## Quality\n\nKept.\n", encoding="utf-8")
    (tmp_path / "docs" / "index.md").write_text("<!-- speed -->\nOld.\n<!-- end of speed -->\n", encoding="utf-8")
    return tmp_path


def test_sides_are_measured_and_the_page_is_written(root: Path) -> None:
    python = root / "rivals" / "bin" / "python"  # the environment of the other sides is this one
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    record = root / "speed.json"
    main([
        "measure", "--model", "pasta-mini", "--minutes", "0.1", "--patience", "20", "--tasks", "C", "B", "--documents",
        "3", "--sides", "strict", "generate", "llama-q8", "--rivals", str(python.parents[1]), "--record", str(record),
        "--small",
    ])  # fmt: skip
    found = json.loads(record.read_text(encoding="utf-8"))
    assert [one["side"] for one in found["answers"] if one["task"] == "C"] == ["strict", "generate"] * 3
    ours = [one for one in found["answers"] if one["side"] == "strict"]
    assert all(one["fits"] and one["processor"] > 0 and one["passes"] > 0 for one in ours)
    assert not any(one["fits"] for one in found["answers"] if one["side"] == "generate")  # it is given no type
    assert {one["at_once"] for one in found["batches"]} == {4, 8}
    assert "make rivals" in found["skipped"]["llama-q8"] and found["failed"] == []
    write_pages(found, root)
    page = (root / "docs" / "speed.md").read_text(encoding="utf-8")
    assert all(part in page for part in ("## C: one document", "## B: many", "## Growth", "## Where the time goes"))
    assert {"speed-c.svg", "speed-by-fields.svg"} <= {path.name for path in (root / "docs" / "images").iterdir()}


@pytest.mark.parametrize("key", list(TASKS))
def test_the_right_answer_to_a_document_fits_its_type(key: str) -> None:
    for document in islice(TASKS[key].documents(), 6):
        jsonschema.Draft202012Validator.check_schema(document.schema)
        for name, value in (document.truth or {}).items() if key not in ("A=", "D") else ():  # of their length, none is
            jsonschema.validate(value, document.schema["properties"][name])


def test_goals_say_by_how_much_they_are_missed_and_readme_gets_the_table(root: Path) -> None:
    record = record_of({"strict": 0.0, "llama-f32": 6.0, "llama-q8": 0.5})
    rows = [goal.row() for goal in goals(Page(record))]
    f32, q8 = (next(row for row in rows if f"A against llama.cpp server, {kind}" in row) for kind in ("f32", "Q8_0"))
    assert f32.endswith("| met on 3 documents, though not by all of them: 3.00 to 7.00 |") and "missed by 0.75×" in q8
    assert any("not measured" in row for row in rows)
    write_pages(record, root)
    for name in ("README.md", "docs/index.md"):
        text = (root / name).read_text(encoding="utf-8")
        assert (
            "Old." not in text and "| one document, twelve open fields | 2.00 s | 8.00 s, 4.0× | 2.50 s, 1.2× |" in text
        )


def test_medians_and_exponents() -> None:
    found = median_of([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found.value == 3.0 and found.low <= 3.0 <= found.high and found.count == 5
    assert exponent_of([(x, 3 * x**1.5) for x in (1, 2, 8, 64)]) == pytest.approx(1.5)


def test_the_pages_are_those_of_the_record() -> None:
    page = Page(json.loads(RECORD.read_text(encoding="utf-8")))
    parts = {"docs/speed.md": page.text(), "README.md": page.readme(), "docs/index.md": page.start()}
    assert [name for name, part in parts.items() if part not in Path(name).read_text(encoding="utf-8")] == []
