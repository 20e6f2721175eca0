"""`pasta import` writes a program that checks, and names the types that it cannot write."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pastalang.cli.programs import import_command as command

MODELS = '''
from dataclasses import dataclass
from json import JSONDecoder
from typing import Literal
from pydantic import BaseModel, Field

class Line(BaseModel):
    """One line of an invoice."""
    name: str = Field(max_length=40)
    total: float = Field(ge=0)

class Invoice(BaseModel):
    """What an invoice says."""
    number: str = Field(alias="invoice-number", pattern="^[A-Z]{2}-[0-9]+$", description="as printed")
    currency: Literal["EUR", "USD"] = "EUR"
    lines: list[Line] = Field(min_length=1, max_length=20)
    previous: "Invoice | None" = None

class Photo(BaseModel):
    picture: bytes
    tags: dict[bool, str]

class Empty(BaseModel):
    pass

class Inner(BaseModel):
    empty: Empty
    count: int

class Boundless(BaseModel):
    x: float = Field(le=float("inf"))

class Unordered(BaseModel):
    x: float = Field(gt=float("nan"))

class Unfinished(BaseModel):
    x: "Nowhere"

@dataclass
class Mixed:
    decoder: JSONDecoder
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop_models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("shop_models", None)
    return tmp_path


# It refers to itself, so all of it is one hole.
INVOICE_NOTE = "note: at most 256 tokens, because no limit of tokens is set: answer\n"


def run(*arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_a_model_becomes_a_program(folder: Path) -> None:
    code, text, problems = run("shop_models:Invoice")
    assert (code, problems) == (0, INVOICE_NOTE)
    assert (
        text
        == '''\
type Line = {
  name: string(max_chars=40)
  total: number(min=0)
} "One line of an invoice."

type Invoice = {
  "invoice-number" as number: string(pattern=/[A-Z]{2}-[0-9]+/) "as printed"
  currency: "EUR" | "USD" = "EUR"
  lines: [Line](1..20)
  previous: Invoice | null = null
} "What an invoice says."

template invoice(text: text)

system """
Read the text and fill in the record.

