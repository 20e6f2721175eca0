"""Tokens that close a string: what is before the quote belongs to it, what is behind it does not."""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.runtime.constraints.token_bytes import Rows
from pastalang.runtime.constraints.trie import Ints


@dataclass(frozen=True, eq=False)
class Closers:
    """Tokens up to a quote, as rows with numbers of their own; of each its token and the number of the text behind."""

    rows: Rows
    tokens: Ints
    rest: Ints
