"""Servers that answer late, never, or what nobody has asked for: an error of the run, and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import json
import multiprocessing
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import pastalang
from pastalang.errors import BadInputs, HostError, LoadError
from pastalang.hosts.transport import Patience, _seconds
from tests.hosts.stand_in import StandIn
from tests.hosts.test_branches import PRODUCT, Product
from tests.tables import cases_of

KEYS = 'template t(title: text)\nuser """{title} {schema}"""\nassistant json {unit_price: integer}\n'
FIRST = {"brand": "Sharp", "kind": "tv", "size": 1, "headline": "x"}


def chat(content: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}}], "usage": {}}


class Odd(StandIn):
    """Answers requests to `path` with one reply, as it stands."""

    path = ""
    reply: Any = None

    async def handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != self.path:
            return await super().handle(request)
        if callable(self.reply):
            await self.reply()
        return self.reply if isinstance(self.reply, httpx.Response) else httpx.Response(200, json=self.reply)


def odd(kind: str, path: str, reply: Any, **patience: Any) -> pastalang.RemoteEngine:
    host = Odd(kind)
    host.path, host.reply = path, reply
    engine = host.connect(in_flight=patience.pop("in_flight", 32))
    engine._transport.patience = Patience(**{"retries": 1, "wait": 0.001, **patience})
    return engine


# ── in an unknown shape ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("address", "reply", "message"), cases_of(Path(__file__).with_name("replies.md")))
def test_a_reply_that_is_no_answer_is_an_error_of_the_server(address: str, reply: str, message: str) -> None:
    kind, path = address.split()
    status, _, body = reply.replace("DEEP", "[" * 100_000).replace("NEXT", "\n").partition(" ")
    with pytest.raises(HostError) as caught:
        odd(kind, path, httpx.Response(int(status), text=body)).run(PRODUCT, title="x")
    assert message in caught.value.reason


def test_a_document_at_which_a_server_hangs_up_costs_no_other_one() -> None:
    class Fragile(StandIn):
        async def handle(self, request: httpx.Request) -> httpx.Response:
            if b"poison" in request.content:
                raise httpx.RemoteProtocolError("hung up")
            return await super().handle(request)

    first, *others = Fragile("openai").connect().batch(PRODUCT, [{"title": one} for one in ("poison", "a", "b")])
    assert type(first) is HostError and [type(one) for one in others] == [pastalang.Result] * 2


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "ftp://host"), ("NO_PROXY", "[::1]"), ("SSL_CERT_FILE", "nowhere.pem")]
)
def test_an_environment_that_fits_no_client_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(LoadError, match=f"no server can be asked: .*; look at .*{name}"):
        pastalang.connect("http://host")


def test_a_body_that_is_not_packed_as_it_says_is_asked_for_again() -> None:
    class Packed(StandIn):
        async def handle(self, request: httpx.Request) -> httpx.Response:
            content = (await super().handle(request)).content
            is_first = len(self.bodies) == 1 and request.url.path == "/v1/chat/completions"
            packed = parts(content if is_first else gzip.compress(content))
            return httpx.Response(200, headers={"content-encoding": "gzip"}, content=packed)

    host = Packed("openai")
    assert host.connect().run(PRODUCT, title="x").value["kind"] == "tv"
    assert len(host.bodies) == 2


async def parts(content: bytes) -> Any:
    yield content


def test_a_content_in_parts_is_their_text() -> None:
    text = json.dumps(FIRST)
    parts = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
    assert odd("openai", "/v1/chat/completions", chat(parts)).run(PRODUCT, title="x").value == FIRST


def test_half_a_character_is_asked_for_again() -> None:
    answers = iter(['{"brand": "\ud800", "kind": "tv"}', '{"brand": "Sharp", "kind": "tv"}'])
    host = StandIn("openai", answer=lambda *_: next(answers))
    assert host.connect().extract(Product, "Sharp TV", repair=1).brand == "Sharp"


def test_an_answer_with_more_than_was_asked_for_changes_nothing_else() -> None:
    answers = iter([{**FIRST, "size": 500}, {**FIRST, "size": 7, "brand": "Other", "new": 1}])
    host = StandIn("openai", answer=lambda *_: json.dumps(next(answers)))
    assert host.connect().run(PRODUCT, title="x").value == {**FIRST, "size": 7}


def test_an_answer_without_what_was_asked_for_leaves_the_value_that_is_objected_to() -> None:
    answers = iter([{"brand": "Shirp", "kind": "tv"}, {"other": 1}, {"other": 2}])
    host = StandIn("openai", answer=lambda *_: json.dumps(next(answers)))
    with pytest.raises(pastalang.Invalid, match=r'is not a brand.*decoded 3 times, last as "Shirp"'):
        host.connect().extract(Product, "Sharp TV", repair=2)


# ── late, or never ───────────────────────────────────────────────────────────────────────────────────────


async def forever() -> None:
    await asyncio.Event().wait()


LATE: dict[str, Callable[[], pastalang.RemoteEngine]] = {
    "a request": lambda: odd("openai", "/v1/chat/completions", forever, timeout=0.05),
    "a request of a run": lambda: odd("openai", "/v1/chat/completions", forever, deadline=0.1),
    "a value": lambda: odd("vllm", "/v1/completions", forever, deadline=0.1),
    "the words around messages": lambda: odd("llama.cpp", "/apply-template", forever, deadline=0.1),
}


@pytest.mark.parametrize("what", LATE)
def test_what_never_ends_is_given_up(what: str) -> None:
    with pytest.raises(HostError, match=r"no answer within 0\.05 s|within the deadline: no answer"):
        LATE[what]().run(PRODUCT, title="x")


def test_closing_a_stream_closes_its_requests() -> None:
    is_closed = threading.Event()

    async def until_closed() -> None:
        try:
            await forever()
        finally:
            is_closed.set()

    events = odd("vllm", "/v1/completions", until_closed).stream(PRODUCT, title="x")
    assert isinstance(next(events), pastalang.FieldStarted)
    events.close()  # type: ignore[attr-defined]
    assert is_closed.wait(60)


def test_a_run_that_waits_for_a_place_is_given_up_at_its_deadline() -> None:
    engine = odd("openai", "/v1/chat/completions", forever, deadline=0.1, in_flight=1)
    found = engine.batch(PRODUCT, [{"title": "x"}] * 3)
    assert all("within the deadline" in str(one) for one in found)
    assert engine._transport.sent == 2, "the models, and one answer"


def test_retry_after_may_be_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    found = [_seconds(httpx.Response(429, headers={"retry-after": given})) for given in (later, "2.5", "-1", "soon")]
    assert found[0] is not None and 3000 < found[0] <= 3600
    assert found[1:] == [2.5, 0.0, None]
    assert _seconds(httpx.Response(429, headers={"retry-after": "inf"})) is None


def test_nobody_waits_an_hour_because_a_server_would_like_it() -> None:
    busy = httpx.Response(503, headers={"retry-after": "3600"}, text="loading")
    with pytest.raises(HostError, match="failed once: status 503: loading; the server asks for a pause of 3600 s"):
        pastalang.connect("http://host/v1", transport=httpx.MockTransport(lambda _: busy))
    with pytest.raises(HostError, match="failed once: status 503: loading; the server asks for a pause of 3600 s"):
        odd("openai", "/v1/chat/completions", busy, deadline=1).run(PRODUCT, title="x")


# ── how it is asked ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        {"in_flight": 0}, {"in_flight": True}, {"retries": -1}, {"retries": None}, {"timeout": None}, {"timeout": 0},
        {"timeout": float("nan")}, {"deadline": -1.0}, {"deadline": "soon"},
    ],
)  # fmt: skip
def test_a_number_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(BadInputs, match=f"`{name}` must be"):
        pastalang.connect("http://host/v1", **wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"url": None}, "not None"), ({"url": "http://h /v1"}, "is written"), ({"url": "http://h/v1?"}, "keys out"),
        ({"api_key": 5}, "`api_key` must be a text"), ({"model": 5}, "`model` must be a text"),
        ({"kind": "openai", "model": "m", "tokenizer": 5}, "`tokenizer` must be a tokenizer of transformers"),
    ],
)  # fmt: skip
def test_what_is_no_address_or_name_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        pastalang.connect(**{"url": "http://host/v1", **wrong})
    with pytest.raises(BadInputs, match="`placement` must be"):
        StandIn().connect().plan(PRODUCT, placement="tight")


def test_an_engine_that_is_closed_during_a_run_says_so() -> None:
    async def close() -> None:
        await engine._transport.close()
        raise httpx.ReadError("closed")

    engine = odd("openai", "/v1/chat/completions", close)
    with pytest.raises(HostError, match="was not answered: the engine was closed"):
        engine.run(PRODUCT, title="x")


@pytest.mark.parametrize(("kind", "is_bare"), [("auto", False), ("auto", True), ("openai", False)])
def test_a_server_whose_model_reads_keys_as_words_is_shown_words(kind: str, is_bare: bool) -> None:
    listed = [{"id": "m", "owned_by": "pastalang", "keys_in_words": True}]
    host = Odd("openai")
    host.path, host.reply = "/v1/models", listed if is_bare else {"data": listed}
    engine = pastalang.connect("http://host/v1#m", kind=kind, transport=httpx.MockTransport(host.handle))
    engine.run(pastalang.compile(KEYS), title="x")
    assert '"Unit price"' in host.bodies[0]["messages"][0]["content"]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_of_a_fork_asks_the_server_itself() -> None:
    engine = StandIn().connect()
    value = engine.run(PRODUCT, title="x").value

    def child() -> None:
        assert engine.run(PRODUCT, title="x").value == value
        assert StandIn().connect().run(PRODUCT, title="x").value == value

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(120)
    process.kill()
    assert process.exitcode == 0
