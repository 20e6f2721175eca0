"""Each value is asked for behind exactly the text that the plan lets it see."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel, field_validator

import pastalang
from pastalang.errors import HostError, PastaError
from tests.hosts.stand_in import StandIn, first_value

KINDS = ("vllm", "sglang", "llama.cpp")
PRODUCT = pastalang.compile('''
template product(title: text)

user """
{title}
"""

assistant json {
  brand: string(max=9)
  kind: "tv" | "radio"
  size: integer(0..99) | null
  headline: string(max=20) after brand, kind
}
''')
PROMPT = "<user>Sharp</><assistant>"


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_sees_the_skeleton_up_to_its_key_and_what_it_waits_for(kind: str) -> None:
    host = StandIn(kind)
    result = host.connect().run(PRODUCT, title="Sharp")
    assert result.value == {"brand": "text", "kind": "tv", "size": 0, "headline": "text"}
    keys = '{\n  "brand":,\n  "kind":,\n  "size": ,\n  "headline":'
    seen = sorted(host.asked, key=len)
    ends = ('"brand":', '"kind":', '"size": ')  # nothing but digits would join the space before a size
    assert seen[:3] == [PROMPT + keys[: keys.index(end) + len(end)] for end in ends]
    before = keys.removesuffix('"headline":')
    assert seen[3] == f'{PROMPT}{before} "text" "tv""headline":', "what it waits for stands before its key"
    assert (result.usage.mode, result.usage.requests, result.usage.critical_path) == ("branches", 4, 2)
    assert result.prompt == PROMPT
    assert [round(one.confidence, 6) for one in result.fields] == [round(math.exp(-0.25), 6)] * 4
    silent = StandIn(log_probability=None).connect().run(PRODUCT, title="Sharp")
    assert all(math.isnan(one.confidence) for one in silent.fields), "it says no log-probabilities"


@pytest.mark.parametrize("kind", (*KINDS, "openai"))
def test_a_key_that_is_left_out_is_in_neither_value_nor_text_and_runs_are_reported(kind: str) -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "integer"}}, "required": ["a"]}'
    ended: list[Any] = []

    def answer(prompt: str, _: Any) -> str:
        if kind == "openai":
            return '{"a": true, "b": null}'
        return "true" if prompt.endswith('"a":') else "null"

    engine = StandIn(kind, answer=answer).connect(on_request=ended.append)
    result = engine.run(pastalang.from_schema(schema), text="x")
    assert json.loads(result.text) == result.value == result.exact == {"a": True}
    assert ended[0].outcome is result and ended[0].seconds > 0


TRIP = pastalang.compile('''
template trip(city: text)

user """
{city}
"""

assistant text """
{opening: string(max=9)}

Food: {async food ~20: string(max=20)}

Sights: {async sights ~20: string(max=20)}

