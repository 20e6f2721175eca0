"""`pasta extract` with a small model: what it reads and writes, what it says, and its exit codes."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import os
import random
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pastalang.bulk.rows import extractions_of
from pastalang.bulk.run import Totals
from pastalang.cli.extract import BulkProgress, duration
from tests.command import Terminal, pasta
from tests.rows import read_rows, write_rows

MODULE = """
from typing import Literal
from pydantic import BaseModel

class Note(BaseModel):
    kind: Literal["fee", "item"]
    urgent: bool
"""
PROGRAM = """\
template note(title: text)

user \"\"\"{title}\"\"\"

assistant json {
  kind: "fee" | "item"
  name: string(max=3)
}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module, a program and six documents, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.with_name(f"{tmp_path.name} cache")))
    monkeypatch.syspath_prepend(tmp_path)
    Path("notes_of_tests.py").write_text(MODULE, encoding="utf-8")
    Path("note.pasta").write_text(PROGRAM, encoding="utf-8")
    write_rows("docs.jsonl", ({"id": n, "text": f"note {n}", "title": f"title {n}"} for n in range(6)))
    return tmp_path


TYPE = "notes_of_tests:Note"


run, tried = partial(pasta, "extract"), partial(pasta, "try")


def labelled(*found: Any) -> None:
    write_rows("rows.jsonl", found)


def test_five_labelled_rows_say_what_a_model_can(model: Path) -> None:
    assert run(TYPE, "docs.jsonl", "--model", model, "-o", "all.jsonl").exit_code == 0
    values = [row["value"] for row in read_rows("all.jsonl")]
    given = [{**value, "urgent": not value["urgent"]} for value in values]
    labelled(*({"text": f"note {number}", "value": value} for number, value in enumerate(given)))
    kind, urgent = json.loads(tried(TYPE, "rows.jsonl", "--model", model, "--json").stdout)["fields"]
    assert (kind["field"], kind["rows"], kind["parallel"]) == ("kind", 6, 6) and kind["confidence_of_wrong"] is None
    assert urgent["parallel"] == 0 and urgent["advice"]
    assert urgent["example"] == ["rows.jsonl:1", *(json.dumps(one[0]["urgent"]) for one in (given, values))]
    plain = tried(TYPE, "rows.jsonl", "--model", model).stdout
    assert f"{model} on 6 rows: 6 of 12 values are right, too few to use" in plain
    labelled(*({"text": f"note {one}", "value": (values if one % 2 else given)[one]} for one in range(6)))
    assert (
        "usable if somebody checks: its confidence does not help" in tried(TYPE, "rows.jsonl", "--model", model).stdout
    )
    assert "hpd --model MODEL_BEFORE_TRAINING" in plain and "--data ROWS --steps 60 --out trained-again" in plain


def test_labelled_rows_may_have_their_text_in_another_column(model: Path) -> None:
    """A row that fails is right nowhere, null included, and a key with a space has its confidence."""
    Path("k.pasta").write_text('template k(t: text)\nuser """{t}"""\nassistant json { "a b": "x" | null }\n')
    labelled({"note": "n", "value": {"a b": "x"}}, {"note": "", "value": {"a b": None}})
    refused = tried("k.pasta", "rows.jsonl", "--model", model)
    assert refused.exit_code == 1
    assert "rows.jsonl has no column `t`; it has `note`: choose with --text" in refused.stderr
    assert "has no column `nte`; did you mean" in tried("k.pasta", "rows.jsonl", "--text", "nte").stderr
    [field] = json.loads(tried("k.pasta", "rows.jsonl", "--model", model, "--text", "note", "--json").stdout)["fields"]
    assert field["field"] == "a b" and field["parallel"] <= 1 and field["constant"] == 1
    assert field["confidence_of_right"] or field["confidence_of_wrong"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "x"}, "rows.jsonl:1: the right answer is missing: `value`, or keys of it beside"),
        ({"text": "x", "value": {"Kind": "fee"}}, "rows.jsonl:1: the values have no `Kind`; did you mean `kind`?"),
        ({"text": "x", "value": {}}, "no row has a label: `value` says what is right"),
        ({"text": "x", "value": {"kind": "free"}}, "note: this label cannot be right: rows.jsonl:1: `kind`"),
    ],
)
def test_labels_that_cannot_be_right_are_named(model: Path, row: object, message: str) -> None:
    labelled(row)
    result = tried(TYPE, "rows.jsonl", "--model", model)
    assert message in result.stderr and result.exit_code == (0 if "note" in message else 1)


