"""Behind a mistake parsing goes on, and one mistake is reported once."""

from __future__ import annotations

import pytest

from pastalang.grammar.parser import parse_text


def problems(text: str) -> list[tuple[int, str]]:
    """The line and the code of each finding."""
    return [(one.source.place(one.span.start).line, one.code) for one in parse_text(text).diagnostics]


def test_each_wrong_field_is_reported() -> None:
    text = "type A = {\n  a string\n  b: integer\n  c integer\n}\n"
    assert problems(text) == [(2, "unexpected-token"), (4, "unexpected-token")]


def test_a_mistake_in_an_inner_object_does_not_hide_one_in_the_outer() -> None:
    text = "type A = {\n  a: {\n    b string\n  }\n  c integer\n}\n"
    assert problems(text) == [(3, "unexpected-token"), (5, "unexpected-token")]


def test_each_wrong_declaration_is_reported() -> None:
    text = "type = string\ntype B = integer\ntype C integer\n"
    assert problems(text) == [(1, "unexpected-token"), (3, "unexpected-token")]


def test_the_messages_of_a_template_with_a_wrong_first_line_are_read() -> None:
    text = 'template t(a text)\n\nuser """\n{a b}\n"""\nassistant json {\n  c integer\n}\n'
    assert problems(text) == [(1, "unexpected-token"), (4, "unknown-tag"), (7, "unexpected-token")]


def test_each_wrong_tag_is_reported() -> None:
    text = 'template t()\n\nassistant text """\n{a b}\n{c: string}\n{d e}\n"""\n'
    assert problems(text) == [(4, "unknown-tag"), (6, "unknown-tag")]


def test_a_wrong_tag_that_opens_a_block_takes_its_end_with_it() -> None:
    text = 'template t()\n\nassistant text """\n{fork tip 3..7}\n{a: string}\n{end}\nand {b c}\n"""\n'
    assert problems(text) == [(4, "unexpected-token"), (7, "unknown-tag")]


def test_a_wrong_character_is_not_reported_twice() -> None:
    assert problems("type A = {\n  a: 'x' | §\n  b: integer\n}\n") == [(2, "bad-character"), (2, "bad-character")]


def test_a_missing_quote_ends_at_the_next_message() -> None:
    text = 'template t()\n\nsystem """\nBe brief.\nuser """\nHello {a b}\n"""\n'
    assert problems(text) == [(3, "unclosed-text"), (6, "unknown-tag")]


def test_a_missing_brace_ends_at_the_next_declaration() -> None:
    text = "type A = {\n  a: integer\n\ntype B integer\n\ntype C = {\n  c integer\n}\n"
    assert problems(text) == [(1, "unclosed-brace"), (4, "unexpected-token"), (7, "unexpected-token")]


@pytest.mark.parametrize("word", ["import", "type", "template", "system", "user", "assistant"])
def test_a_key_called_like_a_declaration_begins_none(word: str) -> None:
    assert problems(f"type A = {{\n  {word}: integer\n  {word} as b: integer\n}}\n") == []


def test_only_a_field_can_be_said_to_have_no_type() -> None:
    found = parse_text('template t(a: text):\nuser: "x"\n').diagnostics
    block = "the messages of a template are not written in a block"
    assert [one.headline for one in found] == [block, 'expected a text in `"""`, found `:`']
