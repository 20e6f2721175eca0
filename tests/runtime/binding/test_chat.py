"""What chat templates write around the messages of a prompt."""

from __future__ import annotations

import pytest

import pastalang
from pastalang import Engine, LoadError
from pastalang.program.program import Role
from pastalang.runtime.binding.chat import Turn, turns_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is not false %}<think>\n{% endif %}{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHAT
TURNS = [Role.SYSTEM, Role.USER, Role.ASSISTANT]


def test_turns_come_from_the_chat_template_and_nobody_thinks_first() -> None:
    assert turns_of(byte_tokenizer(chat_template=CHAT), TURNS) == (
        Turn("<|im_start|>system\n", ""),
        Turn("<|im_end|>\n<|im_start|>user\n", ""),
        Turn("<|im_end|>\n<|im_start|>assistant\n", ""),
    )


def test_a_thought_that_the_template_opens_is_closed() -> None:
    stubborn = CHAT.replace("enable_thinking is not false", "true")
    assert turns_of(byte_tokenizer(chat_template=stubborn), TURNS)[-1].opening.endswith("<think>\n\n</think>\n\n")


def test_without_a_system_role_its_text_begins_the_turn_of_the_user() -> None:
    turns = turns_of(byte_tokenizer(chat_template=NO_SYSTEM), TURNS)
    assert [turn.opening for turn in turns] == ["<|im_start|>user\n", "\n\n", "<|im_end|>\n<|im_start|>assistant\n"]


def test_a_template_that_drops_messages_is_refused() -> None:
    with pytest.raises(LoadError, match="drops or changes"):
        turns_of(byte_tokenizer(chat_template="{{ 'nothing' }}"), [Role.USER, Role.ASSISTANT])


def test_an_answer_to_nothing_begins_with_the_turn_of_the_model() -> None:
    assert turns_of(byte_tokenizer(chat_template=CHAT), [Role.ASSISTANT]) == (Turn("<|im_start|>assistant\n", ""),)
    tokenizer = byte_tokenizer(chat_template="{{ bos_token }}" + CHAT)
    tokenizer.bos_token = "<s>"
    assert turns_of(tokenizer, [Role.ASSISTANT]) == (Turn("<s><|im_start|>assistant\n", ""),)


def test_a_template_that_cannot_begin_with_an_answer_says_so() -> None:
    crossed = "{% if add_generation_prompt %}A{% endif %}{{ messages[0].content }}"
    with pytest.raises(LoadError, match="write a message before it"):
        turns_of(byte_tokenizer(chat_template=crossed), [Role.ASSISTANT])


def test_turns_that_are_refused_refuse_the_call() -> None:
    engine = Engine(hashed_model(320), byte_tokenizer(chat_template="{{ raise_exception('never') }}"))
    program = pastalang.compile('template t\nuser """\nhi\n"""\nassistant json { a: boolean }\n')
    with pytest.raises(LoadError, match="refuses the turns user: never"):
        engine.run(program, {})
    assert engine.scheduler.is_idle


def test_without_a_template_turns_are_plain() -> None:
    turns = turns_of(byte_tokenizer(), [Role.USER, Role.ASSISTANT])
    assert turns == (Turn("User:\n", "\n\n"), Turn("Assistant:\n", ""))
