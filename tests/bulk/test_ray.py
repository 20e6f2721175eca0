"""Extraction on a local Ray cluster whose actors are killed, and a document that kills whoever decodes it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, field_validator

import pastalang
from pastalang.bulk.documents import open_documents
from pastalang.bulk.outputs import output_for
from pastalang.bulk.pool import rows_of_pool
from pastalang.bulk.rows import Origin, task_of_type
from pastalang.bulk.run import Job, Ledger, Totals, fingerprint_of, run_job
from pastalang.errors import BadInputs
from pastalang.ray import LOCAL, RayWorkers
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.bulk.test_long_runs import MODULE, ROOT, committed, documents, same
from tests.bulk.test_runs import rows
from tests.oracle.toy_models import toy_model

os.environ.setdefault("RAY_worker_niceness", "0")  # read when it is imported
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'pastalang[ray]'")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # those of Ray
POISON = 13


class Note(BaseModel):
    quote: Annotated[str, pastalang.Verbatim("text")]
    kind: Literal["fee", "item"]

    @field_validator("quote")
    @classmethod
    def survive(cls, quote: str) -> str:
        if quote == "poison":
            os._exit(1)  # as a fault in a library would
        return quote


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    toy_model(vocabulary=320).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


def texts(count: int) -> list[str | None]:
    found: list[str | None] = [f"note {number}" for number in range(count)]
    found[POISON], found[3] = "poison", None
    return found


def expected(count: int, model: str) -> list[Any]:
    """The values of one engine, and None for what fails."""
    harmless = [None if text == "poison" else text for text in texts(count)]
    engine = pastalang.Engine.load(model, cells=2048)
    found = pastalang.extract_many(Note, ({"text": text} for text in harmless), model=engine)
    return [None if one.value is None else one.value.model_dump() for one in found]


def processes(name: str = "", *, below: int | None = None) -> list[int]:
    """The processes below this one, or below another. With a name, those of actors of this class."""
    top = below or os.getpid()
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if not name or (folder / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                found.append(int(folder.name))
        except OSError:
            continue

    def is_below(pid: int) -> bool:
        return pid in parents and (parents[pid] == top or is_below(parents[pid]))

    return [pid for pid in found if is_below(pid)]


class Killer:
    """Kills an actor now and then."""

    def __init__(self, name: str, at: set[int]) -> None:
        self.kills = 0
        self._name = name
        self._at = set(at)
        self._chance = random.Random(0)

    def __call__(self, rows: int) -> None:
        if self._at and rows >= min(self._at) and (running := processes(self._name)):  # some may just be starting
            self._at.remove(min(self._at))
            os.kill(self._chance.choice(running), signal.SIGKILL)
            self.kills += 1


def test_a_run_on_workers_that_are_killed_has_the_rows_of_one_machine(tmp_path: Path, model: str) -> None:
    source, out = tmp_path / "docs.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts(56))))
    task, killer = task_of_type(Note), Killer("_Decoder", {4, 30})
    job = Job(task, Origin.of(task, model), 4, chunk=8)
    corpus = open_documents(source, task.read)

    def report(totals: Totals) -> None:
        killer(totals.rows)

    workers = RayWorkers(LOCAL, task, job.origin, size=2, device=None, cells=2048, in_flight=4)
    with workers, Ledger(out, fingerprint_of(job, corpus), output_for(out, task)) as ledger:
        ledger.open(resume=False, overwrite=False)
        decode = partial(rows_of_pool, workers, batch=8)
        run_job(decode, job, corpus, ledger, report=report, is_stopped=lambda: False)
    assert killer.kills == 2 and not ray.is_initialized() and not processes("_Decoder")
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in found] == [str(number) for number in range(56)]
    assert [row["value"] for row in found] == expected(56, model)
    assert {number: row["_status"] for number, row in enumerate(found) if row["_status"] == "error"} == {
        3: "error", POISON: "error",
    }  # fmt: skip
    assert found[POISON]["_error"].startswith("docs.jsonl:14: the process that decoded it died 3 times: ")


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_fifty_kills_of_workers_and_of_the_command_leave_the_rows_of_one_machine(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    Path("notes_of_kills.py").write_text(MODULE, encoding="utf-8")
    source, whole, out = documents(tmp_path, 6_000), tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    chance, kills = random.Random(0), {"a worker": 0, "the command": 0}

    def begun(out: Path, *words: str) -> subprocess.Popen[bytes]:
        given = ["notes_of_kills:Note", str(source), "-o", str(out), "--model", model, "--cells", "2048", "--in-flight"]
        command = [sys.executable, "-m", "pastalang", "extract", *given, "4", "--chunk", "8", "--resume"]
        return subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    assert begun(whole).wait() == 0
    while sum(kills.values()) < 50:
        run = begun(out, "--ray", LOCAL, "--workers", "2")
        cluster = set[int]()
        try:
            for _ in range(9):
                wait_for_chunks(run, out, chance)
                cluster |= set(processes(below=run.pid))
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(processes("_Decoder", below=run.pid)), signal.SIGKILL)
                    kills["a worker"] += 1
            wait_for_chunks(run, out, chance)
            cluster |= set(processes(below=run.pid))
        finally:
            run.kill()
        kills["the command"] += run.wait() == -signal.SIGKILL
        while not all(map(is_gone, cluster)):  # it goes with the command
            time.sleep(0.1)
        print(kills, committed(out), "chunks", flush=True)
    assert begun(out, "--ray", LOCAL, "--workers", "2").wait() == 0
    assert same(out, whole) and [row["id"] for row in rows(out)] == [str(number) for number in range(6_000)]
    assert kills == {"a worker": 45, "the command": 5} and not processes("_Decoder")


def wait_for_chunks(run: subprocess.Popen[bytes], out: Path, chance: random.Random) -> None:
    """Until it has committed some more, and then for a moment."""
    wanted = committed(out) + chance.choice([1, 1, 2, 5])
    while committed(out) < wanted or not processes("_Decoder", below=run.pid):  # all may be starting again
        assert run.poll() is None, f"the run has ended with {run.returncode}"
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 0.1))


@contextmanager
def cluster(cpus: int) -> Iterator[None]:
    ray.init(address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def test_a_dataset_keeps_its_rows_and_their_order_whoever_is_killed(model: str) -> None:
    import ray.data

    import pastalang.ray

    items = [{"text": text, "other": [1] * 100} for text in texts(48)]
    with cluster(4):
        with pytest.raises(BadInputs, match="8 workers need 8 CPUs, and the cluster has 4"):
            pastalang.ray.extract(ray.data.from_items(items), Note, model=model, workers=8)
        extracted = pastalang.ray.extract(
            ray.data.from_items(items), Note, model=model, workers=2, batch=8, cells=2048, in_flight=4
        )
        killer, found = Killer("MapWorker", {20}), []
        for number, row in enumerate(extracted.iter_rows()):
            killer(number)
            found.append(row)
    assert [row["value"] for row in found] == expected(48, model)
    assert [number for number, row in enumerate(found) if row["_status"] != "ok"] == [3, POISON]
    assert found[POISON]["_error"] == "the process that decoded it died 3 times"
