"""Runs of `pasta extract` that are killed again and again, and runs of very many documents."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import torch
from pydantic import BaseModel

import pastalang
from pastalang.bulk.files import open_documents
from pastalang.bulk.ledger import Ledger
from pastalang.bulk.output import output_for
from pastalang.bulk.rows import Origin
from pastalang.bulk.run import Job, fingerprint_of, rows_of_engine, run_job
from pastalang.bulk.task import task_of_type
from pastalang.cli.app import build_app
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.toy_models import toy_model
from tests.bulk.test_runs import rows

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # this process has no threads when it forks
]
FORK = multiprocessing.get_context("fork")
MODULE = """
from typing import Literal
from pydantic import BaseModel

class Note(BaseModel):
    kind: Literal["fee", "item"]
    urgent: bool
"""


def documents(folder: Path, count: int) -> Path:
    path = folder / f"{count}.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps({"id": number, "text": f"note {number % 97}"}) + "\n" for number in range(count))
    return path


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
            os.execv(sys.executable, [sys.executable, "-m", "pastalang.cli.main", *words])
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


def test_fifty_kills_of_the_command_leave_the_rows_of_an_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(pastalang.__file__).parents[1]), str(tmp_path)]))
    monkeypatch.syspath_prepend(tmp_path)
    Path("notes_of_kills.py").write_text(MODULE, encoding="utf-8")
    toy_model(vocabulary=320).save_pretrained("model")
    byte_tokenizer().save_pretrained("model")
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
    assert same(out, whole) and [row["id"] for row in rows(out)] == [str(number) for number in range(360)]
    print(kills, f"{committed(out) - 1} chunks")
    assert min(kills.values()) >= 5


# ── very many documents ──────────────────────────────────────────────────────────────────────────────────


class Kind(BaseModel):
    kind: Literal["fee", "item"]


class Constant:
    """A model that finds all tokens alike, and takes no time."""

    vocabulary = 320
    cells = max_position = 1 << 15
    prompt_tokens = None
    dtype, device = torch.float32, torch.device("cpu")

    def forward(self, batch: StepBatch) -> torch.Tensor:
        return torch.zeros(len(batch.wanted), self.vocabulary)


def peak(folder: Path, count: int, *, is_toy: bool) -> int:
    """The most memory that a process with so many documents has had."""
    results = FORK.SimpleQueue()

    def child() -> None:
        out, task = folder / f"{count} rows.jsonl", task_of_type(Kind)
        model = TransformersModel(toy_model(layers=1, hidden=8, heads=2), cells=8192, check=False)
        engine = Engine(model if is_toy else Constant(), byte_tokenizer())
        job, corpus = Job(task, Origin("fake", "1", "p"), 16), open_documents(documents(folder, count), task.read)
        with Ledger(out, fingerprint_of(job, corpus), output_for(out, task)) as ledger:
            ledger.open(resume=False, overwrite=False)
            decode = partial(rows_of_engine, engine, job)
            run_job(decode, job, corpus, ledger, report=lambda totals: None, is_stopped=lambda: False)
        with out.open("rb") as stream:
            wrong = sum(json.loads(line)["id"] != str(number) for number, line in enumerate(stream))
        with out.open("rb") as stream:
            assert wrong == 0 and sum(1 for _ in stream) == count
        results.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    process = FORK.Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    return int(results.get())


def test_memory_does_not_grow_with_the_documents(tmp_path: Path) -> None:
    assert peak(tmp_path, 20_000, is_toy=True) < 1.1 * peak(tmp_path, 2_000, is_toy=True)


def test_two_hundred_thousand_documents_keep_their_order_in_flat_memory(tmp_path: Path) -> None:
    assert peak(tmp_path, 200_000, is_toy=False) < 1.1 * peak(tmp_path, 2_000, is_toy=False)
