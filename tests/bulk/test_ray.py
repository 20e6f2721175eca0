"""Extraction on a local Ray cluster whose actors are killed, and a document that kills whoever decodes it."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, field_validator

import pastalang
from pastalang.bulk.files import open_documents
from pastalang.bulk.ledger import Ledger
from pastalang.bulk.output import output_for
from pastalang.bulk.pool import rows_of_pool
from pastalang.bulk.rows import Origin
from pastalang.bulk.run import Job, Totals, fingerprint_of, run_job
from pastalang.bulk.task import task_of_type
from pastalang.runtime.errors import BadInputs
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.toy_models import toy_model

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


def actors(name: str) -> list[int]:
    """The processes of actors of this class, below this process."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                found.append(int(folder.name))
        except OSError:
            continue

    def is_mine(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and is_mine(parents[pid]))

    return [pid for pid in found if is_mine(pid)]


class Killer:
    """Kills an actor now and then."""

    def __init__(self, name: str, at: set[int]) -> None:
        self.kills = 0
        self._name = name
        self._at = set(at)
        self._chance = random.Random(0)

    def __call__(self, rows: int) -> None:
        if self._at and rows >= min(self._at) and (running := actors(self._name)):  # some may just be starting
            self._at.remove(min(self._at))
            os.kill(self._chance.choice(running), signal.SIGKILL)
            self.kills += 1


def test_a_run_on_workers_that_are_killed_has_the_rows_of_one_machine(tmp_path: Path, model: str) -> None:
    from pastalang.ray import LOCAL, RayWorkers

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
    assert killer.kills == 2 and not ray.is_initialized() and not actors("_Decoder")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in rows] == [str(number) for number in range(56)]
    assert [row["value"] for row in rows] == expected(56, model)
    assert {number: row["_status"] for number, row in enumerate(rows) if row["_status"] == "error"} == {
        3: "error", POISON: "error",
    }  # fmt: skip
    assert rows[POISON]["_error"].startswith("docs.jsonl:14: the process that decoded it died 3 times: ")


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
        rows = pastalang.ray.extract(
            ray.data.from_items(items), Note, model=model, workers=2, batch=8, cells=2048, in_flight=4
        )
        killer, found = Killer("MapWorker", {20}), []
        for number, row in enumerate(rows.iter_rows()):
            killer(number)
            found.append(row)
    assert [row["value"] for row in found] == expected(48, model)
    assert [number for number, row in enumerate(found) if row["_status"] != "ok"] == [3, POISON]
    assert found[POISON]["_error"] == "the process that decoded it died 3 times"
