"""Input that nobody writes by hand: one located message each, after work that the length of the input bounds."""

from __future__ import annotations

import pytest

from pastalang.grammar.parser import parse_text
from pastalang.grammar.printer import print_file
from pastalang.limits import MAX_NESTING, MAX_SYNTAX_ERRORS
from tests.work import calls_of, counted

JSON = "template t()\n\nassistant json "
TEXT = 'template t()\n\nassistant """'
CALLS_A_CHARACTER = 10  # of functions; the most is 8, for commas

HOSTILE = {
    "brackets": (JSON + "[" * 100_000, "nesting-too-deep"),
    "objects": (JSON + "{a: " * 100_000, "nesting-too-deep"),
    "brackets that cross": (JSON + "[}" * 20_000, "stray-bracket"),
    "lists of values": ("type A = string(" + "[" * 100_000, "nesting-too-deep"),
    "braces in a tag": (TEXT + "{a: {" * 100_000, "nesting-too-deep"),
    "forks in forks": (TEXT + "{fork a (1..2)}" * 1_000 + '"""', "nesting-too-deep"),
    "a million forks": (TEXT + "{fork a (1..2)}{end}" * 1_000_000 + '"""', "file-too-large"),
    "forks side by side": (TEXT + "{fork a (1..2)}{end}" * 40_000 + '"""', "file-too-large"),
    "ends without forks": (TEXT + "{end}" * 15_000 + '"""', "stray-end"),
    "braces in a text": (TEXT + "{ " * 300_000 + '"""', "stray-brace"),
    "tags without an end": (TEXT + "{a " * 300_000 + '"""', "nesting-too-deep"),
    "control characters": ("\0" * 900_000, "bad-character"),
    "control characters apart": ("\0 " * 400_000, "bad-character"),
    "zero-width characters": ("\u200b " * 300_000, "hidden-character"),
    "marks without meaning": ("§ " * 300_000, "bad-character"),
    "one long name": ("type " + "a" * 900_000 + " = string", "name-too-long"),
    "one long number": ("type A = " + "9" * 900_000, "bad-number"),
    "an exponent": ("type A = 1e999999999", "bad-number"),
    "backslashes": ('type A = "' + "\\" * 900_000, "unclosed-string"),
    "escapes": ('type A = "' + "\\q" * 400_000 + '"', "bad-escape"),
    "half pairs": ('type A = "' + "\\ud800" * 150_000 + '"', "bad-escape"),
    "slashes": ("type A = " + "/" * 900_000, "bad-character"),
    "one long pattern": ("type A = /" + "a" * 900_000, "bad-character"),
    "commas": (JSON + "{" + "," * 50_000 + "}", "unexpected-token"),
    "arms without types": ("type A = " + "| " * 50_000, "unexpected-token"),
    "comments": ("#\n" * 450_000, "file-too-large"),
    "line ends": ("\n" * 999_999, "empty-file"),
    "comments behind a field": (JSON + "{ a: string" + "\n# c" * 59_000 + '\n| "x" }}', "stray-bracket"),
    "texts without an end": (TEXT + '\nuser """' * 90_000, "unclosed-text"),
    "mistakes": (JSON + "{\n" + "a string\n" * 15_000 + "}", "unexpected-token"),
    "two hundred names": ("a " * 50_000, "unknown-declaration"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_refused_after_little_work(name: str) -> None:
    text, code = HOSTILE[name]
    parse_text("type A = string")  # the tables are built once
    result, calls = counted(lambda: parse_text(text))
    assert calls <= CALLS_A_CHARACTER * len(text)
    assert result.file is None
    assert code in {diagnostic.code for diagnostic in result.diagnostics}
    assert len(result.diagnostics) <= MAX_SYNTAX_ERRORS


LARGE = {
    "fields": JSON + "{\n" + "".join(f"f{n}: string(max=3) | null\n" for n in range(3_000)) + "}",
    "references": TEXT + "{x}\n" * 14_000 + '"""',
    "forks": TEXT + "{fork a (1..2)}{end}" * 4_600 + '"""',
    "types": "type A = string\n" * 8_000,
    "arms": "type A = " + "/a/ | " * 10_000 + "/b/",
    "deepest": JSON + "[{a: " * (MAX_NESTING // 2) + "string" + "}]" * (MAX_NESTING // 2),
    "deepest text": TEXT + "{fork a (1..2)}" * MAX_NESTING + "x" + "{end}" * MAX_NESTING + '"""',
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_just_within_the_limits_is_parsed_and_printed(name: str) -> None:
    result = parse_text(LARGE[name])
    assert result.file is not None
    printed = print_file(result.file)
    again = parse_text(printed)
    assert again.file is not None
    assert print_file(again.file) == printed


def test_the_work_of_parsing_grows_with_the_number_of_lines() -> None:
    def calls(lines: int) -> int:
        fields = "".join(f"  field_{n}: string(max=12) | null after field_{n - 1}\n" for n in range(1, lines))
        text = JSON + "{\n  field_0: integer(1..5)\n" + fields + "}\n"
        assert parse_text(text).file is not None
        return calls_of(lambda: parse_text(text))

    assert calls(600) < 2.1 * calls(300)
