"""`pasta serve`: what is wrong is said before a model is loaded, and the address once clients can connect."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from functools import partial
from pathlib import Path

import httpx
import pytest
import torch

from benchmarks.serve_load import pasta_serve
from pastalang import Engine
from pastalang.serve.app import listener
from tests.command import pasta

invoke = partial(pasta, "serve", "pasta-mini")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    found: list[Engine] = []
    monkeypatch.setattr("pastalang.serve.app.run", lambda engine, *_, **__: found.append(engine))
    return found


def test_the_command_loads_the_model_as_it_is_told(served: list[Engine], tmp_path: Path) -> None:
    found = invoke("--port", "0", "--dtype", "bfloat16", "--device", "cpu", "--programs", str(tmp_path))
    assert found.exit_code == 0 and f"note: there are no programs in {tmp_path}" in found.output
    assert served[0].model.dtype is torch.bfloat16
    refused = invoke("--port", "0", "--adapter", "nowhere")
    assert refused.exit_code == 3 and "--adapter: there is no adapter nowhere" in refused.output


def test_a_port_that_is_taken_is_refused(served: list[Engine]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = invoke("--port", str(other.getsockname()[1]))
    assert refused.exit_code == 2 and "cannot be listened on: address already in use" in refused.output
    assert not served
    with listener("127.0.0.1", 0) as ours, pytest.raises(OSError, match="in use"):  # while our model is loaded
        listener("127.0.0.1", ours.getsockname()[1])


def test_programs_with_mistakes_are_refused(served: list[Engine], tmp_path: Path) -> None:
    (tmp_path / "greet.pasta").write_text("template greet(")
    refused = invoke("--port", "0", "--programs", str(tmp_path))
    assert refused.exit_code == 1 and "greet.pasta:1:15" in refused.output and "serving" not in refused.output
    assert not served


def test_the_address_is_said_once_clients_can_connect() -> None:
    """And a process that is asked to end does so, with the status that service managers take for a clean end."""
    with subprocess.Popen([*pasta_serve("pasta-mini"), "--port", "0"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        found = re.search(r"serving pasta-mini at (http://127\.0\.0\.1:\d+) ", said)
        assert found is not None, said
        assert httpx.get(f"{found[1]}/ready", timeout=30).status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == -signal.SIGTERM