{schema}
"""
user """
{text}
"""
assistant json Invoice
'''
    )


def test_a_schema_file_becomes_a_program(folder: Path) -> None:
    (folder / "order.json").write_text(
        '{"type": "object", "properties": {"id": {"type": "integer"}}}', encoding="utf-8"
    )
    code, _, problems = run("order.json", "-o", "order.pasta")
    assert code == 0
    assert problems.splitlines() == [
        "note: #: the schema allows further keys; none are written or read",
        "note: #/properties/id: the key is optional in the schema; it is left out where the model writes null",
        "wrote order.pasta",
    ]
    assert "assistant json {\n  id: integer | null = absent\n}" in (folder / "order.pasta").read_text(encoding="utf-8")


def test_an_object_without_fields_may_stand_inside_another(folder: Path) -> None:
    code, text, problems = run("shop_models:Inner")
    assert (code, problems) == (0, "")
    assert "type Empty = {}" in text
    (folder / "empty.json").write_text(
        '{"type": "object", "properties": {}, "additionalProperties": false}', encoding="utf-8"
    )
    assert run("empty.json")[::2] == (
        1,
        "empty cannot be expressed:\n  it has no fields, so there is nothing to fill in\n",
    )


def test_a_list_of_objects_without_a_maximum_is_told_to_end(folder: Path) -> None:
    text = "class Order(Invoice):\n    lines: list[Line]\n    notes: list[str]\n    deep: list[list[Line]]\n"
    (folder / "shop_orders.py").write_text("from shop_models import *\n" + text, encoding="utf-8")
    sys.modules.pop("shop_orders", None)
    code, _, problems = run("shop_orders:Order")
    assert code == 0
    assert problems.splitlines()[:3] == [
        "note: at most 4 items, because no maximum is set: lines, deep",
        "note: at most 2 items, because no maximum is set: deep[]",
        "note: at most 64 tokens, because no limit of tokens is set: previous, notes",
    ]


def test_what_a_module_prints_is_no_part_of_the_program(folder: Path) -> None:
    (folder / "loud.py").write_text("print('loading')\n" + MODELS, encoding="utf-8")
    sys.modules.pop("loud", None)
    code, text, problems = run("loud:Invoice")
    assert (code, text, problems) == (0, run("shop_models:Invoice")[1], "loading\n" + INVOICE_NOTE)


def test_enums_that_are_too_many_together_are_refused_by_their_fields(folder: Path) -> None:
    fields = "".join(f"    f{n}: list[Enum('E{n}', [f'v{{i}}' for i in range({4000 + n})])]\n" for n in range(7))
    text = f"from enum import Enum\nfrom pydantic import BaseModel\nclass Wide(BaseModel):\n{fields}"
    (folder / "wide.py").write_text(text, encoding="utf-8")
    sys.modules.pop("wide", None)
    code, program, problems = run("wide:Wide")
    assert (code, program) == (1, "")
    first, *told = problems.splitlines()
    assert first == "Wide cannot be expressed:"
    together = "all enums together have 28,021; the limit is 20,000"
    assert told == [f"  f{n}[]: an enum of {4000 + n:,} values; {together}" for n in (6, 5, 4, 3, 2)]


def test_enums_that_are_too_long_together_are_refused_by_their_fields(folder: Path) -> None:
    field = "Enum('E', {f'v{i}': 'x' * 300 + str(i) for i in range(4000)})"
    text = (
        f"from enum import Enum\nfrom pydantic import BaseModel\nclass Long(BaseModel):\n    a: {field}\n    b: int\n"
    )
    (folder / "long_enum.py").write_text(text, encoding="utf-8")
    sys.modules.pop("long_enum", None)
    code, program, problems = run("long_enum:Long")
    assert (code, program) == (1, "")
    assert "  a: an enum of 4,000 values; all enums together are 1,2" in problems
    assert problems.endswith(" bytes; the limit is 1,000,000\n")


def test_what_cannot_be_written_is_refused_by_name(folder: Path) -> None:
    code, text, problems = run("shop_models:Photo")
    assert (code, text) == (1, "")
    assert "picture: bytes have no single spelling in JSON; use a string" in problems
    assert "tags: keys of the type bool are not supported" in problems


@pytest.mark.parametrize(
    ("source", "code", "problem"),
    [
        ("shop_models:Missing", 2, "has no 'Missing'"),
        ("no_such_module:Model", 3, "cannot be imported"),
        ("missing.json", 3, "could not be read: no such file"),
        ("neither", 2, "neither module:Model nor a JSON Schema file"),
        ("broken.json", 1, "not JSON"),
        ("shop_models:BaseModel.model_dump", 2, "is not a Pydantic model, a dataclass, a TypedDict or another type"),
        ("shop_models:Empty", 1, "Empty cannot be expressed:\n  it has no fields, so there is nothing to fill in"),
        ("shop_models:Boundless", 1, "x: `le` is inf, which is not a JSON number"),
        ("shop_models:Unordered", 1, "x: `gt` is nan, which is not a JSON number"),
        ("shop_models:Unfinished", 1, "the name 'Nowhere' in an annotation is not defined"),
        ("shop_models:Mixed", 1, "Unable to generate pydantic-core schema for <class 'json.decoder.JSONDecoder'>"),
        ("shop_models:BaseModel", 1, "pass a model of your own"),
        ("json:JSONDecoder", 1, "JSONDecoder cannot be expressed:\n  Unable to generate pydantic-core schema"),
        ("json:decoder", 2, "json:decoder is not a Pydantic model"),
        ("raises:Model", 3, "the module 'raises' cannot be imported: it raises ZeroDivisionError: division by zero"),
        ("leaves:Model", 3, "the module 'leaves' cannot be imported: it calls sys.exit(5)"),
        ("wrong:Model", 3, "the module 'wrong' cannot be imported: it raises SyntaxError: invalid"),
    ],
)
def test_a_wrong_source_has_its_exit_code(folder: Path, source: str, code: int, problem: str) -> None:
    (folder / "broken.json").write_text("{", encoding="utf-8")
    for name, text in (("raises", "1 / 0"), ("leaves", "import sys\nsys.exit(5)"), ("wrong", "class")):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    found, text, problems = run(source)
    assert (found, text) == (code, "")
    assert problem in problems
