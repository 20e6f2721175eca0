"""The tokens that a guide allows, accepts and forces: one small case each."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import torch

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.choice_machine import ChoiceMachine
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.grammar_guide import GrammarState
from pastalang.runtime.constraints.guide import NoEndingFits, State
from pastalang.runtime.constraints.machine_guide import MachineGuide
from pastalang.runtime.constraints.masks import allows, tokens_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.sampling.confidence import ChoicePosition, masked_probability, shares_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.values.fit import read

TOKENS = Tokens(vocabulary_of(byte_tokenizer(words=['",', "Sony", "12", ",\n"], control=["<sync/>"])))
END = min(TOKENS.vocabulary.ends)


DIGITS = t.Array(t.Integer(minimum=0, maximum=9), unique=True)


def _id(text: str) -> int:
    return TOKENS.ids[text.encode()]


def start(type: t.Type, *, follow: str = "", form: Form = Form.JSON, limit: int = 32, source: str = "") -> State:
    guide = compile_guide(type, form=form, follow=follow, vocabulary=TOKENS, sources={"source": source})
    return guide.start(max_tokens=limit)


def _write(state: State, text: str) -> None:
    for character in text:
        state.advance(_id(character))


def _texts(state: State) -> set[str]:
    return {(TOKENS.text(token) or b"<end>").decode("utf-8", "replace") for token in tokens_of(state.allowed())}


def test_a_token_that_crosses_the_seam_keeps_the_text_before_it() -> None:
    state = start(t.String(), follow=",\n  ")
    _write(state, '"a')
    accepted = state.advance(_id('",'))
    assert (accepted.text, accepted.kept, accepted.finished) == ('"', False, True)
    assert state.text == '"a"'


def test_a_number_ends_where_the_text_that_follows_begins() -> None:
    state = start(t.Integer(), follow=",\n")
    _write(state, "12")
    assert state.text == "12" and not state.advance(_id(",\n")).kept and not state.truncated


def test_only_the_end_of_the_turn_ends_an_open_value_at_the_end_of_the_answer() -> None:
    state = start(t.Integer(minimum=0))
    _write(state, "7")
    assert _texts(state) == {*"0123456789", "12", "<end>"}
    assert state.advance(END).finished and state.text == "7"


def test_a_full_stop_may_be_a_decimal_point_or_the_end_of_the_sentence() -> None:
    state = start(t.Number(), follow=". End", form=Form.TEXT)
    _write(state, "12.")
    assert not state.is_finished
    state.advance(_id(" "))
    assert state.is_finished and state.text == "12"


def test_the_limit_closes_a_string_and_says_so() -> None:
    state = start(t.String(), limit=3)
    _write(state, '"ab'[:2])
    assert _texts(state) == {'"'}
    state.advance(_id('"'))
    assert state.text == '"a"' and state.truncated


def test_no_token_is_spent_on_what_cannot_be_closed() -> None:
    state = start(t.String(min_chars=3, max_chars=3), limit=4)
    state.advance(_id('"'))
    assert not _texts(state) & {"\\", "\ufffd", '"', "Sony"}
    assert {"a", " ", "12"} <= _texts(state)


def test_a_forbidden_text_is_never_completed() -> None:
    guide = compile_guide(t.String(), form=Form.TEXT, follow="", vocabulary=TOKENS, forbidden=("<sync/>",))
    state = guide.start(max_tokens=32)
    _write(state, "a <sync/")
    assert not allows(state.allowed(), _id(">"))


def test_a_stop_text_of_several_tokens_is_removed() -> None:
    state = start(t.String(stop=("END",)), form=Form.TEXT)
    _write(state, "the END")
    assert state.is_finished and state.text == "the "


def test_what_is_forced_is_known_before_it_is_sampled() -> None:
    assert start(t.String()).forced() == (_id('"'),)
    assert start(t.Literal("4K")).forced() == tuple(map(_id, '"4K"'))


def test_ten_thousand_options_are_all_there() -> None:
    state = start(t.Union(tuple(t.Literal(f"brand {number}") for number in range(10_000))), limit=64)
    _write(state, '"brand 9999"')
    assert state.is_finished


def test_a_quotation_stands_in_its_source_wherever_it_does() -> None:
    source = 'größer "als" größer'
    state = start(t.Verbatim("source"), source=source)
    for byte in '"größer"'.encode():
        state.advance(byte)
    assert state.text == '"größer"'


def test_a_key_never_comes_twice() -> None:
    state = start(t.Map(t.Integer()), limit=64)
    _write(state, '{"a": 1, "a')
    assert not allows(state.allowed(), _id('"'))


_DATE = t.Temporal(t.Moment.DATE)
_NAME = t.Regex("x[0-9]")
_FEW = t.Union((t.Literal("a"), t.Literal("b"), t.Literal(""), t.Null()))


@pytest.mark.parametrize(
    "type",
    [
        t.Array(_DATE, 3, 4, unique=True),
        t.Array(_NAME, 10, 10, unique=True),
        t.Array(t.Object((t.Field("a", _DATE), t.Field("b", t.Boolean()))), 4, 5, unique=True),
        t.Array(t.Array(_NAME, 1, 1), 3, 4, unique=True),
        t.Array(t.Integer(multiple_of=Decimal(12345)), 2, 3, unique=True),
        t.Array(_FEW, 4, unique=True),
        t.Array(t.Tuple((_FEW, _FEW)), 9, unique=True),
        t.Array(t.Array(_FEW, unique=True), 12, unique=True),
        t.Array(t.String(max_chars=1), 30, unique=True),
        t.Map(t.String(max_tokens=4), key_pattern="x[0-9]", min_items=3, max_items=3),
    ],
    ids=[
        *("dates", "all of a pattern", "objects", "arrays", "multiples", "all of a few", "tuples of a few"),
        *("lists of a few", "characters", "keys"),
    ],
)
def test_what_must_differ_is_closed_at_its_shortest(type: t.Type) -> None:
    guide = compile_guide(type, form=Form.JSON, follow="", vocabulary=TOKENS)
    state = guide.start(max_tokens=guide.shortest)
    while not state.is_finished:
        state.advance(int(tokens_of(state.allowed())[0]))
    assert read(state.text, type, {}).fits, state.text


def test_a_map_whose_keys_are_all_taken_is_closed_however_much_room_is_left() -> None:
    type = t.Map(t.Boolean(), key_pattern="[ab]")
    state = compile_guide(type, form=Form.JSON, follow="", vocabulary=TOKENS).start(max_tokens=400)
    for byte in b'{"a": true, "b": true, "':
        state.advance(TOKENS.ids[bytes((byte,))])
    while not state.is_finished:
        allowed = tokens_of(state.allowed())
        assert len(allowed), state.text
        copied = state.fork()
        assert state.advance(int(allowed[0])) == copied.advance(int(allowed[0]))
    assert read(state.text, type, {}).fits and state.truncated, state.text


_PAIRS = t.Object((t.Field("plain", t.Array(t.Integer(minimum=0, maximum=9))), t.Field("unlike", DIGITS)))


def test_items_of_an_inner_array_differ_where_they_must() -> None:
    state = start(_PAIRS, limit=200)
    _write(state, '{"plain": [1, 1], "unlike": [1, 1]')
    assert state.is_finished and state.truncated
    assert json.loads(state.text) in ({"plain": [1, 1], "unlike": [1]}, {"plain": [1, 1], "unlike": [1, 0]})


def test_a_value_quotes_from_several_texts() -> None:
    type = t.Tuple((t.Verbatim("first"), t.Verbatim("second")))
    sources = {"first": "red", "second": "blue"}
    state = compile_guide(type, form=Form.JSON, follow="", vocabulary=TOKENS, sources=sources).start(max_tokens=40)
    _write(state, '["red", "')
    assert "b" in _texts(state) and "r" not in _texts(state)
    either = t.Union((t.Verbatim("first"), t.Verbatim("second")))
    state = compile_guide(either, form=Form.TEXT, follow="", vocabulary=TOKENS, sources=sources).start(max_tokens=40)
    assert {"r", "b"} <= _texts(state) and not {"e", "l"} & _texts(state)
    anywhere = t.Verbatim("second", at=t.QuoteUnit.CHARACTERS)
    state = compile_guide(anywhere, form=Form.TEXT, follow="", vocabulary=TOKENS, sources=sources).start(max_tokens=40)
    assert {"b", "l"} <= _texts(state)


def test_counted_words_are_closed_or_are_an_error_and_never_a_crash() -> None:
    """A count of words takes more of the lexer than its limits allow."""
    words = {"type": "string", "minLength": 1, "maxLength": 500, "pattern": r"^(?:\S+\s+){0,49}\S+$"}
    schema = {"type": "array", "items": words, "minItems": 1, "maxItems": 10}
    guide = compile_guide(t.Schema(json.dumps(schema)), form=Form.JSON, follow="", vocabulary=TOKENS)
    for seed in range(3):
        state, rng = guide.start(max_tokens=300), np.random.default_rng(seed)
        with suppress(NoEndingFits):
            while not state.is_finished:
                state.advance(int(rng.choice(tokens_of(state.allowed()))))
            assert 1 <= len(json.loads(state.text)) <= 10


def test_a_value_without_any_ending_left_is_an_error_of_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    state = start(t.Array(t.Integer()), limit=30)
    assert isinstance(state, GrammarState)
    state._position = replace(state._position, remaining=2, ending=None)
    monkeypatch.setattr("pastalang.runtime.constraints.grammar_guide.find_ending", lambda *_, **__: None)
    with pytest.raises(NoEndingFits, match="no longer be closed"):
        state.advance(_id("["))
        state.advance(_id("]"))
        state.advance(_id("]"))


def test_no_exponent_is_larger_than_what_is_read() -> None:
    state = start(t.Anything(), limit=40, follow=",")
    for character in "3.4E-00":
        state.advance(_id(character))
    assert not any(allows(state.allowed(), _id(digit)) for digit in "0123456789")
    state.advance(_id(","))
    assert state.is_finished and not state.truncated
    assert read(state.text, t.Anything(), quoted=True).fits


def test_a_string_with_a_pattern_is_closed_as_the_pattern_asks() -> None:
    """The limit ends the address with the domain that it lacks; the array does not lose it."""
    state = start(t.Array(t.String(format="email")), limit=12)
    _write(state, '["some')
    while not state.is_finished:
        letters = {_id("a"), _id("b")} & set(tokens_of(state.allowed()).tolist())
        state.advance(min(letters or set(tokens_of(state.allowed()).tolist())))
    (address,) = json.loads(state.text)
    assert address.startswith("some") and "@" in address


def test_a_fraction_in_an_array_has_no_more_digits_than_a_double_tells_apart() -> None:
    state = start(t.Array(t.Number(minimum=1)), limit=60)
    _write(state, "[29.602729026673")
    assert _texts(state) == {"]", ",", *"0123456789"}
    _write(state, "2")
    assert _texts(state) == {"]", ","}


def test_one_row_gives_the_shares_of_options() -> None:
    guide = compile_guide(t.Union((t.Literal("yes"), t.Literal("no"))), form=Form.TEXT, follow="", vocabulary=TOKENS)
    assert isinstance(guide, MachineGuide) and isinstance(guide.machine, ChoiceMachine)
    state = guide.start(max_tokens=8)
    logits = torch.zeros(TOKENS.size)
    logits[_id("y")] = 1.0
    found = shares_of(logits, state, ChoicePosition(guide.machine, guide.machine.start))  # type: ignore[arg-type]
    assert not found.open
    assert found.settled["yes"] == pytest.approx(torch.tensor([1.0, 0.0]).softmax(0)[0].item())
    assert 0.9 < masked_probability(logits, state) < 1.0


def test_a_vocabulary_without_some_bytes_writes_what_it_can() -> None:
    spelling = tuple(text if text != b"9" else None for text in TOKENS.vocabulary.spelling)
    tokens = Tokens(type(TOKENS.vocabulary)(spelling, TOKENS.vocabulary.ends))
    assert ChoiceMachine([b"19", b"18"], Seam(tokens, b"")).options == [b"18"]


def test_no_token_leads_to_a_rest_that_cannot_be_written() -> None:
    spelling = tuple(text if text != b"2" else None for text in TOKENS.vocabulary.spelling)
    tokens = Tokens(type(TOKENS.vocabulary)(spelling, TOKENS.vocabulary.ends))
    machine = ChoiceMachine([b"12", b"13"], Seam(tokens, b""))
    assert tokens_of(machine.mask(machine.start, None)).tolist() == [_id("1"), _id("12")]
    machine = ChoiceMachine([b"12"], Seam(tokens, b""))
    assert tokens_of(machine.mask(machine.start, None)).tolist() == [_id("12")]
