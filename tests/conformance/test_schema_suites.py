"""A ratchet over public suites: what is compiled stays compiled, and nothing is ever accepted or rejected wrongly.

The suites are read from the folder that `PASTALANG_SCHEMA_DATA` names. `make test` checks the first part of each,
`make conformance` all of them. `baseline/*.json` holds the schemas that are not simply compiled, by id, and how many
are compiled in each part. After an improvement, `python -m tests.conformance.test_schema_suites` writes it anew.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.grade import Grade, grade, is_imported
from tests.conformance.suites import BENCH, FOLDER_VARIABLE, SUITES, Case, Suite, data_folder
from tests.properties.vocabularies import plain_bytes

BASELINE = Path(__file__).parent / "baseline"
WRONG = ("accepts-invalid", "rejects-valid", "slow")
PARTS = [
    pytest.param(suite, part, marks=[pytest.mark.long] if part else [], id=f"{suite.name}-{part}")
    for suite in SUITES
    for part in range(suite.parts)
]
EACH_SUITE = pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)


def _baseline(suite: Suite) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BASELINE / f"{suite.name}.json").read_text(encoding="utf-8"))
    return found


def _grades(cases: Iterable[Case]) -> dict[str, Grade]:
    tokens = plain_bytes()
    return {case.id: grade(case, tokens) for case in cases}


def _counts(grades: Iterable[Grade]) -> dict[str, int]:
    found = Counter(one.status for one in grades)
    return {"schemas": found.total(), "compiled": found["compiled"]}


@pytest.mark.parametrize(("suite", "part"), PARTS)
def test_every_schema_is_treated_as_the_baseline_says(suite: Suite, part: int) -> None:
    folder = data_folder()
    if folder is None:
        pytest.skip(f"{FOLDER_VARIABLE} does not name a folder with the public suites of JSON Schemas")
    baseline = _baseline(suite)
    grades = _grades(suite.part(folder, part))
    assert not {id: (one.status, one.reason) for id, one in grades.items() if one.status in WRONG}
    before = baseline["not compiled"]
    worse = {id: one.reason for id, one in grades.items() if id not in before and one.status != "compiled"}
    assert not worse, "these were compiled before"
    changed = {id: (before[id], one.status) for id, one in grades.items() if before.get(id, one.status) != one.status}
    assert not changed, "write the baseline anew if this is an improvement"
    assert _counts(grades.values()) == baseline["parts"][part]


@pytest.mark.parametrize(("suite", "part"), PARTS)
def test_every_schema_is_imported_unless_the_baseline_names_it(suite: Suite, part: int) -> None:
    folder = data_folder()
    if folder is None:
        pytest.skip(f"{FOLDER_VARIABLE} does not name a folder with the public suites of JSON Schemas")
    cases = list(suite.part(folder, part))
    named = {case.id for case in cases} & set(_baseline(suite)["not imported"])
    assert {case.id for case in cases if not is_imported(case)} == named, "write the baseline anew if it is better"


@EACH_SUITE
def test_the_baseline_holds_nothing_that_is_wrong(suite: Suite) -> None:
    assert not [id for id, status in _baseline(suite)["not compiled"].items() if status in WRONG]


@EACH_SUITE
def test_the_parts_of_a_baseline_count_each_schema_once(suite: Suite) -> None:
    baseline = _baseline(suite)
    odd = Counter(suite.part_of(Case(id, None, ())) for id in baseline["not compiled"])
    assert len(baseline["parts"]) == suite.parts
    assert sum(part["schemas"] for part in baseline["parts"]) == baseline["schemas"]
    for number, part in enumerate(baseline["parts"]):
        assert part["compiled"] == part["schemas"] - odd[number]


def test_the_sample_has_schemas_that_are_compiled_and_some_that_are_not() -> None:
    sample = _baseline(BENCH)["parts"][0]
    assert 0 < sample["compiled"] < sample["schemas"]


def test_a_variable_that_names_no_folder_is_a_mistake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(NotADirectoryError, match=FOLDER_VARIABLE):
        data_folder()
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert data_folder() is None


def write_baseline(folder: Path) -> None:
    BASELINE.mkdir(exist_ok=True)
    for suite in SUITES:
        parts = [_grades(suite.part(folder, part)) for part in range(suite.parts)]
        grades = {id: one for part in parts for id, one in part.items()}
        odd = {id: one.status for id, one in sorted(grades.items()) if one.status != "compiled"}
        content = {
            "schemas": len(grades), "parts": [_counts(part.values()) for part in parts], "not compiled": odd,
            "not imported": sorted(case.id for case in suite.cases(folder) if not is_imported(case)),
        }  # fmt: skip
        (BASELINE / f"{suite.name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        for id, one in grades.items():
            if one.status in WRONG:
                print(f"{suite.name} {id}: {one.status} {one.reason} ({one.calls:,} calls)", file=sys.stderr)
        print(f"{suite.name}: {len(grades) - len(odd)} of {len(grades)} compiled")


if __name__ == "__main__":
    given = data_folder()
    if given is None:
        raise SystemExit(f"{FOLDER_VARIABLE} does not name a folder")
    write_baseline(given)