{sync}
In short: {summary: string(max=9)}
"""
''')


def test_branches_of_a_text_do_not_see_one_another_until_they_are_joined() -> None:
    def answer(prompt: str, _: Any) -> str:
        return {"<": "Well.", "Food:": " Soup.", "Sights:": " Tower.", "short:": " Go."}[
            next(end for end in ("short:", "Sights:", "Food:", "<") if prompt.endswith(end) or end == "<")
        ]

    host = StandIn(answer=answer)
    result = host.connect().run(TRIP, city="Oslo")
    assert result.text == "Well.\n\nFood: Soup.\n\nSights: Tower.\n\nIn short: Go."
    assert result.value == {"opening": "Well.", "food": "Soup.", "sights": "Tower.", "summary": "Go."}
    ends = ("Food:", "Sights:", "In short:")
    by_end = {end: prompt for prompt in host.asked for end in ends if prompt.endswith(end)}
    assert "Soup." not in by_end["Sights:"] and "Tower." not in by_end["Food:"]
    assert by_end["In short:"].endswith("Soup. Tower.In short:"), "what is joined stands where it is seen"
    assert all(body["stop"] == ["\n"] for body in host.bodies)


SPACED = pastalang.compile('''
template spaced(note: text)

user """{note}"""

assistant json {
  name: string(min_chars=1, max_chars=30)
  kind: "tv" | "radio"
  tags: [string]
  day: date | null
  count: integer(0..9)
}
''')
SENT = {  # what a server has to keep to behind a key, and what it may then answer
    "name": (' "Sharp \\"X\\""', '"Sharp"', ' ""', ' "\n"'),
    "kind": (' "radio"', '"radio"', ' "car"'),
    "tags": (' ["a", "b"]', '["a"]', " [1]"),
    "day": (' "2024-02-29"', '"2024-02-29"', ' "2023-02-29"'),
}


def sent_regex(body: Any) -> str:
    match body:
        case {"structured_outputs": {"choice": choices}}:
            return "|".join(choices)
        case {"structured_outputs": {"regex": regex}} | {"sampling_params": {"regex": regex}}:
            return str(regex)
    raise AssertionError(body)


@pytest.mark.parametrize("kind", ("vllm", "sglang"))
def test_the_space_before_a_value_is_asked_for_with_the_value(kind: str) -> None:
    host = StandIn(kind)
    assert '"kind": "tv"' in host.connect().run(SPACED, note="x").text
    sent = {prompt.rsplit('"', 2)[1]: (prompt, body) for prompt, body in zip(host.asked, host.bodies, strict=True)}
    for key, (fitting, *others) in SENT.items():
        prompt, body = sent[key]
        assert prompt.endswith(f'"{key}":') and re.fullmatch(sent_regex(body), fitting)
        assert not any(re.fullmatch(sent_regex(body), other) for other in others)
    assert sent["count"][0].endswith('"count": '), "no token joins a space and a digit"


@pytest.mark.parametrize("kind", KINDS)
def test_the_space_before_a_hole_in_text_belongs_to_what_is_asked_for(kind: str) -> None:
    program = pastalang.compile('template t()\nassistant text """In short: {a: string(max=9, stop=["."])}. Bye"""\n')
    host = StandIn(kind)
    assert host.connect().run(program).text == "In short: words. Bye"
    assert host.asked[0].endswith("In short:") and host.answered == [" words"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_filled_unless_it_may_be_empty(kind: str) -> None:
    answers = iter(("", "", "words"))
    host = StandIn(kind, answer=lambda *_: next(answers))
    program = 'template t()\nassistant text """{a: string(max=9, min_chars=0)}, {b: string(max=9)}"""\n'
    assert host.connect().run(pastalang.compile(program)).value == {"a": "", "b": "words"}
    assert len(host.asked) == 3, "an empty text is asked for again where it has to be filled"


def test_a_server_that_writes_nothing_is_named() -> None:
    program = pastalang.compile('template t()\nassistant text """{a: string(max=9)}"""\n')
    with pytest.raises(HostError, match="3 answers do not fit its type: it is empty"):
        StandIn(answer=lambda *_: "").connect().run(program)


# ── what does not fit ────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_that_breaks_its_constraint_is_asked_for_again_and_no_other() -> None:
    wrong = iter(["not json", '"a string"'])

    def answer(prompt: str, constraint: Any) -> str:
        if prompt.endswith('"size": '):
            return next(wrong, "7")
        return '"tv"' if constraint and "choice" in constraint else '"text"'

    host = StandIn(answer=answer)
    assert host.connect().run(PRODUCT, title="Sharp").value["size"] == 7 and len(host.asked) == 6
    temperatures = [one["temperature"] for one in host.bodies if one["prompt"].endswith('"size": ')]
    assert temperatures == [0.0, 0.7, 0.7], "the same greedy request would be answered the same"


def test_a_value_that_never_fits_is_null_or_an_error_that_says_what_came() -> None:
    host = StandIn(answer=lambda prompt, constraint: "{" if prompt.endswith('"size": ') else '"tv"')
    assert host.connect().run(PRODUCT, title="x").value["size"] is None
    host = StandIn(answer=lambda prompt, constraint: "{" if prompt.endswith('"brand":') else '"tv"')
    with pytest.raises(HostError, match=r"the server's 3 answers do not fit its type: .*'\{' \(in the field `brand`\)"):
        host.connect().run(PRODUCT, title="x")


class Product(BaseModel):
    brand: str
    kind: Literal["tv", "radio"]

    @field_validator("brand")
    @classmethod
    def _known(cls, brand: str) -> str:
        if brand != "Sharp":
            raise ValueError("is not a brand")
        return brand


def test_a_validator_has_only_the_rejected_field_written_again() -> None:
    brands = iter(['"Shirp"', '"Sharp"'])

    def answer(prompt: str, constraint: Any) -> str:
        return next(brands) if prompt.endswith('"brand":') else '"tv"'

    host = StandIn(answer=answer)
    assert host.connect().extract(Product, "Sharp TV", repair=2) == Product.model_construct(brand="Sharp", kind="tv")
    assert len(host.asked) == 3
    with pytest.raises(pastalang.Invalid, match="is not a brand"):
        StandIn(answer=lambda prompt, constraint: '"tv"').connect().extract(Product, "Sharp TV")


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_documents_keep_their_order_and_their_errors() -> None:
    host = StandIn()
    engine = host.connect(in_flight=3)
    outcomes = engine.batch(PRODUCT, [{"title": "a"}, {"titel": "b"}, {"title": "c"}])
    assert [isinstance(one, PastaError) for one in outcomes] == [False, True, False]
    mapped = list(engine.map(PRODUCT, ({"title": str(number)} for number in range(7)), in_flight=2))
    assert len(mapped) == 7 and len({id(one) for one in mapped}) == 7
    titles = [prompt for prompt in host.asked if prompt.endswith('"brand":')]
    assert [f"<user>{number}</>" in titles[number + 2] for number in range(7)] == [True] * 7


def test_a_stream_tells_of_each_value() -> None:
    events = list(StandIn().connect().stream(PRODUCT, title="x"))
    assert [type(one).__name__ for one in events[-2:]] == ["FieldDone", "Done"]
    done = {one.where: one.text for one in events if isinstance(one, pastalang.FieldDone)}
    assert done == {"brand": '"text"', "kind": '"tv"', "size": "0", "headline": '"text"'}


def test_what_is_written_again_is_void_and_what_stays_is_reported_once() -> None:
    class All(Product):
        size: int | None
        headline: str

    brands = iter(['"Shirp"', '"Sharp"'])
    host = StandIn(
        answer=lambda prompt, asked: next(brands) if prompt.endswith('"brand":') else first_value(prompt, asked)
    )
    *events, _ = host.connect().stream(PRODUCT, title="x", model=All, repair=1)
    count = Counter((type(one).__name__, one.where) for one in events)
    assert count["FieldAgain", "brand"] == 1 and count["FieldDone", "brand"] == count["FieldDone", "headline"] == 2
    assert count["FieldDone", "kind"] == count["TextDelta", "size"] == 1


def test_a_list_that_is_shorter_in_the_end_has_no_values_of_the_longer_one() -> None:
    class Line(BaseModel):
        name: str

    class Lines(BaseModel):
        lines: list[Line]

        @field_validator("lines")
        @classmethod
        def _good(cls, lines: list[Line]) -> list[Line]:
            if lines[0].name == "bad":
                raise ValueError("is bad")
            return lines

    names = iter(["bad", "two", "three", "good"])

    def answer(prompt: str, constraint: Any) -> str:
        if "choice" not in constraint:
            return f' "{next(names)}"'
        written = prompt.count('"name"')
        goes_on = not written or ('"bad"' in prompt and written < 3)
        return next(one for one in constraint["choice"] if ("{" in one) == goes_on)

    *_, last = StandIn(answer=answer).connect().stream_model(Lines, "x", repair=1)
    assert last.final == Lines(lines=[Line(name="good")]) and last.done == ("lines[0].name",)
    assert [one.name for one in last.value.lines] == ["good"]


def test_leaving_a_run_leaves_no_request_open() -> None:
    opened, closed = [], []

    async def hang(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/completions":
            return await host.handle(request)
        opened.append(request)
        try:
            await asyncio.sleep(60)
        finally:
            closed.append(request)
        raise AssertionError

    host = StandIn()

    async def test() -> None:
        engine = host.connect()
        engine._transport._transport = httpx.MockTransport(hang)
        task = asyncio.create_task(engine.arun(PRODUCT, title="x"))
        while len(opened) < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(closed) == len(opened) == 3

    asyncio.run(test())


def test_a_deadline_ends_a_run_that_a_server_never_answers() -> None:
    host = StandIn(faults=iter([httpx.Response(503, text="loading")] * 10_000))
    with pytest.raises(HostError, match="not answered within the deadline: status 503: loading"):
        host.connect(deadline=0.2, retries=10_000).run(PRODUCT, title="x")
