"""What is kept between guides: the trie of a vocabulary, on disk too, guides by type, and the numbers of types."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pastalang.plan.plan import Form
from pastalang.program import types as t
from pastalang.runtime.decode.cache import GuideCache, Numbers, load_tokens
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.trie import build_trie
from pastalang.runtime.decode.vocabulary import vocabulary_of
from pastalang.runtime.model.bytes import byte_tokenizer

TOKENS = Tokens(vocabulary_of(byte_tokenizer(words=['",', "Sony", "12", ",\n"], control=["<sync/>"])))


def test_the_trie_finds_every_token() -> None:
    trie = build_trie(TOKENS.vocabulary)
    for id, text in enumerate(TOKENS.vocabulary.spelling):
        if text is not None:
            assert id in trie.ending_at(TOKENS.node(trie.find(text)))[0]


def test_a_stored_trie_survives_damage(tmp_path: Path) -> None:
    first = load_tokens(TOKENS.vocabulary, tmp_path)
    (stored,) = tmp_path.glob("*.npz")
    assert np.array_equal(load_tokens(TOKENS.vocabulary, tmp_path).trie.keys, first.trie.keys)
    stored.write_bytes(stored.read_bytes()[:100])
    assert np.array_equal(load_tokens(TOKENS.vocabulary, tmp_path).trie.keys, first.trie.keys)
    assert len(load_tokens(TOKENS.vocabulary, tmp_path, max_bytes=1).ids) == len(first.ids)


def test_a_cache_gives_the_same_guide_and_stays_small() -> None:
    cache = GuideCache(TOKENS, most=2)
    first = cache.guide(t.Integer(), form=Form.JSON, follow=",")
    assert cache.guide(t.Integer(), form=Form.JSON, follow=",") is first
    for type in (t.Null(), t.Boolean(), t.Uuid()):
        cache.guide(type, form=Form.JSON, follow=",")
    assert len(cache) == 2


def test_equal_values_have_one_number_and_others_have_others() -> None:
    numbers = Numbers(most=3)
    first = numbers(t.Literal("a"))
    assert numbers(t.Literal("a")) == first
    given = {first, *(numbers(t.Literal(text)) for text in "bcdef")}
    assert len(given) == 6
    assert numbers(t.Literal("b")) not in {numbers(t.Literal("c")), first}
