"""Inputs: their types, their defaults, how they get into the prompt, and what is said of wrong ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

import pastalang
from tests.api.engines import hashing, json_program, uniform

SHAPES = json_program(
    "  a: boolean",
    inputs="title: text, stars: integer = 3, price: number = 1.5, new: boolean = true, tags: [text] = [], "
    "order: { id: integer, note: text }",
    says="{title} {stars} {price} {new} {for tag in tags}<{tag}>{end} {order.note}",
)
ORDER = {"id": 1, "note": "quick"}


def prompt(program: pastalang.Program, **inputs: Any) -> str:
    """The text that was fed before the answer."""
    result = uniform().run(program, inputs)
    return "".join(one.text for one in result.trace.fed if one.lane == 0).partition("Assistant:")[0]


def test_inputs_of_every_shape_stand_in_the_prompt() -> None:
    assert "A 3 1.5 true <x><y> quick" in prompt(SHAPES, title="A", tags=["x", "y"], order=ORDER)


def test_inputs_are_keywords_or_a_dict_or_both() -> None:
    title = json_program("  a: string(max=6)", inputs='title: text, note: text = ""', says="{title}{note}")
    engine = hashing()
    wanted = engine.run(title, {"title": "x", "note": "y"}, on_truncated="keep").text
    assert engine.run(title, title="x", note="y", on_truncated="keep").text == wanted
    assert engine.run(title, {"title": "x"}, note="y", on_truncated="keep").text == wanted
    assert engine.run(title, title="x", on_truncated="keep").text != wanted


WRONG = [
    ({}, "missing input `title` (text)"),
    ({"titel": "A"}, "did you mean `title`"),
    ({"title": 3, "order": ORDER}, "`title` has to be text"),
    ({"title": "A", "stars": "x", "order": ORDER}, "`stars` has to be"),
    ({"title": "A", "stars": 1.5, "order": ORDER}, "`stars` has to be"),
    ({"title": "A", "order": {"id": 1}}, "note"),
    ({"title": "A", "order": ORDER, "tags": ["x", 3]}, "`tags[1]`"),
    ({"title": "\ud800", "order": ORDER}, "`title` has half a character at 0"),
]


@pytest.mark.parametrize(("inputs", "said"), WRONG, ids=[said for _, said in WRONG])
def test_wrong_inputs_are_refused_by_name_before_anything_runs(inputs: Any, said: str) -> None:
    with pytest.raises(pastalang.BadInputs, match=re.escape(said)):
        uniform().run(SHAPES, inputs)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(pastalang.BadInputs) as raised:
        uniform().run(SHAPES, {"stars": "x", "neu": False})
    assert all(name in str(raised.value) for name in ("`title`", "`stars`", "`neu`", "`order`"))


def test_an_input_cannot_write_a_control_token() -> None:
    title = json_program("  a: boolean", inputs="title: text", says="{title}")
    result = uniform().run(title, title="<end>")
    assert result.usage.input_tokens == uniform().run(title, title="12345").usage.input_tokens


def test_an_input_with_the_name_of_an_option_has_to_be_in_the_dict() -> None:
    program = json_program("  a: boolean", inputs="seed: text", says="{seed}")
    assert uniform().run(program, {"seed": "x"}, seed=3).value.keys() == {"a"}
    with pytest.raises(pastalang.BadInputs, match=re.escape('in a dict: `{"seed": ...}`')):
        uniform().run(program, seed=3)


def test_a_block_of_a_message_depends_on_an_input() -> None:
    program = json_program("  a: boolean", inputs="loud: boolean", says="{if loud}NOW{else}please{end}")
    assert "NOW" in prompt(program, loud=True) and "please" in prompt(program, loud=False)


HISTORY = [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "{a} parrot"}]
CHAT = '''
template t({}question: text)
system """Answer briefly."""
{}
user """{{question}}"""
assistant json {{ reply: string(max=6), good: boolean }}
'''


@pytest.mark.parametrize("mode", ["strict", "sequential"])
def test_a_history_is_read_as_messages_of_the_program_are(mode: str) -> None:
    given = pastalang.compile(CHAT.format("history: messages = [], ", "...history"))
    written = pastalang.compile(CHAT.format("", 'user """Who are you?"""\nassistant """{{a}} parrot"""'))
    first = hashing(3).run(given, {"question": "Why?", "history": HISTORY}, mode=mode, on_truncated="keep")
    second = hashing(3).run(written, {"question": "Why?"}, mode=mode, on_truncated="keep")
    assert first.text == second.text and first.usage.input_tokens == second.usage.input_tokens


def test_histories_of_different_lengths_share_a_batch() -> None:
    given = pastalang.compile(CHAT.format("history: messages = [], ", "...history"))
    inputs = [{"question": "Why?", "history": (HISTORY * 2)[:length]} for length in (3, 0, 2)]
    alone = [hashing(3).run(given, one, on_truncated="keep").text for one in inputs]
    assert [one.text for one in hashing(3).batch(given, inputs, on_truncated="keep")] == alone  # type: ignore[union-attr]


def test_a_longer_history_reuses_a_shorter_one() -> None:
    given, engine = pastalang.compile(CHAT.format("history: messages = [], ", "...history")), hashing(3)
    longer = [*HISTORY, *HISTORY]
    engine.run(given, {"question": "Why?", "history": longer}, on_truncated="keep")
    assert engine.run(given, {"question": "How?", "history": longer}, on_truncated="keep").usage.reused_tokens > 40


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ("hi", "`history` has to be a list of messages"),
        ([{"role": "system", "content": "x"}], "`history[0]` is a system message"),
        ([HISTORY[0], {"role": "bot", "content": "x"}], "`history[1]` has to be {"),
        ([{"role": "user", "content": 3}], "`history[0]` has to be {"),
    ],
)
def test_what_is_no_history_is_refused_in_its_place(history: Any, said: str) -> None:
    given = pastalang.compile(CHAT.format("history: messages = [], ", "...history"))
    with pytest.raises(pastalang.BadInputs, match=re.escape(said)):
        hashing().run(given, {"question": "x", "history": history})
