"""Where only chats can be asked, the whole answer is one request, and what does not fit is asked for again."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

import pastalang
from pastalang.errors import HostError
from tests.hosts.stand_in import StandIn
from tests.hosts.test_branches import PRODUCT, Product
from tests.hosts.test_live import program_and_inputs


def test_one_request_has_the_schema_and_the_messages() -> None:
    host = StandIn("openai")
    result = host.connect().run(PRODUCT, title="Sharp")
    [body] = host.bodies
    assert body["messages"] == [{"role": "user", "content": "Sharp"}]
    schema = body["response_format"]["json_schema"]
    assert list(schema["schema"]["properties"]) == ["brand", "kind", "size", "headline"] and schema["strict"]
    assert result.value == {"brand": "text", "kind": "tv", "size": 0, "headline": "text"}
    assert (result.usage.mode, result.usage.requests, result.prompt) == ("whole", 1, "Sharp")


@pytest.mark.parametrize("name", ["all-built-in-types", "defaults", "maps", "tuples", "limits-of-arrays"])
def test_a_schema_that_openai_refuses_where_it_is_strict_is_a_hint(name: str) -> None:
    host, (program, inputs) = StandIn("openai"), program_and_inputs(name)
    with suppress(HostError):
        host.connect().run(program, inputs)
    assert host.bodies[0]["response_format"]["json_schema"]["strict"] is False


def test_only_the_fields_that_do_not_fit_are_asked_for_again() -> None:
    answers = iter([{"brand": "Sharp", "kind": "boat", "size": 500, "headline": "x"}, {"kind": "tv", "size": 42}])
    host = StandIn("openai", answer=lambda prompt, constraint: json.dumps(next(answers)))
    result = host.connect().run(PRODUCT, title="Sharp")
    assert result.value == {"brand": "Sharp", "kind": "tv", "size": 42, "headline": "x"}
    second = host.bodies[1]
    assert list(second["response_format"]["json_schema"]["schema"]["properties"]) == ["kind", "size"]
    assert "not accepted" in second["messages"][-1]["content"] and result.usage.requests == 2


def test_a_missing_field_is_asked_for_by_itself_and_one_that_nobody_wants_is_left_out() -> None:
    answers = iter(['{"kind": "tv", "more": 1}', '{"brand": "Sharp", "kind": "radio"}'])
    host = StandIn("openai", answer=lambda *_: next(answers))
    *_, last = host.connect().stream_model(Product, "Sharp TV")
    assert last.final == Product(brand="Sharp", kind="tv") and list(last.done) == ["brand", "kind"]
    assert (last.value.brand, last.value.kind) == ("Sharp", "tv")
    assert list(host.bodies[1]["response_format"]["json_schema"]["schema"]["properties"]) == ["brand"]
    host = StandIn("openai", answer=lambda *_: '{"brand": "Sharp", "more": 1, "kind": "tv"}')
    assert host.connect().extract(Product, "Sharp TV").kind == "tv" and len(host.bodies) == 1


def test_an_answer_that_never_fits_is_an_error() -> None:
    host = StandIn("openai", answer=lambda prompt, constraint: "no JSON at all")
    with pytest.raises(HostError, match="the server's 3 answers do not fit their type"):
        host.connect().run(PRODUCT, title="Sharp")
    assert len(host.bodies) == 3


def test_a_field_that_a_validator_rejects_is_asked_for_again_by_itself() -> None:
    answers = iter(['{"brand": "Shirp", "kind": "tv"}', '{"brand": "Sharp"}'])
    host = StandIn("openai", answer=lambda prompt, constraint: next(answers))
    assert host.connect().extract(Product, "Sharp TV", repair=1).kind == "tv"
    assert list(host.bodies[1]["response_format"]["json_schema"]["schema"]["properties"]) == ["brand"]
    assert "brand: is not a brand" in host.bodies[1]["messages"][-1]["content"]
    with pytest.raises(pastalang.Invalid, match="is not a brand"):
        StandIn("openai", answer=lambda *_: '{"brand": "Shirp", "kind": "tv"}').connect().extract(Product, "Sharp TV")


def test_an_answer_that_is_no_object_is_wrapped_for_the_server() -> None:
    host = StandIn("openai", answer=lambda prompt, constraint: '{"value": [1, 2]}')
    assert host.connect().extract(list[int], "one two") == [1, 2]
