"""Where only chats can be asked, the whole answer is one request, and what does not fit is asked for again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pastalang.hosts.errors import HostError, Unsupported
from tests.hosts.stand_in import StandIn
from tests.hosts.test_branches import PRODUCT, TRIP, Product


def test_one_request_has_the_schema_and_the_messages() -> None:
    host = StandIn("openai")
    result = host.connect().run(PRODUCT, title="Sharp")
    [body] = host.bodies
    assert body["messages"] == [{"role": "user", "content": "Sharp"}]
    assert list(body["response_format"]["json_schema"]["schema"]["properties"]) == ["brand", "kind", "size", "headline"]
    assert result.value == {"brand": "text", "kind": "tv", "size": 0, "headline": "text"}
    assert (result.usage.mode, result.usage.requests) == ("whole", 1)


def test_only_the_fields_that_do_not_fit_are_asked_for_again() -> None:
    answers = iter(
        [
            {"brand": "Sharp", "kind": "boat", "size": 500, "headline": "x"},
            {"kind": "tv", "size": 42},
        ]
    )
    host = StandIn("openai", answer=lambda prompt, constraint: json.dumps(next(answers)))
    result = host.connect().run(PRODUCT, title="Sharp")
    assert result.value == {"brand": "Sharp", "kind": "tv", "size": 42, "headline": "x"}
    second = host.bodies[1]
    assert list(second["response_format"]["json_schema"]["schema"]["properties"]) == ["kind", "size"]
    assert "not accepted" in second["messages"][-1]["content"] and result.usage.requests == 2


def test_an_answer_that_never_fits_is_an_error() -> None:
    host = StandIn("openai", answer=lambda prompt, constraint: "no JSON at all")
    with pytest.raises(HostError, match="the server's answer does not fit its type"):
        host.connect().run(PRODUCT, title="Sharp")
    assert len(host.bodies) == 3


def test_a_model_of_pydantic_is_read() -> None:
    def answer(prompt: str, constraint: Any) -> str:
        return '{"brand": "Sharp", "kind": "tv"}'

    assert StandIn("openai", answer=answer).connect().extract(Product, "Sharp TV").brand == "Sharp"


def test_an_answer_that_is_no_object_is_wrapped_for_the_server() -> None:
    host = StandIn("openai", answer=lambda prompt, constraint: '{"value": [1, 2]}')
    assert host.connect().extract(list[int], "one two") == [1, 2]


def test_a_text_with_holes_needs_a_server_that_takes_raw_prompts() -> None:
    with pytest.raises(Unsupported, match=r"needs a server that takes raw prompts \(vLLM, SGLang, llama.cpp\)"):
        StandIn("openai").connect().run(TRIP, city="Oslo")
