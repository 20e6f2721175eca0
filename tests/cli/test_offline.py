"""Models on the hub without a network: one message at once, and models that were downloaded before are found."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pastalang import LoadError
from pastalang.runtime.models import hub
from tests.oracle.toy_models import save_toy

COMMIT = "0" * 40
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in (hub.OFFLINE, "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_a_hub_that_accepts_connections_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub.is_hub_reachable()
        monkeypatch.setenv("HF_TOKEN", "some")  # so that nobody asks the hub, which answers nothing, for the name
        hub.offline_without_hub("somebody/model")
        assert hub.OFFLINE not in os.environ
    assert not hub.is_hub_reachable()
    hub.offline_without_hub("pasta-mini")
    hub.offline_without_hub(str(Path(__file__).parent))
    assert hub.OFFLINE not in os.environ


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "127.0.0.1:1", "socks5://127.0.0.1:1", "http://127.0.0.1:x"])
def test_through_a_proxy_that_does_not_answer_the_hub_is_unreachable(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert not hub.is_hub_reachable()
    with pytest.raises(LoadError, match="somebody/model is not on this machine, and the hub cannot be reached"):
        hub.offline_without_hub("somebody/model")
    (tmp_path / "models--somebody--model" / "snapshots" / COMMIT).mkdir(parents=True)
    (tmp_path / "models--somebody--model" / "snapshots" / COMMIT / "config.json").touch()
    hub.offline_without_hub("somebody/model")
    assert os.environ[hub.OFFLINE] == "1"
    monkeypatch.delenv(hub.OFFLINE)


@pytest.mark.parametrize(("status", "reached"), [(200, True), (404, True), (407, False), (502, False), (504, False)])
def test_through_a_proxy_the_hub_is_reachable_unless_the_proxy_fails(
    status: int, reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status) as port:
        monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        assert hub.is_hub_reachable() is reached
        monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        assert not hub.is_hub_reachable()  # it refuses CONNECT, or answers that the hub cannot be reached
        monkeypatch.setenv("all_proxy", f"socks5://127.0.0.1:{port}")
        monkeypatch.delenv("https_proxy")
        assert hub.is_hub_reachable()  # only the library can use such a proxy


@pytest.mark.parametrize(("status", "name", "advice"), [(404, "a/b", "check"), (401, "pasta-mni", "pasta-mini")])
def test_a_name_that_the_hub_does_not_know_is_refused_at_once(
    status: int, name: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with answering(status) as port:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        for check in (hub.check_hub, hub.offline_without_hub):
            with pytest.raises(LoadError, match=f"^the hub has no model {name}, or it is private: .*{advice}"):
                check(name)
        monkeypatch.setenv("HF_TOKEN", "some")
        hub.check_hub(name)  # a private model is visible to the library only


@contextmanager
def answering(status: int) -> Iterator[int]:
    """The port of a server that answers every request with this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_without_a_network_only_downloaded_models_are_found(tmp_path: Path) -> None:
    program = tmp_path / "a.pasta"
    program.write_text('template t()\nuser """Go."""\nassistant json { a: boolean }\n', encoding="utf-8")
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:1", "HF_HOME": str(tmp_path), "NO_COLOR": "1"}

    def run(model: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "pastalang", "run", str(program), "--model", model]
        return subprocess.run(words, capture_output=True, text=True, env=environment)

    missing = run("nobody/nothing")
    assert (missing.returncode, missing.stdout) == (3, "")
    (line,) = missing.stderr.splitlines()
    assert line.startswith("the model nobody/nothing is not on this machine, and the hub cannot be reached: ")
    place = tmp_path / "hub" / "models--somebody--model"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    save_toy(place / "snapshots" / COMMIT)
    found = run("somebody/model")
    assert (found.returncode, found.stderr.splitlines()[1:]) == (0, []), found.stderr
    assert '"a"' in found.stdout
