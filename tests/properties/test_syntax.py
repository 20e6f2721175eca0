"""What holds for every program: printing and parsing undo each other, and nothing crashes the parser."""

from __future__ import annotations

from hypothesis import given
from syntax_trees import files, without_spans

from pastalang.grammar.nodes import File
from pastalang.grammar.parser import parse_text
from pastalang.grammar.printer import print_file


def parsed(text: str) -> File:
    result = parse_text(text)
    assert result.file is not None, [(d.code, d.headline, d.source.place(d.span.start)) for d in result.diagnostics]
    return result.file


@given(files)
def test_a_printed_tree_parses_to_the_same_tree(tree: File) -> None:
    assert without_spans(parsed(print_file(tree))) == tree
