"""A prefix read in pieces equals the prefix read byte by byte, wherever the pieces are cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pastalang.program import types as t
from pastalang.runtime.constraints.json_prefix import JsonPrefix
from pastalang.values.one_hole import UniquePlaces, unique_places

TEXTS = st.text(alphabet='ab"\\é😀[]{},: ', max_size=5)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-20, 20), st.sampled_from([0.5, -0.25, 1e9]), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
DIFFERENT = t.Array(t.Integer(), unique=True)
UNIQUE = st.sampled_from([t.Array(t.Integer()), DIFFERENT, t.Map(DIFFERENT)]).map(unique_places)


@given(VALUES, st.booleans(), UNIQUE, st.binary(max_size=3), st.data())
def test_pieces_add_up(value: object, ascii_: bool, unique: UniquePlaces, more: bytes, data: st.DataObject) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_).encode() + more
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    whole = by_piece = by_byte = JsonPrefix(unique)
    whole = whole.extended(raw)
    for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        by_piece = by_piece.extended(raw[begin:end]) if not by_piece.is_invalid else by_piece
    for byte in raw:
        by_byte = by_byte._step(byte) if not by_byte.is_invalid else by_byte
    assert whole.raw == raw
    assert whole.is_invalid == by_piece.is_invalid == by_byte.is_invalid
    if not whole.is_invalid:
        assert whole == by_piece == by_byte
