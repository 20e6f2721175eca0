"""The corpus: programs whose file names say what they show.

`valid/` holds programs without a single finding. Beside each program in `invalid/` lies what `pasta check`
says about it; `make corpus-update` writes these texts anew, and the difference is then read by a person.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pastalang import Diagnostic
from pastalang.compiler import check_reading
from pastalang.diagnostics.render import render_text
from pastalang.grammar.format import format_source, says_the_same
from pastalang.grammar.parser import parse, parse_text
from pastalang.reading import read_file
from pastalang.source import Source

HERE = Path(__file__).parent
VALID = sorted((HERE / "valid").glob("*.pasta"))
INVALID = sorted((HERE / "invalid").glob("*.pasta"))
MUST_UPDATE = os.environ.get("PASTA_UPDATE_CORPUS") == "1"


def name(path: Path) -> str:
    return path.stem


def findings(path: Path) -> tuple[Diagnostic, ...]:
    return check_reading(read_file(path, name=path.name), path=path)[1]


@pytest.mark.parametrize("path", VALID, ids=name)
def test_a_valid_program_has_no_findings(path: Path) -> None:
    assert render_text(findings(path)) == ""


@pytest.mark.parametrize("path", VALID, ids=name)
def test_formatting_keeps_what_a_program_says_and_formats_once(path: Path) -> None:
    source = read_file(path).source
    formatted = format_source(source).text
    assert formatted is not None
    assert says_the_same(parse(source).file, parse_text(formatted).file)
    assert format_source(Source(path.name, formatted)).text == formatted


@pytest.mark.parametrize("path", INVALID, ids=name)
def test_an_invalid_program_is_explained(path: Path) -> None:
    expected = path.with_suffix(".expected.txt")
    rendered = render_text(findings(path))
    if MUST_UPDATE:
        expected.write_text(rendered, encoding="utf-8")
    assert rendered, "nothing was found"
    assert expected.exists(), "run `make corpus-update` and read what it wrote"
    assert rendered == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*VALID, *INVALID], ids=name)
def test_every_finding_lies_within_its_file(path: Path) -> None:
    for finding in findings(path):
        assert 0 <= finding.span.start <= finding.span.end <= len(finding.source.text)


def test_every_expected_text_belongs_to_a_program() -> None:
    texts = {path.name.removesuffix(".expected.txt") for path in (HERE / "invalid").glob("*.expected.txt")}
    assert texts == {path.stem for path in INVALID}


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(VALID) >= 60
    assert len(INVALID) >= 60
