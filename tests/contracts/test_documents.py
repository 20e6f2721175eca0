"""What the documents say is true: programs are valid, limits are the limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pastalang import __version__, check_source, limits
from pastalang.cli.app import ENTRIES, build_app
from pastalang.program import regex

DOCUMENTS = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").rglob("*.md"))]
FOLDERS = ("pastalang", "recipes", "examples", "benchmarks", "tests")
PROGRAM = re.compile(r"(?:^([^\n]*)\n\n)?^```pasta\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs() -> list[tuple[str, str]]:
    return [
        (f"{path}:{n}", text)
        for path in DOCUMENTS
        for n, (before, text) in enumerate(PROGRAM.findall(path.read_text("utf-8")))
        if "wrong.pasta" not in before
    ]


@pytest.mark.parametrize(("place", "text"), programs(), ids=[place for place, _ in programs()])
def test_a_program_in_a_document_has_no_problems(place: str, text: str) -> None:
    assert check_source(text, name=place)[1] == ()


def test_every_test_that_the_page_of_faults_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", Path("docs/reliability.md").read_text("utf-8"))
    assert len(named) > 40
    assert [name for file, name in named if f"def {name}(" not in Path(file).read_text("utf-8")] == []


def test_a_step_is_explained_on_one_screen_and_twenty_words_are_our_own() -> None:
    page = Path("docs/architecture.md").read_text("utf-8").partition("## How a step is made\n")[2]
    assert 10 < page.partition("\n## ")[0].count("\n") <= 40
    words = Path("docs/glossary.md").read_text("utf-8").partition("## Words of our own\n")[2].partition("\n## ")[0]
    assert words.count("\n| **") == 20


def test_the_version_is_the_same_in_the_changelog_and_the_citation() -> None:
    version = __version__
    released = re.search(r"^## \[(\d\S+)\] - (\S+)$", Path("CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    citation = Path("CITATION.cff").read_text("utf-8")
    assert released is not None and released[1] == version
    assert f"\nversion: {version}\n" in citation and f"\ndate-released: {released[2]}\n" in citation
    assert len(re.findall(r"^    url: https://arxiv.org/abs/\d{4}\.\d{5}$", citation, re.MULTILINE)) == 5


LIMITS = {
    "bytes of one file": limits.MAX_FILE_BYTES,
    "words and marks of one file": limits.MAX_TOKENS,
    "brackets and blocks inside one another": limits.MAX_NESTING,
    "characters of a name": limits.MAX_NAME_CHARS,
    "files of one program": limits.MAX_FILES,
    "places of one type, also of an imported one, all names written out": limits.MAX_TYPE_PLACES,
    "levels of one type, all names written out": limits.MAX_TYPE_DEPTH,
    "items of an array, a map or a fork": limits.MAX_ITEMS,
    "alternatives of a union, values of an enum": limits.MAX_ARMS,
    "branches of one template, every list as long as it may be": limits.MAX_BRANCHES,
    "tokens of one hole": limits.MAX_HOLE_TOKENS,
    "characters of one string (`max_chars`)": limits.MAX_STRING_CHARS,
    "digits of one number": limits.MAX_NUMBER_DIGITS,
    "bytes of a JSON Schema": limits.MAX_SCHEMA_BYTES,
    "levels of a JSON Schema": limits.MAX_SCHEMA_NESTING,
    "places of a JSON Schema": limits.MAX_SCHEMA_PLACES,
    "values of an enum in a JSON Schema": limits.MAX_SCHEMA_ENUM,
    "bytes of an enum in a JSON Schema": limits.MAX_SCHEMA_ENUM_BYTES,
    "references of a JSON Schema that lead to one another": limits.MAX_SCHEMA_NESTING,
    "parts of a JSON Schema with its alternatives written out, each with each": limits.MAX_SCHEMA_MERGED,
    "steps to compare the alternatives of a JSON Schema; afterwards `oneOf` is checked on the finished value": (
        limits.MAX_SCHEMA_WORK
    ),
    "brackets inside one another in JSON that is read": limits.MAX_JSON_NESTING,
    "brackets inside one another in a saved plan": limits.MAX_PLAN_NESTING,
    "values of all enums of an imported model together": limits.MAX_TYPE_PLACES,
    "bytes of all enums of an imported model together": limits.MAX_FILE_BYTES,
    "positions that an answer should need, for limits that a program leaves open": limits.ANSWER_POSITIONS,
    "positions that it should need if it is wide": limits.WIDE_POSITIONS,
    "digits of a number in JSON that is read": limits.MAX_JSON_DIGITS,
    "characters of a regular expression": regex.MAX_PATTERN_CHARS,
    "counted repetition of a regular expression": regex.MAX_REPETITION,
    "a regular expression with its repetitions written out, in characters": regex.MAX_PATTERN_STATES,
    "groups inside one another in a regular expression": regex.MAX_PATTERN_DEPTH,
    "threads of one text in `auto(...)`; later tags start none": limits.MAX_THREADS,
    "positions that the threads of one text reserve together, in multiples of its `max`; later promises are cut": (
        limits.MAX_THREAD_ROOMS
    ),
    "characters of one tag in `auto(...)`, with its topic and number; a longer one is text": limits.MAX_TAG_CHARS,
    "problems reported for one file by the parser": limits.MAX_SYNTAX_ERRORS,
    "problems reported for one program by the checker": limits.MAX_DIAGNOSTICS,
}


def test_the_documented_limits_are_the_limits() -> None:
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \|$", Path("docs/limits.md").read_text("utf-8"), re.MULTILINE)
    assert {what: int(number.replace(",", "")) for what, number in rows} == LIMITS


def test_the_documented_limits_of_open_types_are_those_of_the_planner() -> None:
    text = Path("docs/limits.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) tokens \| (\d+) \| (\d+) tokens \|$", text, re.MULTILINE)
    assert tuple(limits.DefaultLimits(*map(int, row)) for row in rows) == (*limits.DEFAULT_LIMITS, *limits.TIGHT_LIMITS)


LISTS = {"benchmarks/ordinary_models.py"}  # forty models, one after another: there is nothing to find one's way in


def test_every_python_file_can_be_read_to_the_end() -> None:
    files = [file for folder in FOLDERS for file in sorted(Path(folder).rglob("*.py"))]
    lines = {str(file): len(file.read_text("utf-8").splitlines()) for file in files}
    assert len(lines) > 300
    assert {file: count for file, count in lines.items() if count > 800 and file not in LISTS} == {}


def test_the_page_of_the_command_line_has_every_command_and_its_options() -> None:
    page = Path("docs/cli.md").read_text("utf-8")
    named = re.findall(r"^pasta (\w+) ", page.partition("```text\n")[2].partition("```")[0], re.MULTILINE)
    assert sorted(named) == sorted(entry.name for entry in ENTRIES)
    app: Any = get_command(build_app(set(named)))
    for name, command in app.commands.items():
        [section] = re.findall(rf"^## `pasta {name}\b.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        options = [one.opts for one in command.params if one.param_type_name == "option"]
        missing = [names for names in options if not any(re.search(rf"[` ]{one}\b(?!-)", section) for one in names)]
        assert missing == [], name
