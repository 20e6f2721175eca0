"""A ratchet over public suites: what is compiled stays compiled, and nothing is ever accepted or rejected wrongly.

The suites are read from the folder that `PASTALANG_SCHEMA_DATA` names; without it nothing is tested here.
`baseline/*.json` holds the schemas that are not simply compiled, by id. After an improvement,
`python -m tests.conformance.test_schema_suites` writes it anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.conformance.grade import Grade, grade
from tests.conformance.suites import FOLDER_VARIABLE, Case, bench_cases, data_folder, suite_cases
from tests.properties.vocabularies import plain_bytes

BASELINE = Path(__file__).parent / "baseline"
SUITES: dict[str, Callable[[Path], Iterable[Case]]] = {
    "json_schema_bench": bench_cases,
    "json_schema_test_suite": suite_cases,
}
WRONG = ("accepts-invalid", "rejects-valid", "slow")


def _baseline(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((BASELINE / f"{name}.json").read_text(encoding="utf-8"))["not compiled"]
    return found


def _grades(name: str, folder: Path, every: int = 1) -> dict[str, Grade]:
    tokens = plain_bytes()
    return {case.id: grade(case, tokens) for at, case in enumerate(SUITES[name](folder)) if at % every == 0}


@pytest.mark.parametrize("name", SUITES)
def test_no_schema_is_treated_worse_than_before(name: str) -> None:
    folder = data_folder()
    if folder is None:
        pytest.skip(f"{FOLDER_VARIABLE} names no folder")
    before = _baseline(name)
    grades = _grades(name, folder, every=10 if name == "json_schema_bench" else 1)
    worse = {id: one for id, one in grades.items() if one.status != before.get(id, "compiled")}
    assert not worse


@pytest.mark.parametrize("name", SUITES)
def test_the_baseline_holds_nothing_that_is_wrong(name: str) -> None:
    assert not [id for id, status in _baseline(name).items() if status in WRONG]


def write_baseline(folder: Path) -> None:
    BASELINE.mkdir(exist_ok=True)
    for name in SUITES:
        grades = _grades(name, folder)
        odd = {id: one.status for id, one in sorted(grades.items()) if one.status != "compiled"}
        content = {"schemas": len(grades), "not compiled": odd}
        (BASELINE / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        for id, one in grades.items():
            if one.status in WRONG:
                print(f"{name} {id}: {one.status} {one.reason} ({one.seconds:.1f} s)", file=sys.stderr)
        print(f"{name}: {len(grades) - len(odd)} of {len(grades)} compiled")


if __name__ == "__main__":
    given = data_folder()
    if given is None:
        raise SystemExit(f"{FOLDER_VARIABLE} names no folder")
    write_baseline(given)