def test_labels_are_counted_by_their_places_and_numbers_by_their_value(model: Path) -> None:
    """Of a table or of objects, items of lists one by one; a key that may be absent counts where it is absent."""
    fields = 'price: number(1.5..1.5) | null = absent, lines: [{ n: 7 | 8, m: "a" | "b" }](1..1), when: "x" | "y"'
    Path("note.pasta").write_text(f'template note(title: text)\nuser """{{title}}"""\nassistant json {{ {fields} }}\n')
    answer = json.loads(pasta("run", "note.pasta", "-i", "title=x", "--model", model).stdout)
    labelled({"title": "x", "value": answer})
    found = json.loads(tried("note.pasta", "rows.jsonl", "--model", model, "--json").stdout)
    assert [one["field"] for one in found["fields"]] == ["price", "lines", "lines[].n", "lines[].m", "when"]
    assert (found["right"], found["values"]) == (4, 4)
    Path("pay.pasta").write_text(
        'template pay(t: text)\nuser """{t}"""\n'
        'assistant json { kind: "card", no: 1 | 2 } | { kind: "cash", coins: 3 }\n'
    )
    labelled({"t": "x", "value": {"kind": "cash", "coins": 3}}, {"t": "x", "value": {"kind": "card", "no": 1}})
    found = json.loads(tried("pay.pasta", "rows.jsonl", "--model", model, "--json").stdout)
    assert {one["field"]: one["rows"] for one in found["fields"]} == {"kind": 2, "coins": 1, "no": 1}
    beside = (
        f'id,title,when,price,lines,whn\n7,x,{answer["when"]},,"[{{""n"": 7}}]",-\n',
        '[{"title": "x", "when": "x"}]',
    )
    for name, file, count in (("rows.csv", beside[0], 3), ("rows.json", beside[1], 2)):
        Path(name).write_text(file, encoding="utf-8")
        result = tried("note.pasta", name, "--model", model, "--json")
        fields = {one["field"]: one for one in json.loads(result.stdout)["fields"]}
        assert len(fields) == count and fields["when"]["parallel"] == (answer["when"] == "x" or count == 3)
        assert ("columns that are not used: whn" in result.stderr) == (name == "rows.csv")


def test_a_field_that_is_right_as_a_quotation_is_found_by_decoding_it_so(model: Path) -> None:
    """A text of one word has one quotation, which this model would not write by itself."""
    Path("named.pasta").write_text(PROGRAM.replace("max=3", "max=8"), encoding="utf-8")
    labelled(*({"title": word, "value": {"kind": "fee", "name": word}} for word in ("Zebra", "Okapi", "Gnu")))
    kind, name = json.loads(tried("named.pasta", "rows.jsonl", "--model", model, "--json").stdout)["fields"]
    assert (name["parallel"], name["sequential"], name["quoted"], kind["quoted"]) == (0, 0, 3, None)
    assert name["advice"] == 'quote it: Verbatim("title"), in a program verbatim(title)'


def test_rows_below_the_least_confidence_have_a_status_of_their_own(model: Path) -> None:
    found = run(TYPE, "docs.jsonl", "--model", model, "-o", "all.jsonl")
    sure = sorted(min(one["confidence"] for one in row["_fields"]) for row in read_rows("all.jsonl"))
    least = (sure[2] + sure[3]) / 2
    found = run(TYPE, "docs.jsonl", "--model", model, "-o", "some.jsonl", "--min-confidence", least)
    assert found.exit_code == 0 and "3 ok, 3 unsure" in found.stdout
    for plain, row in zip(read_rows("all.jsonl"), read_rows("some.jsonl"), strict=True):
        is_sure = min(one["confidence"] for one in row["_fields"]) >= least
        assert row["value"] == plain["value"] and row["_status"] == ("ok" if is_sure else "unsure")
        said = r"docs.jsonl:\d: the confidence of `(kind|urgent)` is .*, below .*"
        assert is_sure or re.fullmatch(said, row["_error"])
    again = run(TYPE, "docs.jsonl", "--model", model, "-o", "some.jsonl", "--resume")
    assert again.exit_code == 2 and "min_confidence" in again.stderr


