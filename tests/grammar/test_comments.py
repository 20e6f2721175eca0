"""Comments stay with what they are about."""

from __future__ import annotations

import pytest

from pastalang.grammar.parser import parse_text
from pastalang.grammar.printer import print_file


def formatted(text: str) -> str:
    result = parse_text(text)
    assert result.file is not None, result.diagnostics
    return print_file(result.file)


JSON = "template t()\n\nassistant json {\n"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("  a: string # behind\n}", "  a: string  # behind\n}"),
        ("  # above\n  a: string\n}", "  # above\n  a: string\n}"),
        ("  a: string\n  # last\n}", "  a: string\n  # last\n}"),
        ("  a: string\n\n\n  # apart\n\n\n  b: string\n}", "  a: string\n\n  # apart\n\n  b: string\n}"),
        ("  a: string, # of a\n  b: string # of b\n}", "  a: string  # of a\n  b: string  # of b\n}"),
        ('  a: "x" # first\n    | "y" # second\n}', '  # first\n  a: "x" | "y"  # second\n}'),
        ("  a: string( # why\n    max=3\n  )\n}", "  # why\n  a: string(max=3)\n}"),
        ("  a: [{ # item\n    b: string }]\n}", "  a: [\n    {\n      # item\n      b: string\n    }\n  ]\n}"),
        ("  a: { } # empty\n}", "  a: {}  # empty\n}"),
        ("  a: {\n    # nothing yet\n  }\n}", "  a: {\n    # nothing yet\n  }\n}"),
        ("  sequential { # group\n  a: string\n  }\n}", "  sequential {\n    # group\n    a: string\n  }\n}"),
        ("  #\n  ## two\n  #! three\n  a: string\n}", "  #\n  ## two\n  #! three\n  a: string\n}"),
    ],
)
def test_a_comment_in_an_object(written: str, canonical: str) -> None:
    assert formatted(JSON + written + "\n") == JSON + canonical + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "# top\n\n# of the type\ntype A = string  # behind\n\n# end\n",
        '# of the import\nimport A from "./a.pasta"  # behind\n',
        'template t()  # header\n\n# of the user\nuser """\nx\n"""  # behind\n',
        'template t()\n\n# of the answer\nassistant text """\n{a: string}\n"""\n# end\n',
        'template t(\n  # the first\n  a: text  # behind\n  # the second\n  b: text\n)\n\nuser """\n{a} {b}\n"""\n',
        'template t()\n\nassistant text """\n{a: {\n  # of b\n  b: string\n}}\n"""\n',
    ],
)
def test_a_canonical_file_with_comments_stays_as_it_is(text: str) -> None:
    assert formatted(text) == text


def test_no_comment_is_lost_wherever_it_stands() -> None:
    text = 'type A = { a: [ string ( max = 3 ) , number ] | "x" , sequential { b : integer } , ...B } "d"\n'
    words = text.split(" ")
    for place in range(1, len(words)):
        commented = " ".join(words[:place]) + " # kept\n" + " ".join(words[place:])
        result = parse_text(commented)
        if result.file is not None:  # a line end separates some words that belong together
            assert print_file(result.file).count("# kept") == 1, commented
