"""Answers over the wire are those of the engine alone, whoever asks beside them and whoever leaves."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect, Request

from pastalang.program.types import Sampling
from pastalang.serve.driver import Job, TooLate
from pastalang.serve.endpoints import event_stream
from pastalang.serve.tasks import task_of
from pastalang.serve.wire import read_chat
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FedToken, hashed_model, scripted_model
from tests.serve.running import VOCABULARY, chat, engine, in_a_loop, json_format, listening, parts_of, serving, text_of

COFFEE = {
    "type": "object",
    "properties": {
        "brand": {"type": "string", "maxLength": 4},
        "roast": {"enum": ["dark", "light"]},
        "sizes": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 2},
        "origin": {
            "type": "object",
            "properties": {"country": {"type": ["string", "null"], "maxLength": 3}},
            "required": ["country"],
            "additionalProperties": False,
        },
    },
    "required": ["brand", "roast", "sizes", "origin"],
    "additionalProperties": False,
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "set_clock",
        "description": "Sets the clock.",
        "parameters": {
            "type": "object",
            "properties": {"hour": {"$ref": "#/$defs/Hour"}},
            "required": ["hour"],
            "additionalProperties": False,
            "$defs": {"Hour": {"type": "integer", "minimum": 0, "maximum": 23}},
        },
    },
}
WORDS = {"type": "string", "minLength": 25, "maxLength": 25}
PROGRAM = '''
template greet(name: text, tone: "warm" | "dry" = "dry")

user """
{name} {tone}
"""

assistant json {
  hello: string(max=5)
  size: integer(0..9)
}
'''


def alone(body: dict[str, Any], *, seed: int = 0) -> str:
    """The text that the engine writes by itself for a request."""
    ask = read_chat(body)
    task = task_of(ask)
    options = {"sampling": Sampling(temperature=ask.temperature, top_p=ask.top_p), "on_truncated": "keep"}
    return engine().run(task.program, dict(task.inputs), seed=seed, **options).text  # type: ignore[arg-type]


_LEAF = st.sampled_from(
    [
        {"type": "boolean"},
        {"type": "null"},
        {"type": "integer", "minimum": -5, "maximum": 50},
        {"type": "number"},
        {"type": "string", "maxLength": 3},
        {"enum": ["a", "b c", 7, None]},
        {"type": "array", "items": {"type": "string", "maxLength": 2}, "minItems": 1, "maxItems": 2},
    ]
)


def object_of(properties: dict[str, Any]) -> dict[str, Any]:
    """The keys `b` and `d` are optional."""
    required = [key for key in properties if key not in "bd"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Some of them leave nothing to fill in."""
    return st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(object_of)


_OBJECTS = st.recursive(_objects(_LEAF), lambda inner: _objects(_LEAF | inner), max_leaves=5)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas=st.lists(_OBJECTS, min_size=1, max_size=3), seed=st.integers(0, 99), hot=st.booleans())
@in_a_loop
async def test_streams_beside_one_another_arrive_in_text_order(schemas: list[Any], seed: int, hot: bool) -> None:
    """Any beginning of a stream is a beginning of the answer, and the whole is the answer of the engine alone."""
    bodies = [
        chat("x", max_tokens=500, seed=seed, temperature=1.0 if hot else 0.0, **json_format(schema))
        for schema in schemas
    ]
    async with serving() as (client, _):
        answers = await asyncio.gather(
            *(client.post("/v1/chat/completions", json={**body, "stream": True}) for body in bodies)
        )
    for body, answer in zip(bodies, answers, strict=True):
        assert text_of(answer.text) == alone(body, seed=seed)
        jsonschema.validate(json.loads(text_of(answer.text)), body["response_format"]["json_schema"]["schema"])
        assert parts_of(answer.text)[-1]["choices"][0]["finish_reason"] == "stop"