def test_tables_for_people_have_the_columns_that_are_asked_for(model: Path) -> None:
    from pyarrow import parquet

    asked = ("--model", model, "--no-meta")
    assert run(TYPE, "docs.jsonl", "-o", "plain.jsonl", "--model", model).exit_code == 0
    plain = read_rows("plain.jsonl")
    assert run(TYPE, "docs.jsonl", *asked, "-o", "out.csv", "--confidence").exit_code == 0
    with Path("out.csv").open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    assert list(found[0]) == ["id", "kind", "urgent", "kind.confidence", "urgent.confidence", "_status", "_error"]
    sure = {one["field"]: one["confidence"] for one in plain[0]["_fields"]}
    assert float(found[0]["urgent.confidence"]) == pytest.approx(sure["urgent"], abs=1e-3)
    assert run(TYPE, "docs.jsonl", *asked, "-o", "some.tsv", "--columns", "urgent,id").exit_code == 0
    assert Path("some.tsv").read_text("utf-8").splitlines()[0] == "urgent\tid"
    assert run(TYPE, "docs.jsonl", *asked, "-o", "out.jsonl").exit_code == 0
    assert read_rows("out.jsonl") == [{key: row[key] for key in ("id", "value", "_status", "_error")} for row in plain]
    assert run(TYPE, "docs.jsonl", *asked, "-o", "out.parquet").exit_code == 0
    assert parquet.read_table("out.parquet").column_names == ["id", "value", "_status", "_error"]
    wrong = run(TYPE, "docs.jsonl", *asked, "-o", "x.csv", "--columns", "urgnt")
    assert wrong.exit_code == 1 and "there is no column `urgnt`; did you mean `urgent`?" in wrong.stderr
    wrong = run(TYPE, "docs.jsonl", *asked, "-o", "x.jsonl", "--columns", "urgent")
    assert wrong.exit_code != 0 and "columns are chosen for .csv, .tsv and .parquet files" in wrong.stderr
    chosen = ("--confidence", "--columns", "id,urgent,urgent.confidence")
    assert run(TYPE, "docs.jsonl", *asked, "-o", "flat.parquet", *chosen).exit_code == 0
    flat = parquet.read_table("flat.parquet")
    assert [str(one.type) for one in flat.schema] == ["int64", "bool", "double"]
    assert [row["urgent"] for row in flat.to_pylist()] == [row["value"]["urgent"] for row in plain]


@pytest.mark.parametrize(("ids", "type"), [([3, 0, None], "int64"), ([3, "b", None], "string"), ([2**70], "string")])
def test_ids_keep_their_type(model: Path, ids: list[Any], type: str) -> None:
    """In Parquet a column has one type: integers if all ids are."""
    from pyarrow import parquet

    text = "".join(json.dumps({"text": "a"} | ({} if id is None else {"id": id})) + "\n" for id in ids)
    Path("ids.jsonl").write_text(text, encoding="utf-8")
    for name in ("out.jsonl", "out.parquet", "out.csv"):
        assert run(TYPE, "ids.jsonl", "-o", name, "--model", model, "--chunk", 1).exit_code == 0
        assert pasta("report", name, "ids.jsonl").exit_code == 0
    assert [row["id"] for row in read_rows("out.jsonl")] == ids
    found = parquet.read_table("out.parquet")["id"]
    assert found.type == type and list(map(str, found.to_pylist())) == list(map(str, ids))
    with Path("out.csv").open(encoding="utf-8", newline="") as stream:
        assert [row["id"] for row in csv.DictReader(stream)] == ["" if id is None else str(id) for id in ids]


def test_keys_that_need_quotes_have_a_confidence(model: Path) -> None:
    Path("note.pasta").write_text(PROGRAM.replace("name:", '"The name":'), encoding="utf-8")
    assert run("note.pasta", "docs.jsonl", "--model", model, "-o", "out.csv", "--confidence").exit_code == 0
    with Path("out.csv").open(encoding="utf-8", newline="") as stream:
        assert all(0 < float(row["The name.confidence"]) <= 1 for row in csv.DictReader(stream))


