"""Runs over files: what is committed when, and what is there after a crash at any moment."""

from __future__ import annotations

import errno
import inspect
import json
import multiprocessing
import os
import signal
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel

import pastalang
from pastalang import Engine
from pastalang.bulk.documents import open_documents
from pastalang.bulk.outputs import output_for
from pastalang.bulk.report import read_rows
from pastalang.bulk.rows import Origin, task_of_type
from pastalang.bulk.run import Job, Ledger, RunRefused, Stopped, Totals, fingerprint_of, rows_of_engine, run_job
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the children use no threads
SUFFIXES = (".jsonl", ".csv", ".parquet")


class Note(BaseModel):
    kind: Literal["fee", "item"]
    urgent: bool


@cache
def engine() -> Engine:
    return Engine(hashed_model(320), byte_tokenizer())


def documents(folder: Path, count: int) -> Path:
    path = folder / "docs.jsonl"
    lines = [json.dumps({"id": number, "text": f"note {number % 3}"}) for number in range(count)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(
    source: Path, out: Path, *, chunk: int = 2, resume: bool = True, overwrite: bool = False, **given: Any
) -> Totals:
    runner, stops = given.pop("engine", None) or engine(), given.pop("is_stopped", lambda: False)
    task = task_of_type(given.pop("type", Note), options=given.pop("options", {}))
    job = Job(task, Origin("fake", "1", "p"), given.pop("in_flight", 2), chunk=chunk, **given)
    corpus = open_documents(source, task.read)
    with Ledger(out, fingerprint_of(job, corpus), output_for(out, task)) as ledger:
        ledger.open(resume=resume, overwrite=overwrite)
        try:
            return run_job(
                partial(rows_of_engine, runner, job), job, corpus, ledger, report=lambda totals: None, is_stopped=stops
            )
        finally:  # however it ended, the file of documents is closed
            assert ledger.is_complete or inspect.getgeneratorstate(corpus.documents) == inspect.GEN_CLOSED


def rows(path: Path) -> list[Any]:
    """The rows without the time that they took."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        found = parquet.read_table(path).to_pylist()
    elif path.suffix == ".csv":
        import csv

        with path.open(encoding="utf-8", newline="") as stream:
            found = [{**row, "_meta": json.loads(row["_meta"])} for row in csv.DictReader(stream)]
    else:
        found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in found:
        del row["_meta"]["milliseconds"]
    return found


# ── values that columns cannot hold ──────────────────────────────────────────────────────────────────────


class Broken(BaseModel):
    kind: Annotated[Literal["fee", "item"], AfterValidator(lambda value: f'{value}\r\tb,\n"c"')]
    number: Annotated[Literal["1"], AfterValidator(lambda _: 2**70)]


Renamed = Annotated[Note, AfterValidator(lambda note: {"sort": note.kind})]
Halved = Annotated[Note, AfterValidator(lambda note: Note.model_construct(kind="\ud800", urgent=note.urgent))]


@pytest.mark.parametrize("suffix", (".jsonl", ".csv", ".tsv", ".parquet"))
@pytest.mark.parametrize("type", [Note, Broken, Renamed, Halved])
def test_the_rows_of_every_format_are_those_that_were_counted(tmp_path: Path, suffix: str, type: Any) -> None:
    out = tmp_path / f"out{suffix}"
    totals = run(documents(tmp_path, 5), out, type=type)
    found = list(read_rows(out))
    assert Counter(row["_status"] for row in found) == totals.statuses and len(found) == 5
    for row in found:
        assert (row["value"] is None) == (row["_status"] == "error") == (row["_error"] is not None)
        assert row["_error"] is None or row["_error"].startswith("docs.jsonl:")
    if type is Broken and suffix != ".parquet":
        assert found[0]["value"]["kind"].endswith('\r\tb,\n"c"')


# ── a process that dies, and a disk that is full ─────────────────────────────────────────────────────────


class Disk:
    """Counts what changes the disk, and calls `at` when the count is `fail`."""

    def __init__(self, patch: pytest.MonkeyPatch, fail: int, at: Callable[[], None]) -> None:
        self.count = 0
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink"), (Path, "open"), (Path, "mkdir")):
            patch.setattr(owner, name, self._counted(getattr(owner, name), fail, at))

    def _counted(self, function: Any, fail: int, at: Callable[[], None]) -> Any:
        def counted(*words: Any, **named: Any) -> Any:
            is_read = words[1:2] == ("rb",)  # which changes nothing
            self.count += not is_read
            if self.count == fail and not is_read:
                at()
            return function(*words, **named)

        return counted


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def dies_at(fail: int, source: Path, out: Path) -> bool:
    """Run in a process of its own that is killed at one of its changes to the disk. Says whether it got that far."""

    def child() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, fail, die)
            run(source, out)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def test_a_run_that_is_killed_at_any_moment_is_finished_as_if_nothing_had_been(tmp_path: Path) -> None:
    source, whole = documents(tmp_path, 5), tmp_path / "whole.jsonl"
    run(source, whole)
    assert [row["id"] for row in rows(whole)] == list(range(5))
    out, fail, kills = tmp_path / "out.jsonl", 1, 0
    while dies_at(fail, source, out):  # the n-th run dies at its n-th change to the disk, and goes on with those before
        fail, kills = fail + 1, kills + 1
        if out.exists():
            assert rows(out) == rows(whole)
    assert rows(out) == rows(whole) and kills >= 8
    for moment in range(2, 40, 3):  # and from nothing, at moments spread over a whole run
        again = tmp_path / f"{moment}.jsonl"
        dies_at(moment, source, again)
        run(source, again)
        assert rows(again) == rows(whole)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_loses_nothing_that_was_committed(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, whole = documents(tmp_path, 5), tmp_path / f"whole{suffix}"
    run(source, whole)
    for moment in range(1, 200, 4 if suffix == ".jsonl" else 11):
        out = tmp_path / f"{moment}{suffix}"
        with monkeypatch.context() as patch:
            disk = Disk(patch, moment, full)
            try:
                run(source, out)
            except OSError as problem:
                assert problem.errno == errno.ENOSPC
        run(source, out)
        assert rows(out) == rows(whole)
        if disk.count < moment:
            return
    raise AssertionError("a run has changed the disk more often than the test looks at")


def test_at_most_one_chunk_is_decoded_again(tmp_path: Path) -> None:
    source, out = documents(tmp_path, 40), tmp_path / "out.jsonl"
    seen = 0

    def stops() -> bool:
        nonlocal seen
        seen += 1
        if seen == 30:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        run(source, out, chunk=8, is_stopped=stops)
    committed = [
        json.loads(line)["rows"] for line in (tmp_path / "out.jsonl.run/journal.jsonl").read_text().splitlines()
    ]
    assert set(committed) == {8} and 30 - sum(committed) <= 8 + 2 * 5
    assert run(source, out, chunk=8).resumed == sum(committed)
    assert [row["id"] for row in rows(out)] == list(range(40))


# ── stopping in order, and going on ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_stopped_run_commits_what_is_in_flight(tmp_path: Path, suffix: str) -> None:
    source, out, whole = documents(tmp_path, 11), tmp_path / f"out{suffix}", tmp_path / f"whole{suffix}"
    run(source, whole, chunk=4)
    seen: list[int] = []
    with pytest.raises(Stopped):
        run(source, out, chunk=4, is_stopped=lambda: seen.append(1) or len(seen) > 6)  # type: ignore[func-returns-value]
    assert not out.exists()
    totals = run(source, out, chunk=3, in_flight=5)
    assert totals.resumed == 6 and totals.rows == 11 and rows(out) == rows(whole)


def test_a_document_that_fails_ends_the_run_if_asked_to(tmp_path: Path) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text('"a"\n"b"\n"c"\n""\n"d"\n', encoding="utf-8")
    with pytest.raises(Stopped, match=r"docs.jsonl:4: the text is empty"):
        run(source, tmp_path / "out.jsonl", stop_on_error=True)
    assert run(source, tmp_path / "out.jsonl").resumed == 3
    for chunk in (2, 5):
        for _ in range(2):
            with pytest.raises(Stopped, match=r"1 of [45] documents failed, 2[05].0%, and the most that .* is 10.0%"):
                run(source, tmp_path / f"{chunk}.jsonl", max_error_rate=0.1, chunk=chunk)
            assert not (tmp_path / f"{chunk}.jsonl").exists()
        assert run(source, tmp_path / f"{chunk}.jsonl", max_error_rate=0.5).rows == 5


def test_a_run_that_has_ended_is_left_alone(tmp_path: Path) -> None:
    source, out = documents(tmp_path, 3), tmp_path / "out.jsonl"
    run(source, out)
    before = out.stat().st_mtime_ns, out.read_text()
    assert run(source, out).resumed == 3
    assert (out.stat().st_mtime_ns, out.read_text()) == before
    assert sorted(path.name for path in (tmp_path / "out.jsonl.run").iterdir()) == [
        "journal.jsonl", "lock", "manifest.json",
    ]  # fmt: skip


def test_the_journal_of_a_long_run_is_read_a_line_at_a_time(tmp_path: Path) -> None:
    """Only its chunks are held: whoever keeps what was read copies it again with each line."""
    source, out = documents(tmp_path, 2), tmp_path / "out.jsonl"
    run(source, out, chunk=1)
    journal = tmp_path / "out.jsonl.run/journal.jsonl"
    chunk, *_, joined = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(chunk * 3_000 + joined + chunk[:-1])
    ledger = Ledger(out, {}, output_for(out, task_of_type(Note)))
    tracemalloc.start()
    with pytest.raises(RunRefused, match="exists"):
        ledger.open(resume=False, overwrite=False)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert journal.read_bytes() == chunk * 3_000 + joined and len(ledger.chunks) == 3_000
    assert peak - held < journal.stat().st_size / 2


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


def refused(source: Path, out: Path, **given: Any) -> str:
    with pytest.raises(RunRefused) as found:
        run(source, out, **given)
    return str(found.value)


def test_a_run_is_resumed_as_it_was_started_or_not_at_all(tmp_path: Path) -> None:
    source, out = documents(tmp_path, 9), tmp_path / "out.jsonl"
    with pytest.raises(Stopped):
        run(source, out, is_stopped=iter([False] * 5 + [True] * 50).__next__)
    said = refused(source, out, options={"mode": "sequential", "seed": 3})
    assert "mode: strict then, sequential now" in said and "seed 0 then, of the program, seed 3 now" in said
    assert "limit: none then, 4 now" in refused(source, out, limit=4)
    assert "has 5 rows: go on with --resume, or begin again with --overwrite" in refused(source, out, resume=False)
    documents(tmp_path, 10)
    assert "documents in docs.jsonl: 252 bytes then, 280 bytes now" in refused(source, out)
    source.write_text(documents(tmp_path, 9).read_text().replace("note 1", "NOTE 1"))
    assert "the documents have changed: 1 to 2 are not those that the run" in refused(source, out)
    assert run(source, out, overwrite=True, resume=False).resumed == 0


def test_an_output_that_exists_is_not_overwritten_unasked(tmp_path: Path) -> None:
    source, out = documents(tmp_path, 2), tmp_path / "out.jsonl"
    out.write_text("mine", encoding="utf-8")
    for resume in (True, False):
        assert "out.jsonl exists: write to another file" in refused(source, out, resume=resume)
        assert not (tmp_path / "out.jsonl.run").exists()
    assert out.read_text() == "mine"
    run(source, out, overwrite=True, resume=False)
    assert len(rows(out)) == 2
    assert "out.jsonl exists" in refused(source, out, resume=False)
    out.unlink()
    assert "out.jsonl is gone" in refused(source, out)


def test_two_runs_do_not_write_the_same_output(tmp_path: Path) -> None:
    source, out = documents(tmp_path, 2), tmp_path / "out.jsonl"
    first = Ledger(out, {}, output_for(out, task_of_type(Note)))
    with first:
        first.open(resume=False, overwrite=False)
        assert f"another process writes to {out}: process {os.getpid()}" in refused(source, out)
    assert not first.folder.exists()  # without a committed row there is nothing to go on with


def test_rows_that_were_committed_and_are_gone_are_reported(tmp_path: Path) -> None:
    source, out = documents(tmp_path, 9), tmp_path / "out.jsonl"
    with pytest.raises(Stopped):
        run(source, out, is_stopped=iter([False] * 5 + [True] * 50).__next__)
    (tmp_path / "out.jsonl.run" / "000001.jsonl").unlink()
    assert "000001.jsonl is gone, with rows that were committed" in refused(source, out)
    for damaged in ('{"version": 1', "null"):
        (tmp_path / "out.jsonl.run/manifest.json").write_text(damaged)
        for resume in (True, False):
            assert "manifest.json is damaged; begin again with --overwrite" in refused(source, out, resume=resume)
        assert run(source, out, resume=False, overwrite=True).resumed == 0


def test_a_run_says_what_is_doubtful_about_its_rows() -> None:
    program = pastalang.compile(
        'template t(text: text)\nuser """{text}"""\nassistant json {\n  kind: "a" | "b" | "c"\n  day: date\n'
        "  note: string(max=9)\n  size: integer(0..9)\n}"
    )
    plan, doubts = pastalang.build_plan(program.only_template, program), Totals().doubts

    def add(number: int, *, day: str, note: str, **meta: object) -> None:
        sure = [{"field": "kind", "confidence": 0.35}, {"field": "size", "confidence": 0.3}]
        cut = [("note", number > 8)] * (len(note) > 9) + [("lines[2].day", True), ("lines", True)] * (number > 8)
        value = {"kind": "a" if number else "b", "day": day, "note": note, "size": number % 3, "lines": [number]}
        doubts.add({"value": value, "_fields": sure, "_truncations": cut, "_meta": meta})

    for number in range(9):
        add(number, day="2024-05-01", note=f"note {number}" + "abcdefgh"[:number])
    higher = "raise it: Tokens or max=, or --max-tokens where the type gives none"
    assert doubts.lines(plan) == ["size: its mean confidence is 0.30"]
    assert doubts.problems() == [f"note: truncated at its limit in 5 rows; {higher}"]
    again = "in 2 it repeats itself, where a higher one does not help"
    add(9, day="3333-03-03", note="fluententententent")
    add(10, day="2452-01-01", note="££££££££££££", model="pasta-mini", input_tokens=900)
    doubts.add({"value": None, "_fields": [], "_status": "too_long", "_error": "a.txt: reaches position 9"})
    assert doubts.lines(plan) == [
        'kind: 10 of 11 rows have "a"',
        'day: 9 of 11 rows have "2024-05-01"',
        "note: repeats itself in 2 of 11 rows",
        "lines: repeats itself in 2 of 11 rows",
        "day: is an impossible date in 2 of 11 rows",
        "kind: its mean confidence, 0.35, is that of a blind choice of 3",
        "size: its mean confidence is 0.30",
    ]
    assert doubts.problems() == [
        f"note: truncated at its limit in 7 rows; {again}; else {higher}",
        "lines[].day: truncated at its limit in 2 rows; it repeats itself, so a higher one does not help",
        "lines: truncated at its limit in 2 rows; it repeats itself, so a higher one does not help",
        "1 document with more than 600 tokens, of which pasta-mini overlooks much: --window 128 reads them in parts",
        "1 too_long, the first: a.txt: reaches position 9",
        "too_long: --window 128 reads a long text in parts and merges what they say",
    ]
