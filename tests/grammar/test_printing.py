"""The canonical form, rule by rule."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from pastalang.grammar import nodes
from pastalang.grammar.format import format_source
from pastalang.grammar.parser import parse_text
from pastalang.grammar.printer import print_type
from pastalang.grammar.quotes import write_pattern
from pastalang.program.regex import parse_regex, spell
from pastalang.source import Source
from pastalang.values.patterns import find_problem


def formatted(text: str) -> str:
    result = format_source(Source("x", text))
    assert result.text is not None, result.diagnostics
    return result.text


def test_the_object_of_a_type_goes_over_lines_and_others_stay_on_one() -> None:
    assert formatted("type A = { a: { b: integer, c: [ { d: date } ] } }") == (
        "type A = {\n  a: { b: integer, c: [{ d: date }] }\n}\n"
    )


def test_clauses_come_in_one_order() -> None:
    assert formatted('type A = { a: integer, b: integer "d" with (top_k=3) after a = 1 }') == (
        'type A = {\n  a: integer\n  b: integer = 1 after a with (top_k=3) "d"\n}\n'
    )


def test_clauses_that_do_not_fit_go_below() -> None:
    description = "x" * 90
    assert formatted(f'type A = {{ a: integer = 1 "{description}" }}') == (
        f'type A = {{\n  a: integer\n    = 1\n    "{description}"\n}}\n'
    )


def test_a_union_that_does_not_fit_has_one_arm_to_a_line() -> None:
    arms = [f'"{letter * 30}"' for letter in "abcd"]
    assert formatted(f"type A = {' | '.join(arms)}") == "type A =\n" + "".join(f"  | {arm}\n" for arm in arms)


def test_an_object_that_does_not_fit_goes_over_lines_beside_null() -> None:
    fields = [f"a_rather_long_name_{n}: string(max=12)" for n in range(4)]
    lines = "".join(f"    {field}\n" for field in fields)
    assert formatted(f"type A = {{ a: {{ {', '.join(fields)} }} | null }}") == (
        f"type A = {{\n  a: {{\n{lines}  }} | null\n}}\n"
    )


def test_arguments_that_do_not_fit_go_over_lines() -> None:
    stops = [f'"{letter * 30}"' for letter in "abcd"]
    lines = "".join(f"    {stop},\n" for stop in stops)
    assert formatted(f"type A = string(stop=[{', '.join(stops)}])") == (f"type A = string(\n  stop=[\n{lines}  ],\n)\n")


def test_declarations_stand_apart_and_types_and_imports_may_touch() -> None:
    text = (
        'import A from "./a.pasta"\nimport B from "./b.pasta"\ntype C = A\ntype D = B\n\n\n\ntype E = D\n'
        'template t()\nsystem """\nx\n"""\n'
    )
    assert formatted(text) == (
        'import A from "./a.pasta"\nimport B from "./b.pasta"\n\n'
        "type C = A\ntype D = B\n\ntype E = D\n\n"
        'template t()\n\nsystem """\nx\n"""\n'
    )


def test_a_text_is_written_from_the_first_column() -> None:
    assert formatted('template t()\nassistant """  {a: string}"""') == (
        'template t()\n\nassistant text """\n  {a: string}\n"""\n'
    )


def test_structural_tags_get_lines_of_their_own_where_a_line_begins() -> None:
    text = 'template t()\n\nassistant text """\n{fork a (1..2)}x\n{end}{sync}y {sync}\n"""\n'
    assert formatted(text) == ('template t()\n\nassistant text """\n{fork a (1..2)}\nx\n{end}\n{sync}\ny {sync}\n"""\n')


def test_an_inline_schema_of_several_lines_stays_one() -> None:
    text = 'type A = schema("""\n{\n  "type": "string"\n}\n""")\n'
    assert formatted(text) == text


def test_what_stands_between_off_and_on_is_kept() -> None:
    text = "type A=string\n# fmt: off\ntype   B  =  A\n# fmt: on\ntype C=string\n"
    assert formatted(text) == "type A = string\n\n# fmt: off\ntype   B  =  A\n\n# fmt: on\ntype C = string\n"
    inside = 'type A = "a" |\n  # fmt: off\n    "b"\n'
    assert formatted("type B=A\n" + inside) == "type B = A\n\n" + inside


def test_a_type_alone_can_be_printed() -> None:
    result = parse_text("type A = [integer](max=3) | null")
    assert result.file is not None
    assert print_type(result.file.declarations[0].type) == "[integer](max=3) | null"  # type: ignore[union-attr]


@given(st.text("a[]-/\\\n\t\x00\x85\u200b\u202a\u2069\ufdd0\uffff\U0010ffff", max_size=6))
def test_a_pattern_of_any_characters_is_written_as_a_source_may_say_it(pattern: str) -> None:
    assume(find_problem(pattern) is None)
    file = parse_text(f"type A = {write_pattern(pattern)}\n").file
    assert file is not None
    declaration = file.declarations[0]
    assert isinstance(declaration, nodes.TypeDeclaration) and isinstance(declaration.type, nodes.RegexType)
    assert spell(parse_regex(declaration.type.pattern.pattern)) == spell(parse_regex(pattern or "(?:)"))