@in_a_loop
async def test_values_are_streamed_before_the_answer_is_complete() -> None:
    async with serving() as (client, _):
        body = chat("x", stream=True, stream_options={"include_usage": True}, pasta={"events": True})
        answer = await client.post("/v1/chat/completions", json=body | json_format(COFFEE))
    parts = parts_of(answer.text)
    assert len([part for part in parts if part["choices"] and part["choices"][0]["delta"].get("content")]) > 1
    events = [event for part in parts for event in part.get("pasta", {}).get("events", ())]
    done = {event["field"]: event["text"] for event in events if event["event"] == "done"}
    assert done.keys() == {"brand", "roast", "sizes", "origin.country"}
    assert parts[-1]["usage"]["completion_tokens"] > 0 and parts[-1]["choices"] == []
    fields = {one["field"]: one["span"] for one in parts[-1]["pasta"]["fields"]}
    assert {name: text_of(answer.text)[slice(*span)] for name, span in fields.items()} == done


@in_a_loop
async def test_a_stream_that_cannot_begin_is_an_error_with_its_status(tmp_path: Path) -> None:
    (tmp_path / "greet.pasta").write_text(PROGRAM)
    long = "x" * 300_000
    model = hashed_model(VOCABULARY)
    model.max_position = 4_095
    async with serving(engine(model=model), programs=tmp_path) as (client, _):
        for path, body, status in [
            ("/v1/chat/completions", chat(long, stream=True), 422),
            ("/v1/responses", {"model": "toy", "input": long, "stream": True}, 422),
            ("/v1/completions", {"model": "toy", "prompt": long, "stream": True}, 422),
            ("/programs/greet?stream=true", {"nam": "Ada"}, 400),
        ]:
            answer = await client.post(path, json=body)
            assert answer.status_code == status and answer.json()["error"]["message"], path


@in_a_loop
async def test_how_often_a_value_is_decoded_again_can_be_said_of_any_answer() -> None:
    """Of one whose schema is enforced while decoding, too: no value of it is ever rejected."""
    even = object_of({"size": {"type": "integer", "minimum": 0, "maximum": 9}}) | {"not": {"required": ["size"]}}
    async with serving() as (client, _):
        for schema, status in ((COFFEE, 200), (even, 422)):
            body = chat("x", pasta={"repair": 2}, **json_format(schema))
            assert (await client.post("/v1/chat/completions", json=body)).status_code == status


@in_a_loop
async def test_plain_text_ends_at_a_stop_text_or_at_its_limit() -> None:
    async with serving() as (client, _):
        cut = (await client.post("/v1/chat/completions", json=chat("x", max_tokens=7))).json()["choices"][0]
        body = chat("x", max_tokens=200, stop=["e"], temperature=1)
        stopped = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]
    assert (cut["finish_reason"], len(cut["message"]["content"].encode("utf-8")) <= 7) == ("length", True)
    assert stopped["finish_reason"] == "stop" and "e" not in stopped["message"]["content"]


@in_a_loop
async def test_text_is_streamed_as_it_is_written() -> None:
    """Plain text and strings grow in the stream. What may still become a stop text is held back."""
    said = "one two three four five six seven"

    def script(fed: FedToken) -> int:
        tokens = byte_tokenizer().encode(said)
        return int(tokens[fed.position % len(tokens)])

    async with serving(engine(model=scripted_model(script, VOCABULARY))) as (client, _):
        for more in ({"max_tokens": 40}, {"max_tokens": 40, "stop": ["our f"]}, json_format(object_of({"a": WORDS}))):
            body = chat("x", **more)
            [whole] = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
            streamed = (await client.post("/v1/chat/completions", json={**body, "stream": True})).text
            assert text_of(streamed) == whole["message"]["content"]
            assert len(parts_of(streamed)) > 20


@pytest.mark.parametrize(
    ("limit", "passes", "cut"), [(148, 63, ["a", "c"]), (100, 63, ["a"]), (30, 36, []), (1, 7, [])]
)
@in_a_loop
async def test_a_structured_answer_ends_where_the_clients_limit_of_tokens_does(
    limit: int, passes: int, cut: list[str]
) -> None:
    """Nothing is decoded that a reader could not come to."""
    texts = json_format(object_of({"a": {"type": "string"}, "c": {"type": "string"}}))
    body, format = chat("x", max_tokens=limit, **texts), texts["response_format"]["json_schema"]
    asked = {"model": "toy", "input": "x", "text": {"format": {"type": "json_schema", **format}}}
    asked |= {"max_output_tokens": limit, "stream": True}
    async with serving() as (client, server):
        answer = (await client.post("/v1/chat/completions", json=body)).json()
        assert server.driver.passes == passes and server.engine.scheduler.is_idle
        assert f'{{kind="drawn"}} {2 * passes}.0' in (await client.get("/metrics")).text
        last = parts_of((await client.post("/v1/responses", json=asked)).text)[-1]
    [choice], pasta, said = answer["choices"], answer["pasta"], last["response"]
    ends = ("stop", "response.completed") if limit == 148 else ("length", "response.incomplete")
    assert (choice["finish_reason"], last["type"]) == ends and said["status"] == last["type"].removeprefix("response.")
    assert said["output"][0]["content"][0]["text"] == choice["message"]["content"]
    assert said["usage"]["output_tokens"] == answer["usage"]["completion_tokens"] in (limit, limit - 1), (
        "no half letter"
    )
    assert pasta["drawn_tokens"] == 2 * passes and [one["field"] for one in pasta.get("truncated", ())] == cut


