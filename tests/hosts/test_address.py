"""An address stands wherever a model is named: in Python, on the command line, and in bulk runs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel

import pastalang
from tests.command import typed
from tests.hosts.stand_in import StandIn, faults, first_value, listening
from tests.rows import read_rows, write_rows
from tests.tables import cases_of

TYPE = "notes_of_hosts:Note"
MODULE = """
from typing import Literal
from pydantic import BaseModel

class Note(BaseModel):
    kind: Literal["fee", "item"]
    words: str
"""
PROGRAM = 'template note(text: text)\nuser """{text}"""\nassistant json {\n  kind: "fee" | "item"\n}\n'


class Note(BaseModel):
    kind: Literal["fee", "item"]


@pytest.fixture
def host() -> StandIn:
    return StandIn()


@pytest.fixture
def address(host: StandIn) -> Iterator[str]:
    with listening(host) as found:
        yield f"{found}#m"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module, a program, labelled rows and documents, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PASTALANG_API_KEY", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(pastalang.__file__).parents[1]), str(tmp_path)]))
    monkeypatch.syspath_prepend(tmp_path)
    Path("notes_of_hosts.py").write_text(MODULE, encoding="utf-8")
    Path("note.pasta").write_text(PROGRAM, encoding="utf-8")
    write_rows("rows.jsonl", ({"text": "x", "value": {"kind": kind}} for kind in ("fee", "item")))
    write_rows("inputs.jsonl", [{"text": "x"}, {"text": "y"}])
    write_rows("docs.jsonl", ({"id": number, "text": f"note {number}"} for number in range(40)))
    return tmp_path


# ── where a model is named ───────────────────────────────────────────────────────────────────────────────


def test_python_takes_an_address_for_a_model(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pastalang.extract(Note, "x", model=address) == Note(kind="fee")
    assert [one.value for one in pastalang.extract_many(Note, ["x", "y"], model=address)] == [Note(kind="fee")] * 2
    monkeypatch.setenv("PASTALANG_MODEL", address)
    assert pastalang.extract(Note, "x", details=True).confidence == pytest.approx(0.7788, abs=1e-4)


def test_commands_take_an_address_for_a_model(address: str) -> None:
    ran = typed(f"run note.pasta -i text=x --model {address}")
    assert ran.exit_code == 0 and json.loads(ran.stdout) == {"kind": "fee"}
    ran = typed(f"run note.pasta --inputs inputs.jsonl --model {address}")
    assert ran.exit_code == 0 and list(map(json.loads, ran.stdout.splitlines())) == [{"kind": "fee"}] * 2
    assert json.loads(typed(f"try note.pasta rows.jsonl --model {address} --json").stdout)["fields"][0]["parallel"] == 1
    read = typed(f"extract {TYPE} docs.jsonl -o out.jsonl --model {address}")
    assert read.exit_code == 0 and "40 in out.jsonl: 40 ok" in read.stdout and "forward passes" not in read.stdout
    assert {row["_meta"]["model"] for row in read_rows("out.jsonl")} == {address}


def test_a_key_comes_from_the_environment_or_from_the_call(
    host: StandIn, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.key = "secret"
    run = f"run note.pasta -i text=x --model {address}"
    refused = typed(run)
    assert refused.exit_code == 3 and "status 401: no such key; a key is given by PASTALANG_API_KEY" in refused.stderr
    assert typed(f"{run} --api-key secret").exit_code == 0
    assert pastalang.connect(address, api_key="secret").extract(Note, "x").kind == "fee"
    monkeypatch.setenv("PASTALANG_API_KEY", "secret")
    assert typed(run).exit_code == 0
    wrong = typed(f"extract {TYPE} docs.jsonl -o out.jsonl --model {address} --api-key not-the-key")
    assert (
        wrong.exit_code == 3 and "such keyBearer …; is the key right?" in wrong.stderr and "the-k" not in wrong.stderr
    )
    assert typed(f"extract {TYPE} docs.jsonl -o out.jsonl --model {address}").exit_code == 0
    assert "secret" not in Path("out.jsonl").read_text("utf-8") + Path("out.jsonl.run/manifest.json").read_text("utf-8")


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────────────


def test_without_httpx_only_what_asks_a_server_is_refused(address: str) -> None:
    code = "import sys; sys.modules['httpx'] = None; from pastalang import *; from pastalang.cli.main import main"
    line = ["run", "note.pasta", "-i", "text=x", "--model", address]
    ran = subprocess.run([sys.executable, "-c", f"{code}; main()", *line], capture_output=True, text=True, timeout=120)
    said = "--model: a model on a server needs the package httpx: pip install 'pastalang[hosts]'"
    assert (ran.returncode, ran.stderr) == (2, f"{said}\n")


@pytest.mark.parametrize(("command", "message"), cases_of(Path(__file__).with_name("addresses.md")))
def test_what_is_wrong_is_said_in_words_that_help(command: str, message: str, host: StandIn, address: str) -> None:
    host.kind = "openai" if "chats" in message else "vllm"
    refused = typed(command.replace("ADDRESS", address).replace("SERVER", address.partition("#")[0]))
    assert refused.exit_code in (1, 2, 3) and refused.stdout == ""
    assert message.replace("SERVER", address.partition("/v1")[0]) in " ".join(refused.stderr.split())
    assert not host.asked and not Path("out.jsonl.run").exists()


def test_what_is_no_server_of_models_is_said_so() -> None:
    def times_out(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    moved = httpx.Response(301, headers={"location": "https://host/"})
    for answer, message in ((times_out, "no answer within 20 s"), (lambda _: moved, "moved to https://host/")):
        with pytest.raises(pastalang.HostError, match=f"{message}; is http://host/v1 the address of a server"):
            pastalang.connect("http://host", transport=httpx.MockTransport(answer))
    with pytest.raises(pastalang.InputError, match="`kind` must be auto, vllm, sglang"):
        pastalang.connect("http://host", kind="tgi")


# ── long runs ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_on_a_server_that_fails_and_is_killed_has_each_row_once_in_the_end(host: StandIn, address: str) -> None:
    command = f"extract {TYPE} docs.jsonl --model {address} --chunk 3 --in-flight 4 --resume -o"
    assert typed(f"{command} whole.jsonl").exit_code == 0
    numbers, is_killed = itertools.count(), threading.Event()

    def answer_some(prompt: str, constraint: Any) -> str:
        if next(numbers) >= 60:  # the run cannot end before it is killed
            is_killed.wait(60)
        return first_value(prompt, constraint)

    host.answer = answer_some
    host.faults, journal = faults(0, 20), Path("out.jsonl.run/journal.jsonl")
    words = [sys.executable, "-m", "pastalang", *command.split(), "out.jsonl"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        while run.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 5):
            time.sleep(0.005)
        os.kill(run.pid, signal.SIGKILL)
    is_killed.set()
    assert run.returncode == -signal.SIGKILL and len(read_rows(str(journal))) < 13
    host.faults = faults(1, 20)
    again = typed(f"{command} out.jsonl")
    assert again.exit_code == 0 and "rows of an earlier run" in again.stdout
    rows = [{**row, "_meta": row["_meta"]["model"]} for row in read_rows("out.jsonl")]
    assert rows == [{**row, "_meta": row["_meta"]["model"]} for row in read_rows("whole.jsonl")]
    assert [row["id"] for row in rows] == list(range(40))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (httpx.Response(503, json={"message": "no engine is running"}), "status 503: no engine is running"),
        (httpx.ReadError("cut"), "RemoteProtocolError: Server disconnected"),
    ],
)
def test_a_run_whose_server_is_lost_ends_and_goes_on_when_it_is_back(
    fault: Any, reason: str, host: StandIn, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pastalang.hosts.opening._MANY_RETRIES", 1)
    command = f"extract {TYPE} docs.jsonl -o out.jsonl --model {address} --chunk 4 --in-flight 2 --resume"

    def until_gone() -> Iterator[Any]:
        yield from [None] * 30
        host.is_gone = isinstance(fault, Exception)
        yield from itertools.repeat(fault)

    host.faults = until_gone()
    lost = typed(command)
    assert lost.exit_code == 3 and f"failed 2 times: {reason}" in lost.stderr
    assert "rows are safe in out.jsonl.run; to go on, call the same command with --resume" in lost.stderr
    safe = sum(line["rows"] for line in read_rows("out.jsonl.run/journal.jsonl"))
    assert 8 <= safe <= 15
    host.faults, host.is_gone = iter(()), False
    again = typed(command)
    assert again.exit_code == 0 and f"after {safe} rows of an earlier run" in again.stdout
    assert [(row["id"], row["_status"]) for row in read_rows("out.jsonl")] == [(number, "ok") for number in range(40)]
    other = typed(command.replace("#m", "#n"))
    assert other.exit_code == 3 and "has no model `n`; it has `m`" in other.stderr
