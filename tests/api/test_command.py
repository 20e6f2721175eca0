"""The `pasta` command: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pastalang
from tests.api.command import Pasta
from tests.api.engines import mini

COFFEE = '''template coffee(title: text)

user """
Title: {title}
"""

assistant json {
  Brand: verbatim(title, max=12) | null
  "Net content": verbatim(title, max=12) | null
}
'''
MODULE = """
from typing import Annotated
from pydantic import BaseModel, Field
import pastalang

class Coffee(BaseModel):
    Brand: Annotated[str, pastalang.Verbatim("text"), pastalang.Tokens(12)] | None
"""
TITLES = ["Norvika Coffee, Dark Roast, 12 oz", "Alba Decaf Ground Coffee, 1 lb", "Title without anything"]


@pytest.fixture(autouse=True)
def files(pasta: Pasta, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path.cwd())
    Path("coffee.pasta").write_text(COFFEE, encoding="utf-8")
    Path("wrong.pasta").write_text("template t()\nassistant json {a: dat}\n", encoding="utf-8")
    Path("shop_of_api_tests.py").write_text(MODULE, encoding="utf-8")
    rows = [json.dumps({"id": number, "text": text, "title": text}) for number, text in enumerate(TITLES)]
    Path("titles.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is loaded once for these tests, and not by each of their commands."""
    engine = mini()
    monkeypatch.setattr(pastalang.Engine, "load", staticmethod(lambda *_, **__: engine))


def test_exit_codes_of_files_and_of_wrong_usage(pasta: Pasta) -> None:
    assert pasta("check", "nowhere.pasta").code == 3
    assert pasta("check").code == 2 and pasta("check", "coffee.pasta", "--fast").code == 2
    assert pasta("chek").code == 2
    Path("empty").mkdir()
    assert pasta("check", "empty").code == 2


def test_warnings_count_if_they_are_asked_to(pasta: Pasta) -> None:
    Path("warns.pasta").write_text(
        'template t(unused: text)\nuser """Go."""\nassistant json { a: boolean }\n', encoding="utf-8"
    )
    assert pasta("check", "warns.pasta").code == 0 and pasta("check", "warns.pasta", "--strict").code == 1


def test_explain(pasta: Pasta) -> None:
    ended = pasta("explain", "unknown-name")
    assert ended.code == 0 and "unknown-name" in ended.out
    assert "dependency-cycle" in pasta("explain").out and pasta("explain", "no-such-code").code == 2


def test_run(pasta: Pasta) -> None:
    ended = pasta("run", "coffee.pasta", "-i", f"title={TITLES[0]}")
    assert ended.code == 0 and ended.json == {"Brand": "Norvika", "Net content": "12 oz"}


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["coffee.pasta", "-i", "title"], 2, "usage"),
        (["coffee.pasta", "-i", "title=@nowhere.txt"], 3, "unreadable"),
        (["coffee.pasta", "-i", "title=x", "--mode", "fast"], 2, "usage"),
    ],
)
def test_a_run_that_fails_says_why_in_json(pasta: Pasta, words: list[str], code: int, kind: str) -> None:
    ended = pasta("run", *words, "--json")
    assert (ended.code, ended.json["error"]["code"]) == (code, kind)
    assert ended.json["error"]["message"] and ended.error


def test_import_a_model_and_a_schema(pasta: Pasta) -> None:
    ended = pasta("import", "shop_of_api_tests:Coffee", "-o", "made.pasta")
    assert ended.code == 0 and pasta("check", "made.pasta").code == 0
    Path("record.json").write_text(
        '{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}', "utf-8"
    )
    assert "a: boolean" in pasta("import", "record.json").out
    assert pasta("import", "shop_of_api_tests:Coffee", "-o", "made.pasta").code == 0  # it is there already, as it is
    other = pasta("import", "record.json", "-o", "made.pasta")
    assert other.code == 2 and "made.pasta exists and is another program: pass --overwrite" in other.error
    assert pasta("import", "record.json", "-o", "made.pasta", "--overwrite").code == 0
    assert pasta("import", "shop_of_api_tests:Cofee").code == 2 and pasta("import", "no_such_module:A").code == 3


@pytest.mark.usefixtures("loaded")
def test_extract_writes_a_row_for_each_document(pasta: Pasta) -> None:
    ended = pasta("extract", "shop_of_api_tests:Coffee", "titles.jsonl", "-o", "out.jsonl", "--json")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    assert ended.code == 0 and [row["id"] for row in rows] == [0, 1, 2]
    assert rows[0]["value"] == {"Brand": "Norvika"} and rows[0]["_status"] == "ok"
    assert rows[0]["_fields"][0]["source"] == "text" and rows[0]["_error"] is None