@in_a_loop
async def test_several_choices_are_drawn_with_seeds_of_their_own() -> None:
    async with serving() as (client, _):
        body = chat("x", n=3, seed=5, temperature=1, max_tokens=9, logprobs=True)
        choices = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
    texts = [one["message"]["content"] for one in choices]
    assert texts == [alone(body, seed=seed) for seed in (5, 6, 7)] and len(set(texts)) == 3
    assert all(one["logprobs"]["content"][0]["logprob"] < 0 for one in choices)


@in_a_loop
async def test_plain_text_has_every_token_that_was_drawn() -> None:
    """Its limit counts them. The same text in the tokenizer's own tokens may have more."""
    words = ("ab", "bcd")  # abcd is ab, c and d to the tokenizer, and a and bcd to the model
    drawn = [byte_tokenizer(words=words).convert_tokens_to_ids(one) for one in ("a", "bcd")]

    def script(fed: FedToken) -> int:
        return int(drawn[fed.token == drawn[0]])

    model = scripted_model(script, VOCABULARY + 3)
    async with serving(engine(model=model, words=words)) as (client, _):
        for path, body in [
            ("/v1/chat/completions", chat("x", max_tokens=6, logprobs=True)),
            ("/v1/completions", {"model": "toy", "prompt": "x", "max_tokens": 6, "logprobs": 0}),
        ]:
            answer = (await client.post(path, json=body)).json()
            streamed = parts_of((await client.post(path, json=_streamed(body))).text)
            [choice] = answer["choices"]
            assert _written(choice) == "abcdabcdabcd" == "".join(_tokens(choice))
            assert choice["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 6
            assert "".join(_written(one) for part in streamed for one in part["choices"]) == "abcdabcdabcd"


def _streamed(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "logprobs"} | {"stream": True}


def _written(choice: dict[str, Any]) -> str:
    message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    return message.get("content") or ""


def _tokens(choice: dict[str, Any]) -> list[str]:
    found = choice["logprobs"]
    return found["tokens"] if "tokens" in found else [one["token"] for one in found["content"]]


_WORDS = (' "', '",', '",\n', ',\n  "', " [", ', "', " 1", " n", ": ", "12", "\n    ", "é", "日")


def _shapes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = inner.map(lambda items: {"type": "array", "items": items, "minItems": 1, "maxItems": 3})
    unions = st.lists(inner | _LEAF, min_size=2, max_size=3).map(lambda arms: {"anyOf": arms})
    return _objects(lists | unions | inner | _LEAF)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    schema=st.recursive(_objects(_LEAF), _shapes, max_leaves=6),
    limit=st.integers(1, 60),
    heat=st.sampled_from([0.0, 1.0, 2.0]),
    stop=st.sampled_from(["a", "é", '"1']),
    seed=st.integers(0, 99),
)
@in_a_loop
async def test_the_tokens_of_an_answer_spell_it(schema: Any, limit: int, heat: float, stop: str, seed: int) -> None:
    """Where a token has the space before a value or goes past its end, too, and where a limit has cut the text: what
    is left is the beginning of the whole answer, streamed or not."""
    more = {"temperature": heat, "seed": seed}
    structured, plain = chat("x", logprobs=True, **more, **json_format(schema)), chat("x", logprobs=True, **more)
    completion = {"model": "toy", "prompt": "x", "logprobs": 0, "stop": stop, **more}
    bodies = [structured, structured | {"max_tokens": limit}, plain | {"max_tokens": limit}]
    bodies += [plain | {"max_tokens": limit, "stop": stop}, completion | {"max_tokens": limit}]
    made, found = engine(words=_WORDS), list[Any]()
    async with serving(made) as (client, _):
        for body in bodies:
            path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
            found.append((await client.post(path, json=body)).json())
            [choice] = found[-1]["choices"]
            assert "".join(_tokens(choice)) == _written(choice)
            if "messages" in body:
                parts = choice["logprobs"]["content"]
                assert "response_format" not in body or parts[0]["logprob"] == 0, "known text is certain"
                assert all(bytes(one["bytes"]).decode() == one["token"] for one in parts)
        streamed = await client.post("/v1/chat/completions", json=_streamed(bodies[1]))
    [whole], [cut] = (one["choices"] for one in found[:2])
    read = made.encoder.decode(made.encoder.text(_written(whole))[:limit]).rstrip("\ufffd")
    assert _written(cut) == text_of(streamed.text) == read
    assert cut["finish_reason"] == parts_of(streamed.text)[-1]["choices"][0]["finish_reason"]
    assert cut["finish_reason"] == ("stop" if read == _written(whole) else "length")
    spelt = [[(one["token"], one["logprob"]) for one in each["logprobs"]["content"]] for each in (whole, cut)]
    assert spelt[1][:-1] == spelt[0][: len(spelt[1][:-1])]
    assert all(found[1]["pasta"][key] <= found[0]["pasta"][key] for key in ("forward_passes", "drawn_tokens"))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(parameters=_OBJECTS, is_named=st.booleans(), seed=st.integers(0, 99))
