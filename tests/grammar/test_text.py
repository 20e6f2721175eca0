"""Texts in triple quotes: white space, escapes, tags."""

from __future__ import annotations

import pytest

from pastalang.grammar import nodes
from pastalang.grammar.parser import parse_text


def block(text: str) -> nodes.TextBlock:
    """The text of the one message of a template."""
    result = parse_text(f"template t()\n\nassistant {text}\n")
    assert result.file is not None, result.diagnostics
    template = result.file.declarations[0]
    assert isinstance(template, nodes.TemplateDeclaration)
    body = template.messages[0].body
    assert isinstance(body, nodes.TextBlock)
    return body


def said(text: str) -> str:
    """The text with its tags shown as `<...>`."""
    return "".join(
        piece.text if isinstance(piece, nodes.TextPiece) else f"<{type(piece).__name__}>"
        for piece in block(text).pieces
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"""one line"""', "one line"), ('"""\none line\n"""', "one line"), ('"""  \none line\n  """', "one line"),
        ('"""\none\ntwo"""', "one\ntwo"), ('"""\n\none\n\n"""', "\none\n"), ('""""""', ""), ('"""\n"""', ""),
        ('"""\n\n"""', ""), ('"""\n\n\n"""', "\n"), ('"""\n  a\n    b\n  """', "a\n  b"),
        ('"""\n    a\n    b\n  """', "  a\n  b"), ('"""\n  a\n\n  b\n  """', "a\n\nb"),
        ('"""\n  a\n \n  b"""', "a\n\nb"), ('"""\n\ta\n\t\tb\n\t"""', "a\n\tb"),
        ('"""\n\ta\n  b\n"""', "\ta\n  b"), ('"""a\n  b\n"""', "a\n  b\n"), ('"""\na  \n"""', "a  "),
    ],
)  # fmt: skip
def test_white_space_around_a_text(written: str, meant: str) -> None:
    assert said(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{{x}}", "{x}"),
        ("{{{{", "{{"),
        ('\\"""', '"""'),
        ('\\\\"""', '\\"""'),
        ("\\n \\{{", "\\n \\{"),
        ('say "hi" and ""', 'say "hi" and ""'),
        ("{{{x}}}", "{<Reference>}"),
    ],
)
def test_escapes_in_a_text(written: str, meant: str) -> None:
    assert said(f'"""\n{written}\n"""') == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a\n{sync}\nb", "a\n<SyncNode>b"),
        ("a\n  {sync}  \nb", "a\n<SyncNode>b"),
        ("a\n{sync} {sync b}\nb", "a\n<SyncNode><SyncNode>b"),
        ("a {sync}\nb", "a <SyncNode>\nb"),
        ("{sync}", "<SyncNode>"),
        ("a\n{sync}", "a\n<SyncNode>"),
        ("{sync}\na", "<SyncNode>a"),
        ("{x: string}\nb", "<HoleNode>\nb"),
        ("{async x ~5: string}\nb", "<AsyncNode>\nb"),
        ('{promise x "y"}\nb', "<PromiseNode>b"),
    ],
)
def test_a_line_of_structural_tags_leaves_no_trace(written: str, meant: str) -> None:
    assert said(f'"""\n{written}\n"""') == meant


def test_the_body_of_a_fork_has_the_lines_between_its_tags() -> None:
    (fork,) = block('"""\n{fork tip (1..3)}\n- {a: string}\n{end}\n"""').pieces
    assert isinstance(fork, nodes.ForkNode)
    assert [getattr(piece, "text", type(piece).__name__) for piece in fork.body] == ["- ", "HoleNode", "\n"]


def test_a_span_lies_where_the_tag_is_written_although_indentation_is_removed() -> None:
    text = 'template t()\n\nassistant """\n      a\n      {name: string}\n      """\n'
    result = parse_text(text)
    assert result.file is not None
    template = result.file.declarations[0]
    assert isinstance(template, nodes.TemplateDeclaration)
    body = template.messages[0].body
    assert isinstance(body, nodes.TextBlock)
    hole = body.pieces[1]
    assert isinstance(hole, nodes.HoleNode)
    assert text[hole.span.start : hole.span.end] == "{name: string}"
    assert text[hole.name.span.start : hole.name.span.end] == "name"
    assert text[hole.type.span.start : hole.type.span.end] == "string"


def test_a_comment_sign_in_a_text_is_text() -> None:
    assert said('"""\n# heading\n"""') == "# heading"


def test_an_inline_schema_keeps_its_backslashes_and_braces() -> None:
    result = parse_text('type A = schema("""\n  {"pattern": "\\\\d{2}"}\n  """)\n')
    assert result.file is not None
    declaration = result.file.declarations[0]
    assert isinstance(declaration, nodes.TypeDeclaration)
    assert isinstance(declaration.type, nodes.NamedType)
    value = declaration.type.arguments[0].value
    assert isinstance(value, nodes.StringValue)
    assert value.text == '{"pattern": "\\\\d{2}"}'
