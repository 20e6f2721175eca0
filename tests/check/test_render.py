"""How findings are rendered: carets under the right characters of any line."""

from __future__ import annotations

from pastalang import Diagnostic
from pastalang.diagnostics.diagnostic import Label
from pastalang.diagnostics.render import MAX_LINE_COLUMNS, render_one, summary
from pastalang.source import Source, Span


def shown(text: str, word: str, *, message: str = "") -> list[str]:
    """The source line and the line of carets."""
    start = text.index(word)
    finding = Diagnostic("code", "headline", Source("a.pasta", text), Span(start, start + len(word)), message=message)
    return [line[4:] for line in render_one(finding).splitlines()[3:5]]


def test_carets_stand_under_the_word() -> None:
    assert shown("brand: strng", "strng", message="here") == ["brand: strng", "       ^^^^^ here"]


def test_a_tab_takes_four_columns() -> None:
    assert shown("\tbrand: strng", "strng") == ["    brand: strng", "           ^^^^^"]


def test_wide_characters_take_two_columns() -> None:
    assert shown('"漢字": strng', "strng") == ['"漢字": strng', "        ^^^^^"]
    assert shown("a: 漢字", "漢字") == ["a: 漢字", "   ^^^^"]


def test_combining_characters_take_none() -> None:
    assert shown("cafe\u0301: strng", "strng") == ["cafe\u0301: strng", "      ^^^^^"]


def test_characters_without_a_shape_are_shown_as_their_code() -> None:
    assert shown("a\u202eb: strng", "strng") == ["a<202E>b: strng", "          ^^^^^"]


def test_only_the_first_line_of_a_long_place_is_marked() -> None:
    assert shown("one two\nthree", "two\nthree") == ["one two", "    ^^^"]


def test_an_empty_place_has_one_caret() -> None:
    finding = Diagnostic("code", "headline", Source("a.pasta", "abc"), Span(3, 3))
    assert render_one(finding).splitlines()[4] == "  |    ^"


def test_a_long_line_is_cut_around_the_carets() -> None:
    for text in ("x" * 5_000 + " strng " + "y" * 5_000, " strng " + "y" * 5_000, "x" * 5_000 + " strng"):
        line, carets = shown(text, "strng")
        assert len(line) <= MAX_LINE_COLUMNS + 4
        assert line[carets.index("^") :][:5] == "strng"


def test_places_in_one_line_share_it_and_others_follow() -> None:
    source, other = Source("a.pasta", "one two\nthree"), Source("b.pasta", "four")
    finding = Diagnostic(
        "code",
        "headline",
        source,
        Span(4, 7),
        related=(Label(Span(0, 4), "elsewhere", other), Label(Span(8, 13), "below"), Label(Span(0, 3), "before")),
        help=("do this",),
    )
    assert render_one(finding) == (
        "error[code]: headline\n"
        " --> a.pasta:1:5\n"
        "  |\n"
        "1 | one two\n"
        "  |     ^^^\n"
        "  | --- before\n"
        " ...\n"
        "2 | three\n"
        "  | ----- below\n"
        " ::> b.pasta:1:1\n"
        "  |\n"
        "1 | four\n"
        "  | ---- elsewhere\n"
        "  |\n"
        "  = help: do this\n"
    )


def test_the_summary_counts() -> None:
    finding = Diagnostic("code", "headline", Source("a", ""), Span(0, 0))
    assert summary([]) == "no problems"
    assert summary([finding, finding]) == "2 errors"
