"""Files with a JSON value on each line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_rows(path: str | Path, rows: Iterable[Any]) -> str:
    """The path comes back, as a word of a command."""
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def read_rows(path: str | Path) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
