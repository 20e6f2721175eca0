"""Tokens by the digits that they begin with."""

from __future__ import annotations

import numpy as np

from pastalang.runtime.decode.engines.slices import scattered
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.rows import Rows, rows_of
from pastalang.runtime.decode.tokens import Tokens


def more_digits(tokens: Tokens, most: int) -> TokenMask:
    """The tokens that begin with more digits than that."""
    return tokens.keep(("digits", most), lambda: _longer(rows_of(tokens), most, tokens.size))


def _longer(rows: Rows, most: int, size: int) -> TokenMask:
    begun = rows.take(np.flatnonzero((rows.first >= 0x30) & (rows.first <= 0x39)))
    flat = rows.letters.flat
    run = begun.first_place((flat < 0x30) | (flat > 0x39)) - begun.starts
    return scattered(size, begun.ids[run > most])
