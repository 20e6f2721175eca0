"""What a request may say: honoured, harmless, or rejected with an error that names the parameter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pastalang.program.program import Role
from pastalang.serve.errors import RequestError
from pastalang.serve.wire import Message, read_chat, read_completion, read_responses
from tests.serve.running import chat
from tests.tables import cases_of


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


@pytest.mark.parametrize(("more", "message"), cases_of(Path(__file__).with_name("wrong-requests.md")))
def test_what_is_wrong_is_named(more: str, message: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_chat(chat() | json.loads(more))
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


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"reasoning": {"effort": "high"}}, "`reasoning.effort` is not supported"),
        ({"reasoning": {"efort": "none"}}, "unknown parameter `reasoning.efort`; did you mean `reasoning.effort`?"),
        ({"truncation": "auto"}, "`truncation` is not supported"),
        ({"max_tool_calls": 0}, "`max_tool_calls` must be a whole number from 1"),
        ({"text": {"formt": {"type": "text"}}}, "unknown parameter `text.formt`; did you mean `text.format`?"),
        ({"stream_options": {"include_usag": True}}, "unknown parameter `stream_options.include_usag`"),
        ({"input": [{"type": "function_call_output", "output": [{"type": "input_image"}]}]}, "`input[0].output[0]`"),
        ({"input": [{"type": "function_call_output", "output": {"a": 1}}]}, "`input[0].output` must be a text or"),
    ],
)
def test_what_is_wrong_with_a_response_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_responses({"model": "toy", "input": "x"} | more)
    assert message in raised.value.message and raised.value.status == 400


def test_what_a_response_does_not_need_is_accepted() -> None:
    """What clients write out although it is the default, and what this server does in any case."""
    neutral = {"reasoning": {"effort": "none", "summary": None}, "truncation": "disabled", "max_tool_calls": 3}
    more = {"text": {"verbosity": "low"}, "stream_options": {"include_obfuscation": False}}
    body = {"model": "toy", "input": "x"}
    assert read_responses(body | neutral | more) == read_responses(body | dict.fromkeys(neutral | more))


def test_the_result_of_a_call_is_a_text_or_parts_of_one() -> None:
    parts = [{"type": "input_text", "text": "no"}, {"type": "input_text", "text": "on"}]
    for output in ("noon", parts):
        given = [{"type": "function_call_output", "call_id": "1", "output": output}]
        ask = read_responses({"model": "toy", "input": given})
        assert ask.messages == (Message(Role.USER, "Result of the call 1:\nnoon"),)


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
