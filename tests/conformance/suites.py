"""The public suites of JSON Schemas with instances, read from a folder that is not part of the repository."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "PASTALANG_SCHEMA_DATA"


@dataclass(frozen=True)
class Case:
    """One schema; `tests` are (whether it is valid, instance)."""

    id: str
    schema: Any
    tests: tuple[tuple[bool, Any], ...]


def data_folder() -> Path | None:
    """None if the variable is not set. A variable that names no folder is a mistake, not a reason to test less."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    if not Path(named).is_dir():
        raise NotADirectoryError(f"{FOLDER_VARIABLE} names {named}, which is not a folder")
    return Path(named)


def bench_cases(folder: Path) -> Iterator[Case]:
    """JSONSchemaBench: every schema that has instances."""
    for path in sorted((folder / "jsonschemabench").rglob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                tests = tuple((test["valid"], test["data"]) for test in record["tests"])
                if tests:
                    yield Case(record["id"], record["schema"], tests)


def suite_cases(folder: Path) -> Iterator[Case]:
    """JSON-Schema-Test-Suite, draft 2020-12, what is required of every implementation."""
    for path in sorted((folder / "json_schema_test_suite" / "tests" / "draft2020-12").glob("*.json")):
        for number, group in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            tests = tuple((test["valid"], test["data"]) for test in group["tests"])
            yield Case(f"{path.stem}/{number}", group["schema"], tests)


@dataclass(frozen=True)
class Suite:
    """A suite in parts of about the same size. A schema stays in its part, whatever else the suite holds."""

    name: str
    cases: Callable[[Path], Iterator[Case]]
    parts: int

    def part_of(self, case: Case) -> int:
        return zlib.crc32(case.id.encode()) % self.parts

    def part(self, folder: Path, number: int) -> Iterator[Case]:
        return (case for case in self.cases(folder) if self.part_of(case) == number)


BENCH = Suite("json_schema_bench", bench_cases, parts=20)
OFFICIAL = Suite("json_schema_test_suite", suite_cases, parts=1)
SUITES = (BENCH, OFFICIAL)
