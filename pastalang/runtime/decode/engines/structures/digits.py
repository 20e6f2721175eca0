"""Tokens by the digits that they begin with."""

from __future__ import annotations

import numpy as np

from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import mask_of_many
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.trie import Ints
from pastalang.runtime.decode.rows import Rows, rows_of


def more_digits(tokens: Tokens, most: int) -> TokenMask:
    """The tokens that begin with more digits than that."""
    ids, digits = prepare_digits(tokens)
    return tokens.keep(("digits", most), lambda: mask_of_many(tokens.size, ids[digits > most]))


def prepare_digits(tokens: Tokens) -> tuple[Ints, Ints]:
    """The tokens that begin with a digit, and with how many."""
    return tokens.keep("begun with digits", lambda: _begun(rows_of(tokens)))


def _begun(rows: Rows) -> tuple[Ints, Ints]:
    begun = rows.take(np.flatnonzero((rows.first >= 0x30) & (rows.first <= 0x39)))
    outside = rows.letters.outside(b"0123456789", beyond=False)
    return begun.ids, begun.first_place(outside) - begun.starts
