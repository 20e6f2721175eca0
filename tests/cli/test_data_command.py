"""`pasta data threads`: what it writes, what it prints, and what it refuses."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.command import pasta

AUTO = 'template t(city: text)\nuser """{city}"""\nassistant auto(pasta, max=300)\n'
LEAVING = """from pathlib import Path
def left(prompt):
    before = Path("asked").read_text() if Path("asked").exists() else ""
    if Path("asked").write_text(before + ".") == 2:
        raise KeyboardInterrupt
    return prompt.partition("answer:")[2].strip()
"""
LIST = "- Eat a goulash.\n- See the bridges.\n- Bathe in a bath.\nEnjoy it."


@pytest.fixture
def words(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    rows = [{"city": "Buda", "value": LIST}, {"city": "Pest", "value": "One line."}, {"city": "Eger", "value": "Two."}]
    files = {"a.pasta": AUTO, "json.pasta": AUTO.replace("auto(pasta, max=300)", "json { a: boolean }")}
    files["think.pasta"] = AUTO.replace("assistant", "assistant think(max=40)")
    files |= {"each.pasta": AUTO.replace("city:", "each city:"), "each.jsonl": '{"city": ["x"], "value": [""]}'}
    files["think.csv"] = f'id,city,thought,value\n1,Buda,Hm.,"{LIST}"\n'
    files |= {"rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows), "none.jsonl": json.dumps(rows[1]) + "\n"}
    files["tags.py"] = "def copy(prompt):\n    return prompt.partition('answer:')[2].strip()\n"
    files["asking.py"] = "def down(prompt):\n    raise OSError('no one')\ndef none(prompt):\n    pass\n" + LEAVING
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return ["--program", "a.pasta", "--data", "rows.jsonl", "--model", str(model), "--out", "out.jsonl"]


run = partial(pasta, "data", "threads")


def test_rows_with_threads_are_written_and_the_others_with_their_reasons(words: list[str], tmp_path: Path) -> None:
    result = run(*words, "--least", "12", "--rejected", "bad.jsonl", "--plain", "1")
    assert result.exit_code == 0, result.stderr
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text("utf-8").splitlines())
    assert first["city"] == "Buda" and first["value"].count("<async>") == 3 and "<sync/>Enjoy" in first["value"]
    assert second["value"] in ("One line.", "Two.")
    rejected = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text("utf-8").splitlines()]
    assert [(row["origin"], row["reason"]) for row in rejected] == [
        ("rows.jsonl:2", "it has no structure"), ("rows.jsonl:3", "it has no structure"),
    ]  # fmt: skip
    told = {line.rpartition("  ")[0].strip(): line.rpartition("  ")[2] for line in result.stdout.splitlines()}
    assert (told["rows with threads"], told["threads of a row"], told["rejected"]) == ("1", "3.0", "2")


def test_the_thoughts_of_rows_are_kept_and_unused_columns_named(words: list[str], tmp_path: Path) -> None:
    more = ["--least", "12", "--independence", "9", "--device", "cpu"]
    result = run(*words, "--program", "think.pasta", "--data", "think.csv", *more)
    assert result.exit_code == 0 and "columns that are not used: id" in result.stderr, result.stderr
    row = json.loads((tmp_path / "out.jsonl").read_text("utf-8"))
    assert row["thought"] == "Hm." and row["value"].count("<async>") == 3


def test_a_model_judges_what_threads_lose_without_one_another(words: list[str], tmp_path: Path) -> None:
    kept = run(*words, "--least", "12", "--independence", "9", "--device", "cpu")
    assert kept.exit_code == 0 and "nats a token without the others" in kept.stdout, kept.stderr
    (tmp_path / "out.jsonl").unlink()
    refused = run(*words, "--least", "12", "--independence", "0", "--rejected", "bad.jsonl", "--device", "cpu")
    assert refused.exit_code == 1
    assert "a thread is less likely without the others: 0." in (tmp_path / "bad.jsonl").read_text("utf-8")


def test_rows_that_cannot_be_used_are_left_out_if_asked_to(words: list[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"city": 7}\n' + rows.read_text("utf-8"), encoding="utf-8")
    refused = run(*words, "--least", "12")
    assert refused.exit_code == 1 and "1 of 4 rows cannot be used; --skip-bad leaves them out" in refused.stderr
    result = run(*words, "--least", "12", "--skip-bad")
    assert result.exit_code == 0 and "1 of 4 rows are left out\n  rows.jsonl:1: " in result.stderr, result.stderr
    assert (tmp_path / "out.jsonl").read_text("utf-8").count("Buda") == 1


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--program", "json.pasta"], 2, "`data threads` is for programs with `assistant auto(...)`"),
        (["--program", "each.pasta", "--data", "each.jsonl"], 2, "`data threads` is for programs that answer one doc"),
        (["--data", "none.jsonl"], 1, "no row gets threads, so out.jsonl is not written; none.jsonl:1: it has no str"),
        (["--annotator", "tags"], 2, "--annotator is written MODULE:FUNCTION, not tags"),
        (["--annotator", "tags:copy", "--least", "9"], 2, "--least is for tags by rule"),
        (["--annotator", "asking:down"], 1, "rows.jsonl:1: the annotator raises OSError: no one (asking.py, line 2)"),
        (["--annotator", "asking:none"], 1, "rows.jsonl:1: the annotator returns text, not None"),
        (["--plain", "inf"], 2, "--plain takes a number, not inf"),
        (["--rejected", "out.jsonl"], 2, "--out and --rejected are both out.jsonl"),
        (["--out", "rows.jsonl"], 2, "rows.jsonl"),
    ],
)
def test_misuse_is_refused_and_nothing_is_written(
    more: list[str], code: int, message: str, words: list[str], tmp_path: Path
) -> None:
    result = run(*words, *more)
    assert result.exit_code == code and message in result.stderr and not (tmp_path / "out.jsonl").exists()


def test_an_annotator_is_asked_for_nothing_twice(words: list[str], tmp_path: Path) -> None:
    for code, message in ((130, "1 answer kept in out.jsonl.answers: give the same"), (1, "no row gets threads")):
        result = run(*words, "--annotator", "asking:left")
        assert result.exit_code == code and message in result.stderr, result.stderr
    assert "going on with 1 answer of an earlier run" in result.stderr and (tmp_path / "asked").read_text() == "...."
    assert not (tmp_path / "out.jsonl.answers").exists()
