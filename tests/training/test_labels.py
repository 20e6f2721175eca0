"""Labels: what a teacher answers becomes rows to train on, or is dropped with a reason; and no answer is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import pastalang
from pastalang import Engine
from pastalang.bulk.run import RunRefused
from pastalang.plan.branches import Mode
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.training.data import read_checked
from pastalang.training.errors import Interrupted
from pastalang.training.labels import FunctionTeacher, Label, LabelJob, ModelTeacher, label_file, label_rows
from pastalang.training.recording import planner
from tests.command import pasta
from tests.oracle.toy_models import save_toy

SOURCE = 'template t(word: text)\nuser """{word}"""\nassistant json { kind: "a" | "b", size: number | null }\n'
PROGRAM = pastalang.compile(SOURCE)
PLANS = planner(PROGRAM, None)


class Kind(BaseModel):
    kind: str
    size: float | None


def answer(inputs: Mapping[str, Any]) -> object:
    """What a teacher may do, by the word that it is asked about."""
    given: dict[str, Callable[[], object]] = {
        "sure": lambda: Label({"kind": "a", "size": Decimal("1.50")}, 0.9),
        "unsure": lambda: Label({"kind": "a", "size": None}, 0.4),
        "model": lambda: Kind(kind="b", size=2.5),
        "wrong": lambda: {"kind": "c", "size": None},
        "odd": lambda: {"kind": object(), "size": None},
        "broken": lambda: 1 / 0,
    }
    return given.get(inputs["word"], lambda: {"kind": "a", "size": 1})()


def write_rows(folder: Path, words: list[Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"word": word, "category": "c"}) + "\n" for word in words))
    return path


def job_of(rows: Path, function: Callable[[Mapping[str, Any]], object] = answer, **more: Any) -> LabelJob:
    teacher = FunctionTeacher(function, more.pop("in_flight", 1))
    options = {"min_confidence": 0.5, "chunk": 2} | more
    return LabelJob(PLANS(Mode.STRICT), rows, rows.with_name("out.jsonl"), "answer", lambda: teacher, **options)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_what_can_be_trained_on_is_kept_and_the_rest_is_dropped_with_reasons(tmp_path: Path, in_flight: int) -> None:
    job = job_of(write_rows(tmp_path, ["sure", "unsure", "model", "wrong", 3, "odd", "broken"]), in_flight=in_flight)
    totals = label_file(job)
    assert (totals.rows, totals.kept) == (7, 2)
    assert totals.statuses == {"kept": 2, "unsure": 1, "invalid": 2, "error": 2}
    assert job.out.read_text() == (
        '{"word":"sure","value":{"kind":"a","size":1.5},"category":"c"}\n'
        '{"word":"model","value":{"kind":"b","size":2.5},"category":"c"}\n'
    )
    assert [row.category for row in read_checked(job.out, PLANS(Mode.STRICT))] == ["c", "c"]
    dropped = [json.loads(line) for line in job.dropped.read_text().splitlines()]
    assert [(one["status"], one["origin"].rpartition(":")[2]) for one in dropped] == [
        ("unsure", "2"), ("invalid", "4"), ("error", "5"), ("invalid", "6"), ("error", "7"),
    ]  # fmt: skip
    problems = [one["problem"] for one in dropped]
    assert problems[0] == "its confidence is 0.4, below 0.5" and "kind" in problems[1] and "`word`" in problems[2]
    assert problems[3].endswith("which JSON does not have")
    assert problems[4] == "the teacher raised ZeroDivisionError: division by zero"
    assert dropped[0]["row"]["value"] == {"kind": "a", "size": None}  # to look at


def test_a_run_goes_on_wherever_it_was_cut_off(tmp_path: Path) -> None:
    class Plug(BaseException):
        pass

    words = [f"w{number}" if number % 3 else "unsure" for number in range(9)]
    asked: list[str] = []

    def until(last: int) -> Callable[[Mapping[str, Any]], object]:
        def found(inputs: Mapping[str, Any]) -> object:
            asked.append(inputs["word"])
            if len(asked) > last:
                raise Plug
            return answer(inputs)

        return found

    whole = tmp_path / "whole"
    whole.mkdir()
    label_file(job_of(write_rows(whole, words)))
    for last in range(9):
        folder = tmp_path / f"cut-{last}"
        folder.mkdir()
        rows, asked[:] = write_rows(folder, words), []
        with pytest.raises(Plug):
            label_file(job_of(rows, until(last)))
        asked.clear()
        totals = label_file(job_of(rows, until(99)), resume=True)
        assert totals.resumed == last // 2 * 2 and len(asked) == 9 - totals.resumed
        for name in ("out.jsonl", "out.jsonl.run/dropped.jsonl"):
            assert (folder / name).read_text() == (whole / name).read_text().replace("whole", folder.name)
        asked.clear()
        assert label_file(job_of(rows, until(0)), resume=True).kept == totals.kept and not asked


def test_a_run_that_is_stopped_keeps_what_is_done_and_refuses_another_teacher(tmp_path: Path) -> None:
    rows = write_rows(tmp_path, ["w"] * 9)
    asked = 0

    def is_stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    with pytest.raises(Interrupted, match="stopped after 5 of 9 rows"):
        label_file(job_of(rows), is_stopped=is_stopped)
    with pytest.raises(RunRefused, match=r"min-confidence: 0\.5 then, 0\.7 now"):
        label_file(job_of(rows, min_confidence=0.7), resume=True)
    with pytest.raises(RunRefused, match="go on with --resume"):
        label_file(job_of(rows))
    assert label_file(job_of(rows), resume=True).kept == 9


def test_a_model_teaches_what_it_writes_from_left_to_right() -> None:
    engine = Engine(hashed_model(320, spread=9.0), byte_tokenizer())
    words = [{"word": f"w{number}"} for number in range(5)]
    teacher = ModelTeacher(engine, PLANS(Mode.SEQUENTIAL), in_flight=2)
    found = list(label_rows(words, PLANS(Mode.SEQUENTIAL), teacher, min_confidence=0.01))
    for row, one in zip(words, found, strict=True):
        alone = engine.run(PROGRAM, row, mode="sequential", on_truncated="keep")
        assert one.row == {**row, "value": alone.exact}
        sure = min(field.confidence for field in alone.fields)
        assert one.answer.status == ("truncated" if alone.truncated else "kept" if sure >= 0.01 else "unsure")


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────


run = partial(pasta, "label")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "p.pasta").write_text(SOURCE)
    (tmp_path / "rows.csv").write_text("name,id\none,1\ntwo,2\nthree,3\n")
    (tmp_path / "taught.py").write_text(
        "def answer(inputs): return {'kind': 'a', 'size': len(inputs['word'])}\nlist = []"
    )
    return tmp_path


def test_the_command_labels_with_a_function_and_with_a_model(place: Path) -> None:
    result = run("p.pasta", "rows.csv", "-o", "out.jsonl", "--teacher", "taught:answer", "--map", "word=name")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "columns that are not used: id\n" and "3 rows, 3 kept in out.jsonl" in result.stdout
    assert json.loads((place / "out.jsonl").read_text().splitlines()[2]) == {
        "word": "three", "value": {"kind": "a", "size": 5},
    }  # fmt: skip

    save_toy(place / "model", positions=1024)
    words = ("p.pasta", "rows.csv", "-o", "own.jsonl", "--model", "model", "--map", "word=name", "--device", "cpu")
    nothing = run(*words, "--min-confidence", "0.999")
    assert nothing.exit_code == 1 and "no row was kept: rows.csv:2: " in nothing.stderr
    again = run(*words, "--min-confidence", "0.999", "--resume", "--json")
    summary = json.loads(again.stdout)
    assert again.exit_code == 1 and (summary["kept"], summary["resumed"]) == (0, 3)
    other = run(*words, "--resume")
    assert other.exit_code == 2 and "min-confidence: 0.999 then, 0 now" in other.stderr


MISUSE = [
    (["-o", "out.csv", "--teacher", "taught:answer"], 2, "written to a file that ends in .jsonl, not to out.csv"),
    (["-o", "o.jsonl", "--teacher", "taught:answer", "--model", "m"], 2, "both say who answers"),
    (["-o", "o.jsonl", "--teacher", "taught"], 2, "--teacher is written MODULE:FUNCTION, not taught"),
    (["-o", "o.jsonl", "--teacher", "taught:anser"], 2, "the module 'taught' has no 'anser'"),
    (["-o", "o.jsonl", "--teacher", "taught:list"], 2, "--teacher taught:list: list cannot be called"),
    (["-o", "o.jsonl", "--teacher", "taught:answer", "--resume", "--overwrite"], 2, "pass one of them"),
    (["-o", "o.jsonl", "--model", "./nowhere"], 3, "there is no folder ./nowhere"),
    (["-o", "rows.csv", "--teacher", "taught:answer"], 2, "rows.csv"),
]


@pytest.mark.parametrize(("words", "code", "message"), MISUSE)
def test_misuse_is_refused_and_leaves_nothing(place: Path, words: list[str], code: int, message: str) -> None:
    before = sorted(place.rglob("*"))
    result = run("p.pasta", "rows.csv", *words)
    assert result.exit_code == code and message in " ".join(result.stderr.split()), result.stderr
    assert [path for path in sorted(place.rglob("*")) if "__pycache__" not in str(path)] == before