@in_a_loop
async def test_a_tool_is_called_with_the_same_arguments_however_they_are_sent(
    parameters: Any, is_named: bool, seed: int
) -> None:
    """A number arrives as a number: each call fits the schema of its tool. A tool without parameters is called, too."""
    function = {"name": "note", "parameters": parameters}
    of_chat: Any = {"type": "function", "function": {"name": "note"}} if is_named else "required"
    of_response: Any = {"type": "function", "name": "note"} if is_named else "required"
    body = chat("x", seed=seed, temperature=1.0, tools=[{"type": "function", "function": function}])
    body["tool_choice"] = of_chat
    asked = {"model": "toy", "input": "x", "tools": [{"type": "function", **function}], "tool_choice": of_response}
    async with serving() as (client, _):
        [whole] = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
        streamed = parts_of((await client.post("/v1/chat/completions", json={**body, "stream": True})).text)
        [item] = (await client.post("/v1/responses", json=asked)).json()["output"]
        events = parts_of((await client.post("/v1/responses", json={**asked, "stream": True})).text)
    [call] = whole["message"]["tool_calls"]
    assert whole["finish_reason"] == "tool_calls" and whole["message"]["content"] is None
    [again] = [one["function"] for part in streamed for one in part["choices"][0]["delta"].get("tool_calls", ())]
    [done] = [one["arguments"] for one in events if one["type"] == "response.function_call_arguments.done"]
    assert again == call["function"] and done == item["arguments"]
    for arguments in (call["function"]["arguments"], item["arguments"]):
        jsonschema.validate(json.loads(arguments), parameters)


@in_a_loop
async def test_a_model_that_calls_no_tool_answers_in_words() -> None:
    """With `auto`, whichever way the model decides, the stream says the same as the whole answer."""
    kinds = set()
    async with serving() as (client, _):
        for number in range(8):
            body = chat(f"{number}", tools=[CLOCK], max_tokens=5, temperature=1, seed=number)
            [whole] = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
            streamed = (await client.post("/v1/chat/completions", json={**body, "stream": True})).text
            assert text_of(streamed) == (whole["message"]["content"] or "")
            assert parts_of(streamed)[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]
            kinds.add(whole["finish_reason"])
    assert len(kinds) == 2


@in_a_loop
async def test_responses_have_the_same_answers() -> None:
    body = {"model": "toy", "input": "x", "text": {"format": {"type": "json_schema", "name": "a", "schema": COFFEE}}}
    async with serving() as (client, _):
        whole = (await client.post("/v1/responses", json=body)).json()
        streamed = parts_of((await client.post("/v1/responses", json={**body, "stream": True})).text)
    text = whole["output"][0]["content"][0]["text"]
    assert text == alone(chat("x", **json_format(COFFEE)))
    deltas = [part["delta"] for part in streamed if part["type"] == "response.output_text.delta"]
    assert "".join(deltas) == text and len(deltas) > 1
    assert streamed[-1]["type"] == "response.completed"
    assert [part["sequence_number"] for part in streamed] == list(range(len(streamed)))


