"""Programs with random changes: the tool answers every one of them, and never crashes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from pastalang import Mode, build_plan
from pastalang.compiler import check_reading
from pastalang.diagnostics.registry import CODES
from pastalang.diagnostics.render import render_github, render_json, render_text
from pastalang.grammar.format import format_source
from pastalang.reading import Reading, read_bytes

TESTS = Path(__file__).parents[1]
PROGRAMS = [
    path.read_bytes()
    for folder in (TESTS / "corpus", TESTS.parent / "examples")
    for path in sorted(folder.rglob("*.pasta"))
]
WORD = re.compile(rb"\w+|\s+|[^\w\s]")
# What grammars stumble over: marks without partners, words in the wrong place, characters that are none.
MARKS = '{ } [ ] ( ) , : = | ~ . .. ... " """ / # \\ {{ }} {end} {sync} {n}'
WORDS = "after with as each null json text auto fork async promise in end template type import system user"
PIECES = [
    *(piece.encode() for piece in f"{MARKS} {WORDS}".split()),
    *(b"\n", b"1..5", b"-0.5e3", b"{fork a (1..2)}", b"{async a ~9: string}", b"assistant json {", b'user """'),
    *(b"\xff", b"\x00", "\u202e\u200b\ufeffé".encode()),
    *(b"1e9", b"999999999999", b"/a{9999}/", b"/(/", b"verbatim", b"type"),
]
NAMES = (
    b"string", b"integer", b"number", b"boolean", b"date", b"datetime", b"any", b"uuid", b"text", b"title", b"city",
    b"food", b"n", b"max", b"min", b"max_chars", b"above", b"below", b"multiple_of", b"stop", b"pattern", b"format",
    b"temperature", b"sync", b"Line",
)  # fmt: skip
NUMBERS = (b"0", b"1", b"2", b"3", b"5", b"7", b"12", b"90", b"0.5", b"10000", b"-3", b"1e3")


def mutated(random_numbers: random.Random) -> bytes:
    """One to six changes to a program: pieces removed, doubled, swapped, inserted, or another's taken.

    As many put a name for a name and a number for a number, so that the text still parses.
    """
    pieces = WORD.findall(random_numbers.choice(PROGRAMS))
    for _ in range(random_numbers.randint(1, 6)):
        start = random_numbers.randrange(len(pieces) + 1)
        end = min(len(pieces), start + random_numbers.randint(0, 4))
        match random_numbers.randrange(10):
            case 0:
                del pieces[start:end]
            case 1:
                pieces[start:start] = pieces[start:end]
            case 2:
                pieces[start:end] = reversed(pieces[start:end])
            case 3:
                pieces.insert(start, random_numbers.choice(PIECES))
            case 4:
                other = WORD.findall(random_numbers.choice(PROGRAMS))
                begin = random_numbers.randrange(len(other) + 1)
                pieces[start:end] = other[begin : begin + random_numbers.randint(1, 12)]
            case _:
                changed = pieces[start : start + 1]
                pieces[start : start + 1] = [of_its_kind(piece, pieces, random_numbers) for piece in changed]
    return b"".join(pieces)


def of_its_kind(piece: bytes, pieces: list[bytes], random_numbers: random.Random) -> bytes:
    if piece.isdigit():
        return random_numbers.choice(NUMBERS)
    if piece[:1].isalpha():
        return random_numbers.choice([*NAMES, *(other for other in pieces if other[:1].isalpha())])
    return piece


def assert_is_answered(reading: Reading) -> None:
    """The program can be planned in every mode, or everything said about it lies within it, is shown and looked up."""
    program, findings = check_reading(reading, path=None)
    assert (program is None) == any(finding.is_error for finding in findings)
    for finding in findings:
        assert finding.code in CODES
        assert 0 <= finding.span.start <= finding.span.end <= len(finding.source.text)
    assert render_text(findings).encode("utf-8").count(b"[") >= len(findings)
    for template in () if program is None else program.templates.values():
        assert all(build_plan(template, program, mode=mode).branches for mode in Mode)
    assert all(render(findings).encode("utf-8") for render in (render_json, render_github) if findings)
    if reading.is_usable:
        text = format_source(reading.source).text
        assert program is None or text is not None


def answer_all(seed: int, count: int) -> None:
    random_numbers = random.Random(seed)
    for number in range(count):
        data = mutated(random_numbers)
        try:
            assert_is_answered(read_bytes("mutated.pasta", data))
        except Exception as problem:
            raise AssertionError(f"program {number} of seed {seed}: {data!r}") from problem


def soup(random_numbers: random.Random) -> bytes:
    """Words and marks in any order, behind the beginning of a template, of a text or of nothing."""
    beginning = random_numbers.choice([b"", b"template t()\nassistant json {", b'template t()\nassistant """'])
    return beginning + b" ".join(random_numbers.choices(PIECES, k=random_numbers.randint(1, 30)))


def test_words_in_any_order_are_answered() -> None:
    random_numbers = random.Random(2)
    for _ in range(500):
        assert_is_answered(read_bytes("soup.pasta", soup(random_numbers)))


def test_mutated_programs_are_answered() -> None:
    answer_all(seed=1, count=800)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_forty_thousand_mutated_programs_are_answered(seed: int) -> None:
    answer_all(seed=seed + 100, count=1000)
