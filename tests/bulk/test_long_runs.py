"""Runs of `pasta extract` that are killed again and again, and runs of very many documents."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import pastalang
from pastalang.cli.app import build_app
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.bulk.test_runs import rows
from tests.oracle.toy_models import toy_model

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # this process has no threads when it forks
]
ROOT = Path(pastalang.__file__).parents[1]
MODULE = """
from typing import Literal
from pydantic import BaseModel

class Note(BaseModel):
    kind: Literal["fee", "item"]
    urgent: bool

class Kind(BaseModel):
    kind: Literal["fee", "item"]
"""


def documents(folder: Path, count: int) -> Path:
    path = folder / f"{count}.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps({"id": number, "text": f"note {number % 97}"}) + "\n" for number in range(count))
    return path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a module and the folder of a model, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    monkeypatch.syspath_prepend(tmp_path)
    Path("notes_of_kills.py").write_text(MODULE, encoding="utf-8")
    byte_tokenizer().save_pretrained("model")


# ── fifty kills ──────────────────────────────────────────────────────────────────────────────────────────


def started(words: list[str], *, is_fresh: bool) -> int:
    """A process that runs the command: a new interpreter, or a fork of this one, which has imported everything."""
    if pid := os.fork():
        return pid
    code = 99
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        if is_fresh:
            os.execv(sys.executable, [sys.executable, "-m", "pastalang", *words])
        build_app({"extract"})(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
    finally:
        os._exit(code)


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def committed(out: Path) -> int:
    with suppress(FileNotFoundError):
        return (out.with_name(f"{out.name}.run") / "journal.jsonl").read_bytes().count(b"\n")
    return 0


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def same(out: Path, whole: Path) -> bool:
    """The same rows. Where a model computes in bfloat16, the cells that a document is in show in its confidences."""
    found, wanted = rows(out), rows(whole)
    sure = [[one.pop("confidence") for row in each for one in row["_fields"]] for each in (found, wanted)]
    return found == wanted and sure[0] == pytest.approx(sure[1], abs=0.02)


def test_fifty_kills_of_the_command_leave_the_rows_of_an_undisturbed_run(tmp_path: Path) -> None:
    toy_model(vocabulary=320).save_pretrained("model")
    source, chance = documents(tmp_path, 360), random.Random(0)

    def words(out: Path) -> list[str]:
        given = ["notes_of_kills:Note", str(source), "-o", str(out), "--model", "model", "--cells", "2048"]
        return ["extract", *given, "--chunk", "4", "--in-flight", "4", "--resume"]

    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert code_of(started(words(whole), is_fresh=True)) == 0
    kills = {"before a chunk": 0, "after chunks": 0}
    while sum(kills.values()) < 50:
        before = committed(out)
        pid = started(words(out), is_fresh=sum(kills.values()) % 10 == 9)
        wanted = before + chance.choice([0, 1, 1, 2])
        while committed(out) < wanted and not has_ended(pid):
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 1.5 if wanted == before else 0.05))  # in its beginning, or within a chunk
        os.kill(pid, signal.SIGKILL)
        code = code_of(pid)
        assert code in (0, -signal.SIGKILL)
        kills["after chunks" if committed(out) > before else "before a chunk"] += code != 0
        assert not out.exists() or same(out, whole)
        if code == 0:  # it was quicker: once more from nothing
            out = tmp_path / f"after {sum(kills.values())}.jsonl"
    assert code_of(started(words(out), is_fresh=False)) == 0
    assert same(out, whole) and [row["id"] for row in rows(out)] == list(range(360))
    print(kills, f"{committed(out) - 1} chunks")
    assert min(kills.values()) >= 5


# ── very many documents ──────────────────────────────────────────────────────────────────────────────────

WATCHED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def peak(module: str, source: Path, count: int) -> int:
    """The most memory that the command has had for so many documents, in KiB. All of them have their row, in order.

    A small process starts it, because the system counts what a process was forked from in its peak.
    """
    out = source.with_name(f"{count} rows.jsonl")
    words = ["extract", "notes_of_kills:Kind", str(source), "-o", str(out), "--model", "model", "--in-flight", "16"]
    found = subprocess.run(
        [sys.executable, "-c", WATCHED, sys.executable, "-m", module, *words, "--limit", str(count), "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    summary, memory = found.stdout.splitlines()
    assert json.loads(summary)["statuses"] == {"ok": count}
    with out.open("rb") as stream:
        ids = [json.loads(line)["id"] for line in stream]
    assert ids == list(range(count))
    print(f"{count:,} documents: {int(memory) // 1024} MiB, {json.loads(summary)['documents_per_second']} a second")
    return int(memory)


@pytest.mark.parametrize(
    ("module", "count"),
    [("pastalang", 20_000), ("tests.bulk.stand_in", 200_000)],
    ids=["a toy model", "a model that takes no time"],
)
def test_the_memory_of_the_command_does_not_grow_with_the_documents(tmp_path: Path, module: str, count: int) -> None:
    toy_model(layers=1, hidden=8, heads=2, vocabulary=320).save_pretrained("model")
    source = documents(tmp_path, count)
    assert peak(module, source, count) < 1.1 * peak(module, source, 2_000)
