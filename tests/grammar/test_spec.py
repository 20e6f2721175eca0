"""The reference is right: its examples parse, and its table of limits is the table in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pastalang.grammar
from pastalang import check_source, limits
from pastalang.grammar.parser import parse_text

SPEC = Path(pastalang.grammar.__file__).with_name("SPEC.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```pasta ?(\w*)\n(.*?)^```", SPEC, re.DOTALL | re.MULTILINE)
FILES = [block for kind, block in BLOCKS if not kind]
FIELDS = [block for kind, block in BLOCKS if kind == "fields"]
ANSWERS = [block for kind, block in BLOCKS if kind == "answer"]


def test_every_block_is_of_a_known_kind() -> None:
    assert len(FILES) + len(FIELDS) + len(ANSWERS) == len(BLOCKS)
    assert len(FILES) >= 5
    assert len(FIELDS) >= 4
    assert len(ANSWERS) >= 3


@pytest.mark.parametrize("block", FILES)
def test_a_whole_program_of_the_reference_is_right(block: str) -> None:
    assert [finding.headline for finding in check_source(block)[1]] == []


@pytest.mark.parametrize("block", FIELDS)
def test_the_fields_of_the_reference_are_right(block: str) -> None:
    text = f"type Common = {{ id: integer }}\n\ntemplate t()\n\nassistant json {{\n{block}}}\n"
    assert [finding.headline for finding in check_source(text)[1] if finding.is_error] == []


@pytest.mark.parametrize("block", ANSWERS)
def test_the_answers_of_the_reference_are_right(block: str) -> None:
    text = f'template t()\n\nassistant text """\n{block}"""\n'
    assert [finding.headline for finding in check_source(text)[1]] == []


def test_the_limits_of_the_reference_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", SPEC.split("## 13. Limits")[1], re.MULTILINE))
    assert rows["bytes of a file"] == f"{limits.MAX_FILE_BYTES:,}"
    assert rows["words, marks and comments of a file"] == f"{limits.MAX_TOKENS:,}"
    assert rows["brackets, and blocks of text, inside one another"] == f"{limits.MAX_NESTING} each"
    assert rows["characters of a name"] == str(limits.MAX_NAME_CHARS)
    assert rows["syntax errors that are reported"] == str(limits.MAX_SYNTAX_ERRORS)
    numbers = f"{limits.MAX_NUMBER_CHARS}, {limits.MAX_NUMBER_EXPONENT}"
    assert rows["characters of a number, size of its exponent"] == numbers


def test_the_white_space_of_the_reference_is_that_of_the_parser() -> None:
    block = next(block for block in FILES if "here is {{" in block)
    file = parse_text(block).file
    assert file is not None
    template = file.declarations[0]
    assert template.messages[0].body.pieces[0].text == "Dear "  # type: ignore[union-attr]
    assert template.messages[0].body.pieces[2].text == ",\n  here is { a brace }."  # type: ignore[union-attr]
