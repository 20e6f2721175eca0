"""What `pasta check --explain-constraints` prints."""

from __future__ import annotations

from pastalang.values.keywords import keyword_table


def constraints_table() -> str:
    return keyword_table()
