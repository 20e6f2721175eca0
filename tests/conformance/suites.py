"""The public suites of JSON Schemas with instances, read from a folder that is not part of the repository."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
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
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


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