def test_a_name_with_a_comma_is_chosen_in_quotes(model: Path) -> None:
    Path("note.pasta").write_text(PROGRAM.replace("name:", '"The name, if any":'), encoding="utf-8")
    words = ("note.pasta", "docs.jsonl", "--model", model, "-o", "out.csv", "--columns")
    assert run(*words, '"The name, if any", id,').exit_code == 0
    assert Path("out.csv").read_text("utf-8").splitlines()[0] == '"The name, if any",id'
    for names, code, said in (
        ("id, kind,id", 1, "--columns names `id` twice"),
        ('id,"kind', 2, '--columns takes names with commas between them, as in a row of CSV, not id,"kind'),
    ):
        wrong = run(*words, names, "--overwrite")
        assert wrong.exit_code == code and said in wrong.stderr


def test_documents_come_from_a_folder_of_texts_and_from_the_standard_input(model: Path) -> None:
    Path("texts").mkdir()
    for number in range(3):
        Path("texts", f"{number}.txt").write_text(f"note {number}", encoding="utf-8")
    assert run(TYPE, "docs.jsonl", "-o", "a.jsonl", "--model", model, "--limit", 3).exit_code == 0
    assert run(TYPE, "texts", "-o", "b.jsonl", "--model", model).exit_code == 0
    assert run(TYPE, "-", "-o", "c.jsonl", "--model", model, input=b'"note 0"\n\n"note 1"\n"note 2"').exit_code == 0
    again = ("-", "-o", "c.jsonl", "--model", model, "--resume")
    assert "complete: 3 rows" in run(TYPE, *again, input=b'"note 0"\n"note 1"\n"note 2"').stdout
    for other, said in (
        ('"note 3"', "the documents have changed: 1 to 3"),
        ('"note 2"\n"x"', "there are more documents"),
    ):
        refused = run(TYPE, *again, input=f'"note 0"\n"note 1"\n{other}'.encode())
        assert refused.exit_code == 2 and said in refused.stderr
    values = [[row["value"] for row in read_rows(name)] for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    assert values[0] == values[1] == values[2]
    assert [row["id"] for row in read_rows("b.jsonl")] == ["0.txt", "1.txt", "2.txt"]


def test_a_program_reads_its_inputs_from_columns(model: Path) -> None:
    assert run("note.pasta", "docs.jsonl", "-o", "a.jsonl", "--model", model, "--id", "title").exit_code == 0
    [row, *_] = read_rows("a.jsonl")
    assert row["id"] == "title 0" and list(row["value"]) == ["kind", "name"] and row["_status"] == "truncated"
    assert row["_error"] == "docs.jsonl:1: cut at its limit: name (3 tokens)"
    result = run("note.pasta", "docs.jsonl", "-o", "b.jsonl", "--model", model, "--text", "text", "--json")
    summary = json.loads(result.stdout)
    assert summary["statuses"] == {"truncated": 6} and summary["rows"] == 6 and result.stderr == ""
    assert summary["problems"][0].startswith("name: truncated at its limit in 6 rows; ")


def test_texts_without_a_limit_of_their_own_take_the_one_that_is_given(model: Path) -> None:
    Path("open.pasta").write_text(PROGRAM.replace("string(max=3)", "string"), encoding="utf-8")
    words = ("open.pasta", "docs.jsonl", "-o", "out.jsonl", "--model", model)
    assert run(*words, "--max-tokens", 5).exit_code == 0
    said = {f"docs.jsonl:{number}: cut at its limit: name (5 tokens)" for number in range(1, 7)}
    assert {row["_error"] for row in read_rows("out.jsonl")} == said
    other = run(*words, "--max-tokens", 6, "--resume")
    assert other.exit_code == 2 and "max_tokens=5" in other.stderr and "max_tokens=6" in other.stderr


def test_rows_that_fail_are_counted_and_can_end_the_run(model: Path) -> None:
    Path("bad.jsonl").write_text('"a"\n\n{"text": ""}\n"b"\nnot json\n', encoding="utf-8")
    result = run(TYPE, "bad.jsonl", "-o", "out.jsonl", "--model", model)
    assert result.exit_code == 0 and "4 in out.jsonl: 2 ok, 2 error" in result.stdout
    assert [row["_error"] for row in read_rows("out.jsonl")][1] == "bad.jsonl:3: the text is empty"
    stopped = run(TYPE, "bad.jsonl", "-o", "b.jsonl", "--model", model, "--on-error", "stop")
    assert stopped.exit_code == 1 and "bad.jsonl:3: the text is empty (error)\n1 row is safe in" in stopped.stderr
    assert stopped.stderr.rstrip().endswith("call the same command with --resume and --on-error row")
    too_many = run(TYPE, "bad.jsonl", "-o", "c.jsonl", "--model", model, "--max-error-rate", 0.4)
    assert too_many.exit_code == 1 and "2 of 4 documents failed, 50.0%" in too_many.stderr
    assert too_many.stderr.rstrip().endswith("with --resume and a higher --max-error-rate")
    resumed = run(TYPE, "bad.jsonl", "-o", "c.jsonl", "--model", model, "--resume")
    assert resumed.exit_code == 0 and "resumed          after 4 rows of an earlier run" in resumed.stdout
    assert [row["value"] for row in read_rows("c.jsonl")] == [row["value"] for row in read_rows("out.jsonl")]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((TYPE, "docs.jsonl"), 2, "needs --output FILE, --dry-run or --compare N"),
        ((TYPE, "docs.jsonl", "--compare", 2, "--mode", "sequential"), 2, "choose strict or lockstep"),
        ((TYPE, "docs.jsonl", "--compare", 2, "--dry-run"), 2, "pass one of them"),
        ((TYPE, "-", "-o", "o.jsonl", "--compare", 2), 2, "--compare needs a file of documents"),
        ((TYPE, "docs.jsonl", "-o", "o.jsonl", "--workers", 2), 2, "--workers belongs to --ray"),
        ((TYPE, "docs.jsonl", "--ray", "local", "--compare", 2), 2, "call them without --ray"),
        ((TYPE, "docs.jsonl", "-o", "o.jsonl", "--resume", "--overwrite"), 2, "pass one of them"),
        ((TYPE, "docs.jsonl", "-o", "o.jsonl", "--price-per-hour", "2"), 2, "belongs to --dry-run"),
        ((TYPE, "docs.jsonl", "-o", "docs.jsonl"), 2, "reads docs.jsonl and would overwrite it"),
        ((TYPE, "docs.jsonl", "-o", "o.xlsx"), 2, "ends in .jsonl, .csv, .tsv or .parquet, not to o.xlsx"),
        ((TYPE, "docs.jsonl", "-o", "none/o.jsonl"), 3, "there is no folder none"),
        ((TYPE, "none.jsonl", "-o", "o.jsonl"), 3, "there is no file or folder none.jsonl"),
        ((TYPE, "docs.jsonl", "-o", "o.jsonl", "--text", "titel"), 1, "no column `titel`; did you mean `title`?"),
        (("Note", "docs.jsonl", "-o", "o.jsonl"), 2, "Note is neither a program, which ends in .pasta, nor"),
        (("notes_of_tests:Nots", "docs.jsonl", "-o", "o.jsonl"), 2, "has no 'Nots'; did you mean 'Note'?"),
        (("letters:Note", "docs.jsonl", "-o", "o.jsonl"), 2, "has no 'Note'; it is a folder without Python code"),
        (("os:getcwd", "docs.jsonl", "-o", "o.jsonl"), 2, "os:getcwd is not a Pydantic model, a dataclass, a"),
        (("./a/b.py:Note", "docs.jsonl", "-o", "o.jsonl"), 2, "./a/b.py is a file: write a.b:Note"),
        ((TYPE, "docs.jsonl", "-o", "o.jsonl", "--template", "t"), 2, "--template is for a program"),
        (("note.pasta", "docs.jsonl", "-o", "o.jsonl", "--instructions", "x"), 2, "--instructions is for a type"),
        (("note.pasta", "docs.jsonl", "-o", "o.jsonl", "--text", "a=text"), 1, "the program has no input `a`"),
    ],
)
def test_a_mistake_is_reported_before_the_model_is_loaded(words: tuple[str, ...], code: int, said: str) -> None:
    Path("letters").mkdir()
    result = run(*words, "--model", "pasta-mini")
    assert result.exit_code == code and said in result.stderr and result.stdout == "" and not Path("o.jsonl").exists()


