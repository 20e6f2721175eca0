"""A syntax error hides no finding that it cannot have caused."""

from __future__ import annotations

from pastalang import check_source
from tests.work import counted


def codes(text: str) -> list[tuple[int, str]]:
    """The line and the code of each finding."""
    return [(one.source.place(one.span.start).line, one.code) for one in check_source(text)[1]]


def test_wrong_types_are_reported_next_to_a_syntax_error() -> None:
    text = "template t()\nassistant json {\n  a: str\n  b string\n  c: integer(5..1)\n  a: date\n}\n"
    assert codes(text) == [
        (3, "unknown-name"),
        (4, "unexpected-token"),
        (5, "contradictory-limits"),
        (6, "duplicate-field"),
    ]


def test_a_name_that_an_unread_part_may_declare_is_not_called_unknown() -> None:
    assert codes("type Size {\n  w: integer\n}\ntemplate t()\nassistant json { a: Size }\n") == [
        (1, "unexpected-token")
    ]
    assert codes('template t(title text)\nuser """\n{title}\n"""\nassistant json { a: date }\n') == [
        (1, "unexpected-token")
    ]


def test_missing_and_unused_names_are_not_reported() -> None:
    text = 'template t(a: text)\nuser """\n{a b}\n"""\nassistant text """\n{promise x "y"}\n{async x: date with}\n"""\n'
    assert {code for _, code in codes(text)} <= {"unknown-tag", "unexpected-token"}


def test_nothing_after_an_unclosed_bracket_is_reported() -> None:
    text = "type A = { a: str }\ntemplate t()\nassistant json { a: A, b: string(max=5 }\ntype C = { b: int }\n"
    assert codes(text) == [(1, "unknown-name"), (3, "unclosed-parenthesis")]


def test_the_work_of_unknown_names_beside_a_mistake_grows_with_their_number() -> None:
    def calls(names: int) -> int:
        fields = "".join(f"  a{n}: Unknown{n}x\n" for n in range(names))
        text = "type A = {\n  a string\n" + fields + "}\n" + "\n" * 200_000
        found, calls = counted(lambda: codes(text))
        assert found[:2] == [(2, "unexpected-token"), (3, "unknown-name")]
        return calls

    calls(10)
    assert calls(600) < 2.1 * calls(300)
