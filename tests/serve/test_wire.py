"""What a request may say: honoured, harmless, or rejected with an error that names the parameter."""

from __future__ import annotations

from typing import Any

import pytest

from pastalang.program.program import Role
from pastalang.serve.errors import RequestError
from pastalang.serve.wire import Message, read_chat, read_completion, read_responses
from tests.serve.running import chat, json_format

TOOL = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}


def test_messages_become_turns_with_one_system_text_in_front() -> None:
    ask = read_chat(
        chat()
        | {
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": "c"},
                {"role": "system", "content": "And polite."},
                {"role": "user", "content": "d"},
            ]
        }
    )
    assert ask.messages == (
        Message(Role.SYSTEM, "Be brief.\n\nAnd polite."),
        Message(Role.USER, "ab"),
        Message(Role.ASSISTANT, "c"),
        Message(Role.USER, "d"),
    )


def test_a_call_and_its_result_become_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "UTC"}'}}
    ask = read_chat(
        chat()
        | {
            "messages": [
                {"role": "user", "content": "When?"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "noon"},
            ]
        }
    )
    assert [one.text for one in ask.messages[1:]] == [
        '{"name": "clock", "arguments": {"zone": "UTC"}}',
        "Result of the call 1:\nnoon",
    ]


def test_what_cannot_change_an_answer_is_ignored() -> None:
    ask = read_chat(chat(user="me", store=True, metadata={"a": "b"}, logit_bias=None, frequency_penalty=0, stop="."))
    assert (ask.stop, ask.choices, ask.max_tokens) == ((".",), 1, None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"logit_bias": {"5": 1}}, "`logit_bias` is not supported"),
        ({"frequency_penalty": 0.5}, "`frequency_penalty` is not supported"),
        ({"temprature": 1}, "unknown parameter `temprature`; did you mean `temperature`?"),
        ({"temperature": "hot"}, "`temperature` must be a number from 0 to 2"),
        ({"temperature": True}, "`temperature` must be a number"),
        ({"max_tokens": 0}, "`max_tokens` must be a whole number from 1"),
        ({"n": 99}, "`n` must be a whole number from 1 to 16"),
        ({"stream": "yes"}, "`stream` must be true or false"),
        ({"seed": 1.5}, "`seed` must be a whole number"),
        ({"stop": [""]}, "`stop` must be a text or a list of texts"),
        ({"stop": ["a"] * 5}, "`stop` may have at most 4 texts of at most 200"),
        ({"messages": []}, "`messages` needs at least one message"),
        ({"messages": "hi"}, "`messages` must be a list of messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "`messages[0].role` must be system, developer"),
        ({"messages": [{"role": "user", "content": 5}]}, "`messages[0].content` must be a text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url is not supported"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the last message must not be the assistant's"),
        ({"response_format": {"type": "xml"}}, "`response_format.type` must be text, json_object or json_schema"),
        ({"response_format": {"type": "json_schema"}}, "`response_format.json_schema` must be an object"),
        ({"tools": [{"type": "retrieval"}]}, "`tools[0].type` must be function"),
        ({"tools": [TOOL, TOOL]}, "two tools have the same name"),
        ({"tool_choice": "required"}, "`tool_choice` must be none, auto, required"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "`tool_choice` names 'x'"),
        ({"tools": [TOOL], **json_format({"type": "object"})}, "`tools` and a JSON schema for the answer cannot be"),
        ({"stop": "a", **json_format({"type": "object"})}, "`stop` is for plain text"),
        ({"pasta": {"speed": 9}}, "unknown parameter `pasta.speed`"),
        ({"pasta": {"mode": "fast"}}, "`pasta.mode` must be strict, lockstep or sequential"),
        ({"pasta": {"deadline": 0}}, "`pasta.deadline` must be a number from"),
        ({"model": None}, "`model` is missing"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_chat(chat() | more)
    assert message in raised.value.message and raised.value.status == 400


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"prompt": None}, "`prompt` must be a text or a list of texts"),
        ({"prompt": ["a", ""]}, "`prompt` must be a text or a list of texts, none of them empty"),
        ({"prompt": [1, 2]}, "`prompt` must be a text or a list of texts"),
        ({"prompt": ["a"] * 9, "n": 2}, "at most 16 completions"),
        ({"best_of": 3}, "`best_of` is not supported"),
        ({"suffix": "x"}, "`suffix` is not supported"),
        ({"logprobs": 5}, "`logprobs` must be a whole number from 0 to 0"),
        ({"messages": []}, "unknown parameter `messages`"),
    ],
)
def test_what_is_wrong_with_a_completion_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_completion({"model": "toy", "prompt": "x"} | more)
    assert message in raised.value.message and raised.value.status == 400


@pytest.mark.parametrize("body", [None, [], "text", 5])
def test_a_body_is_an_object(body: Any) -> None:
    with pytest.raises(RequestError, match="must be a JSON object"):
        read_chat(body)


def test_a_response_is_asked_for_with_a_text_or_with_messages() -> None:
    short = read_responses({"model": "toy", "input": "Hi", "instructions": "Be brief."})
    long = read_responses({"model": "toy", "input": [{"role": "user", "content": "Hi"}], "instructions": "Be brief."})
    assert short.messages == long.messages == (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Hi"))
    with pytest.raises(RequestError, match="this server keeps no state"):
        read_responses({"model": "toy", "input": "Hi", "previous_response_id": "resp_1"})
