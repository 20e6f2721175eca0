"""`pasta independence`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.command import pasta
from tests.oracle.toy_models import save_toy

PROGRAM = (
    'template t(city: text)\nuser """{city}"""\nassistant json { a: "x" | "y", b: { c: "x" | "y" }, d: boolean }\n'
)
ROWS = [{"city": "Buda", "value": {"a": "x", "b": {"c": "y"}, "d": True}}, {"city": "Pest"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy(tmp_path_factory.mktemp("model"), spread=4.0)


@pytest.fixture
def words(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    files = {
        "t.pasta": PROGRAM, "rows.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
        "auto.pasta": 'template t(city: text)\nuser """{city}"""\nassistant auto(pasta)\n',
        "field.pasta": PROGRAM.replace("d: boolean", "d: auto(pasta, max=9)"),
        "text.pasta": 'template t(city: text)\nuser """{city}"""\nassistant text """{a: string}"""\n',
        "bad.jsonl": '{"city": "Buda"}\n{"city": 5}\n{"city": "Pest", "value": {"a": "z"}}\n', "none.jsonl": "",
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return ["--model", str(model)]


run = partial(pasta, "independence")


def test_losses_are_printed_with_what_would_mend_them(words: list[str]) -> None:
    """The toy's weights are random, so any field depends on any other; with 0 as the bar, some of it is shown."""
    result = run("t.pasta", "--data", "rows.jsonl", "--least", "0", *words)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "2 rows, 1 with the model's own answers; losses in nats per value, with 95% intervals"
    assert "nothing to wait for: a" in lines
    assert lines[-1] == "2 rows are few: the intervals are rough"

    report = json.loads(run("t.pasta", "--data", "rows.jsonl", "--least", "0", "--json", *words).stdout)
    assert (report["rows"], report["own_answers"], report["least"]) == (2, 1, 0.0)
    assert [one["field"] for one in report["fields"]] == ["a", "b.c", "d"]
    assert [lost["after"] for lost in report["fields"][2]["lost"]] == ["d after a", "d after b"]
    shown = [lost for one in report["fields"] for lost in one["lost"] if lost["interval"][0] > 0]
    assert all(f"{lost['nats']:.2f}" in result.stdout for lost in shown)
    advised = [one["advice"]["after"] for one in report["fields"] if one["advice"]]
    assert all(f"  {after}" in result.stdout for after in advised)
    assert "independence" not in run("t.pasta", "--data", "rows.jsonl", "--limit", "1", *words).stderr


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["auto.pasta", "--data", "rows.jsonl"], 2, "`pasta data threads --independence` measures them"),
        (["field.pasta", "--data", "rows.jsonl"], 2, "`d` is a text of auto(pasta), which cannot be measured"),
        (["text.pasta", "--data", "rows.jsonl"], 2, "is for answers in JSON"),
        (["t.pasta", "--data", "bad.jsonl"], 1, "2 of 3 rows cannot be used\n  bad.jsonl:2: "),
        (["t.pasta", "--data", "none.jsonl"], 1, "none.jsonl holds no rows"),
        (["t.pasta", "--data", "missing.jsonl"], 3, "missing.jsonl"),
        (["t.pasta", "--data", "rows.jsonl", "--template", "u"], 2, "no template 'u'"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], given: list[str], code: int, message: str) -> None:
    result = run(*given, *words)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