@in_a_loop
async def test_a_completion_goes_on_where_its_prompt_ends() -> None:
    """No chat is written around it: the engine reads the bytes of the prompt and nothing else."""
    body = {"model": "toy", "prompt": ["Once", "Then"], "max_tokens": 6, "logprobs": 0}
    single = {"model": "toy", "prompt": "Once", "max_tokens": 6, "stream_options": {"include_usage": True}}
    async with serving() as (client, _):
        answer = (await client.post("/v1/completions", json=body)).json()
        echoed = (await client.post("/v1/completions", json=single | {"echo": True})).json()
        streamed = parts_of((await client.post("/v1/completions", json=single | {"stream": True})).text)
    first, second = answer["choices"]
    assert first["text"] != second["text"] and first["finish_reason"] == "length"
    assert answer["object"] == "text_completion" and answer["usage"]["completion_tokens"] == 12
    assert answer["usage"]["prompt_tokens"] == len("OnceThen")
    assert len(first["logprobs"]["tokens"]) == len(first["logprobs"]["token_logprobs"]) == 6
    assert echoed["choices"][0]["text"] == "Once" + first["text"]
    assert "".join(part["choices"][0]["text"] for part in streamed[:-1]) == first["text"]
    assert streamed[-1]["usage"]["total_tokens"] == len("Once") + 6


# ── the driver ───────────────────────────────────────────────────────────────────────────────────────────


