"""Where a value has to end: at its limit, at the text that follows, and where only its ending is known to fit."""

from __future__ import annotations

import json

import pytest

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import MachineState, NoEndingFits, TokenMask
from pastalang.runtime.constraints.machine_guide import MachineGuide
from pastalang.runtime.constraints.masks import allows, mask_of, tokens_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.testing.byte_tokenizer import byte_tokenizer

TOKENS = Tokens(vocabulary_of(byte_tokenizer()))
OPTIONS = t.Union((t.Literal("tab"), t.Literal("tap")))


def test_what_is_forced_is_forced_up_to_the_last_token_of_the_limit() -> None:
    guide = compile_guide(OPTIONS, form=Form.JSON, follow=",", vocabulary=TOKENS)
    assert guide.shortest == len('"tab"')
    for limit in (guide.shortest, guide.shortest + 1):
        assert bytes(guide.start(max_tokens=limit).forced()) == b'"ta'
    with pytest.raises(NoEndingFits):
        guide.start(max_tokens=guide.shortest - 1)


class Cautious:
    """The machine of the text `abcd`: it knows a value's ending, and under a limit no other token that would fit."""

    start: MachineState = 0

    def step(self, state: MachineState, byte: int) -> MachineState | None:
        assert isinstance(state, int)
        return state + 1 if state < 4 and byte == b"abcd"[state] else None

    def accepts(self, state: MachineState) -> bool:
        return state == 4

    def can_continue(self, state: MachineState) -> bool:
        return state != 4

    def stop_bytes(self, state: MachineState) -> int:
        return 0

    def forced(self, state: MachineState) -> bytes:
        return b""

    def ending(self, state: MachineState) -> tuple[int, ...]:
        assert isinstance(state, int)
        return tuple(b"abcd"[state:])

    def mask(self, state: MachineState, remaining: int | None) -> TokenMask:
        return mask_of(TOKENS.size, () if remaining is not None else self.ending(state)[:1])

    def warm(self) -> None: ...


def test_where_nothing_else_is_known_to_fit_the_ending_is_followed_and_the_value_is_cut() -> None:
    state = MachineGuide(Cautious(), Seam(TOKENS, b",")).start(max_tokens=9)
    for byte in b"abcd":
        assert tokens_of(state.allowed()).tolist() == [byte]
        assert not state.truncated
        state.advance(byte)
    assert state.is_finished
    assert state.truncated
    assert state.remaining == 5


def test_a_value_that_went_on_cannot_end_where_it_might_have_ended_before() -> None:
    state = compile_guide(t.Number(), form=Form.TEXT, follow=". So", vocabulary=TOKENS).start(max_tokens=20)
    for byte in b"12.":
        state.advance(byte)
    assert {ord(" "), ord("5")} <= set(tokens_of(state.allowed()).tolist())
    state.advance(ord("5"))
    allowed = {chr(token) for token in tokens_of(state.allowed()).tolist()}
    assert allowed >= {"0", "9", "."}
    assert not allowed & {" ", "S"}


def test_of_two_places_where_a_value_may_have_ended_the_last_one_is_its_end() -> None:
    options = t.Union((t.Literal("2"), t.Literal("21"), t.Literal("211x")))
    state = compile_guide(options, form=Form.TEXT, follow="11", vocabulary=TOKENS).start(max_tokens=20)
    for byte in b"2111":
        assert not state.is_finished
        state.advance(byte)
    assert state.is_finished
    assert state.text == "21"


def test_the_end_of_the_turn_ends_no_value_that_text_follows() -> None:
    end = min(TOKENS.vocabulary.ends)
    state = compile_guide(t.Integer(), form=Form.TEXT, follow=",", vocabulary=TOKENS).start(max_tokens=20)
    state.advance(ord("2"))
    assert end not in tokens_of(state.allowed())
    with pytest.raises(ValueError, match="not allowed here"):
        state.advance(end)


def test_the_end_of_the_turn_is_no_part_of_a_value_and_is_not_fed() -> None:
    end = min(TOKENS.vocabulary.ends)
    state = compile_guide(t.Integer(), form=Form.TEXT, follow="", vocabulary=TOKENS).start(max_tokens=20)
    state.advance(ord("2"))
    accepted = state.advance(end)
    assert (accepted.text, accepted.kept, accepted.finished) == ("", False, True)
    assert state.text == "2"


def test_a_value_of_several_kinds_goes_on_as_long_as_one_of_them_does() -> None:
    kinds = t.Union((t.Integer(minimum=0, maximum=9), t.Number(), t.Null()))
    state = compile_guide(kinds, form=Form.JSON, follow=",", vocabulary=TOKENS).start(max_tokens=20)
    for byte in b"1.5":
        assert byte in tokens_of(state.allowed())
        state.advance(byte)
        assert not state.is_finished
    state.advance(ord(","))
    assert state.text == "1.5"


def test_the_ending_of_a_value_of_several_kinds_is_the_shortest_of_theirs() -> None:
    kinds = t.Union((t.String(min_chars=6), t.Null(), t.Integer(minimum=10**7)))
    guide = compile_guide(kinds, form=Form.JSON, follow=",", vocabulary=TOKENS)
    assert guide.shortest == len("null")
    assert bytes(tokens_of(guide.start(max_tokens=4).allowed()).tolist()) == b"n"


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (t.Array(t.Integer(minimum=0, maximum=9), max_items=3), [1, 2, 3]),
        (t.Array(t.Union((t.Literal("new"), t.Literal("old"))), max_items=2), ["new", "old"]),
        (t.Map(t.Boolean(), max_items=1), {"key": True}),
        (t.Array(t.String(min_chars=2), max_items=2), ["ab", "cd"]),
    ],
)
def test_a_value_that_fills_its_limit_is_not_cut(type: t.Type, value: object) -> None:
    text = json.dumps(value)
    for limit in (len(text), len(text) + 1):
        state = compile_guide(type, form=Form.JSON, follow=",", vocabulary=TOKENS).start(max_tokens=limit)
        for byte in text.encode():
            assert allows(state.allowed(), byte), f"{state.text!r} cannot go on with {chr(byte)!r}"
            state.advance(byte)
        assert (state.text, state.is_finished, state.truncated) == (text, True, False)


def test_a_value_that_goes_on_behind_its_limit_is_closed_there_and_cut() -> None:
    guide = compile_guide(
        t.Array(t.Integer(minimum=0, maximum=9), max_items=3), form=Form.JSON, follow=",", vocabulary=TOKENS
    )
    state = guide.start(max_tokens=7)
    for byte in b"[1, 2,":
        assert not state.is_finished
        state.advance(byte)
    assert (state.text, state.is_finished, state.truncated) == ("[1, 2]", True, True)
