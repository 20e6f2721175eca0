"""A word is cut at the same places wherever it stands, so that copying a value repeats its tokens."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import Mode, compile
from pastalang.training.recording import Lesson, Recorder, planner
from recipes.pasta_mini.listings import as_text, made_up
from recipes.pasta_mini.tokenizer import TAGS, train_tokenizer, twins_of, writing_of


@cache
def tokenizer() -> Any:
    return train_tokenizer((as_text(listing) for listing in made_up(400, seed=0)), size=1500)


def pieces(text: str) -> list[int]:
    """The tokens of a text, those with a space as the same ones without."""
    twins = twins_of(tokenizer())
    return [twins.get(token, token) for token in tokenizer().encode(text, add_special_tokens=False)]


@settings(max_examples=60)
@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_every_text_comes_back(text: str) -> None:
    assert tokenizer().decode(tokenizer().encode(text, add_special_tokens=False, split_special_tokens=True)) == text


def spelled(text: str) -> list[str]:
    return [tokenizer().decode([token]) for token in tokenizer().encode(text, add_special_tokens=False)]


@settings(max_examples=60)
@given(st.from_regex(r"[A-Za-zäé]{1,12}( [a-z0-9]{1,8}){0,3}", fullmatch=True))
def test_a_value_has_the_pieces_that_it_has_in_its_title(value: str) -> None:
    wanted = pieces(value)
    for text in (f"Cup, {value}, blue", f'\n  "material": "{value}",\n', f"({value})"):
        found = pieces(text)
        assert any(found[start : start + len(wanted)] == wanted for start in range(len(found)))


def test_a_word_is_cut_alike_in_small_letters_and_capitals() -> None:
    known = train_tokenizer(
        ["a payment is due; Payment, Due, DUE; a number; a delivery, Delivery, payment: Payment:"] * 9, size=1200
    )
    writing = writing_of(known)
    alike = writing.capital | writing.capitals | twins_of(known)

    def cut(text: str) -> list[int]:
        found = known.encode(text, add_special_tokens=False)
        while any(token in alike for token in found):
            found = [alike.get(token, token) for token in found]
        return list(found)

    for word in ("payment", "due", "delivery"):
        ways = [word, word.capitalize(), f" {word}", f" {word.capitalize()}"]
        assert len({tuple(cut(way)) for way in ways}) == 1
    assert cut("due") == cut("DUE")
    assert {known.decode([token]) for token in writing.signs} >= {":", "\n", "<|im_end|>"}
    assert not {known.decode([token]) for token in writing.signs} & {"due", "Due", "d", "1", "é"}
    assert {known.decode([token]) for token in writing.colons} == {":", "\n"}
    assert known.decode([writing.quote]).strip() == '"'


def test_digits_stand_in_threes_from_the_right() -> None:
    threes = train_tokenizer(["12500 12 500 999"] * 9, size=1200)

    def digits(text: str) -> list[str]:
        return [threes.decode([token]).strip() for token in threes.encode(text, add_special_tokens=False)]

    assert digits("12500") == digits(" 12500") == ["12", "500"]
    assert digits("12,500") == ["12", ",", "500"]
    assert "".join(digits("7" * 20_000)) == "7" * 20_000


def test_seams_are_few_tokens_and_the_quote_that_ends_a_value_is_one() -> None:
    assert spelled('null,\n  "a": "') == ["null", ',\n  "', "a", '":', ' "']
    assert spelled('",\n  "a": 1')[:2] == ['"', ',\n  "']


def test_tags_are_control_tokens_that_no_data_becomes() -> None:
    recorder = Recorder(tokenizer())
    for tag in TAGS:
        assert len(tokenizer().encode(tag, add_special_tokens=False)) == 1
        assert recorder._encoder.added.isdisjoint(recorder._encoder.text(f"a {tag} b"))


def test_null_is_recognised_with_the_space_before_it() -> None:
    program = compile(
        'template t(text: text)\nuser """{text}"""\n'
        "assistant json { a: string(max=9) | null, b: { c: integer } | null }"
    )
    value = {"a": None, "b": None}
    row = Recorder(tokenizer()).row(Lesson(planner(program), {"text": "x"}, value, "row"), Mode.STRICT)
    assert {taught.field for taught in row.taught} == {"a", "b"}
    for taught in row.taught:
        assert tokenizer().decode([taught.absent]) == " null"
        assert taught.token == taught.absent


def test_many_spaces_are_few_tokens_and_a_word_keeps_its_own() -> None:
    columns = train_tokenizer(["TOTAL               7.57\n    TAX                 1\n" * 9, "a b c"], size=1200)

    def cut(text: str) -> list[str]:
        return [columns.decode([token]) for token in columns.encode(text, add_special_tokens=False)]

    assert cut("TOTAL               7.57") == ["TOTAL", " " * 8, " " * 4, " " * 2, " 7", ".", "57"]
    assert cut("b   \n") == ["b", "  ", " ", "\n"]
    runs = {token for token in columns.get_vocab() if not token.strip("Ġ")}
    assert {len(run) for run in runs} >= {1, 2, 4, 8, 16}
    assert sorted(columns.get_vocab().values()) == list(range(len(columns)))
    assert not {columns.convert_tokens_to_ids(run) for run in runs} & twins_of(columns).keys()
