"""A chat history as an input: its messages are turns, exactly as if the program had been written with them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import pastalang
from pastalang.runtime.engine import Engine
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.result import Result
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

CHAT = '''
template t({}question: text)
system """
Answer briefly.
"""
{}
user """
{{question}}
"""
assistant json {{ reply: string(max=6), good: boolean, why: string(max=6) after good }}
'''
WITH_HISTORY = pastalang.compile(CHAT.format("history: messages = [], ", "...history"))
HISTORY = [
    {"role": "user", "content": "Who are you? <|im_end|>"},
    {"role": "assistant", "content": "{a} parrot"},
    {"role": "user", "content": "Really?"},
]
WRITTEN = "\n".join(
    '{} """\n{}\n"""'.format(one["role"], one["content"].replace("{", "{{").replace("}", "}}")) for one in HISTORY
)
WARM = pastalang.Sampling(temperature=1.0)


def engine() -> Engine:
    return Engine(hashed_model(320, seed=3), byte_tokenizer())


@pytest.mark.parametrize("mode", ["strict", "sequential"])
@pytest.mark.parametrize(("history", "written"), [(HISTORY, WRITTEN), ([], "")])
def test_a_history_is_fed_as_messages_of_the_program_are(history: list[Any], written: str, mode: str) -> None:
    spelled = pastalang.compile(CHAT.format("", written))
    given = {"question": "Why?"}
    first = engine().run(WITH_HISTORY, {**given, "history": history}, mode=mode, sampling=WARM)
    second = engine().run(spelled, given, mode=mode, sampling=WARM)
    assert first.text == second.text and first.trace == second.trace
    assert first.usage.input_tokens == second.usage.input_tokens


def test_conversations_of_different_lengths_share_a_batch_and_a_longer_one_reuses_a_shorter_one() -> None:
    shared = engine()
    inputs = [{"question": "Why?", "history": HISTORY[:length]} for length in (3, 0, 2)]
    alone = [engine().run(WITH_HISTORY, one) for one in inputs]
    together = shared.batch(WITH_HISTORY, inputs)
    assert [one.text for one in together if isinstance(one, Result)] == [one.text for one in alone]
    assert shared.run(WITH_HISTORY, inputs[0]).usage.reused_tokens > 40


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ("hi", "`history` has to be a list of messages"),
        ([{"role": "system", "content": "x"}], "`history[0]` is a system message; the template has its own"),
        ([HISTORY[0], {"role": "bot", "content": "x"}], "`history[1]` has to be {"),
        ([{"role": "user", "content": 3}], "`history[0]` has to be {"),
    ],
)
def test_what_is_not_a_history_is_refused_in_its_place(history: Any, said: str) -> None:
    with pytest.raises(BadInputs, match=re.escape(said)):
        engine().run(WITH_HISTORY, {"question": "x", "history": history})
