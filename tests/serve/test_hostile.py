"""Hostile requests: each is answered with a message, none with a traceback, and the server goes on."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from pastalang.testing.fakes import hashed_model
from tests.serve.running import VOCABULARY, chat, engine, json_format, listening
from tests.tables import cases_of

PROGRAM = '''
template greet(name: text)

user """{name}"""

assistant json { hello: string(max=5) }
'''
MEGABYTE = 2**20


def _nested(depth: int) -> Any:
    schema: Any = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def _said(content: Any, **more: Any) -> dict[str, Any]:
    return {"model": "toy", "messages": [{"role": "user", "content": content}], "max_tokens": 1, **more}


def _schema(schema: Any) -> dict[str, Any]:
    return chat(**json_format(schema))


_WIDE = {"type": "object", "properties": {f"k{at}": {"type": "string"} for at in range(20_000)}}
_BOMB = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 10} for at in range(20)} | {"d20": {"type": "null"}}
BODIES: list[tuple[str, Any, int]] = [
    # no JSON, or none that is read
    ("empty", b"", 400),
    ("bad UTF-8", b'{"model": "\xff"}', 400),
    ("an overlong character", b'{"model": "\xc0\xaf"}', 400),
    ("a byte order mark", b"\xef\xbb\xbf{}", 400),
    ("NUL", b"\x00" * 1000, 400),
    ("10,000 brackets", b"[" * 10_000, 400),
    ("10,000 objects", b'{"a":' * 10_000, 400),
    ("escaped quotes without an end", b'{"a": "' + b'\\"' * 50_000, 400),
    ("a number of 5,000 digits", b'{"model": "toy", "seed": ' + b"9" * 5_000 + b"}", 400),
    # wrong types
    ("a model of half a megabyte", chat() | {"model": "x" * (MEGABYTE // 2)}, 404),
    ("a call whose function is a text",
     chat() | {"messages": [{"role": "assistant", "tool_calls": [{"function": "x"}]}, *chat()["messages"]]}, 400),
    ("a stop without end", _said("x", stop="x" * 100_000), 400),
    ("logit_bias of everything", chat(logit_bias={str(at): 100 for at in range(10_000)}), 400),
    # texts
    ("control text", _said("<end><end><|im_end|>"), 200),
    ("brackets in a string", _said("[" * 500), 200),
    ("a text longer than the model", _said("x" * 300_000), 422),
    ("20,000 messages", chat() | {"messages": chat()["messages"] * 20_000}, 400),
    ("1,000 messages", chat(max_tokens=1) | {"messages": chat()["messages"] * 1_000}, 422),
    # schemas
    ("a value that contains itself", _schema({"$defs": {"n": _nested(0) | {
        "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}}, "$ref": "#/$defs/n"}), 400),
    ("references that multiply", _schema({"$defs": _BOMB, "$ref": "#/$defs/d0"}), 400),
    ("a pattern that backtracks", _schema({"type": "string", "pattern": "^(a|b)*a(a|b){200}$"}), 200),
    ("a nested schema", _schema(_nested(40)), 400),
    ("20,000 properties", _schema(_WIDE), 400),
    ("20,000 options", _schema({"enum": [f"{at}" for at in range(20_000)]}), 400),
    ("a bound without end", _schema({"type": "integer", "minimum": 10**400}), 400),
    *(
        (name, body.encode(), int(status))
        for name, body, status in cases_of(Path(__file__).with_name("hostile-requests.md"))
    ),
]  # fmt: skip
ELSEWHERE: list[tuple[str, str, Any, int]] = [
    ("/v1/completions", "prompts without end", {"model": "toy", "prompt": ["x"] * 1_000}, 400),
    ("/programs/greet?seed=" + "9" * 500, "a seed without end", {"name": "x"}, 400),
    ("/programs/" + "x" * 5_000, "a name without end", {}, 404),
    *(
        (path, name, json.loads(body), int(status))
        for name, given, status in cases_of(Path(__file__).with_name("hostile-elsewhere.md"))
        for path, _, body in [given.partition(" ")]
    ),
]
RAW: list[tuple[str, bytes, int]] = [
    ("no HTTP", b"hello\r\n\r\n", 400),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ("a flood of headers", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 50_000 + b"\r\n", 400),
    ("a header without end", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"b" * 200_000, 400),
    ("a head that takes too long", b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-A: ", 400),
    ("a body that takes too long",
     b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{", 408),
    ("two lengths", b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
    ("a length of 100 MB",
     b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n{", 413),
    ("a key that is no text", b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n", 200),
]  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "greet.pasta").write_text(PROGRAM)
    model = hashed_model(VOCABULARY)
    model.max_position = 4_095
    with listening(engine(model=model), max_body_bytes=MEGABYTE, patience=1, programs=folder) as address:
        yield address


def _check(address: str, status: int, expected: int, text: str) -> None:
    assert status == expected, text[:500]
    assert "Traceback" not in text and "/pastalang/" not in text
    with httpx.Client() as client:
        assert client.post(f"{address}/v1/chat/completions", json=_said("x")).status_code == 200, "the server goes on"


@pytest.mark.parametrize(("name", "body", "status"), BODIES, ids=[name for name, *_ in BODIES])
def test_a_hostile_body_is_answered(address: str, name: str, body: Any, status: int) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    _post(address, "/v1/chat/completions", content, status)


@pytest.mark.parametrize(("path", "name", "body", "status"), ELSEWHERE, ids=[name for _, name, *_ in ELSEWHERE])
def test_a_hostile_body_of_another_endpoint_is_answered(
    address: str, path: str, name: str, body: Any, status: int
) -> None:
    _post(address, path, json.dumps(body).encode(), status)


def _post(address: str, path: str, content: bytes, status: int) -> None:
    with httpx.Client(timeout=60) as client:
        answer = client.post(address + path, content=content)
    if answer.status_code != 200:
        assert answer.json()["error"]["message"]
    _check(address, answer.status_code, status, answer.text)


@pytest.mark.parametrize(("name", "sent", "status"), RAW, ids=[name for name, *_ in RAW])
def test_a_hostile_connection_is_answered(address: str, name: str, sent: bytes, status: int) -> None:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(sent)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        text = answer.read().decode()
        assert status == 200 or json.loads(text)["error"]["message"]
        _check(address, answer.status, status, text)


def test_a_body_of_100_megabytes_in_chunks_is_refused(address: str) -> None:
    with httpx.Client(timeout=60) as client:
        answer = client.post(f"{address}/v1/chat/completions", content=(b" " * MEGABYTE for _ in range(100)))
    _check(address, answer.status_code, 413, answer.text)


def test_a_refused_body_without_end_is_not_read_without_end(address: str) -> None:
    parts = urlsplit(address)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(head)
        with pytest.raises(OSError):
            while True:
                connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
    _check(address, 413, 413, "")
