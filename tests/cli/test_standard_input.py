"""`-` is the standard input wherever a command reads a file, and can stand for one file only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import pasta

PROGRAM = 'template t(title: text)\nuser """\n{title}\n"""\nassistant json { brand: verbatim(title) | null }\n'
ROW = '{"title": "Sony TV", "value": {"brand": "Sony"}}\n'
SCHEMA = '{"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}'


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "t.pasta"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_every_file_that_is_read_may_be_the_standard_input(program: Path, tmp_path: Path) -> None:
    saved = pasta("plan", program, "--format", "json", "-o", "-").stdout
    right = tmp_path / "right.jsonl"
    right.write_text(ROW, encoding="utf-8")
    for text, words in (
        (PROGRAM, ("run", "-", "--input", "title=Sony TV", "--json")),
        (saved, ("run", "-", "--input", "title=Sony TV", "--json")),
        ("\ufeffSony TV", ("run", program, "--input", "title=@-", "--json")),
        ('{"title": "Sony TV"}', ("run", program, "--inputs", "-", "--json")),
        (ROW, ("evaluate", "--program", program, "--data", "-", "--json")),
        (PROGRAM, ("evaluate", "--program", "-", "--data", right, "--json")),
        (ROW, ("evaluate", right, "-", "--json")),
        (ROW, ("evaluate", "-", right, "--json")),
    ):
        result = pasta(*words, input=text)
        assert result.exit_code == 0, (words, result.stderr)
        assert isinstance(json.loads(result.stdout), dict)
    assert "size: integer" in pasta("import", "-", input=SCHEMA).stdout
    assert pasta("plan", "--diff", "-", program, input=PROGRAM).stdout == "the plans are the same\n"


@pytest.mark.parametrize(
    ("text", "code", "message", "words"),
    [
        ("", 2, "`-` stands for several files", ("run", "-", "--inputs", "-")),
        ("", 2, "`-` stands for several files", ("run", "PROGRAM", "-i", "a=@-", "-i", "b=@-")),
        ("", 2, "`-` stands for several files", ("evaluate", "-", "-")),
        ("", 2, "`-` stands for several files", ("plan", "--diff", "-", "-")),
        ("", 2, "`-` stands for several files", ("check", "-", "-")),
        ("[", 1, "<stdin>: not JSON", ("run", "PROGRAM", "--inputs", "-")),
        ("[1]", 1, "<stdin> has to hold one JSON object with the inputs", ("run", "PROGRAM", "--inputs", "-")),
        (
            '{"title": 1}',
            1,
            "<stdin>:1: the key `value` is missing",
            ("evaluate", "--program", "PROGRAM", "--data", "-"),
        ),
        ("[", 1, "<stdin> cannot be expressed", ("import", "-")),
    ],
)
def test_what_is_wrong_with_the_standard_input_is_said(
    text: str, code: int, message: str, words: tuple[str, ...], program: Path
) -> None:
    result = pasta(*(str(program) if word == "PROGRAM" else word for word in words), input=text)
    assert (result.exit_code, result.stdout) == (code, "") and message in result.stderr, result.stderr
