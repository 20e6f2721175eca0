"""From the bounds of a number to terminals of a grammar: the automaton that serves a hole of its own, written out.

A number means the same inside a list as alone: the same digits, the same bounds, however large or fine they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from math import inf, isfinite, nextafter

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.runtime.constraints.dfa.machines import number_table
from pastalang.runtime.constraints.dfa.table import DEAD, Table
from pastalang.values.json_schema import Document, schema_of
from pastalang.values.json_text import JsonValue

# llguidance counts with doubles, and up to 63 bits.
_EXACT = 2**53
_LARGEST = 2**63 - 1_024
_SIGNS = {"minimum": -1, "exclusiveMinimum": -1, "maximum": 1, "exclusiveMaximum": 1}


def numeral_lines(type: t.Integer | t.Number, name: str) -> tuple[str, ...] | None:
    """Terminals, the first of which is the number; None where they would be too many: steps of many remainders."""
    table = number_table(type)
    return None if table is None else tuple(_terminals(table, name))


def numeral_document(type: t.Integer | t.Number) -> Document:
    """The same as a schema, with bounds that llguidance can count with."""
    return within_reach(schema_of(type))


def within_reach(schema: Document) -> Document:
    """Large bounds as llguidance counts, a little closer where it cannot tell them apart: never more is taken."""
    return {key: _nearer(key, value) for key, value in schema.items()}


def _nearer(keyword: str, bound: JsonValue) -> JsonValue:
    sign = _SIGNS.get(keyword)
    if sign is None or isinstance(bound, bool) or not isinstance(bound, int | Decimal):
        return bound
    if -_EXACT <= bound <= _EXACT:
        return bound
    within = float(sign * min(bound * sign, _LARGEST))
    if not isfinite(within):
        return bound
    is_wider = (Decimal(within) - Decimal(bound)) * sign > 0
    return int(nextafter(within, -sign * inf) if is_wider else within)


def _terminals(table: Table, name: str) -> Iterator[str]:
    """One for each state from which anything leads; where a value may end, the rest may be left out."""
    for state in range(table.size):
        row = table.rows[state]
        ways = " | ".join(_way(table, row, int(target), name) for target in np.unique(row[row != DEAD]))
        if ways:
            yield f"{_named(name, state)}: {f'({ways})?' if table.accepting[state] else ways}"


def _way(table: Table, row: NDArray[np.int32], target: int, name: str) -> str:
    letters = "".join(f"\\x{byte:02x}" for byte in np.flatnonzero(row == target))
    return f"/[{letters}]/" + (f" {_named(name, target)}" if table.ways[target] else "")


def _named(name: str, state: int) -> str:
    return f"{name}_{state}"