@pytest.mark.parametrize("name", ["x.csv.gz", "x.tsv.gz", "x.jsonl.gz", "x.json.gz"])
def test_documents_that_cannot_be_read_are_named(name: str) -> None:
    Path(name).write_bytes(gzip.compress(b"text\n" + random.Random(0).randbytes(99).hex().encode())[:-30])
    result = run(TYPE, name, "-o", "o.jsonl", "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (3, "unreadable") and error["message"].startswith(f"{name} is not a gz")


class Interrupted(BulkProgress):
    """Presses Ctrl-C after some rows."""

    after = (2,)

    def show(self, totals: Totals) -> None:
        if totals.rows in self.after and not totals.resumed:
            os.kill(os.getpid(), signal.SIGINT)
        super().show(totals)


def test_ctrl_c_commits_what_is_in_flight_and_says_how_to_go_on(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model, "--in-flight", 1, "--chunk", 4)
    twice = (TYPE, "docs.jsonl", "-o", "twice.jsonl", "--model", model)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr("pastalang.cli.extract.BulkProgress", Interrupted)
        stopped = run(*words)
        assert stopped.exit_code == 130 and "stopping after the documents that are being decoded" in stopped.stderr
        assert "to go on, call the same command with --resume" in stopped.stderr
        patch.setattr(Interrupted, "after", (1, 2))
        at_once = run(*twice, "--in-flight", 4)
        assert at_once.exit_code == 130 and not (Path("twice.jsonl.run") / "journal.jsonl").exists()
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    assert not Path("out.jsonl").exists()
    assert "go on with --resume" in run(*words).stderr
    assert run(*words, "--resume").exit_code == 0
    assert run(*words[:3], "twice.jsonl", *words[4:], "--resume").exit_code == 0
    assert all([row["id"] for row in read_rows(name)] == list(range(6)) for name in ("out.jsonl", "twice.jsonl"))


def test_documents_that_vanish_during_a_run_could_not_be_read(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("docs").mkdir()
    for name in "ab":
        write_rows(f"docs/{name}.jsonl", ({"text": f"note {number}"} for number in range(3)))
    with monkeypatch.context() as patch:
        patch.setattr(BulkProgress, "show", lambda *_: Path("docs/b.jsonl").unlink(missing_ok=True))
        gone = run(TYPE, "docs", "-o", "out.jsonl", "--model", model, "--in-flight", 1)
    said = "docs/b.jsonl could not be read: no such file or directory\n3 rows are safe in out.jsonl.run; to go on"
    assert gone.exit_code == 3 and said in gone.stderr


def test_a_disk_that_is_full_or_read_only_is_reported(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model, "--chunk", 2)
    calls = 0

    def sync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 9:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        full = run(*words)
        assert full.exit_code == 3 and "could not be written: no space left on device\n4 rows are safe" in full.stderr
    assert run(*words, "--resume").exit_code == 0 and len(read_rows("out.jsonl")) == 6

    def mkdir(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", mkdir)
        locked = run(TYPE, "docs.jsonl", "-o", "other.jsonl", "--model", model)
        assert locked.exit_code == 3 and "other.jsonl.run cannot be written: read-only file system" in locked.stderr


def test_a_dry_run_measures_and_writes_nothing(model: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents that are measured several times are read each time, as a run reads them."""
    before, read = sorted(here.iterdir()), list[Any]()

    def seen(*given: Any, **options: Any) -> Any:
        for pair in extractions_of(*given, **options):
            read.append(pair[1].usage)
            yield pair

    monkeypatch.setattr("pastalang.bulk.estimate.extractions_of", seen)
    result = run(TYPE, "docs.jsonl", "--model", model, "--dry-run", "--price-per-hour", 3)
    assert result.exit_code == 0 and sorted(here.iterdir()) == before
    said = ("documents        6", "tokens           median 6, p95 6", "measured         6 documents: 6 ok", "price")
    assert all(line in result.stdout for line in said), result.stdout
    assert len(read) > 18 and not any(usage.reused_tokens > usage.input_tokens - 3 for usage in read[8:]), read
    found = json.loads(run(TYPE, "docs.jsonl", "--model", model, "--dry-run", "--limit", 2, "--json").stdout)
    assert found["documents"] == 2 and found["pool"] == 8192 and found["cache_bytes"] > 0 and "price" not in found
    assert 0 < found["passes"] < found["sequential_passes"] and found["documents_per_second"] > 0


def test_no_documents_make_no_rows_and_nothing_is_measured(model: Path) -> None:
    Path("none.jsonl").touch()
    for out in ("o.jsonl", "o.csv", "o.parquet"):
        assert "problem          there are no documents" in run(TYPE, "none.jsonl", "-o", out, "--model", model).stdout
    assert read_rows("o.jsonl") == [] and len(Path("o.csv").read_text("utf-8").splitlines()) == 1
    for words, input in ((("none.jsonl",), None), (("-",), b"")):
        measured = run(TYPE, *words, "--dry-run", "--model", model, input=input)
        assert measured.exit_code == 0 and measured.stdout.startswith("documents        0\n")
        assert "measured" not in measured.stderr


def test_what_was_measured_is_shown_remembered_and_overridden(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pastalang.cli.extract._LONG", 6)
    words = (TYPE, "docs.jsonl", "--model", model, "--overwrite")
    measured = run(*words, "-o", "a.jsonl")
    assert "documents in flight and 8,192 cells, measured: " in measured.stderr and "/s with 16" in measured.stderr
    with monkeypatch.context() as patch:
        patch.setattr("pastalang.bulk.estimate.tune", None)
        again = run(*words, "-o", "b.jsonl")
        note = next(line for line in measured.stderr.splitlines() if "in flight" in line)
        assert again.exit_code == 0 and note in again.stderr
        assert ", 5 in flight" in run(*words, "-o", "c.jsonl", "--in-flight", 5).stdout
        assert "measured" not in run(*words, "-o", "d.jsonl", "--limit", 5).stderr
    [kept] = Path(os.environ["XDG_CACHE_HOME"], "pastalang").iterdir()
    kept.write_text("damaged", encoding="utf-8")
    assert "/s with 16" in run(*words, "-o", "e.jsonl").stderr
    found = [[(row["id"], row["value"]) for row in read_rows(f"{name}.jsonl")] for name in "abce"]
    assert found[0] == found[1] == found[2] == found[3]


def test_what_the_model_computes_in_is_chosen_shown_and_part_of_the_run(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"amx_bf16": True}, raising=False)
    words = (TYPE, "docs.jsonl", "--model", model, "-o", "out.jsonl", "--limit", 2)
    plain = run(*words, "--dtype", "float32")
    assert plain.exit_code == 0 and ", 16 in flight, float32\n" in plain.stdout and "note" not in plain.stdout
    other = run(*words, "--dtype", "bfloat16", "--resume")
    assert other.exit_code == 2 and "dtype: float32 then, bfloat16 now" in other.stderr
    assert json.loads(run(*words, "--dtype", "bfloat16", "--overwrite", "--json").stdout)["dtype"] == "bfloat16"
    other = run(*words, "--dtype", "int8", "--resume")
    assert other.exit_code == 2 and "dtype: bfloat16 then, int8 now" in other.stderr
    assert json.loads(run(*words, "--dtype", "int8", "--overwrite", "--json").stdout)["dtype"] == "int8"
    unknown = run(*words, "--dtype", "int4", "--overwrite")
    assert unknown.exit_code == 2 and "'float32', 'bfloat16', 'int8'" in unknown.stderr.replace("\n", " ")
    advised = run(TYPE, "docs.jsonl", "-o", "mini.jsonl", "--model", "pasta-mini", "--limit", 1)
    assert "\nnote             this processor computes bfloat16 fast: --dtype bfloat16 " in advised.stdout


def test_nothing_is_called_fine_below_a_problem() -> None:
    Path("two.jsonl").write_text('{"text": "Refund me at once."}\n{"text": ""}\n')
    found = run(TYPE, "two.jsonl", "-o", "mini.jsonl", "--model", "pasta-mini").stdout
    assert "\nproblem  " in found and "\nnext  " in found and "nothing looks odd" not in found


def test_a_comparison_is_printed_and_kept_with_the_run(model: Path) -> None:
    words = (TYPE, "docs.jsonl", "--model", model, "--compare", 4)
    alone = run(*words)
    assert alone.exit_code == 0 and alone.stdout.startswith("compared         strict with left to right: ")
    for line in (" of 4 documents are the same in all fields", "kind    4 of 4", "urgent  "):
        assert line in alone.stdout
    found = json.loads(run(*words, "-o", "out.jsonl", "--json").stdout)
    assert found["rows"] == 6 and [one["of"] for one in found["comparison"]["fields"]] == [4, 4]
    kept = Path("out.jsonl.run/comparison.json")
    assert json.loads(kept.read_text("utf-8")) == found["comparison"]
    again = json.loads(run(*words, "-o", "out.jsonl", "--json", "--resume").stdout)
    assert again["is_complete"] and again["comparison"] == found["comparison"]
    assert run(*words[:4], "-o", "out.jsonl", "--overwrite").exit_code == 0 and not kept.exists()


def test_a_cluster_without_ray_says_what_to_install(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = run(TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model, "--ray", "local")
    assert result.exit_code == 3 and "a cluster needs Ray: pip install 'pastalang[ray]'" in result.stderr


def test_progress_is_live_on_a_terminal_and_a_line_every_30_seconds_elsewhere() -> None:
    totals, meta = Totals(), {"input_tokens": 9, "output_tokens": 5, "passes": 3}
    for status in ("ok", "ok", "error"):
        totals.add({"_status": status, "_meta": meta})

    def said(stream: io.StringIO, seconds: float, at_once: int = 3) -> str:
        """No row comes while two lines are due."""
        totals.began, is_over = time.perf_counter() - seconds, iter((False, False, True))
        progress = BulkProgress(stream, total=1_000, at_once=at_once, waits=lambda one: one != 30.0 or next(is_over))
        progress.show(totals)
        with progress:
            pass
        return stream.getvalue()

    line = "3 of 1,000 documents, 1.5/s, 7 tokens/s, 3.0 passes each, 1 failed, 11 min left\n"
    assert said(io.StringIO(), 2) == 2 * line
    slow, slower = (said(io.StringIO(), seconds, at_once=4) for seconds in (56.3, 9_000))
    assert ", 3.2/min, 16 tokens/min, " in slow and ", 1.2/h, 6 tokens/h, " in slower
    assert " left" not in slow + slower  # fewer rows than are in flight
    assert "3 of 1,000 documents" in said(terminal := Terminal(), 2) and "\x1b" in terminal.getvalue()
    assert [duration(seconds) for seconds in (3, 300, 9000)] == ["3 s", "5 min", "2.5 h"]


def test_drafts_take_fewer_passes_and_change_no_row(model: Path) -> None:
    program = PROGRAM.replace('kind: "fee" | "item"\n', "copy: verbatim(title, max=24)\n")
    Path("note.pasta").write_text(program, encoding="utf-8")
    passes = {}
    for name, drafts in (("plain", "off"), ("guessed", "8")):
        options = ("--model", model, "--dtype", "float32", "--in-flight", 1, "--drafts", drafts)
        result = run("note.pasta", "docs.jsonl", "-o", f"{name}.jsonl", "--json", *options)
        assert result.exit_code == 0, result.stderr
        passes[name] = json.loads(result.stdout)["passes_per_document"]
    assert passes["guessed"] < passes["plain"]
    plain, guessed = ([row | {"_meta": None} for row in read_rows(f"{name}.jsonl")] for name in passes)
    assert guessed == plain
    assert run("note.pasta", "docs.jsonl", "-o", "out.jsonl", "--model", model, "--drafts", "many").exit_code == 2


def test_an_output_that_exists_is_kept(model: Path) -> None:
    Path("out.jsonl").write_text("mine", encoding="utf-8")
    result = run(TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model)
    assert result.exit_code == 2 and "out.jsonl exists: write to another file, or replace it" in result.stderr
    assert Path("out.jsonl").read_text("utf-8") == "mine"
    assert run(TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model, "--overwrite").exit_code == 0
    again = run(TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model, "--resume")
    assert again.exit_code == 0 and again.stdout == "out.jsonl is complete: 6 rows\n"
    other = run(TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model, "--resume", "--mode", "sequential")
    assert other.exit_code == 2 and "  mode: strict then, sequential now\n" in other.stderr
    assert "program:" not in other.stderr
    warm = run(TYPE, "docs.jsonl", "-o", "out.jsonl", "--model", model, "--resume", "--temperature", 0.5, "--seed", 3)
    assert warm.exit_code == 2
    assert "sampling: of the program, seed 0 then, temperature=0.5, seed 3 now" in warm.stderr
