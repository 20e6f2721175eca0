"""A limit of tokens reaches as far into a text that grows as into the whole of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from pastalang.runtime.encoder import Encoder
from pastalang.runtime.models.source import WEIGHTS
from pastalang.serve.token_limit import TokenLimit, within
from tests.serve.running import engine

REAL = Encoder(AutoTokenizer.from_pretrained(WEIGHTS / "pasta-mini"))
BYTES = engine(words=(' "', '",\n  "', "12", "aaaa", "日")).encoder
_PARTS = st.sampled_from(("-" * 40, " " * 30, "\n \n", "é日🎉", '{\n  "roast": "dark', "'ll", "012345678", "internal "))


@pytest.mark.parametrize("encoder", [REAL, BYTES], ids=["real", "bytes"])
@given(parts=st.lists(_PARTS | st.text("ab1 ,\n\"'-", max_size=9), max_size=12), limit=st.integers(1, 120))
def test_nothing_is_shown_that_the_whole_text_would_not_have(encoder: Encoder, parts: list[str], limit: int) -> None:
    text, growing = "".join(parts), TokenLimit(limit, encoder)
    whole = within(text, limit, encoder)
    for size in range(len(text) + 1):
        shown = growing.reach(text[:size])
        assert whole.startswith(shown)
        if growing.is_passed:
            assert shown == whole
    assert growing.is_passed or len(encoder.text(text)) < limit + 20


def test_a_long_text_is_counted_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    afresh, counted = Encoder.afresh, list[str]()
    monkeypatch.setattr(Encoder, "afresh", lambda self, text: counted.append(text) or afresh(self, text))
    text, growing = "A text of many words. " * 2_000, TokenLimit(10_000, REAL)
    for size in range(0, len(text), 9):
        growing.reach(text[:size])
    assert growing.is_passed == (len(REAL.text(text)) > 10_020) and len(counted) < 60