async def _until(holds: Any) -> None:
    for _ in range(2_000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


@in_a_loop
async def test_one_too_many_is_told_when_to_come_back() -> None:
    async with serving(max_in_flight=1, max_queue=1) as (client, server):
        slow = [
            asyncio.create_task(client.post("/v1/chat/completions", json=chat("x", max_tokens=150))) for _ in range(2)
        ]
        await _until(lambda: server.driver.in_flight == 1 and server.driver.waiting == 1)
        refused = await client.post("/v1/chat/completions", json=chat("x"))
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        assert [one.status_code for one in await asyncio.gather(*slow)] == [200, 200]


@in_a_loop
async def test_a_client_that_leaves_frees_its_memory_and_its_place() -> None:
    made = engine()
    async with serving(made, max_in_flight=1) as (client, server):
        leaving = asyncio.create_task(client.post("/v1/chat/completions", json=chat("x", max_tokens=4_000)))
        await _until(lambda: server.driver.in_flight == 1)
        leaving.cancel()
        await _until(lambda: server.driver.in_flight == 0)
        assert (await client.post("/v1/chat/completions", json=chat("y", max_tokens=3))).status_code == 200


def test_a_client_that_breaks_off_a_stream_frees_its_memory() -> None:
    made = engine()
    with listening(made) as address:
        long = {"type": "string", "minLength": 3_000, "maxLength": 3_000}
        body = chat("x", stream=True, **json_format(object_of({"a": long})))
        with httpx.Client(base_url=address) as client, client.stream("POST", "/v1/chat/completions", json=body) as part:
            begun = part.iter_text()
            next(begun)
            before = httpx.get(f"{address}/metrics").text
        for _ in range(1_000):
            if "pastalang_in_flight 0.0" in (figures := httpx.get(f"{address}/metrics").text):
                break
            time.sleep(0.01)
        assert "pastalang_in_flight 1.0" in before and "pastalang_in_flight 0.0" in figures
        assert 'kind="drawn"' not in figures, "it left before its end"
    made.check_integrity()


@in_a_loop
async def test_a_stream_that_cannot_be_sent_closes_what_is_behind_it() -> None:
    is_closed = False

    async def parts() -> AsyncGenerator[dict[str, Any], None]:
        nonlocal is_closed
        try:
            while True:
                yield {}
        finally:
            is_closed = True

    async def send(message: Any) -> None:
        if message.get("body"):
            raise OSError

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    with pytest.raises(ClientDisconnect):
        waiting = Request(scope, receive=asyncio.Event().wait)  # type: ignore[arg-type]  # of no message
        await (await event_stream(waiting, parts()))(scope, lambda: asyncio.sleep(0), send)
    assert is_closed


@in_a_loop
async def test_one_choice_that_fails_gives_up_the_others() -> None:
    async with serving(max_in_flight=1, max_queue=1) as (client, server):
        slow = asyncio.create_task(client.post("/v1/chat/completions", json=chat("x", max_tokens=150)))
        await _until(lambda: server.driver.in_flight == 1)
        refused = await client.post("/v1/chat/completions", json=chat("x", n=2, max_tokens=4_000))
        assert refused.status_code == 429 and (await slow).status_code == 200
        await _until(lambda: server.driver.in_flight == server.driver.waiting == 0)


@in_a_loop
async def test_more_answers_than_a_server_ever_takes_are_refused_for_good() -> None:
    """Whoever is asked to come back would do so without end."""
    async with serving(max_in_flight=2, max_queue=2) as (client, _):
        for path, body in [
            ("/v1/chat/completions", chat("x", max_tokens=2)),
            ("/v1/completions", {"model": "toy", "prompt": "x", "max_tokens": 2}),
        ]:
            assert (await client.post(path, json={**body, "n": 4})).status_code == 200
            refused = await client.post(path, json={**body, "n": 5})
            assert refused.status_code == 400 and "at most 4 answers at a time" in refused.text


@in_a_loop
async def test_a_request_that_takes_too_long_is_given_up() -> None:
    async with serving(deadline=0.05) as (client, _):
        late = await client.post("/v1/chat/completions", json=chat("x", max_tokens=4_000))
    assert late.status_code == 504 and late.json()["error"]["code"] == "timeout"


@in_a_loop
async def test_a_waiting_request_is_given_up_in_time_and_leaves_its_place() -> None:
    async with serving(max_in_flight=1, max_queue=1) as (client, server):
        slow = asyncio.create_task(client.post("/v1/chat/completions", json=chat("x", max_tokens=4_000)))
        await _until(lambda: server.driver.in_flight == 1)
        body = read_chat(chat("y", max_tokens=1))
        job = Job(task_of(body).program, task_of(body).inputs, {"on_truncated": "keep"})
        leaving = server.driver.submit(job)
        server.driver.cancel(leaving)
        assert leaving.outcome.done() and server.driver.waiting == 0
        late = server.driver.submit(replace(job, deadline=time.monotonic() + 0.05))
        assert isinstance(await late.outcome, TooLate) and server.driver.waiting == 0
        slow.cancel()


@in_a_loop
async def test_all_passes_are_made_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made, threads = engine(), set[int]()
    forward = made.model.forward
    monkeypatch.setattr(made.model, "forward", lambda step: threads.add(threading.get_ident()) or forward(step))
    async with serving(made) as (client, _):
        bodies = [chat(f"{number}", max_tokens=5) for number in range(8)]
        await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for body in bodies))
    assert len(threads) == 1


