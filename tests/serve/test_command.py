"""`pasta serve`: what is wrong is said before a model is loaded, and the address once clients can connect."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias

import httpx
import pytest
import torch

from benchmarks.serve_load import pasta_serve
from pastalang import Engine
from pastalang.serve.app import listener
from pastalang.serve.service import Settings
from tests.command import pasta

Served: TypeAlias = list[tuple[Engine, Settings]]

invoke = partial(pasta, "serve", "pasta-mini")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    found: Served = []
    monkeypatch.setattr("pastalang.serve.app.run", lambda engine, settings, *_, **__: found.append((engine, settings)))
    return found


def test_the_command_loads_the_model_as_it_is_told(served: Served, tmp_path: Path) -> None:
    found = invoke("--port", "0", "--dtype", "bfloat16", "--device", "cpu", "--programs", str(tmp_path))
    assert found.exit_code == 0 and f"note: there are no programs in {tmp_path}" in found.output
    assert served[0][0].model.dtype is torch.bfloat16
    refused = invoke("--port", "0", "--adapter", "nowhere")
    assert refused.exit_code == 3 and "--adapter: there is no adapter nowhere" in refused.output


def test_a_port_that_is_taken_is_refused(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = invoke("--port", str(other.getsockname()[1]))
    assert refused.exit_code == 2 and "cannot be listened on: address already in use" in refused.output and not served
    with listener("127.0.0.1", 0) as ours, pytest.raises(OSError, match="in use"):  # while our model is loaded
        listener("127.0.0.1", ours.getsockname()[1])


@pytest.mark.parametrize("key", ["", "correct horse", " horse", "horse\n", "Pferd-ä"])
def test_a_key_that_no_client_can_send_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The empty one, too, which a variable that is not set leaves: every client could send that."""
    options = ("--port", "0", "--host", "0.0.0.0")
    given = invoke(*options, "--api-key", "good", "--api-key", key)
    monkeypatch.setenv("PASTALANG_API_KEY", key)
    set = invoke(*options)
    assert given.exit_code == set.exit_code == 2 and not served
    assert "--api-key" in given.output and "--api-key" in set.output and "horse" not in given.output + set.output


@pytest.mark.parametrize(
    ("words", "keys"), [((), ("of-the:environment",)), (("--api-key", "one", "--api-key", "two"), ("one", "two"))]
)
def test_keys_are_those_given_or_that_of_the_environment(
    served: Served, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PASTALANG_API_KEY", "of-the:environment")
    assert invoke("--port", "0", "--host", "0.0.0.0", *words).exit_code == 0
    [(_, settings)] = served
    assert settings.api_keys == keys and "PASTALANG_API_KEY" in pasta("serve", "--help").output


def test_programs_with_mistakes_are_refused(served: Served, tmp_path: Path) -> None:
    (tmp_path / "greet.pasta").write_text("template greet(")
    refused = invoke("--port", "0", "--programs", str(tmp_path))
    assert refused.exit_code == 1 and "greet.pasta:1:15" in refused.output and "serving" not in refused.output
    assert not served


BODY: dict[str, object] = {"model": "pasta-mini", "prompt": "x", "max_tokens": 800}
FINISHING = "finishing 1 request, at most 30 s; Ctrl-C once more stops at once\n"


@contextmanager
def serving() -> Iterator[tuple[subprocess.Popen[str], IO[str], str]]:
    with subprocess.Popen([*pasta_serve("pasta-mini"), "--port", "0"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        found = re.search(r"serving pasta-mini at (http://127\.0\.0\.1:\d+) ", said)
        assert found is not None, said
        yield server, server.stderr, found[1]


def test_the_address_is_said_once_clients_can_connect() -> None:
    """And a process that is asked to end does so, with the status that service managers take for a clean end; the next
    one gets its port."""
    with serving() as (server, said, address), httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/ready").status_code == 200
        with client.stream("POST", "/v1/completions", json={**BODY, "stream": True}) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            server.send_signal(signal.SIGTERM)
            assert FINISHING in said and "[DONE]" in "".join(lines)
        assert server.wait(timeout=60) == -signal.SIGTERM
    listener("127.0.0.1", int(address.rpartition(":")[2])).close()


def test_a_second_ctrl_c_gives_up_what_runs_with_an_answer() -> None:
    with serving() as (server, said, address), ThreadPoolExecutor() as pool:
        waiting = pool.submit(httpx.post, f"{address}/v1/completions", json=BODY, timeout=60)
        while "pastalang_in_flight 1.0" not in httpx.get(f"{address}/metrics").text:
            assert not waiting.done()
        server.send_signal(signal.SIGINT)
        assert FINISHING in said
        server.send_signal(signal.SIGINT)
        answer, ended = waiting.result(), server.wait(timeout=60)
        assert (answer.status_code, answer.json()["error"]["message"]) == (503, "the server is shutting down")
        assert ended == 130 and not re.search("Traceback|Exception", said.read())
