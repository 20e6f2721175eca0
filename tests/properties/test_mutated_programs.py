"""Whatever a file holds, the checker answers with findings, never with an exception."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import check_source
from pastalang.diagnostics.registry import CODES
from pastalang.diagnostics.render import render_github, render_json, render_text

EXAMPLES = [path.read_text(encoding="utf-8") for path in sorted(Path("examples").glob("*.pasta"))]
WORD = re.compile(r'\w+|"""|\s+|.')
PIECES = (
    "0", "-1", "1e9", "999999999999", "/a{9999}/", "/(/", "after", "{sync}", "{end}", "{async", "~", "verbatim", "null",
    "[", "]", "{", "}", "(", ")", "..", "...", "|", "type", "template", "fork", "in", "promise", "each", "as", "=",
)  # fmt: skip
NAMES = (
    "string", "integer", "number", "boolean", "date", "datetime", "any", "uuid", "text", "title", "city", "food", "n",
    "max", "min", "max_chars", "above", "below", "multiple_of", "stop", "pattern", "format", "temperature",
    "sync", "Line",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "3", "5", "7", "12", "90", "0.5", "10000", "-3", "1e3")


def mutated(seed: int) -> str:
    """An example with a few of its words removed, doubled, exchanged or replaced.

    Most changes put a name for a name and a number for a number, so that the text still parses.
    """
    draw = random.Random(seed)
    words = WORD.findall(draw.choice(EXAMPLES))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(words))
        other = draw.randrange(len(words))
        match draw.randrange(10):
            case 0:
                del words[at]
            case 1:
                words.insert(at, words[at])
            case 2:
                words[at], words[other] = words[other], words[at]
            case 3:
                words[at] = draw.choice(PIECES)
            case _:
                words[at] = changed(words[at], words, draw)
    return "".join(words)


def changed(word: str, words: list[str], draw: random.Random) -> str:
    """A word of the same kind: a number for a number, a name for a name."""
    if word.isdigit():
        return draw.choice(NUMBERS)
    if word.isidentifier():
        return draw.choice([*NAMES, *(other for other in words if other.isidentifier())])
    return word


def check_all(seed: int) -> None:
    text = mutated(seed)
    program, found = check_source(text, name="mutated.pasta")
    assert (program is None) == any(one.is_error for one in found)
    assert all(one.code in CODES for one in found)
    for one in found:
        assert 0 <= one.span.start <= one.span.end <= len(one.source.text)
    assert render_text(found).count("[") >= len(found)
    render_json(found)
    render_github(found)


@settings(max_examples=300)
@given(st.integers(min_value=0, max_value=2**32))
def test_a_mutated_program_is_answered_with_findings(seed: int) -> None:
    check_all(seed)


@pytest.mark.long
def test_twenty_thousand_mutated_programs_are_answered_with_findings() -> None:
    for seed in range(20_000):
        check_all(seed)
