"""Cases that are a table of Markdown, next to the tests that read it: whoever reads or adds one needs no Python."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path


def cases_of(path: Path) -> list[list[str]]:
    """The cells of each row of the tables of a page. A cell that is code is what stands between its backticks."""
    pairs = pairwise([*path.read_text("utf-8").splitlines(), ""])
    rows = [row[2:-2] for row, after in pairs if row.startswith("| ") and not after.startswith("|--")]
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell).replace("\\|", "|") for cell in row.split(" | ")] for row in rows]