@pytest.mark.parametrize("parts", [50, 10])
@in_a_loop
async def test_kernels_are_compiled_beside_the_passes_and_in_their_thread(
    monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    """A server has its memory soon, whoever asks; and one that cannot compile all of them serves as well."""
    made, threads = engine(), list[int]()

    def compiling() -> Iterator[None]:
        for _ in range(parts):
            threads.append(threading.get_ident())
            yield
        if parts < 50:
            raise RuntimeError("no kernel")

    monkeypatch.setattr(made.model, "compile_kernels", compiling, raising=False)
    async with serving(made) as (client, server):
        assert (await client.post("/v1/chat/completions", json=chat("x", max_tokens=3))).status_code == 200
        await _until(lambda: len(threads) == parts)
        assert (await client.post("/v1/chat/completions", json=chat("x", max_tokens=3))).status_code == 200
        assert server.driver.passes == 6 and len(set(threads)) == 1 and threads[0] != threading.get_ident()


@in_a_loop
async def test_a_request_begins_without_holding_up_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is about to begin counts as in flight, so a shutdown waits for it."""
    made, may_begin = engine(), threading.Event()
    prepare = made.prepare
    monkeypatch.setattr(made, "prepare", lambda *a, **k: may_begin.wait(30) and prepare(*a, **k))
    async with serving(made) as (client, server):
        accepted = asyncio.create_task(client.post("/v1/chat/completions", json=chat("x", max_tokens=3)))
        await _until(lambda: server.driver.in_flight == 1)
        assert (await client.get("/health")).status_code == 200
        stopping = asyncio.create_task(server.driver.stop(seconds=30))
        await asyncio.sleep(0.1)
        may_begin.set()
        await stopping
        assert (await accepted).status_code == 200


@in_a_loop
async def test_a_shutdown_finishes_what_was_accepted_and_accepts_nothing_more() -> None:
    async with serving() as (client, server):
        accepted = asyncio.create_task(client.post("/v1/chat/completions", json=chat("x", max_tokens=40)))
        await _until(lambda: server.driver.in_flight == 1)
        stopping = asyncio.create_task(server.driver.stop(seconds=30))
        await asyncio.sleep(0)
        refused = await client.post("/v1/chat/completions", json=chat("x"))
        unready = await client.get("/ready")
        await stopping
        assert (await accepted).status_code == 200
    assert (refused.status_code, unready.status_code) == (503, 503)


@in_a_loop
async def test_a_forward_pass_that_fails_ends_its_requests_and_not_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine()
    async with serving(made) as (client, _):
        with monkeypatch.context() as broken:
            broken.setattr(made.model, "forward", lambda batch: 1 / 0)
            failed = await client.post("/v1/chat/completions", json=chat("x"))
        assert (failed.status_code, failed.json()["error"]["message"]) == (500, "internal error")
        assert (await client.post("/v1/chat/completions", json=chat("x", max_tokens=3))).status_code == 200


# ── safety ───────────────────────────────────────────────────────────────────────────────────────────────


@in_a_loop
async def test_a_key_is_asked_for() -> None:
    async with serving(api_keys=("one", "two")) as (client, _):
        for headers, status in [
            ({}, 401),
            ({"authorization": "Bearer three"}, 401),
            ({"authorization": "Basic one"}, 401),
            ({"authorization": "Bearer two"}, 200),
        ]:
            assert (await client.get("/v1/models", headers=headers)).status_code == status
        assert (await client.get("/health")).status_code == 200


@in_a_loop
async def test_callers_with_different_keys_share_no_kept_prompts() -> None:
    for isolates, kept in [(False, True), (True, False)]:
        async with serving(api_keys=("one", "two"), isolate_keys=isolates) as (client, _):
            cached = []
            for key in ("one", "one", "two"):
                body = chat("A question that is long enough to be kept", max_tokens=2)
                answer = await client.post(
                    "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}
                )
                cached.append(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 0)
        assert cached == [False, True, kept]


@in_a_loop
async def test_the_log_has_each_request_when_it_has_ended_and_not_what_it_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as (client, _):
        with caplog.at_level("INFO", "pastalang.serve"):
            async with client.stream("POST", "/v1/chat/completions", json=chat("secret", stream=True)) as answer:
                assert answer.status_code == 200
    [line] = [one.__dict__ for one in caplog.records if one.name == "pastalang.serve"]
    assert line["endpoint"] == "/v1/chat/completions" and line["status"] == 200
    assert "secret" not in caplog.text


@in_a_loop
async def test_paths_and_methods_that_do_not_exist_are_errors_of_the_wire() -> None:
    async with serving() as (client, _):
        for method, path, status in [("GET", "/v1/nothing", 404), ("GET", "/v1/chat/completions", 405)]:
            answer: httpx.Response = await client.request(method, path)
            assert answer.status_code == status and answer.json()["error"]["message"]


@in_a_loop
async def test_metrics_count_requests_tokens_and_passes() -> None:
    async with serving() as (client, _):
        await client.post("/v1/chat/completions", json=chat("x", max_tokens=3))
        await client.post("/v1/chat/completions", json=chat("x", n=0))
        text = (await client.get("/metrics")).text
    assert 'pastalang_requests_total{endpoint="/v1/chat/completions",status="200"} 1.0' in text
    assert 'pastalang_requests_total{endpoint="/v1/chat/completions",status="400"} 1.0' in text
    assert 'pastalang_tokens_total{kind="drawn"} 3.0' in text and "pastalang_in_flight 0.0" in text
